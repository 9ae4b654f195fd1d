//! ROUGE and Porter's stemmer against rouge-score 0.1.2 and NLTK 3.10.4: `scripts/make_text_metric_fixtures.py`.

use serde::Deserialize;
use synthesizer::metric::porter;
use synthesizer::metric::rouge::{signature, Rouge, RougeScores, Words};

#[derive(Deserialize)]
struct Word {
    word: String,
    stem: String,
}

#[derive(Deserialize)]
struct Pairs {
    pairs: Vec<Pair>,
    mean: F1,
}

#[derive(Deserialize)]
struct Pair {
    hypothesis: String,
    reference: String,
    #[serde(flatten)]
    f1: F1,
}

/// 0 to 1, as the package gives them.
#[derive(Debug, Deserialize)]
struct F1 {
    rouge1: f64,
    rouge2: f64,
    rougel: f64,
    rougelsum: f64,
}

const WORDS: &str = include_str!("fixtures/rouge/words.json");
const PAIRS: &str = include_str!("fixtures/rouge/pairs.json");

fn assert_same(got: &RougeScores, expected: &F1, what: &str) {
    let got = [got.rouge1, got.rouge2, got.rougel, got.rougelsum];
    let expected = [expected.rouge1, expected.rouge2, expected.rougel, expected.rougelsum];
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - 100.0 * expected).abs() < 1e-9, "{what}: {got:?}, expected {expected:?}");
    }
}

#[test]
fn stems_are_nltks() {
    let words: Vec<Word> = serde_json::from_str(WORDS).unwrap();
    assert!(words.len() > 1500);
    let wrong: Vec<String> = (words.iter().map(|word| (word, porter::stem(&word.word))))
        .filter(|(word, stem)| word.stem != *stem)
        .map(|(word, stem)| format!("{} -> {stem}, expected {}", word.word, word.stem))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn scores_are_rouge_scores() {
    let Pairs { pairs, mean } = serde_json::from_str(PAIRS).unwrap();
    assert!(pairs.len() >= 40);
    let mut rouge = Rouge::default();
    for pair in &pairs {
        let got = rouge.add(&pair.hypothesis, &pair.reference);
        assert_same(&got, &pair.f1, &format!("{:?} against {:?}", pair.hypothesis, pair.reference));
    }
    for (got, expected) in rouge.means().into_iter().zip([mean.rouge1, mean.rouge2, mean.rougel, mean.rougelsum]) {
        assert!((got.unwrap() - 100.0 * expected).abs() < 1e-9, "{got:?}, expected {expected}");
    }
}

/// The reference `a b c d`, the hypothesis `a c b e f` (words of one letter have no stem): 3 of 5 and 4 words, no pair, a
/// subsequence of 2.
#[test]
fn a_score_by_hand() {
    let got = Rouge::default().add("a c b e f", "a b c d");
    assert_same(&got, &F1 { rouge1: 6.0 / 9.0, rouge2: 0.0, rougel: 4.0 / 9.0, rougelsum: 4.0 / 9.0 }, "by hand");
    // Lin 2004, section 3.2: w1 w2 and w1 w3 w5 of w1 w2 w3 w4 w5 make a union of 4.
    let got = Rouge::default().add("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5");
    assert!((got.rougelsum - 100.0 * 2.0 * (4.0 / 10.0) * (4.0 / 5.0) / (4.0 / 10.0 + 4.0 / 5.0)).abs() < 1e-9);
}

#[test]
fn words_of_any_script_are_rouge_scores_with_a_tokenizer() {
    let pairs: Vec<Pair> = serde_json::from_str(include_str!("fixtures/rouge/unicode.json")).unwrap();
    assert!(pairs.len() >= 50);
    for pair in &pairs {
        let got = Rouge::over(Words::Unicode).add(&pair.hypothesis, &pair.reference);
        assert_same(&got, &pair.f1, &format!("{:?} against {:?}", pair.hypothesis, pair.reference));
    }
}

#[test]
fn what_no_hypothesis_can_reach_has_no_mean() {
    assert_eq!(Rouge::default().means(), [None; 4]);
    for reference in ["", "?!", "नमस्ते", "１２"] {
        let mut rouge = Rouge::default();
        let nothing = F1 { rouge1: 0.0, rouge2: 0.0, rougel: 0.0, rougelsum: 0.0 };
        assert_same(&rouge.add(reference, reference), &nothing, "no word");
        assert_eq!(rouge.means(), [None; 4], "{reference:?}");
    }
    let mut rouge = Rouge::default();
    rouge.add("yes", "yes");
    rouge.add("yes", "no");
    assert_eq!(rouge.means(), [Some(50.0), None, Some(50.0), Some(50.0)]);
}

#[test]
fn signatures_tell_words_of_any_script_apart() {
    assert!(signature(Words::Latin).starts_with("rouge-score|f1|stem:porter-nltk|agg:mean|"));
    assert!(signature(Words::Unicode).starts_with("rouge-score|f1|tok:unicode|stem:none|agg:mean|"));
}
