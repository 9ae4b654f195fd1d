//! Corpus BLEU (Papineni et al. 2002) against one reference a sentence.
//!
//! With [`Tokenization::ThirteenA`] it is sacreBLEU 2.x's default (mixed case, exponential smoothing, all four orders
//! counted), and with [`Tokenization::Chinese`] and [`Tokenization::Characters`] its `zh` and `char`: equal to it within
//! rounding on `tests/fixtures/bleu`. With [`Tokenization::WmtTokenized`] it is the
//! customary tokenized BLEU of WMT'14 papers, scored as `multi-bleu.perl` does: no smoothing, so that a corpus without a
//! common 4-gram has 0.

use super::ngrams;
pub use super::tokenize::{Language, Tokenization};

/// The longest n-grams that are compared.
pub const MAX_ORDER: usize = 4;

/// BLEU of a corpus, and what it was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Bleu {
    /// BLEU, 0 to 100.
    pub score: f64,
    /// Precision of n-grams of 1 to 4 words, in percent, smoothed where the signature says so.
    pub precisions: [f64; MAX_ORDER],
    /// exp(1 − reference length / hypothesis length) for hypotheses shorter than the references, else 1; 0 for empty ones.
    pub brevity_penalty: f64,
    /// Words of all hypotheses.
    pub hyp_len: usize,
    /// Words of all references.
    pub ref_len: usize,
    /// Words of the longest reference.
    pub longest_reference: usize,
    /// How it was computed, in sacreBLEU's form.
    pub signature: String,
}

impl Bleu {
    /// The score; `None` where no reference has four words, since then no hypothesis can have a 4-gram in common with any,
    /// and sacreBLEU gives 0 to a perfect one too.
    pub fn defined(&self) -> Option<f64> {
        (self.longest_reference >= MAX_ORDER).then_some(self.score)
    }
}

/// Hypotheses and references can't be paired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("BLEU compares line by line, but there are {hyps} hypotheses and {refs} references")]
pub struct UnequalCounts {
    /// Number of hypotheses.
    pub hyps: usize,
    /// Number of references.
    pub refs: usize,
}

/// What is done about orders without a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Smoothing {
    /// Their precisions are 1/2, 1/4, … of one match.
    Exponential,
    None,
}

/// BLEU of `hyps` (one detokenized sentence each) against `refs`, sentence by sentence.
///
/// # Errors
/// Different numbers of hypotheses and references.
pub fn corpus_bleu(hyps: &[String], refs: &[String], tokenization: &Tokenization) -> Result<Bleu, UnequalCounts> {
    if hyps.len() != refs.len() {
        return Err(UnequalCounts { hyps: hyps.len(), refs: refs.len() });
    }
    let mut counts = Counts::default();
    for (hyp, reference) in hyps.iter().zip(refs) {
        counts.add(&tokenization.words(hyp), &tokenization.words(reference));
    }
    let smoothing = match tokenization {
        Tokenization::WmtTokenized(_) => Smoothing::None,
        _ => Smoothing::Exponential,
    };
    Ok(counts.score(smoothing, signature(tokenization)))
}

/// How [`corpus_bleu`] computes BLEU, in sacreBLEU's form; the version is ours, which equals sacreBLEU 2.x.
pub fn signature(tokenization: &Tokenization) -> String {
    let tokens = tokenization.name();
    let smoothing = if matches!(tokenization, Tokenization::WmtTokenized(_)) { "none" } else { "exp" };
    let version = env!("CARGO_PKG_VERSION");
    format!("nrefs:1|case:mixed|eff:no|tok:{tokens}|smooth:{smoothing}|version:synthesizer-{version}")
}

/// Matches over a corpus, index n−1 for n-grams.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) matches: [u64; MAX_ORDER],
    pub(super) totals: [u64; MAX_ORDER],
    pub(super) hyp_len: usize,
    pub(super) ref_len: usize,
    pub(super) longest_reference: usize,
}

impl Counts {
    /// Adds the words of a hypothesis and of its reference.
    pub(super) fn add(&mut self, hyp: &[String], reference: &[String]) {
        self.hyp_len += hyp.len();
        self.ref_len += reference.len();
        self.longest_reference = self.longest_reference.max(reference.len());
        for order in 1..=MAX_ORDER {
            self.totals[order - 1] += ngrams::total(hyp.len(), order) as u64;
            self.matches[order - 1] += ngrams::matches(hyp, reference, order);
        }
    }

    fn score(&self, smoothing: Smoothing, signature: String) -> Bleu {
        let brevity_penalty = match (self.hyp_len, self.ref_len) {
            (hyp, reference) if hyp >= reference => 1.0,
            (0, _) => 0.0,
            (hyp, reference) => (1.0 - reference as f64 / hyp as f64).exp(),
        };
        let mut precisions = [0.0; MAX_ORDER];
        // Without any match nothing is smoothed either.
        if self.matches.iter().any(|&count| count > 0) {
            let mut divisor = 1.0;
            for ((precision, &matches), &total) in precisions.iter_mut().zip(&self.matches).zip(&self.totals) {
                if total == 0 {
                    break;
                }
                if matches > 0 {
                    *precision = 100.0 * matches as f64 / total as f64;
                } else if smoothing == Smoothing::Exponential {
                    divisor *= 2.0;
                    *precision = 100.0 / (divisor * total as f64);
                }
            }
        }
        let score = if precisions.contains(&0.0) {
            0.0
        } else {
            let mean_log = precisions.iter().map(|precision: &f64| precision.ln()).sum::<f64>() / MAX_ORDER as f64;
            brevity_penalty * mean_log.exp()
        };
        let Counts { hyp_len, ref_len, longest_reference, .. } = *self;
        Bleu { score, precisions, brevity_penalty, hyp_len, ref_len, longest_reference, signature }
    }
}
