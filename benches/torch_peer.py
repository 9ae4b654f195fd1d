#!/usr/bin/env python3
"""The peer in PyTorch: times its attention core, layer and training step.

By hand:   torch_peer.py core --mix V --mix R+V --length 256        (median, quantiles, memory of every form)
By ours:   torch_peer.py serve     (one JSON request a line in, one JSON answer a line out; `synthesizer bench compare` asks)
"""

import argparse
import os
import statistics
import sys
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the peer is measured on the CPU
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # nothing here is an array

import torch  # noqa: E402

from peer import measure  # noqa: E402
from peer.serve import serve  # noqa: E402
from peer.subject import FORMS, Subject, Unfit  # noqa: E402

MIXES = ("V", "D", "R", "Rfix", "FR", "FD", "R+D", "D+V", "R+V")
PASSES = ("forward", "forward+backward")


def by_hand(args) -> None:
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {measure.cpu()}; {args.part}, batch {args.batch}")
    print(f"{'mix':6} {'form':8} {'pass':17} {'median ms':>10} {'10%':>9} {'90%':>9} {'MiB':>8}")
    for length in args.length:
        for mix in args.mix or MIXES:
            for form in args.form or FORMS:
                try:
                    subject = Subject(args.part, mix, form, length, args.batch, args.d_model, args.heads)
                    lines = [line(subject.work(name), args) for name in args.passes or PASSES]
                except Unfit:
                    continue
                for name, (middle, low, high, peak) in zip(args.passes or PASSES, lines):
                    figures = f"{middle * 1e3:10.2f} {low * 1e3:9.2f} {high * 1e3:9.2f} {peak / 2**20:8.1f}"
                    print(f"{mix:6} {form:8} {name:17} {figures}  L {length}", flush=True)


def line(work, args):
    work()
    peak = measure.peak_bytes(work)
    work()
    samples = [measure.seconds(work) for _ in range(args.repeats)]
    deciles = statistics.quantiles(samples, n=10, method="inclusive") if len(samples) > 1 else samples * 9
    return statistics.median(samples), deciles[0], deciles[-1], peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="threads of one operation (default: PyTorch's choice)")
    parser.add_argument("--stock-allocator", action="store_true", help="do not have the allocator keep freed memory")
    commands = parser.add_subparsers(dest="part", required=True)
    commands.add_parser("serve", help="answer requests from standard input")
    for part in ("core", "layer"):
        command = commands.add_parser(part)
        command.add_argument("--mix", action="append", help="a mix; may be given many times")
        command.add_argument("--form", action="append", choices=FORMS, help="default: all")
        command.add_argument("--pass", action="append", dest="passes", choices=PASSES, help="default: both")
        command.add_argument("--length", type=int, action="append", default=None)
        command.add_argument("--batch", type=int, default=16)
        command.add_argument("--d-model", type=int, default=512)
        command.add_argument("--heads", type=int, default=8)
        command.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if not args.stock_allocator:
        measure.keep_freed()
    if args.part == "serve":
        serve(sys.stdin, sys.stdout)
        return
    args.length = args.length or [256]
    by_hand(args)


if __name__ == "__main__":
    main()
