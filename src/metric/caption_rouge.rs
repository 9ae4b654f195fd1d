//! ROUGE-L of replies, as the COCO caption evaluation computes it (pycocoevalcap 1.2, also inside nlg-eval): the mean over
//! pairs of F = (1 + β²)·P·R / (R + β²·P) with β = 1.2, P and R the longest common subsequence over the words of the
//! hypothesis and of the reference. Equal to the package within rounding on `tests/fixtures/caption`.
//!
//! The paper's dialogue columns are those of nlg-eval, so its ROUGE-L is this one and not that of summaries
//! ([`super::rouge`]): recall weighs more, nothing is stemmed, and punctuation marks are words. An empty hypothesis or
//! reference has 0; the package sees an empty text as one word and gives two of them 1.

use super::lcs;
use super::mean::Mean;
use super::tokenize::Tokenization;

const BETA: f64 = 1.2;

/// ROUGE-L of a corpus, pair by pair.
#[derive(Debug, Default)]
pub struct CaptionRougeL {
    mean: Mean,
    /// Whether any reference has a word.
    any_word: bool,
}

impl CaptionRougeL {
    /// Adds the words of a hypothesis and of its reference; their own score, 0 to 1.
    pub fn add(&mut self, hypothesis: &[String], reference: &[String]) -> f64 {
        let score = match lcs::length(hypothesis, reference) as f64 {
            0.0 => 0.0,
            common => {
                let (precision, recall) = (common / hypothesis.len() as f64, common / reference.len() as f64);
                (1.0 + BETA * BETA) * precision * recall / (recall + BETA * BETA * precision)
            }
        };
        self.mean.add(score);
        self.any_word |= !reference.is_empty();
        score
    }

    /// The mean over all pairs, 0 to 100; `None` where no reference has a word.
    pub fn score(&self) -> Option<f64> {
        self.mean.percent().filter(|_| self.any_word)
    }
}

/// How [`CaptionRougeL`] computes its score.
pub fn signature(tokenization: &Tokenization) -> String {
    format!(
        "pycocoevalcap-rouge-l|beta:1.2|tok:{}|case:lc|agg:mean|version:synthesizer-{}",
        tokenization.name(),
        env!("CARGO_PKG_VERSION")
    )
}
