"""Writes tests/fixtures/span_corruption/spans.json: the masked spans of some windows, from the rule as src/data/span_corruption.rs
words it, by a ChaCha8 and a Fisher-Yates shuffle of its own. Standard library alone: python3 scripts/make_span_fixtures.py"""

import json
import pathlib
import struct

MASK = 0xFFFFFFFF


def quarter(s, a, b, c, d):
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & MASK
        s[z] ^= s[x]
        s[z] = ((s[z] << turn) | (s[z] >> (32 - turn))) & MASK


def chacha8(words):
    """64-bit numbers of the key of four 64-bit words, with nonce 0 and a 64-bit block counter."""
    key = struct.unpack("<8I", struct.pack("<4Q", *words))
    block = 0
    while True:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, block & MASK, block >> 32, 0, 0]
        s = list(start)
        for _ in range(4):
            for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                quarter(s, a, b, c, d)
        out = [(x + y) & MASK for x, y in zip(s, start)]
        for low, high in zip(out[::2], out[1::2]):
            yield low | high << 32
        block += 1


def segments(items, count, numbers):
    """Lengths: the first count - 1 of the gaps between items are cuts, then the gaps are shuffled."""
    cuts = [gap < count - 1 for gap in range(max(items - 1, 0))]
    for last in range(len(cuts) - 1, 0, -1):
        other = next(numbers) * (last + 1) >> 64
        cuts[last], cuts[other] = cuts[other], cuts[last]
    lengths, start = [], 0
    for gap, cut in enumerate(cuts):
        if cut:
            lengths.append(gap + 1 - start)
            start = gap + 1
    return lengths + [items - start]


def spans(length, density, mean, words):
    noise = min(max(round(length * density), 1), max(length - 1, 1))
    count = min(min(max(round(noise / mean), 1), noise), max(length - noise, 1))
    numbers = chacha8(words)
    kept = segments(length - noise, count, numbers)
    masked = segments(noise, count, numbers)
    found, at = [], 0
    for skip, take in zip(kept, masked):
        found.append([at + skip, at + skip + take])
        at += skip + take
    return found


def main():
    cases = []
    for length, density, mean in [(128, 0.15, 3.0), (40, 0.3, 2.0), (568, 0.15, 3.0), (9, 0.5, 1.0)]:
        for seed, epoch, window in [(1, 0, 0), (1, 3, 0), (18446744073709551615, 0, 70000), (0, 0, 5)]:
            cases.append({"length": length, "density": density, "mean": mean, "draw": [seed, epoch], "window": window,
                          "spans": spans(length, density, mean, [seed, epoch, window, 1])})
        cases.append({"length": length, "density": density, "mean": mean, "draw": None, "window": 5,
                      "spans": spans(length, density, mean, [0, 0, 5, 2])})
    path = pathlib.Path(__file__).parent.parent / "tests/fixtures/span_corruption/spans.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
