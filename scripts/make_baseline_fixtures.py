#!/usr/bin/env python3
"""Makes tests/fixtures/baselines/*.json: the operators LC, DC, Lin, FFT and Mixer, written out from their equations.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy==2.4.6
    /tmp/venv/bin/python scripts/make_baseline_fixtures.py

Plain loops in float64, position by position and channel by channel; nothing is shared with the program. A file holds one
layer: its sizes, whether it is causal, how many positions of each row are no padding (or null), weights, the input x, the
output, the matrices by which the heads mix positions (where there are such), and the gradients of the loss
sum(output * toward) by five-point differences (their error is about 1e-11). Long sequences have the output only.
"""

import json
import math
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "baselines"


def affine(weights, name, x):
    bias = weights.get(f"{name}.bias")
    mapped = np.array([[[sum(w * v for w, v in zip(row, position)) for row in weights[f"{name}.weight"]]
                        for position in sequence] for sequence in x])
    return mapped if bias is None else mapped + bias


def softmax(logits):
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


def is_real(case, row, position):
    return case["lengths"] is None or position < case["lengths"][row]


def shape_of(x):
    return range(x.shape[0]), range(x.shape[1]), range(x.shape[2])


def convolution(case, weights, x, dynamic):
    """Wu et al. 2019: GLU, then each channel of head h by the softmax of head h's kernel."""
    name = "dynamic_convolution" if dynamic else "lightweight_convolution"
    heads, taps = case["heads"], case["kernel"]
    per_head = x.shape[2] // heads
    value, gate = affine(weights, "value", x), affine(weights, f"{name}.gate", x)
    gated = value / (1.0 + np.exp(-gate))
    rows, positions, channels = shape_of(x)
    for row in rows:
        for position in positions:
            if not is_real(case, row, position):
                gated[row, position] = 0.0
    before = taps - 1 if case["causal"] else taps // 2
    mixed = np.zeros_like(gated)
    matrix = np.zeros((x.shape[0], heads, x.shape[1], x.shape[1]))
    for row in rows:
        for i in positions:
            for head in range(heads):
                if dynamic:
                    maps = weights[f"{name}.kernel.weight"][head * taps:(head + 1) * taps]
                    logits = [sum(m * g for m, g in zip(tap, gated[row, i])) for tap in maps]
                else:
                    logits = weights[f"{name}.kernel"][head]
                for tap, share in enumerate(softmax(logits)):
                    j = i + tap - before
                    if 0 <= j < x.shape[1]:
                        if is_real(case, row, j):
                            matrix[row, head, i, j] = share
                        for c in range(head * per_head, (head + 1) * per_head):
                            mixed[row, i, c] += share * gated[row, j, c]
    return affine(weights, "output", mixed), matrix


def linformer(case, weights, x):
    """Wang et al. 2020, equation 7, one E and one F for all heads."""
    heads, per_head = case["heads"], x.shape[2] // case["heads"]
    queries, keys, values = (affine(weights, name, x) for name in ("linformer.query", "linformer.key", "value"))
    e, f = weights["linformer.e"], weights["linformer.f"]
    rows, positions, channels = shape_of(x)
    mixed = np.zeros_like(x)
    for row in rows:
        real = [j for j in positions if is_real(case, row, j)]
        short = lambda by, of: [[sum(by[m][j] * of[row, j, c] for j in real) for c in channels] for m in range(len(by))]
        short_keys, short_values = short(e, keys), short(f, values)
        for head in range(heads):
            within = range(head * per_head, (head + 1) * per_head)
            for i in positions:
                logits = [sum(queries[row, i, c] * key[c] for c in within) / math.sqrt(per_head) for key in short_keys]
                for share, short_value in zip(softmax(logits), short_values):
                    for c in within:
                        mixed[row, i, c] += share * short_value[c]
    return affine(weights, "output", mixed), None


def fourier(case, weights, x):
    """Lee-Thorp et al. 2021, equation 3, over max_length positions, divided by the root of the number of points."""
    width, length = x.shape[2], case["max_length"]
    out = np.zeros_like(x)
    rows, positions, channels = shape_of(x)
    for row in rows:
        for p in positions:
            for c in channels:
                out[row, p, c] = sum(
                    x[row, n, m] * math.cos(2 * math.pi * (p * n / length + c * m / width))
                    for n in positions if is_real(case, row, n) for m in channels
                ) / math.sqrt(length * width)
    return out, None


def mixer(case, weights, x):
    values, w = affine(weights, "value", x), weights["mixer.w"]
    rows, positions, channels = shape_of(x)
    mixed = np.zeros_like(x)
    matrix = np.zeros((x.shape[0], case["heads"], x.shape[1], x.shape[1]))
    for row in rows:
        for i in positions:
            for j in positions:
                if is_real(case, row, j) and (j <= i or not case["causal"]):
                    matrix[row, :, i, j] = w[i, j]
                    for c in channels:
                        mixed[row, i, c] += w[i, j] * values[row, j, c]
    return affine(weights, "output", mixed), matrix


def run(case, weights, x):
    kind = case["mix"].split("(")[0]
    if kind in ("LC", "DC"):
        return convolution(case, weights, x, kind == "DC")
    return {"Lin": linformer, "FFT": fourier, "Mixer": mixer}[kind](case, weights, x)


def shapes(case, width):
    kind, heads, length = case["mix"].split("(")[0], case["heads"], case["max_length"]
    maps = {"LC": ["lightweight_convolution.gate"], "DC": ["dynamic_convolution.gate"],
            "Lin": ["linformer.query", "linformer.key"]}.get(kind, [])
    maps += [] if kind == "FFT" else ["value", "output"]
    result = {f"{name}.weight": (width, width) for name in maps} | {f"{name}.bias": (width,) for name in maps}
    return result | {
        "LC": lambda: {"lightweight_convolution.kernel": (heads, case["kernel"])},
        "DC": lambda: {"dynamic_convolution.kernel.weight": (heads * case["kernel"], width)},
        "Lin": lambda: {"linformer.e": (case["k"], length), "linformer.f": (case["k"], length)},
        "FFT": lambda: {},
        "Mixer": lambda: {"mixer.w": (length, length)},
    }[kind]()


def slope(loss, array, at):
    """Five-point difference of the loss by one element of an array."""
    step, kept = 1e-3, array[at]

    def moved(by):
        array[at] = kept + by
        return loss()

    found = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step)
    array[at] = kept
    return found


def gradient(loss, array):
    return np.array([slope(loss, array, at) for at in np.ndindex(array.shape)]).reshape(array.shape)


def pack(array):
    return {"shape": list(array.shape), "values": [float(value) for value in array.reshape(-1)]}


def make(name, mix, width, heads, max_length, length, causal, lengths, with_gradients=True, rows=2, **parameters):
    rng = np.random.default_rng(sum(ord(c) * (i + 1) for i, c in enumerate(name)))
    case = {"mix": mix, "heads": heads, "max_length": max_length, "causal": causal, "lengths": lengths} | parameters
    draw = lambda shape: np.round(rng.normal(0.0, 0.7, shape), 4)
    weights = {weight: draw(shape) for weight, shape in shapes(case, width).items()}
    x, toward = draw((rows, length, width)), draw((rows, length, width))
    out, matrix = run(case, weights, x)
    loss = lambda: float((run(case, weights, x)[0] * toward).sum())
    gradients = {}
    if with_gradients:
        gradients = {weight: gradient(loss, array) for weight, array in weights.items()} | {"x": gradient(loss, x)}
    file = {
        **{key: case[key] for key in ("mix", "heads", "max_length", "causal", "lengths")},
        "d_model": width,
        "weights": {weight: pack(array) for weight, array in weights.items()},
        "x": pack(x),
        "toward": pack(toward),
        "out": pack(out),
        "matrix": None if matrix is None or not with_gradients else pack(matrix),
        "gradients": {weight: pack(array) for weight, array in gradients.items()},
    }
    (OUT / f"{name}.json").write_text(json.dumps(file) + "\n")
    print(name)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for causal in (False, True):
        ending = "-causal" if causal else ""
        for kind in ("LC", "DC"):
            # N 7 of which L 5; 9 taps are more than there are positions
            for taps in (3, 9):
                make(f"{kind.lower()}{taps}-pad{ending}", f"{kind}(kernel={taps})", 4, 2, 7, 5, causal, [5, 3], kernel=taps)
            # over several blocks of positions; 37 taps make a block longer than usual
            for taps in (5, 37):
                make(f"{kind.lower()}{taps}-long{ending}", f"{kind}(kernel={taps})", 4, 2, 80, 75, causal, None,
                     with_gradients=False, rows=1, kernel=taps)
        make(f"mixer-pad{ending}", "Mixer", 4, 2, 7, 5, causal, [5, 3])
    make("dc-one-head", "DC(kernel=5)", 3, 1, 40, 35, False, None, rows=1, kernel=5)
    make("lc-default", "LC", 4, 2, 40, 35, True, [20], rows=1, kernel=31)
    make("lin", "Lin(k=3)", 4, 2, 6, 6, False, None, k=3)
    make("lin-pad", "Lin(k=3)", 4, 2, 7, 5, False, [5, 2], k=3)
    make("lin-default", "Lin", 4, 1, 8, 7, False, [7, 6], k=2)
    make("fft", "FFT", 5, 1, 6, 6, False, None)
    make("fft-pad", "FFT", 4, 2, 7, 5, False, [5, 3])


if __name__ == "__main__":
    main()
