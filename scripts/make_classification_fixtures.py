#!/usr/bin/env python3
"""Makes tests/fixtures/classification/*.json with the Python packages whose figures ours must equal.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install scikit-learn==1.9.1 scipy==1.17.1 transformers==4.57.6
    /tmp/venv/bin/python scripts/make_classification_fixtures.py

- classes.json: predicted and right classes, with accuracy, F1 of class 1, macro F1 and Matthews of scikit-learn.
- scores.json: predicted and right scores, with Pearson's and Spearman's correlation of SciPy. Where SciPy has no value
  (NaN: a side that does not vary), it is null.
- answers.json: pairs of answers, with exact match and F1 of the SQuAD metric in transformers. Answers without a word are
  left out: SQuAD 2 scores them by a rule of its own, which ReCoRD does not have.
- groups.json: rows in groups, with the figures of SuperGLUE's definitions, computed here group by group from the
  figures of the packages above.
"""

import json
import math
import pathlib
import random
import warnings

import scipy
import sklearn
import transformers
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from transformers.data.metrics.squad_metrics import compute_exact, compute_f1, get_tokens

assert sklearn.__version__ == "1.9.1", sklearn.__version__
assert scipy.__version__ == "1.17.1", scipy.__version__
assert transformers.__version__ == "4.57.6", transformers.__version__
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "classification"
warnings.simplefilter("ignore")

ANSWERS = [
    "Barack Obama",
    "barack  obama.",
    "the Obama family",
    "The United States",
    "U.S.",
    "US",
    "a U.S. Army unit",
    "an apple a day",
    "An Apple",
    "Thea and Anna",
    "a-team",
    "A Team",
    "St. Mary's Hospital",
    "St Marys Hospital",
    "New York New York",
    "York, new!",
    "São Paulo",
    "SÃO PAULO",
    "Sa\u0303o Paulo",
    "the\u0301 a\u0300",
    "ΑΣ the Σ",
    "İstanbul",
    "Straße",
    "STRASSE",
    "“the Times”",
    "–the– (a) [an]",
    "3.5 million",
    "35 million",
    "x_the_y",
    "the\u00a0end\u2003a\u3000end",
    "tab\tand\u001cseparator",
    "中国 the 中国",
    "theatre",
    "東京the",
    "½ a ½",
    "the New York Times of New York",
    "The hospital of St. Mary in New Orleans",
    "Anna's apple, and Barack's apple",
    "Army of the United States of America",
    "São Paulo and São José do Rio Preto",
    "3.5 million of 35 million",
    "٣ the ٣",
]


def class_cases():
    rng = random.Random(20200501)
    yield "all right", [0, 1, 1, 0], [0, 1, 1, 0]
    yield "all wrong", [1, 0, 0, 1], [0, 1, 1, 0]
    yield "one class predicted", [0] * 6, [0, 1, 0, 1, 1, 0]
    yield "one class wanted", [0, 1, 0, 1], [1, 1, 1, 1]
    yield "one class on both sides", [1, 1, 1], [1, 1, 1]
    yield "class 0 alone", [0, 0, 0], [0, 0, 0]
    yield "one row", [1], [0]
    yield "a class never predicted", [0, 1, 0, 1, 0], [0, 1, 2, 2, 0]
    yield "a class never wanted", [0, 2, 2, 1, 0], [0, 1, 0, 1, 0]
    for classes, rows, skill in ((2, 50, 0.7), (2, 277, 0.55), (3, 57, 0.8), (5, 200, 0.9), (4, 1000, 0.3), (2, 1043, 0.9)):
        wanted = [min(int(rng.expovariate(1.2)), classes - 1) for _ in range(rows)]
        predicted = [w if rng.random() < skill else rng.randrange(classes) for w in wanted]
        yield f"{rows} rows of {classes} classes", predicted, wanted


def score_cases():
    rng = random.Random(20200502)
    yield "a line", [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]
    yield "backwards", [3.0, 2.0, 1.0], [2.0, 4.0, 6.5]
    yield "constant predictions", [2.5, 2.5, 2.5], [0.0, 1.0, 5.0]
    yield "constant scores", [2.5, 0.1, 3.5], [3.0, 3.0, 3.0]
    yield "two rows", [0.3, 0.1], [1.0, 5.0]
    yield "ties on both sides", [1.0, 1.0, 2.0, 2.0, 2.0, 5.0], [0.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    yield "far from zero", [1e6 + x for x in (0.0, 0.5, 0.25, 1.0)], [1.0, 2.0, 3.0, 4.0]
    for rows, noise in ((100, 0.5), (1500, 1.5), (999, 5.0)):
        wanted = [round(rng.uniform(0, 5) * 5) / 5 for _ in range(rows)]
        predicted = [round(w + rng.gauss(0, noise), rng.choice((1, 6))) for w in wanted]
        yield f"{rows} rows, noise {noise}", predicted, wanted


def number(value):
    return None if math.isnan(value) else float(value)


def group_cases():
    rng = random.Random(20200503)
    words = [answer for answer in ANSWERS if get_tokens(answer)]
    for name, count, most in (("two choices", 100, 2), ("few rows", 40, 6), ("many rows", 60, 12), ("one group", 1, 5)):
        rows = []
        gold = []
        for group in range(count):
            size = 2 if most == 2 else rng.randint(1, most)
            candidates = rng.sample(words, size)
            # most questions have an answer among their candidates; near-equal strings meet by chance
            answers = rng.sample(candidates if rng.random() < 0.8 else words, rng.randint(1, min(2, size)))
            gold.append(answers)
            for candidate in candidates:
                rows.append((group, candidate, int(candidate in answers)))
        wanted = [label for _, _, label in rows]
        # a few equal numbers: of them the first row counts
        odds = [round(rng.gauss(1.5 * label - 1.0, 1.0), 1) for label in wanted]
        predicted = [int(o > 0) for o in odds]
        picked, exact, f1, whole, accuracy = {}, [], [], [], []
        for group in range(count):
            indices = [i for i, row in enumerate(rows) if row[0] == group]
            best = max(indices, key=lambda i: odds[i])
            accuracy.append(wanted[best])
            whole.append(all(predicted[i] == wanted[i] for i in indices))
            exact.append(max(compute_exact(answer, rows[best][1]) for answer in gold[group]))
            f1.append(max(compute_f1(answer, rows[best][1]) for answer in gold[group]))
        mean = lambda values: sum(values) / len(values)
        yield {
            "name": name,
            "groups": [group for group, _, _ in rows],
            "candidates": [candidate for _, candidate, _ in rows],
            "gold": gold,
            "odds": odds,
            "predicted": predicted,
            "wanted": wanted,
            "group_accuracy": mean(accuracy),
            "f1a": f1_score(wanted, predicted, zero_division=0),
            "exact": mean(whole),
            "record_f1": mean(f1),
            "record_exact": mean(exact),
        }


def write(name, entries):
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in entries)
    (OUT / name).write_text(f"[\n{lines}\n]\n", encoding="ascii")


def main():
    write("classes.json", [
        {
            "name": name,
            "predicted": predicted,
            "wanted": wanted,
            "accuracy": accuracy_score(wanted, predicted),
            "f1": f1_score(wanted, predicted, labels=[1], average="macro", zero_division=0),
            "macro_f1": f1_score(wanted, predicted, average="macro", zero_division=0),
            "matthews": float(matthews_corrcoef(wanted, predicted)),
        }
        for name, predicted, wanted in class_cases()
    ])
    write("scores.json", [
        {
            "name": name,
            "predicted": predicted,
            "wanted": wanted,
            "pearson": number(pearsonr(predicted, wanted)[0]),
            "spearman": number(spearmanr(predicted, wanted)[0]),
        }
        for name, predicted, wanted in score_cases()
    ])
    answers = [answer for answer in ANSWERS if get_tokens(answer)]
    write("answers.json", [
        {"predicted": a, "gold": b, "exact": bool(compute_exact(b, a)), "f1": compute_f1(b, a), "words": get_tokens(a)}
        for i, a in enumerate(answers)
        for j, b in enumerate(answers)
        if abs(i - j) < 3 or compute_f1(b, a) > 0
    ])
    write("groups.json", list(group_cases()))


if __name__ == "__main__":
    main()
