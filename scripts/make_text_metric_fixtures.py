#!/usr/bin/env python3
"""Makes the fixtures of the text metrics with the Python packages whose figures ours must equal.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install rouge-score==0.1.2 nltk==3.10.4 pycocoevalcap==1.2 numpy==2.4.6 regex==2026.11.19
    /tmp/venv/bin/python scripts/make_text_metric_fixtures.py

Under tests/fixtures/:
- rouge/words.json: words and their stems by NLTK's PorterStemmer, as rouge-score calls it.
- rouge/pairs.json: pairs of texts and their ROUGE F1, with stemming, and the means of all pairs.
- rouge/unicode.json: pairs in many scripts, scored by rouge-score with a tokenizer of all scripts.
- caption/corpora.json: tokenised corpora with corpus BLEU-1 to 4, ROUGE-L and CIDEr-D of pycocoevalcap.
- meteor/pairs.json: tokenised pairs and NLTK's METEOR with a WordNet that knows no synonym.
- embedding_average/vectors.txt, pairs.json: word vectors, and pairs with the cosine of their sums, by numpy, as nlg-eval
  defines it: a word without a vector counts as the mean of all vectors.
- embedding_average/contractions.json: words and what NLTK's word tokenizer splits them into.
"""

import importlib.metadata
import json
import pathlib
import random

import numpy as np
import regex
from nltk.stem.porter import PorterStemmer
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.translate.meteor_score import single_meteor_score
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer

for package, version in {"rouge-score": "0.1.2", "nltk": "3.10.4", "pycocoevalcap": "1.2", "numpy": "2.4.6", "regex": "2026.11.19"}.items():
    assert importlib.metadata.version(package) == version, package
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures"

SENTENCES = [
    "the ferries were cancelled on tuesday because the harbour was full of ice",
    "two hikers were found alive after spending four nights in a snow cave",
    "the council voted to keep the old library open until the end of next year",
    "researchers say that bees can learn to pull strings by watching other bees",
    "a baker in the valley has been making the same dark bread for fifty years",
    "the museum is returning three carved doors to the village they were taken from",
    "traffic into the city was halted for hours when a lorry carrying honey overturned",
    "her first novel was rejected by eleven publishers before it won the prize",
    "the goalkeeper saved two penalties and then scored the winning one himself",
    "officials warned that the river could rise by another metre during the night",
    "i like to go hiking with my two dogs on the weekends",
    "i am a nurse and i work the night shift at the hospital",
    "do you have any brothers or sisters ?",
    "that sounds great , what kind of music do you play ?",
    "i do not eat meat , but i love cooking for my friends .",
    "hello , how are you doing today ?",
    "yes",
    "no , not really . how about you ?",
    "my favorite color is blue , like the sea .",
    "i just moved here from the coast and i miss the sea .",
]
BASES = """
relat condit ration valenc hesitanc digit conform radic differ vile analog vietnam predic oper feudal decis hope callous
formal sensit sensibl triplic form electric good reviv allow infer airlin gyroscop adjust defens irrit replac depend adopt
homolog commun activ angul effect bowdler probat rat ceas control roll happi sky enjoy employ obey play try fly cry hop
tan fall hiss fizz fail fil siz troubl conflat plaster motor sing agree feed bleed cat pony tie caress generaliz oscillat
organ author real nation music theor geo archaeo philo biolog psycholog apolog skill full dull will sell agre free see be
go say yell yoyo syzygy toy by why dye eye aye use amus argu continu create creat heat beat cheat at ablat bl able stabl
""".split()
SUFFIXES = """
- s es ies ss sses ed eed ied ing y ly ally ously fully ational tional enci anci izer bli abli alli entli eli ousli ization
ation ator alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic
able ible ant ement ment ent sion tion ion ou ism ate iti ous ive ize e ll ye
""".split()
IRREGULAR = """
sky skies dying lying tying news innings inning outings outing cannings canning howe proceed exceed succeed dies lies ties
spied tried flies died die
""".split()
TEXTS = [
    "café naïve résumé Ærøskøbing über 東京 ЖИЗНЬ",
    "Mr. O'Neill's well-known cat -- 'Whiskers' -- weighs 3.5 kg (7.7 lb)!",
    "U.S. and U.K. agree: 1,000 soldiers in 1999-2000",
    "İstanbul K (kelvin) ΟΔΟΣ ﬁne ²½ １２",
]


def damage(rng, words, times=1):
    """A worse text: words dropped, doubled, swapped, replaced."""
    for _ in range(times):
        out = []
        for word in words:
            roll = rng.random()
            if roll < 0.1:
                continue
            if roll < 0.16:
                out += [word, word]
            elif roll < 0.24 and out:
                out.insert(-1, word)
            elif roll < 0.32:
                out.append(rng.choice(rng.choice(SENTENCES).split()))
            elif roll < 0.4:
                out.append(inflect(rng, word))
            else:
                out.append(word)
        words = out
    return words


def inflect(rng, word):
    return word + rng.choice(["s", "ed", "ing", "ly", "ness"]) if word.isalpha() else word


def write(name, value):
    path = OUT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, dict):
        body = ",\n".join(f"{json.dumps(key)}: {lines(entry)}" for key, entry in value.items())
        path.write_text("{\n" + body + "\n}\n", encoding="ascii")
    else:
        path.write_text(lines(value) + "\n", encoding="ascii")


def lines(value):
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(entry) for entry in value) + "\n]"


def porter_words(rng):
    built = sorted({base + ("" if suffix == "-" else suffix) for base in BASES for suffix in SUFFIXES})
    words = set(IRREGULAR) | set(rng.sample(built, 1100))
    words |= {word for sentence in SENTENCES for word in sentence.split()}
    # No words at all: runs of y, doubled letters and short ones, with every suffix.
    for _ in range(350):
        letters = "".join(rng.choice("yyaeioubslzwxt") for _ in range(rng.randint(0, 6)))
        words.add(letters + rng.choice(SUFFIXES).replace("-", ""))
    words |= {"naïve", "naïved", "größing", "élling", "naéed", "ééed", "日本語s", "don't", "u.s.", "3.5s", "éd", "aéing"}
    return sorted(words - {""})


def rouge_pairs(rng):
    def summary(count):
        return [rng.choice(SENTENCES) for _ in range(count)]

    one = SENTENCES[0]
    yield "", ""
    yield "", one
    yield one, ""
    yield "\n", one
    yield " \n \n", " \n"
    yield "?!", one
    yield "yes", "yes"
    yield "yes", "no"
    yield "Ferries", one
    yield "ferry", "ferries"
    yield "the the the the", one
    yield one, "the the the"
    yield "cancelling cancelled cancels", "cancel the cancellation"
    yield one, one
    yield one.upper(), one
    yield " ".join(reversed(one.split())), one
    for text in TEXTS:
        yield text.lower(), text
        yield " ".join(damage(rng, text.split())), text
    yield "a b c d e\nf g h", "f g h\na b c d e"
    yield "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5"
    yield "the sea the sea\nthe sea", "the sea\n\nthe blue sea the sea"
    yield "\n\nfirst line\n\n", "first line\nsecond line"
    for times in (1, 1, 2, 3):
        for count in (1, 2, 3, 5):
            sentences = summary(count)
            hypothesis = [" ".join(damage(rng, sentence.split(), times)) for sentence in sentences]
            rng.shuffle(hypothesis)
            yield "\n".join(hypothesis), "\n".join(sentences)
    for _ in range(8):
        yield "\n".join(summary(rng.randint(1, 4))), "\n".join(summary(rng.randint(1, 4)))
    # Few words, so that there are many longest common subsequences to choose from.
    for _ in range(8):
        few = lambda: "\n".join(" ".join(rng.choice("abc") for _ in range(rng.randint(1, 9))) for _ in range(3))
        yield few(), few()


def make_rouge(rng):
    stemmer = PorterStemmer()
    words = [{"word": word, "stem": stemmer.stem(word)} for word in porter_words(rng)]
    write("rouge/words.json", words)
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = RougeScorer(names, use_stemmer=True)
    pairs = []
    for hypothesis, reference in rouge_pairs(rng):
        scores = scorer.score(reference, hypothesis)
        scores = {name.lower(): scores[name].fmeasure for name in names}
        pairs.append({"hypothesis": hypothesis, "reference": reference} | scores)
    mean = {name.lower(): float(np.mean([pair[name.lower()] for pair in pairs])) for name in names}
    write("rouge/pairs.json", {"pairs": pairs, "mean": mean})


UNSPACED = "".join(
    r"\p{" + script + "}"
    for script in """Han Hiragana Katakana Bopomofo Yi Thai Lao Khmer Myanmar Tibetan Tai_Le New_Tai_Lue Tai_Tham Tai_Viet
    Balinese Javanese""".split()
)
UNICODE_WORD = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]+", regex.V1)
SCRIPTS = [
    "दरवाज़ा खुलने पर बत्ती जलाओ।\nनमस्ते दुनिया",
    "Включи свет, когда откроется дверь.\nГде Анна?",
    "Άναψε το φως όταν ανοίξει η πόρτα.",
    "عندما يفتح الباب، أشعل الضوء في ٢٠٢٤.",
    "前门打开时请开灯！第5天 WLAN 密码。",
    "ラーメンを食べました。\n日本語の文章です。",
    "문을 열면 불을 켜세요! 한국어 문장입니다.",
    "สวัสดีครับ ประตูเปิดเมื่อไหร่ให้เปิดไฟ",
    "ჩართე შუქი, როდესაც კარი გაიღება.",
    "Größe café naïve: the running dogs",
    "１２３ ＡＢＣ ½ ²",
    "🙂 👍🏽",
]


class UnicodeTokenizer:
    def tokenize(self, text):
        return UNICODE_WORD.findall(text.lower())


def make_unicode_rouge(rng):
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = RougeScorer(names, tokenizer=UnicodeTokenizer())
    pairs = [(text, text) for text in SCRIPTS] + list(zip(SCRIPTS[1:], SCRIPTS))
    for text in SCRIPTS:
        for keep in (0.9, 0.6):
            pairs.append(("".join(letter for letter in text if rng.random() < keep), text))
        words = text.split(" ")
        pairs.append((" ".join(rng.sample(words, len(words))), text))
    rows = []
    for hypothesis, reference in pairs:
        scores = scorer.score(reference, hypothesis)
        scores = {name.lower(): scores[name].fmeasure for name in names}
        rows.append({"hypothesis": hypothesis, "reference": reference} | scores)
    write("rouge/unicode.json", rows)


def caption_corpora(rng):
    yield "identical", SENTENCES, SENTENCES
    yield "no common word", ["alpha beta gamma delta", "epsilon zeta"], ["one two three four five", "six seven"]
    yield "one pair", [SENTENCES[0]], [SENTENCES[0]]
    yield "empty hypotheses", ["", "", ""], SENTENCES[:3]
    yield "one empty hypothesis", ["", *SENTENCES[1:4]], SENTENCES[:4]
    yield "one empty reference", SENTENCES[:4], ["", *SENTENCES[1:4]]
    yield "one word each", ["yes", "no", "yes", "maybe"], ["yes", "yes", "no", "maybe"]
    yield "short hypotheses", [" ".join(line.split()[:3]) for line in SENTENCES], SENTENCES
    yield "long hypotheses", [line + " " + line for line in SENTENCES], SENTENCES
    yield "always the same reply", ["i do not know ."] * len(SENTENCES), SENTENCES
    yield "repeated words", ["the the the the", "sea sea , sea"], ["the sea is the sea", "the sea , the blue sea"]
    yield "all references the same", ["yes i do", "no i do not", "yes"], ["yes i do"] * 3
    for times in (1, 2, 4):
        hypotheses = [" ".join(damage(rng, line.split(), times)) for line in SENTENCES]
        yield f"damaged {times}x", hypotheses, SENTENCES
    references = [rng.choice(SENTENCES) for _ in range(100)]
    yield "100 lines", [" ".join(damage(rng, line.split())) for line in references], references
    yield "shuffled", rng.sample(references, 100), references


def make_caption(rng):
    corpora = []
    for name, hypotheses, references in caption_corpora(rng):
        res = {row: [line] for row, line in enumerate(hypotheses)}
        gts = {row: [line] for row, line in enumerate(references)}
        bleu, _ = Bleu(4).compute_score(gts, res, verbose=0)
        rouge, _ = Rouge().compute_score(gts, res)
        cider, each = Cider().compute_score(gts, res)
        scores = {"bleu": bleu, "rougel": float(rouge), "cider": float(cider), "cider_each": [float(x) for x in each]}
        corpora.append({"name": name, "hypotheses": hypotheses, "references": references} | scores)
    write("caption/corpora.json", corpora)


class NoSynonyms:
    def synsets(self, _word):
        return []


def make_meteor(rng):
    one = SENTENCES[0].split()
    pairs = [
        ([], []),
        ([], one),
        (one, []),
        (["yes"], ["yes"]),
        (["yes"], ["no"]),
        (one, one),
        (one[::-1], one),
        ("The Ferries WERE".split(), one),
        ("cancelling cancel cancels".split(), "cancelled the cancel".split()),
        ("the the the the".split(), "the cat the".split()),
        ("the cat the".split(), "the the the the".split()),
        ("a b a b a b".split(), "b a b a".split()),
        ("dog dogs dogs".split(), "dogs dog doging".split()),
        ("café naïves ?".split(), "Café naïve ?".split()),
    ]
    for times in (1, 1, 2, 3):
        for sentence in SENTENCES:
            pairs.append((damage(rng, sentence.split(), times), sentence.split()))
    few = lambda: [rng.choice(["sea", "seas", "the", "blue", "swim", "swimming"]) for _ in range(rng.randint(1, 9))]
    pairs += [(few(), few()) for _ in range(30)]
    rows = []
    for hypothesis, reference in pairs:
        score = single_meteor_score(reference, hypothesis, wordnet=NoSynonyms())
        rows.append({"hypothesis": hypothesis, "reference": reference, "score": score})
    write("meteor/pairs.json", rows)


def make_embedding_average(rng):
    known = sorted({word for sentence in SENTENCES for word in sentence.split()} - {"ferries", "lorry", "hospital", "?"})
    values = np.random.default_rng(7).normal(size=(len(known) + 1, 6)).round(5)
    folder = OUT / "embedding_average"
    folder.mkdir(parents=True, exist_ok=True)
    text = [" ".join([word, *map(str, row)]) for word, row in zip([*known, ". . ."], values)]
    (folder / "vectors.txt").write_text("\n".join(text) + "\n", encoding="ascii")
    vectors, unknown = dict(zip(known, values)), values.mean(axis=0)

    def total(words):
        return np.sum([vectors.get(word, unknown) for word in words], axis=0)

    pairs = [(line.split(), line.split()) for line in SENTENCES[:2]]
    pairs += [(["xyzzy"], ["ferries", "lorry"]), (["xyzzy"], SENTENCES[2].split()), (["yes"], ["no"])]
    pairs += [(damage(rng, line.split(), times), line.split()) for times in (1, 3) for line in SENTENCES]
    pairs += [(a.split(), b.split()) for a, b in zip(SENTENCES, SENTENCES[1:])]
    rows = []
    for hypothesis, reference in pairs:
        a, b = total(hypothesis), total(reference)
        score = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) if hypothesis else 0.0
        rows.append({"hypothesis": hypothesis, "reference": reference, "score": score})
    write("embedding_average/pairs.json", rows)

    words = """don't can't won't isn't ain't i'm you're we've she'd they'll it's john's y'all o'clock rock'n'roll cannot
    gonna wanna gotta gimme lemme cannots gonnas n't nt 's dogs' it'd've o'neill ma'am shan't mustn't've hello lll're""".split()
    tokenizer = NLTKWordTokenizer()
    write("embedding_average/contractions.json", [{"word": word, "words": tokenizer.tokenize(word)} for word in words])


def main():
    make_rouge(random.Random(1))
    make_caption(random.Random(2))
    make_meteor(random.Random(3))
    make_embedding_average(random.Random(4))
    make_unicode_rouge(random.Random(5))


if __name__ == "__main__":
    main()
