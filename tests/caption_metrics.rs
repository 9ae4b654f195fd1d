//! Corpus BLEU, ROUGE-L and CIDEr-D of replies against pycocoevalcap 1.2: `scripts/make_text_metric_fixtures.py`.

use serde::Deserialize;
use synthesizer::metric::caption_bleu::{self, CaptionBleu};
use synthesizer::metric::caption_rouge::{self, CaptionRougeL};
use synthesizer::metric::cider::{self, Cider};
use synthesizer::metric::meteor;
use synthesizer::metric::tokenize::{lower_case_words, Tokenization};

/// Texts whose words stand between blanks, and their scores as the package gives them.
#[derive(Deserialize)]
struct Corpus {
    name: String,
    hypotheses: Vec<String>,
    references: Vec<String>,
    bleu: [f64; 4],
    rougel: f64,
    cider: f64,
    cider_each: Vec<f64>,
}

impl Corpus {
    fn pairs(&self) -> impl Iterator<Item = (Vec<String>, Vec<String>)> + '_ {
        assert_eq!(self.hypotheses.len(), self.references.len());
        self.hypotheses.iter().zip(&self.references).map(|(a, b)| (words(a), words(b)))
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn corpora() -> Vec<Corpus> {
    let corpora: Vec<Corpus> = serde_json::from_str(include_str!("fixtures/caption/corpora.json")).unwrap();
    assert!(corpora.len() >= 15);
    corpora
}

/// Equal within rounding, also where a score is as small as the package's constants make it.
fn assert_close(got: f64, expected: f64, what: &str) {
    assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-6), "{what}: {got}, expected {expected}");
}

#[test]
fn bleu_is_the_caption_evaluations() {
    for corpus in corpora() {
        let mut bleu = CaptionBleu::default();
        corpus.pairs().for_each(|(hypothesis, reference)| bleu.add(&hypothesis, &reference));
        for (got, expected) in bleu.scores().into_iter().zip(corpus.bleu) {
            assert_close(got, 100.0 * expected, &corpus.name);
        }
    }
}

#[test]
fn rouge_l_is_the_caption_evaluations() {
    for corpus in corpora() {
        let mut rouge = CaptionRougeL::default();
        corpus.pairs().for_each(|(hypothesis, reference)| {
            rouge.add(&hypothesis, &reference);
        });
        assert_close(rouge.score().unwrap(), 100.0 * corpus.rougel, &corpus.name);
    }
}

#[test]
fn cider_is_the_caption_evaluations_and_the_same_each_time() {
    for corpus in corpora() {
        let score = || {
            let mut cider = Cider::default();
            corpus.pairs().for_each(|(hypothesis, reference)| cider.add(&hypothesis, &reference));
            cider
        };
        let cider = score();
        assert_eq!(cider.scores().len(), corpus.cider_each.len());
        for (got, expected) in cider.scores().into_iter().zip(&corpus.cider_each) {
            assert_close(got, *expected, &corpus.name);
        }
        // the package gives 0 where nothing has a weight
        let undefined = ["one pair", "all references the same"].contains(&corpus.name.as_str());
        assert_eq!(cider.score().is_none(), undefined, "{}", corpus.name);
        assert_close(cider.score().unwrap_or(0.0), 100.0 * corpus.cider, &corpus.name);
        // bit for bit: no sum over a hash table's order
        assert_eq!(cider.score().map(f64::to_bits), score().score().map(f64::to_bits), "{}", corpus.name);
    }
}

/// 2 of 3 words and 1 of 2 pairs match, the reference has 4 words; the common subsequence is `the sea`.
#[test]
fn scores_by_hand() {
    let (hypothesis, reference) = (words("the sea now"), words("see the sea there"));
    let mut bleu = CaptionBleu::default();
    bleu.add(&hypothesis, &reference);
    let penalty = (1.0f64 - 4.0 / 3.0).exp();
    let [bleu1, bleu2, ..] = bleu.scores();
    assert!((bleu1 - 100.0 * penalty * 2.0 / 3.0).abs() < 1e-6, "{bleu1}");
    assert!((bleu2 - 100.0 * penalty * (2.0f64 / 3.0 * 1.0 / 2.0).sqrt()).abs() < 1e-6, "{bleu2}");

    let (precision, recall) = (2.0 / 3.0, 2.0 / 4.0);
    let expected = 2.44 * precision * recall / (recall + 1.44 * precision);
    assert!((CaptionRougeL::default().add(&hypothesis, &reference) - expected).abs() < 1e-12);

    // Of two references each has one word that the other lacks (weight ln 2) and one that both have (weight 0).
    let mut cider = Cider::default();
    cider.add(&words("blue"), &words("blue sea"));
    cider.add(&words("sea"), &words("green sea"));
    // One word alone: unigrams are parallel, pairs are missing; δ is 1 pair.
    let expected = 10.0 * (-1.0f64 / 72.0).exp() / 4.0;
    assert!((cider.scores()[0] - expected).abs() < 1e-12 && cider.scores()[1] == 0.0, "{:?}", cider.scores());
    assert!((cider.score().unwrap() - 100.0 * expected / 2.0).abs() < 1e-9);
}

#[test]
fn scores_that_nothing_can_reach_are_undefined_and_never_zero_or_nan() {
    assert_eq!(CaptionBleu::default().scores(), [0.0; 4]);
    assert_eq!(CaptionBleu::default().defined(), [None; 4]);
    assert_eq!((CaptionRougeL::default().score(), Cider::default().score()), (None, None));
    let scores = |pairs: &[(&str, &str)]| {
        let (mut bleu, mut rouge, mut cider) = (CaptionBleu::default(), CaptionRougeL::default(), Cider::default());
        for (hypothesis, reference) in pairs {
            bleu.add(&words(hypothesis), &words(reference));
            rouge.add(&words(hypothesis), &words(reference));
            cider.add(&words(hypothesis), &words(reference));
        }
        let [bleu1, .., bleu4] = bleu.defined();
        [bleu1, bleu4, rouge.score(), cider.score()]
    };
    // no reference has a word; empty hypotheses alone have 0
    assert_eq!(scores(&[("", ""), ("a b", "")]), [None; 4]);
    let [bleu1, bleu4, rouge, cider] = scores(&[("", "a b c d"), ("", "e f")]);
    assert!(bleu1.unwrap() < 1e-6 && bleu4.unwrap() < 1e-6);
    assert_eq!((rouge, cider), (Some(0.0), Some(0.0)));
    // one exchange has no document frequencies, and three words no 4-gram
    let [bleu1, bleu4, rouge, cider] = scores(&[("so it is", "so it is")]);
    assert_close(bleu1.unwrap(), 100.0, "BLEU-1");
    assert_eq!((bleu4, rouge, cider), (None, Some(100.0), None));
    // the same n-grams in all references, in another order of rows
    assert_eq!(scores(&[("a b", "a b"), ("c", "a b")])[3], None);
    assert!(scores(&[("a b", "a b"), ("c", "a c")])[3].is_some());
}

#[test]
fn replies_are_compared_in_lower_case_and_marks_stand_alone() {
    let plain = Tokenization::ThirteenA;
    assert_eq!(lower_case_words("Hello, I'm FINE... you?", &plain).join(" "), "hello , i'm fine . . . you ?");
    assert_eq!(lower_case_words("i like to remodel homes .", &plain), words("i like to remodel homes ."));
    assert_eq!(lower_case_words("你好，Anna。", &Tokenization::Chinese).join(" "), "你 好 ， anna 。");
    for (tokenization, name) in [(plain, "13a"), (Tokenization::Chinese, "zh"), (Tokenization::Characters, "char")] {
        let of = [caption_bleu::signature, caption_rouge::signature, cider::signature, meteor::signature];
        for signature in of.map(|signature| signature(&tokenization)) {
            assert!(signature.contains(&format!("|tok:{name}|case:lc|")), "{signature}");
        }
    }
}
