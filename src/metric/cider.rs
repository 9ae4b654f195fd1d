//! CIDEr-D (Vedantam et al. 2015, arXiv 1411.5726) of replies, as pycocoevalcap 1.2's `Cider` computes it (that package, and
//! nlg-eval with it, prints CIDEr-D as "CIDEr"). Equal to it within rounding on `tests/fixtures/caption`.
//!
//! An n-gram weighs tf·(ln N − ln max(df, 1)): tf how often the text has it, df how many of the N references have it.
//! For each order n = 1…4, with the weights g of the hypothesis and r of the reference:
//!
//! CIDEr-D_n = 10 · e^(−δ²/(2·6²)) · Σ min(g, r)·r / (|g|·|r|), and their mean is the score of a pair.
//!
//! δ is the difference in length, which the package counts in pairs of words. The document frequencies are those of the
//! references of the set itself, so a pair's score depends on the others. In a set of one pair, and in one whose references
//! all have the same n-grams, every weight is 0: CIDEr is undefined there, although the package gives 0.
//!
//! **Scale.** The package gives 0 to 10. [`Cider::score`] is 100 times that, 0 to 1000: the paper's 18.94 is 0.1894 there.

use super::bleu::MAX_ORDER;
use super::ngrams;
use super::tokenize::Tokenization;
use std::collections::HashMap;

const SIGMA: f64 = 6.0;

/// CIDEr-D of a corpus. The words of all pairs are kept in memory, as numbers, until the score is asked for.
#[derive(Debug, Default)]
pub struct Cider {
    words: HashMap<String, u32>,
    pairs: Vec<(Vec<u32>, Vec<u32>)>,
}

impl Cider {
    /// Adds the words of a hypothesis and of its reference.
    pub fn add(&mut self, hypothesis: &[String], reference: &[String]) {
        let pair = (self.numbers(hypothesis), self.numbers(reference));
        self.pairs.push(pair);
    }

    /// The mean over all pairs, 0 to 1000 (100 times the package's); `None` where no n-gram of a reference has a weight.
    pub fn score(&self) -> Option<f64> {
        let pairs = self.pairs.len() as u64;
        if self.document_frequencies().into_values().all(|documents| documents == pairs) {
            return None;
        }
        let scores = self.scores();
        Some(100.0 * scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// The score of each pair, 0 to 10, in the order in which they came.
    pub fn scores(&self) -> Vec<f64> {
        let document_frequency = self.document_frequencies();
        let log_count = (self.pairs.len() as f64).ln();
        let weight = |ngram: &[u32], count: u64| {
            let documents = document_frequency.get(ngram).copied().unwrap_or(1);
            count as f64 * (log_count - (documents as f64).ln())
        };
        self.pairs.iter().map(|(hypothesis, reference)| pair_score(hypothesis, reference, &weight)).collect()
    }

    /// How many references have each n-gram.
    fn document_frequencies(&self) -> HashMap<&[u32], u64> {
        let mut frequencies: HashMap<&[u32], u64> = HashMap::new();
        for (_, reference) in &self.pairs {
            for order in 1..=MAX_ORDER {
                for ngram in ngrams::counts(reference, order).into_keys() {
                    *frequencies.entry(ngram).or_default() += 1;
                }
            }
        }
        frequencies
    }

    fn numbers(&mut self, words: &[String]) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(words.len());
        for word in words {
            let next = self.words.len() as u32;
            numbers.push(match self.words.get(word) {
                Some(&number) => number,
                None => *self.words.entry(word.clone()).or_insert(next),
            });
        }
        numbers
    }
}

/// How [`Cider`] computes its score.
pub fn signature(tokenization: &Tokenization) -> String {
    format!(
        "pycocoevalcap-cider-d|nrefs:1|sigma:6|df:references|tok:{}|case:lc|scale:100|version:synthesizer-{}",
        tokenization.name(),
        env!("CARGO_PKG_VERSION")
    )
}

fn pair_score(hypothesis: &[u32], reference: &[u32], weight: &impl Fn(&[u32], u64) -> f64) -> f64 {
    let pairs = |words: &[u32]| ngrams::total(words.len(), 2) as f64;
    let delta = pairs(hypothesis) - pairs(reference);
    let sum: f64 = (1..=MAX_ORDER).map(|order| cosine(hypothesis, reference, order, weight)).sum();
    10.0 * (-delta * delta / (2.0 * SIGMA * SIGMA)).exp() * sum / MAX_ORDER as f64
}

/// Σ min(g, r)·r / (|g|·|r|) over the n-grams of one order; 0 where either text has none that weighs anything.
fn cosine(hypothesis: &[u32], reference: &[u32], order: usize, weight: &impl Fn(&[u32], u64) -> f64) -> f64 {
    let hypothesis = weights(hypothesis, order, weight);
    let reference = weights(reference, order, weight);
    let mut common = 0.0;
    for (ngram, g) in &hypothesis {
        if let Ok(place) = reference.binary_search_by_key(ngram, |(ngram, _)| *ngram) {
            let r = reference[place].1;
            common += g.min(r) * r;
        }
    }
    let norm = |weights: &[(&[u32], f64)]| weights.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
    match norm(&hypothesis) * norm(&reference) {
        0.0 => 0.0,
        norms => common / norms,
    }
}

/// The weight of each n-gram, sorted by n-gram so that sums don't depend on the order of a hash table.
fn weights<'a>(words: &'a [u32], order: usize, weight: &impl Fn(&[u32], u64) -> f64) -> Vec<(&'a [u32], f64)> {
    let counts = ngrams::counts(words, order);
    let mut weights: Vec<_> = counts.into_iter().map(|(ngram, count)| (ngram, weight(ngram, count))).collect();
    weights.sort_unstable_by_key(|(ngram, _)| *ngram);
    weights
}
