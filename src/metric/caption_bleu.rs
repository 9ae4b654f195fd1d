//! BLEU-1 to BLEU-4 of replies, as the COCO caption evaluation computes them (pycocoevalcap 1.2, also inside nlg-eval).
//!
//! The paper doesn't say what its dialogue columns are. Their five names are those that nlg-eval prints, so we follow it:
//! corpus level, one reference, BLEU-k = brevity penalty · (p_1 · … · p_k)^(1/k), p_n = (matches + 1e-15)/(n-grams + 1e-9).
//! Nothing is smoothed: the constants only keep a corpus without n-grams from dividing by 0. Equal to the package within
//! rounding on `tests/fixtures/caption`.
//!
//! **Differences from [`super::bleu`]** (sacreBLEU): no exponential smoothing, and each order up to 4 has a score of its own.
//! The words are the caller's; nlg-eval cuts at blanks, we give it [`super::tokenize::lower_case_words`].

use super::bleu::{Counts, MAX_ORDER};
use super::tokenize::Tokenization;

/// Keep a corpus without matches, or without words, from dividing by 0.
const TINY: f64 = 1e-15;
const SMALL: f64 = 1e-9;

/// BLEU of a corpus, pair by pair; only counts are kept in memory.
#[derive(Debug, Default)]
pub struct CaptionBleu {
    counts: Counts,
}

impl CaptionBleu {
    /// Adds the words of a hypothesis and of its reference.
    pub fn add(&mut self, hypothesis: &[String], reference: &[String]) {
        self.counts.add(hypothesis, reference);
    }

    /// BLEU-1 to BLEU-4; `None` for BLEU-k where no reference has k words. The package's constants alone make the score there.
    pub fn defined(&self) -> [Option<f64>; MAX_ORDER] {
        let scores = self.scores();
        std::array::from_fn(|order| (self.counts.longest_reference > order).then_some(scores[order]))
    }

    /// BLEU-1 to BLEU-4 as the package gives them, 0 to 100; all 0 where no hypothesis has a word.
    pub fn scores(&self) -> [f64; MAX_ORDER] {
        let ratio = (self.counts.hyp_len as f64 + TINY) / (self.counts.ref_len as f64 + SMALL);
        let penalty = if ratio < 1.0 { (1.0 - 1.0 / ratio).exp() } else { 1.0 };
        let mut product = 1.0;
        let mut scores = [0.0; MAX_ORDER];
        for (order, score) in scores.iter_mut().enumerate() {
            product *= (self.counts.matches[order] as f64 + TINY) / (self.counts.totals[order] as f64 + SMALL);
            *score = 100.0 * penalty * product.powf(1.0 / (order + 1) as f64);
        }
        scores
    }
}

/// How [`CaptionBleu`] computes its scores.
pub fn signature(tokenization: &Tokenization) -> String {
    format!(
        "pycocoevalcap-bleu|nrefs:1|tok:{}|case:lc|smooth:none|version:synthesizer-{}",
        tokenization.name(),
        env!("CARGO_PKG_VERSION")
    )
}
