#!/usr/bin/env python3
"""Makes tests/fixtures/bleu/*.json with the Python packages whose figures ours must equal.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install sacrebleu==2.6.0 sacremoses==0.2.0
    /tmp/venv/bin/python scripts/make_bleu_fixtures.py

- 13a.json: strings and their 13a tokens.
- corpora.json: hypotheses and references, scored by sacreBLEU's defaults.
- moses.json: strings and their Moses tokens (not escaped), per language. Without Chinese, Japanese and Korean: the port
  splits their characters, tokenizer.perl does not.
- other_tokens.json, other_corpora.json: strings and their `zh` and `char` tokens, and corpora scored by sacreBLEU with them.
- wmt.json: corpora scored in the customary tokenized form: Moses tokens, compounds split, no smoothing.
"""

import json
import pathlib
import random
import re

import sacrebleu
import sacremoses
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

assert sacrebleu.__version__ == "2.6.0", sacrebleu.__version__
assert sacremoses.__version__ == "0.2.0", sacremoses.__version__
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "bleu"

STRINGS = [
    "",
    " ",
    "word",
    "Hello, world!",
    "It cost $1,000.50 (about 3.5% of 28,500) in 1999-2000.",
    "The U.S. and the U.K. agreed; e.g. on No. 5, not on no. five.",
    "well-known, state-of-the-art -- and so on - or 5-6 or 5-a or a-5",
    "He said: \"It's mine\", didn't he?",
    "&quot;Tom &amp; Jerry&quot; &lt;b&gt; &amp;lt; &apos; &nbsp;",
    "before<skipped>after <skipped> end",
    "hyphen-\nated line\nbreak",
    "line end-\n",
    "...and then.... nothing.. at all. .5 5. 5.a a.5 ,5 5, 5,a a,5 ,,",
    "1.2.3 1,2,3 a.b.c a,b,c .,.,",
    "[brackets] {braces} <angle> (round) a/b a\\b a|b a^b a_b a`b a~b a@b.com #1 *x* +1 =",
    "„Guten Tag“, sagte er – und ging… »Ja« ‚nein‘",
    "« Bonjour », dit-elle : l'été, c'est aujourd'hui ! N'est-ce pas ?",
    "日本語の文。 中文，测试！ 한국어",
    "tab\tand\u00a0no-break\u202fnarrow\u3000wide\u2009thin\u2028line\u0085next",
    "control\x1cseparators\x1dare\x1espaces\x1fin Python",
    "zero\u200bwidth and soft\u00adhyphen and combine\u0301",
    "٣٫٥ and ３.５ and ²·½ and 3.½",
    "🙂 emoji!🙂 a🙂.b",
    "trailing space   ",
    "   leading space",
    "Größe: 3,5 m² – z. B. für 12.000 € bzw. 5 Mio. Euro.",
    "'quoted' 'tis the '90s, 1990's dogs' toys' end'",
    "http://www.example.org/a-b?c=d&e=f#g user.name@example.org",
    "A.B. C.D.E.F., G.H.",
    "a.'",
    ".",
    "-",
    ",",
    "–—-",
]

ENGLISH = [
    "The committee met on 5 May 1999 and approved the report, which had cost 1,000.50 dollars.",
    "Mr. Smith, who lives in the U.S., said: \"I don't know what they're talking about.\"",
    "State-of-the-art systems aren't always well-tested -- or so it's said.",
    "Prices rose by 3.5% (from 28,500 to 29,497) in the first quarter.",
    "No. 5 was late; nos. 6 and 7 weren't.",
    "Turn the light on when the front door opens.",
    "Is the rich-text format the team's choice?",
    "The dogs' owners' club was founded in the 1990's, i.e. before ours.",
    "She left at 5 p.m. and came back the next day...",
    "He came from Washington, D.C. to see Gen. Lee and Dr. House.",
    "A, B, C and D: 1, 2, 3 and 4.",
    "The end",
]
GERMAN = [
    "Der Ausschuss trat am 5. Mai 1999 zusammen und nahm den Bericht an, der 1.000,50 Euro gekostet hatte.",
    "Herr Dr. Müller, der z. B. in den USA lebt, sagte: „Ich weiß nicht, wovon sie reden.“",
    "Der EU-Haushalt und die Nicht-EU-Staaten bzw. deren Bürger: ein Kosten-Nutzen-Problem.",
    "Die Preise stiegen um 3,5 % (von 28.500 auf 29.497) im ersten Quartal.",
    "Geht's noch? Das ist Peters' \"Idee\" gewesen – oder nicht?",
    "Schalte das Licht ein, wenn die Haustür geöffnet wird.",
    "Er kam mit ca. 50 Leuten, Kindern usw. an.",
    "Im XX. Jahrhundert waren es 5 Mio. Menschen, vgl. Abb. 3.",
    "Ludwig XIV. und Johannes Paul II. waren nicht dabei...",
    "Bitte gib den API-Schlüssel und das WLAN-Passwort ein!",
    "Das 2-Zimmer-Apartment kostet 700 €/Monat.",
    "Ende",
]
FRENCH = [
    "Le comité s'est réuni le 5 mai 1999 et a adopté le rapport, qui avait coûté 1 000,50 euros.",
    "M. Dupont, qui habite aux États-Unis, a dit : « Je ne sais pas de quoi ils parlent. »",
    "Qu'est-ce que c'est ? C'est l'idée d'aujourd'hui, n'est-ce pas ?",
    "Les prix ont augmenté de 3,5 % (de 28 500 à 29 497) au premier trimestre.",
    "Allumez la lumière lorsque la porte d'entrée s'ouvre.",
    "Il y avait env. 50 personnes, des enfants etc. dans la salle.",
    "Mme Curie et MM. Durand et Martin ont vu l'œuvre, cf. chap. 3.",
    "L'après-midi, elle s'en va-t-en guerre...",
    "Fin",
]


# One or more of each script that a tokenizer may treat in its own way.
SCRIPTS = [
    "委员会于1999年5月5日举行会议，通过了报告，费用为1,000.50美元。",
    "我不知道他们在说什么。",
    "前门打开时请开灯！",
    "第一季度价格上涨了3.5%（从28,500到29,497）。",
    "他来自华盛顿，见到了史密斯先生和WLAN-密码。",
    "請輸入API金鑰與密碼；５０％的人說「不」……",
    "𠮷野家的牛丼 \U0002f81a 很好吃",
    "  行首空格。.5 5.",
    "委員會。The committee, in 1999.",
    "日本語の文章です。ラーメンを食べました。",
    "한국어 문장입니다. 문을 열면 불을 켜세요!",
    "สวัสดีครับ ประตูเปิดเมื่อไหร่ ให้เปิดไฟ",
    "नमस्ते, दरवाज़ा खुलने पर बत्ती जलाओ।",
    "عندما يفتح الباب، أشعل الضوء.",
    "Включи свет, когда откроется дверь – «да».",
    "🙂👍🏽 👨‍👩‍👧",
    "①②③ ㈱ ½ x² €5 → “quoted” – dash…",
]


CJK = re.compile("[\u3040-\u9fff\uac00-\ud7a3]")


def damage(rng, line):
    """A worse translation: words dropped, doubled, swapped, replaced."""
    words = line.split()
    out = []
    for word in words:
        roll = rng.random()
        if roll < 0.1:
            continue
        if roll < 0.15:
            out += [word, word]
        elif roll < 0.2 and out:
            out.insert(-1, word)
        elif roll < 0.3:
            out.append(rng.choice(words))
        elif roll < 0.35:
            out.append(word.upper())
        else:
            out.append(word)
    return " ".join(out)


def corpora():
    one = ENGLISH[0]
    yield "identical", ENGLISH, ENGLISH
    yield "no common word", ["alpha beta gamma delta epsilon"], ["one two three four five six"]
    yield "empty hypotheses", ["", "", " "], ENGLISH[:3]
    yield "one empty hypothesis", ["", ENGLISH[1], ENGLISH[2]], ENGLISH[:3]
    yield "empty references", ENGLISH[:2], ["", ""]
    yield "one empty reference", ENGLISH[:3], ["", ENGLISH[1], ENGLISH[2]]
    yield "all empty", ["", ""], ["", ""]
    yield "one word, right", ["Ende"], ["Ende"]
    yield "one word, wrong", ["Ende"], ["Anfang"]
    yield "one word against many", ["committee"], [one]
    yield "two words", ["The committee"], [one]
    yield "three words", ["The committee met"], [one]
    yield "words without common bigrams", ["report the approved and May on committee cost"], [one]
    yield "bigrams without common trigrams", ["The committee on 5 approved the and approved dollars ."], [one]
    yield "counts are clipped", ["the the the the the the the"], ["the cat is on the mat"]
    yield "case matters", [one.lower()], [one]
    yield "too long", [one + " " + one], [one]
    yield "unicode punctuation", ["„Guten Tag“, sagte er – und ging…"], ["\"Guten Tag\", sagte er - und ging..."]
    yield "typographic quotes", ["« Bonjour », dit-elle : l’été"], ["« Bonjour », dit-elle : l'été"]
    yield "entities", ["&quot;Tom &amp; Jerry&quot; run away"], ["\"Tom & Jerry\" run away"]
    yield "numbers", ["It cost 1,000.5 and 3.5% in 1999-2000"], ["It cost 1,000.5 or 3.5 % in 1999 - 2000"]
    yield "spaces only differ", ["a  b\tc\u00a0d e"], ["a b c d e"]
    yield "strings", STRINGS, STRINGS[1:] + STRINGS[:1]
    rng = random.Random(20240501)
    for name, text in (("English", ENGLISH), ("German", GERMAN), ("French", FRENCH)):
        for times in (1, 2, 4):
            hyps = text
            for _ in range(times):
                hyps = [damage(rng, line) for line in hyps]
            yield f"{name}, damaged {times}x", hyps, text
    everything = ENGLISH + GERMAN + FRENCH
    refs = [rng.choice(everything) for _ in range(120)]
    yield "120 lines", [damage(rng, line) for line in refs], refs
    short = [line.split()[0] for line in everything]
    yield "short lines", [damage(rng, line) for line in short], short


def damage_letters(rng, line):
    """A worse text in a script without blanks: letters dropped, doubled, swapped."""
    out = []
    for letter in line:
        roll = rng.random()
        if roll < 0.08:
            continue
        out.append(letter)
        if roll < 0.12:
            out.append(letter)
        elif roll < 0.2 and len(out) > 1:
            out[-1], out[-2] = out[-2], out[-1]
    return "".join(out)


def other_corpora():
    yield "identical", SCRIPTS, SCRIPTS
    yield "shifted", SCRIPTS[1:] + SCRIPTS[:1], SCRIPTS
    yield "empty hypotheses", ["", " "], SCRIPTS[:2]
    yield "one empty reference", SCRIPTS[:3], ["", *SCRIPTS[1:3]]
    yield "short", ["是", "不是"], ["是", "是的"]
    rng = random.Random(20240502)
    for times in (1, 2, 4):
        hyps = SCRIPTS
        for _ in range(times):
            hyps = [damage_letters(rng, line) for line in hyps]
        yield f"damaged {times}x", hyps, SCRIPTS
    mixed = [rng.choice(SCRIPTS + ENGLISH) for _ in range(60)]
    yield "60 lines", [damage_letters(rng, line) for line in mixed], mixed


def scored(name, hyps, refs, bleu, prepare=lambda line: line):
    score = bleu.corpus_score([prepare(h) for h in hyps], [[prepare(r) for r in refs]])
    return {
        "name": name,
        "hyps": hyps,
        "refs": refs,
        "score": score.score,
        "precisions": score.precisions,
        "brevity_penalty": score.bp,
        "hyp_len": score.sys_len,
        "ref_len": score.ref_len,
    }


def write(name, value):
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in value)
    (OUT / name).write_text(f"[\n{lines}\n]\n", encoding="ascii")


def main():
    thirteen_a = Tokenizer13a()
    lines = STRINGS + ENGLISH + GERMAN + FRENCH
    write("13a.json", [{"text": line, "tokens": thirteen_a(line.rstrip()).split()} for line in lines])
    tokens, corpora_of_others = [], []
    for name, tokenizer in (("zh", TokenizerZh()), ("char", TokenizerChar())):
        for line in SCRIPTS + lines:
            tokens.append({"language": name, "text": line, "tokens": tokenizer(line.rstrip()).split()})
        bleu = BLEU(tokenize=name)
        corpora_of_others += [{"language": name} | scored(*corpus, bleu) for corpus in other_corpora()]
    write("other_tokens.json", tokens)
    write("other_corpora.json", corpora_of_others)
    write("corpora.json", [scored(*corpus, BLEU()) for corpus in corpora()])

    moses, wmt = [], []
    for language, text in (("en", ENGLISH), ("de", GERMAN), ("fr", FRENCH)):
        tokenizer = sacremoses.MosesTokenizer(lang=language)
        tokens = lambda line: tokenizer.tokenize(line, escape=False)
        atat = lambda line: re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", " ".join(tokens(line)))
        moses += [{"language": language, "text": line, "tokens": tokens(line)} for line in STRINGS + text if not CJK.search(line)]
        for name, hyps, refs in corpora():
            if name == "strings":
                continue
            bleu = BLEU(tokenize="none", smooth_method="none", force=True)
            wmt.append({"language": language} | scored(name, hyps, refs, bleu, atat))
    write("moses.json", moses)
    write("wmt.json", wmt)


if __name__ == "__main__":
    main()
