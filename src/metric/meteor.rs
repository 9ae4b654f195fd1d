//! METEOR (Banerjee and Lavie 2005, parameters of Lavie and Agarwal 2007) without WordNet, as NLTK 3.10's
//! `meteor_score` computes it where WordNet knows no synonym. Equal to it within rounding on `tests/fixtures/meteor`.
//!
//! **Alignment.** From the last word of the hypothesis to the first each takes the last free equal word of the reference;
//! then those left over do so by their Porter stems ([`super::porter`]). **Score.** m aligned words, P = m/hypothesis,
//! R = m/reference, F = P·R/(α·P + (1 − α)·R), penalty = γ·(chunks/m)^β, score = F·(1 − penalty); α 0.9, β 3, γ 0.5.
//! A chunk is a run of words that are neighbours in both texts. Of a corpus: the mean over its pairs.
//!
//! **Differences.** With WordNet NLTK also aligns synonyms, so this score is a little lower. METEOR 1.5 (the Java program
//! that nlg-eval and COCO run) aligns paraphrases as well, looks for the alignment with the fewest chunks, weighs content
//! words above function words, has other parameters (α 0.85, β 0.2, γ 0.6) and scores a corpus from its summed counts:
//! figures of the two can't be compared.

use super::mean::Mean;
use super::porter;
use super::tokenize::Tokenization;
use std::collections::HashMap;

const ALPHA: f64 = 0.9;
const BETA: i32 = 3;
const GAMMA: f64 = 0.5;

/// METEOR of a corpus, pair by pair.
#[derive(Debug, Default)]
pub struct Meteor {
    mean: Mean,
    /// Whether any reference has a word.
    any_word: bool,
}

impl Meteor {
    /// Adds the words of a hypothesis and of its reference, in any case; their own score, 0 to 1. It is 0 where nothing is
    /// aligned.
    pub fn add(&mut self, hypothesis: &[String], reference: &[String]) -> f64 {
        let score = score(hypothesis, reference);
        self.mean.add(score);
        self.any_word |= !reference.is_empty();
        score
    }

    /// The mean over all pairs, 0 to 100; `None` where no reference has a word.
    pub fn score(&self) -> Option<f64> {
        self.mean.percent().filter(|_| self.any_word)
    }
}

/// How [`Meteor`] computes its score.
pub fn signature(tokenization: &Tokenization) -> String {
    format!(
        "nltk-meteor|exact+porter|wordnet:none|alpha:0.9|beta:3|gamma:0.5|tok:{}|case:lc|agg:mean|version:synthesizer-{}",
        tokenization.name(),
        env!("CARGO_PKG_VERSION")
    )
}

fn score(hypothesis: &[String], reference: &[String]) -> f64 {
    let lower = |words: &[String]| words.iter().map(|word| word.to_lowercase()).collect::<Vec<String>>();
    let stems = |words: &[String]| words.iter().map(|word| porter::stem(word)).collect::<Vec<String>>();
    let (hypothesis, reference) = (lower(hypothesis), lower(reference));
    let mut aligned = vec![None; hypothesis.len()];
    let mut free = vec![true; reference.len()];
    align(&hypothesis, &reference, &mut aligned, &mut free);
    align(&stems(&hypothesis), &stems(&reference), &mut aligned, &mut free);

    let places: Vec<(usize, usize)> =
        aligned.iter().enumerate().filter_map(|(i, place)| place.map(|j| (i, j))).collect();
    if places.is_empty() {
        return 0.0;
    }
    let breaks = places.windows(2).filter(|pair| pair[1] != (pair[0].0 + 1, pair[0].1 + 1)).count();
    let (matches, chunks) = (places.len() as f64, (breaks + 1) as f64);
    let (precision, recall) = (matches / hypothesis.len() as f64, matches / reference.len() as f64);
    let mean = precision * recall / (ALPHA * precision + (1.0 - ALPHA) * recall);
    (1.0 - GAMMA * (chunks / matches).powi(BETA)) * mean
}

/// Gives each unaligned word of the hypothesis, from the last on, the last free equal word of the reference.
fn align(hypothesis: &[String], reference: &[String], aligned: &mut [Option<usize>], free: &mut [bool]) {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, word) in reference.iter().enumerate().filter(|(place, _)| free[*place]) {
        places.entry(word).or_default().push(place);
    }
    for (word, aligned) in hypothesis.iter().zip(aligned).rev().filter(|(_, aligned)| aligned.is_none()) {
        *aligned = places.get_mut(word.as_str()).and_then(Vec::pop);
        if let Some(place) = *aligned {
            free[place] = false;
        }
    }
}
