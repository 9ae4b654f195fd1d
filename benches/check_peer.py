#!/usr/bin/env python3
"""Holds the peer's attention against the golden files: outputs and gradients of every mix within 1e-9 in float64.

A peer that computes something else would make every ratio worthless. `make bench` runs this first.
"""

import argparse
import sys
from pathlib import Path

import torch
from safetensors import safe_open

from peer.attention import Attention, Core, FusedCore
from peer.mix import parse

TOLERANCE = 1e-9


def differences(path: Path, core: type) -> dict:
    """The largest absolute difference of the output and of each gradient."""
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    sizes = [int(meta[name]) for name in ("d_model", "heads", "max_len")]
    causal = meta["causal"].lower() == "true"
    layer = Attention(meta["mix"], *sizes, causal=causal, core=core).double()
    weights = {name.removeprefix("weight."): value for name, value in tensors.items() if name.startswith("weight.")}
    layer.load_state_dict(weights)
    x = tensors["x"].requires_grad_()
    positions = torch.arange(x.size(1))
    padding = positions >= tensors["lengths"][:, None]
    output = layer(x, padding if padding.any() else None)
    output.backward(tensors["grad_out"])
    found = {"out": (output, tensors["out"]), "grad.x": (x.grad, tensors["grad.x"])}
    for name, weight in layer.named_parameters():
        if weight.requires_grad:
            found[f"grad.{name}"] = (weight.grad, tensors[f"grad.{name}"])
    if len(found) != sum(name == "out" or name.startswith("grad.") for name in tensors):
        raise ValueError(f"{path}: its gradients are not those of the peer's weights: {sorted(found)}")
    return {name: (ours - golden).abs().max().item() for name, (ours, golden) in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="golden files")
    args = parser.parse_args()
    worst, checked = 0.0, 0
    for path in args.files:
        with safe_open(path, framework="pt") as file:
            mix = file.metadata()["mix"]
        for core in [Core, FusedCore] if FusedCore.fits(parse(mix)) else [Core]:
            for name, difference in differences(path, core).items():
                # Not <=, so that NaN is a difference.
                if not difference <= TOLERANCE:
                    print(f"error: {path}: {core.__name__}'s {name} is off by {difference:.1e}", file=sys.stderr)
                    return 1
                worst, checked = max(worst, difference), checked + 1
    print(f"the peer agrees with {len(args.files)} golden files: {checked} tensors, largest difference {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
