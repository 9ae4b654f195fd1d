//! BLEU and its tokenizations against sacreBLEU 2.6.0 and sacremoses 0.2.0: `scripts/make_bleu_fixtures.py`.

use serde::de::DeserializeOwned;
use serde::Deserialize;
use synthesizer::metric::bleu::{corpus_bleu, signature, Bleu, Language, Tokenization, UnequalCounts};

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    language: String,
    text: String,
    tokens: Vec<String>,
}

#[derive(Deserialize)]
struct Corpus {
    #[serde(default)]
    language: String,
    name: String,
    hyps: Vec<String>,
    refs: Vec<String>,
    score: f64,
    precisions: [f64; 4],
    brevity_penalty: f64,
    hyp_len: usize,
    ref_len: usize,
}

fn fixtures<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = format!("{}/tests/fixtures/bleu/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn assert_same(corpus: &Corpus, tokenization: &Tokenization) {
    let got = corpus_bleu(&corpus.hyps, &corpus.refs, tokenization).unwrap();
    let name = format!("{} {}: {got:?} but {:?}", corpus.language, corpus.name, corpus.score);
    assert_eq!((got.hyp_len, got.ref_len), (corpus.hyp_len, corpus.ref_len), "{name}");
    assert!((got.score - corpus.score).abs() < 1e-9, "{name}");
    assert!((got.brevity_penalty - corpus.brevity_penalty).abs() < 1e-9, "{name}");
    for (got, expected) in got.precisions.iter().zip(corpus.precisions) {
        assert!((got - expected).abs() < 1e-9, "{name}: precisions {:?}", corpus.precisions);
    }
}

#[test]
fn thirteen_a_tokens_are_sacrebleus() {
    let lines: Vec<Line> = fixtures("13a.json");
    assert!(lines.len() > 60);
    for line in lines {
        assert_eq!(Tokenization::ThirteenA.words(&line.text), line.tokens, "{:?}", line.text);
    }
}

#[test]
fn scores_are_sacrebleus() {
    let corpora: Vec<Corpus> = fixtures("corpora.json");
    assert!(corpora.len() >= 25);
    for corpus in corpora {
        assert_same(&corpus, &Tokenization::ThirteenA);
    }
}

/// The tokenization that sacreBLEU calls so.
fn named(name: &str) -> Tokenization {
    match name {
        "zh" => Tokenization::Chinese,
        "char" => Tokenization::Characters,
        other => panic!("{other}"),
    }
}

#[test]
fn chinese_and_characters_are_sacrebleus() {
    let lines: Vec<Line> = fixtures("other_tokens.json");
    assert!(lines.len() > 120);
    for line in lines {
        assert_eq!(named(&line.language).words(&line.text), line.tokens, "{} {:?}", line.language, line.text);
    }
    let corpora: Vec<Corpus> = fixtures("other_corpora.json");
    assert!(corpora.len() >= 18);
    for corpus in corpora {
        assert_same(&corpus, &named(&corpus.language));
    }
}

#[test]
fn the_target_language_chooses_the_words() {
    for (codes, name) in [
        ("zh zh-CN zh_TW ZH yue cmn", "zh"),
        ("ja ko th lo km my bo ja-JP jpn", "char"),
        ("en de fr ru ar hi el he tr vi cs", "13a"),
    ] {
        for code in codes.split(' ') {
            let tokenization = Tokenization::of_target(code);
            assert_eq!(tokenization.name(), name, "{code}");
            assert!(signature(&tokenization).contains(&format!("|tok:{name}|smooth:exp|")), "{code}");
        }
    }
    assert_eq!(Tokenization::of_target(""), Tokenization::ThirteenA);
    assert_eq!(Language::from_code("de-AT"), Language::German);
}

#[test]
fn bleu_is_undefined_where_no_reference_has_four_words() {
    let bleu = |hyp: &str, reference: &str| {
        corpus_bleu(&[hyp.to_owned()], &[reference.to_owned()], &Tokenization::ThirteenA).unwrap().defined()
    };
    assert_eq!((bleu("so it is", "so it is"), bleu("a b c d", ""), bleu("", "")), (None, None, None));
    assert_eq!((bleu("", "so it is now"), bleu("a b", "so it is now")), (Some(0.0), Some(0.0)));
}

#[test]
fn moses_tokens_are_sacremoses() {
    use synthesizer::metric::tokenize::moses;
    let lines: Vec<Line> = fixtures("moses.json");
    assert!(lines.len() > 100);
    for line in lines {
        let tokens = moses::tokenize(&line.text, Language::from_code(&line.language));
        let tokens: Vec<&str> = tokens.split_whitespace().collect();
        assert_eq!(tokens, line.tokens, "{} {:?}", line.language, line.text);
    }
}

#[test]
fn customary_scores_are_those_of_sacremoses_without_smoothing() {
    for corpus in fixtures::<Corpus>("wmt.json") {
        assert_same(&corpus, &Tokenization::WmtTokenized(Language::from_code(&corpus.language)));
    }
}

#[test]
fn compounds_are_split_as_in_the_papers() {
    let words = Tokenization::WmtTokenized(Language::German).words("Das rich-text-Format, a-b-c");
    let expected = "Das rich ##AT##-##AT## text ##AT##-##AT## Format , a ##AT##-##AT## b-c";
    assert_eq!(words.join(" "), expected);
}

/// 6 of 7 words, 4 of 6 pairs, 3 of 5 triples, 2 of 4 quadruples; as long as the reference.
#[test]
fn a_score_by_hand() {
    let hyp = ["the cat sat on the red mat".to_owned()];
    let reference = ["the cat sat on the mat now".to_owned()];
    let product: f64 = 6.0 / 7.0 * 4.0 / 6.0 * 3.0 / 5.0 * 2.0 / 4.0;
    let Bleu { score, precisions, .. } = corpus_bleu(&hyp, &reference, &Tokenization::ThirteenA).unwrap();
    assert!((score - 100.0 * product.powf(0.25)).abs() < 1e-9, "{score} {precisions:?}");
}

#[test]
fn unequal_numbers_of_lines_are_an_error() {
    let error = corpus_bleu(&["a".to_owned()], &[], &Tokenization::ThirteenA).unwrap_err();
    assert_eq!(error, UnequalCounts { hyps: 1, refs: 0 });
    assert!(error.to_string().contains("1 hypotheses and 0 references"));
}

#[test]
fn signatures_name_what_was_done() {
    assert_eq!(
        signature(&Tokenization::ThirteenA),
        format!("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:synthesizer-{}", env!("CARGO_PKG_VERSION"))
    );
    let customary = signature(&Tokenization::WmtTokenized(Language::German));
    assert!(customary.contains("|tok:moses-de-compounds-split|smooth:none|"), "{customary}");
}
