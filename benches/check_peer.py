#!/usr/bin/env python3
"""Holds the peer's attention against the golden files, and its baselines against theirs, written out by loops: outputs and
gradients within 1e-9 in float64.

A peer that computes something else would make every ratio worthless. `make bench` runs this first.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open

from peer.attention import Core, FusedCore, layer_of
from peer.mix import parse

TOLERANCE = 1e-9


def golden(path: Path):
    """Metadata and tensors of a golden file."""
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
        case = {"mix": meta["mix"], "causal": meta["causal"].lower() == "true"}
        case |= {"d_model": int(meta["d_model"]), "heads": int(meta["heads"]), "max_length": int(meta["max_len"])}
        return case, {name: file.get_tensor(name) for name in file.keys()}


def written_out(path: Path):
    """The same of a baseline's file. Its gradients are of sum(output * toward), by differences: good to about 1e-11."""
    case = json.loads(path.read_text(encoding="utf-8"))
    tensor = lambda entry: torch.tensor(entry["values"], dtype=torch.float64).view(entry["shape"])
    x = tensor(case["x"])
    lengths = torch.tensor(case["lengths"] or [x.size(1)] * x.size(0))
    tensors = {"x": x, "lengths": lengths, "out": tensor(case["out"])}
    tensors |= {f"weight.{name}": tensor(entry) for name, entry in case["weights"].items()}
    if case.get("gradients"):
        tensors["grad_out"] = tensor(case["toward"])
        tensors |= {f"grad.{name}": tensor(entry) for name, entry in case["gradients"].items()}
    return case, tensors


def differences(path: Path, case: dict, tensors: dict, core: type) -> dict:
    """The largest absolute difference of the output and of each gradient."""
    layer = layer_of(case["mix"], case["d_model"], case["heads"], case["max_length"], case["causal"], core=core).double()
    weights = {name.removeprefix("weight."): value for name, value in tensors.items() if name.startswith("weight.")}
    layer.load_state_dict(weights)
    x = tensors["x"].clone().requires_grad_()
    padding = torch.arange(x.size(1)) >= tensors["lengths"][:, None]
    output = layer(x, padding if padding.any() else None)
    found = {"out": (output, tensors["out"])}
    if "grad_out" in tensors:
        output.backward(tensors["grad_out"])
        found["grad.x"] = (x.grad, tensors["grad.x"])
        for name, weight in layer.named_parameters():
            if weight.requires_grad:
                found[f"grad.{name}"] = (weight.grad, tensors[f"grad.{name}"])
    if len(found) != sum(name == "out" or name.startswith("grad.") for name in tensors):
        raise ValueError(f"{path}: its gradients are not those of the peer's weights: {sorted(found)}")
    return {name: (ours - golden).abs().max().item() for name, (ours, golden) in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="golden files (safetensors) and baselines (json)")
    args = parser.parse_args()
    worst, checked = 0.0, 0
    for path in args.files:
        case, tensors = written_out(path) if path.suffix == ".json" else golden(path)
        for core in [Core, FusedCore] if FusedCore.fits(parse(case["mix"])) else [Core]:
            for name, difference in differences(path, case, tensors, core).items():
                # Not <=, so that NaN is a difference.
                if not difference <= TOLERANCE:
                    print(f"error: {path}: {core.__name__}'s {name} is off by {difference:.1e}", file=sys.stderr)
                    return 1
                worst, checked = max(worst, difference), checked + 1
    print(f"the peer agrees with {len(args.files)} files: {checked} tensors, largest difference {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
