//! ROUGE (Lin 2004) of summaries: F1 of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum against one reference, as Google's
//! rouge-score 0.1.2 computes them with `use_stemmer=True`. Equal to it within rounding on `tests/fixtures/rouge`.
//!
//! **Words.** The text in lower case, cut at everything but `a` to `z` and `0` to `9`; words of more than three letters
//! are stemmed ([`super::porter`]). Text in another script has no words.
//!
//! **Scores.** ROUGE-N: common n-grams, each counted as often as in the text that has fewer. ROUGE-L: the longest common
//! subsequence of all words, line ends or not. ROUGE-Lsum: for each line of the reference the union of its longest common
//! subsequences with the lines of the hypothesis, no word of the hypothesis counted twice. It is what the ROUGE-1.5.5 script
//! calls ROUGE-L of a summary with one sentence a line. Of a corpus: the mean over its pairs.

use super::mean::Mean;
use super::{lcs, ngrams, porter};
use std::collections::HashMap;

/// F1 of one pair or means of them, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RougeScores {
    /// Of words.
    pub rouge1: f64,
    /// Of pairs of words.
    pub rouge2: f64,
    /// Of the longest common subsequence.
    pub rougel: f64,
    /// Of the union of the longest common subsequences, line by line.
    pub rougelsum: f64,
}

/// ROUGE of a corpus, pair by pair. Only the vocabulary is kept in memory.
#[derive(Debug, Default)]
pub struct Rouge {
    vocabulary: Vocabulary,
    means: [Mean; 4],
}

impl Rouge {
    /// Adds a hypothesis and its reference, whose sentences are lines, and returns their own scores. All are 0 where either
    /// has no word, also where both have none.
    pub fn add(&mut self, hypothesis: &str, reference: &str) -> RougeScores {
        let hypothesis_lines = self.vocabulary.lines(hypothesis);
        let reference_lines = self.vocabulary.lines(reference);
        let (hypothesis, reference) = (hypothesis_lines.concat(), reference_lines.concat());
        let of_ngrams = |order| {
            let matches = ngrams::matches(&hypothesis, &reference, order) as usize;
            f1(matches, ngrams::total(hypothesis.len(), order), ngrams::total(reference.len(), order))
        };
        let of_words = |matches| f1(matches, hypothesis.len(), reference.len());
        let scores = [
            of_ngrams(1),
            of_ngrams(2),
            of_words(lcs::length(&hypothesis, &reference)),
            of_words(union_matches(&hypothesis_lines, &reference_lines)),
        ];
        for (mean, score) in self.means.iter_mut().zip(scores) {
            mean.add(score);
        }
        percent(scores.map(|score| 100.0 * score))
    }

    /// The means over all pairs; 0 where there were none.
    pub fn mean(&self) -> RougeScores {
        percent(self.means.map(Mean::percent))
    }
}

/// How [`Rouge`] computes its scores.
pub fn signature() -> String {
    format!("rouge-score|f1|stem:porter-nltk|agg:mean|version:synthesizer-{}", env!("CARGO_PKG_VERSION"))
}

fn percent([rouge1, rouge2, rougel, rougelsum]: [f64; 4]) -> RougeScores {
    RougeScores { rouge1, rouge2, rougel, rougelsum }
}

/// The harmonic mean of matches/hypothesis and matches/reference.
fn f1(matches: usize, hypothesis: usize, reference: usize) -> f64 {
    if matches == 0 {
        return 0.0;
    }
    let (precision, recall) = (matches as f64 / hypothesis as f64, matches as f64 / reference as f64);
    2.0 * precision * recall / (precision + recall)
}

/// Words of the reference that belong to a union of longest common subsequences.
fn union_matches(hypothesis: &[Vec<u32>], reference: &[Vec<u32>]) -> usize {
    let mut left: HashMap<u32, usize> = HashMap::new();
    for &word in hypothesis.iter().flatten() {
        *left.entry(word).or_default() += 1;
    }
    let mut matches = 0;
    for line in reference {
        let mut common = vec![false; line.len()];
        for other in hypothesis {
            for place in lcs::positions(line, other) {
                common[place] = true;
            }
        }
        for (word, _) in line.iter().zip(common).filter(|(_, common)| *common) {
            if let Some(left @ 1..) = left.get_mut(word) {
                *left -= 1;
                matches += 1;
            }
        }
    }
    matches
}

/// Numbers of stems, and the stems of words that were seen.
#[derive(Debug, Default)]
struct Vocabulary {
    /// None for a word of which nothing is left.
    words: HashMap<String, Option<u32>>,
    stems: HashMap<String, u32>,
}

impl Vocabulary {
    /// The stems of each line.
    fn lines(&mut self, text: &str) -> Vec<Vec<u32>> {
        text.split('\n').map(|line| self.line(line)).collect()
    }

    fn line(&mut self, line: &str) -> Vec<u32> {
        let line = line.to_lowercase();
        let words = line.split(|c: char| !matches!(c, 'a'..='z' | '0'..='9')).filter(|word| !word.is_empty());
        words.filter_map(|word| self.number(word)).collect()
    }

    fn number(&mut self, word: &str) -> Option<u32> {
        if let Some(&number) = self.words.get(word) {
            return number;
        }
        let stem = if word.len() > 3 { porter::stem(word) } else { word.to_owned() };
        let next = self.stems.len() as u32;
        let number = (!stem.is_empty()).then(|| *self.stems.entry(stem).or_insert(next));
        self.words.insert(word.to_owned(), number);
        number
    }
}
