#!/usr/bin/env python3
"""Makes the peer of `make bench`: PyTorch for this Python, in the user's cache, and prints its folder.

pip fetches what peer.txt pins, into a folder of its own (PYTHONPATH finds it there). PyTorch's wheel is linked against NVIDIA's
libraries, 3 GB that a measurement on the CPU never calls: in their place come libraries of the same names whose functions say
so and end the process, made here from the list of what PyTorch asks for. Two small ones that the CPU's half uses are taken
from LibTorch's folder, which scripts/libtorch.py made. Only the standard library, pip and a C compiler are needed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from libtorch import VERSION, Problem, cache_folder, fail, install, only_one

SCRIPTS = Path(__file__).resolve().parent
NEEDED_GB = 2.5
# Linked against, but not called on the CPU: where PyTorch looks for each.
REPLACED = {
    "nvidia/cu13/lib": [
        "libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12", "libcufile.so.0", "libcurand.so.10",
        "libcusolver.so.12", "libcusparse.so.12", "libnvJitLink.so.13", "libnvrtc.so.13",
    ],
    "nvidia/cudnn/lib": ["libcudnn.so.9"],
    "nvidia/cusparselt/lib": ["libcusparseLt.so.0"],
    "nvidia/nccl/lib": ["libnccl.so.2"],
    "nvidia/nvshmem/lib": ["libnvshmem_host.so.3"],
}  # fmt: skip
KEPT = ["libcudart.so.13", "libcupti.so.13"]


def say(text: str) -> None:
    print(f"peer: {text}", file=sys.stderr, flush=True)


def works(folder: Path) -> str:
    """What is wrong with a folder of packages, or "" if PyTorch runs from there."""
    code = "import torch, safetensors; torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward(); print(torch.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONNOUSERSITE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    found = done.stdout.strip().split("+")[0]
    return "" if found == VERSION else f"it is PyTorch {found}"


def fetch(folder: Path) -> None:
    """pip's own work: the wheels of this Python, hashes checked."""
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--no-compile"]
    command += ["--disable-pip-version-check", "--require-hashes", "--requirement", str(SCRIPTS / "peer.txt")]
    command += ["--target", str(folder), "--quiet"]
    say(f"fetching PyTorch {VERSION} with pip (half a gigabyte)")
    # pip keeps the part that is there in TMPDIR: /tmp may be too small.
    environment = {**os.environ, "TMPDIR": str(folder.parent)}
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
        text = "\n".join(errors) or done.stderr.strip()
        raise Problem(f"PyTorch {VERSION} for Python {sys.version_info[0]}.{sys.version_info[1]} could not be fetched: {text}")


def listing(*command) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise Problem(f"{command[0]} could not list what PyTorch's libraries need: {done.stderr.strip()}")
    return done.stdout


def wanted_versions(libraries: list) -> dict:
    """The symbol versions that libraries want of each other library."""
    text = listing("readelf", "-V", "-W", *libraries)
    wanted, name = {}, ""
    for match in re.finditer(r"  File: (\S+)  Cnt|  Name: (\S+)  Flags", text):
        name = match.group(1) or name
        if match.group(2):
            wanted.setdefault(name, set()).add(match.group(2))
    return wanted


def wanted_symbols(libraries: list) -> list:
    """(name, version or "") of the functions that libraries want of NVIDIA's."""
    pattern = r"^\s+[Uwv] ((?:cu|nccl|nv)[A-Za-z]\w*)(?:@+(\S+))?$"
    return sorted(set(re.findall(pattern, listing("nm", "-D", "--undefined-only", *libraries), re.MULTILINE)))


def replace_nvidia(folder: Path) -> None:
    """Makes the libraries that stand in NVIDIA's places."""
    libraries = [*sorted((folder / "torch" / "lib").glob("libtorch*.so")), folder / "torch/lib/libc10_cuda.so"]
    symbols, versions = wanted_symbols(libraries), wanted_versions(libraries)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        for place, names in REPLACED.items():
            (folder / place).mkdir(parents=True, exist_ok=True)
            for name in names:
                own = {version: [symbol for symbol, its in symbols if its == version] for version in versions.get(name, [])}
                # Where no version tells whose a function is, any library will do.
                unversioned = [symbol for symbol, version in symbols if not version] if name == "libcufile.so.0" else []
                build(name, own, unversioned, folder / place / name, Path(work))
    libtorch = install("cpu", SCRIPTS / "libtorch-cpu.txt") / "nvidia/cu13/lib"
    for name in KEPT:
        shutil.copy2(libtorch / name, folder / "nvidia/cu13/lib" / name)


def build(name: str, versioned: dict, unversioned: list, target: Path, work: Path) -> None:
    """One library, of functions that all say that they are not there; symbols by their version, and those without."""
    symbols = [*unversioned, *(symbol for symbols in versioned.values() for symbol in symbols)]
    lines = [
        "#include <stdio.h>",
        "#include <stdlib.h>",
        f'static void gone(void) {{ fputs("{name} is no part of the peer of make bench: it runs on the CPU\\n", stderr); abort(); }}',
        *[f"void {symbol}(void) {{ gone(); }}" for symbol in symbols],
    ]
    nodes = [f"{version} {{ global: {'; '.join([*symbols, ''])}}};" for version, symbols in versioned.items()]
    source, script = work / "stand_in.c", work / "stand_in.map"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script.write_text("\n".join(nodes) + "\n", encoding="utf-8")
    command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}"]
    if nodes:
        command.append(f"-Wl,--version-script,{script}")
    done = subprocess.run([*command, "-o", str(target), str(source)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Problem(f"cc could not make {name}: {done.stderr.strip()}")


def make() -> Path:
    root = cache_folder() / "peer"
    folder = root / f"{VERSION}-cp{sys.version_info[0]}{sys.version_info[1]}"
    done = folder / "complete"
    if done.exists():
        return folder
    if not (3, 10) <= sys.version_info[:2] <= (3, 14):
        here = ".".join(map(str, sys.version_info[:2]))
        raise Problem(f"PyTorch {VERSION} is pinned for Python 3.10 to 3.14, this is {here}: put a python3 of those first in PATH")
    root.mkdir(parents=True, exist_ok=True)
    with only_one(root / ".lock"):
        if done.exists():
            return folder
        free = shutil.disk_usage(root).free / 1e9
        if free < NEEDED_GB:
            raise Problem(f"{root}: {free:.1f} GB free, {NEEDED_GB} GB needed; SYNTHESIZER_CACHE names another place")
        # Under the lock nobody else makes it: what is there was left by a call that was stopped.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        fetch(folder)
        # Of use on CUDA alone, and loaded there when it is called.
        (folder / "torch/lib/libtorch_cuda_linalg.so").unlink(missing_ok=True)
        replace_nvidia(folder)
        wrong = works(folder)
        if wrong:
            raise Problem(f"{folder}: PyTorch does not run from there: {wrong}")
        done.touch()
    return folder


def main() -> None:
    argparse.ArgumentParser(description="Make the peer of `make bench` in the cache, and print its folder.").parse_args()
    print(make())


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        fail(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"error: {where}{error.strerror}; SYNTHESIZER_CACHE names another place for the cache")
