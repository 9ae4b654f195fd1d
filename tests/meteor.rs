//! METEOR against NLTK 3.10.4 with a WordNet that knows no synonym: `scripts/make_text_metric_fixtures.py`.

use serde::Deserialize;
use synthesizer::metric::meteor::{signature, Meteor};
use synthesizer::metric::tokenize::Tokenization;

#[derive(Deserialize)]
struct Pair {
    hypothesis: Vec<String>,
    reference: Vec<String>,
    score: f64,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn scores_are_nltks() {
    let pairs: Vec<Pair> = serde_json::from_str(include_str!("fixtures/meteor/pairs.json")).unwrap();
    assert!(pairs.len() > 100);
    let (mut meteor, mut sum) = (Meteor::default(), 0.0);
    for Pair { hypothesis, reference, score } in &pairs {
        let got = meteor.add(hypothesis, reference);
        assert!((got - score).abs() < 1e-12, "{hypothesis:?} against {reference:?}: {got}, expected {score}");
        sum += score;
    }
    assert!((meteor.score().unwrap() - 100.0 * sum / pairs.len() as f64).abs() < 1e-9);
}

/// Three of four words in two chunks: `the sea`, and `swims` by its stem; the reference has five words.
#[test]
fn a_score_by_hand() {
    let got = Meteor::default().add(&words("The sea he swims"), &words("the sea where she swimming"));
    let (precision, recall) = (3.0 / 4.0, 3.0 / 5.0);
    let mean = precision * recall / (0.9 * precision + 0.1 * recall);
    let penalty = 0.5 * (2.0f64 / 3.0).powi(3);
    assert!((got - mean * (1.0 - penalty)).abs() < 1e-12, "{got}");
}

#[test]
fn nothing_in_common_is_zero_and_a_synonym_is_nothing_in_common() {
    assert_eq!(Meteor::default().score(), None);
    let mut meteor = Meteor::default();
    for (hypothesis, reference) in [("", ""), ("a", "")] {
        assert_eq!(meteor.add(&words(hypothesis), &words(reference)), 0.0, "{hypothesis} {reference}");
    }
    assert_eq!(meteor.score(), None, "no reference has a word");
    for (hypothesis, reference) in [("", "a"), ("lorry", "truck")] {
        assert_eq!(meteor.add(&words(hypothesis), &words(reference)), 0.0, "{hypothesis} {reference}");
    }
    assert_eq!(meteor.score(), Some(0.0));
    assert!(signature(&Tokenization::ThirteenA).contains("|wordnet:none|"));
}
