//! ROUGE (Lin 2004) of summaries: F1 of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum against one reference, as Google's
//! rouge-score 0.1.2 computes them with `use_stemmer=True`. Equal to it within rounding on `tests/fixtures/rouge`.
//!
//! **Words.** The text in lower case, cut at everything but `a` to `z` and `0` to `9`; words of more than three letters
//! are stemmed ([`super::porter`]). Text in another script has no words: [`Words::Unicode`] is for that, as rouge-score
//! computes ROUGE with a tokenizer that is passed to it.
//!
//! **Scores.** ROUGE-N: common n-grams, each counted as often as in the text that has fewer. ROUGE-L: the longest common
//! subsequence of all words, line ends or not. ROUGE-Lsum: for each line of the reference the union of its longest common
//! subsequences with the lines of the hypothesis, no word of the hypothesis counted twice. It is what the ROUGE-1.5.5 script
//! calls ROUGE-L of a summary with one sentence a line. Of a corpus: the mean over its pairs.

use super::mean::Mean;
use super::script::{constant, UNSPACED};
use super::{lcs, ngrams, porter};
use regex::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;

/// How texts are split into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Words {
    /// rouge-score's own: runs of `a` to `z` and `0` to `9`, stemmed.
    #[default]
    Latin,
    /// Runs of letters, marks and digits of any script, not stemmed. A letter of a script that is written without blanks is
    /// a word, with the marks after it.
    Unicode,
}

static UNICODE_WORD: LazyLock<Regex> =
    LazyLock::new(|| constant(&format!(r"[{UNSPACED}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]+")));

impl Words {
    /// Whether a lower-case letter can be part of a word.
    pub fn keep(self, letter: char) -> bool {
        match self {
            Words::Latin => matches!(letter, 'a'..='z' | '0'..='9'),
            Words::Unicode => UNICODE_WORD.is_match(letter.encode_utf8(&mut [0; 4])),
        }
    }
}

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
    words: Words,
    /// Words of the longest reference.
    longest: usize,
    vocabulary: Vocabulary,
    means: [Mean; 4],
}

impl Rouge {
    /// Over words that are found this way.
    pub fn over(words: Words) -> Rouge {
        Rouge { words, ..Rouge::default() }
    }

    /// Adds a hypothesis and its reference, whose sentences are lines, and returns their own scores. All are 0 where either
    /// has no word, also where both have none.
    pub fn add(&mut self, hypothesis: &str, reference: &str) -> RougeScores {
        let hypothesis_lines = self.vocabulary.lines(hypothesis, self.words);
        let reference_lines = self.vocabulary.lines(reference, self.words);
        let (hypothesis, reference) = (hypothesis_lines.concat(), reference_lines.concat());
        self.longest = self.longest.max(reference.len());
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

    /// The means over all pairs. A score is undefined, and `None`, where no reference has a word, or for ROUGE-2 no pair of
    /// words: it is 0 there whatever the hypotheses are.
    pub fn means(&self) -> [Option<f64>; 4] {
        let needed = [1, 2, 1, 1];
        let mut means = self.means.iter().zip(needed);
        std::array::from_fn(|_| {
            let (mean, needed) = means.next()?;
            mean.percent().filter(|_| self.longest >= needed)
        })
    }
}

/// How [`Rouge`] computes its scores.
pub fn signature(words: Words) -> String {
    let words = match words {
        Words::Latin => "stem:porter-nltk",
        Words::Unicode => "tok:unicode|stem:none",
    };
    format!("rouge-score|f1|{words}|agg:mean|version:synthesizer-{}", env!("CARGO_PKG_VERSION"))
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
    fn lines(&mut self, text: &str, words: Words) -> Vec<Vec<u32>> {
        text.split('\n').map(|line| self.line(line, words)).collect()
    }

    fn line(&mut self, line: &str, words: Words) -> Vec<u32> {
        let line = line.to_lowercase();
        match words {
            Words::Latin => {
                let words = line.split(|letter| !words.keep(letter)).filter(|word| !word.is_empty());
                words.filter_map(|word| self.number(word, true)).collect()
            }
            Words::Unicode => {
                UNICODE_WORD.find_iter(&line).filter_map(|word| self.number(word.as_str(), false)).collect()
            }
        }
    }

    fn number(&mut self, word: &str, stemmed: bool) -> Option<u32> {
        if let Some(&number) = self.words.get(word) {
            return number;
        }
        let stem = if stemmed && word.len() > 3 { porter::stem(word) } else { word.to_owned() };
        let next = self.stems.len() as u32;
        let number = (!stem.is_empty()).then(|| *self.stems.entry(stem).or_insert(next));
        self.words.insert(word.to_owned(), number);
        number
    }
}
