//! Embedding average of replies: the cosine between the mean word vectors of hypothesis and reference, and its mean over
//! pairs, as nlg-eval's `EmbeddingAverageCosineSimilarity` (Liu et al. 2016, arXiv 1603.08023, section 3.2).
//!
//! As there a word without a vector counts as the mean of all vectors of the file. A pair without any known word thus
//! compares that mean with itself and has 1, or with the other's words. A pair in which a text has no word at all has 0
//! (nlg-eval stops with an error); so has one whose vectors cancel out.
//!
//! **Words.** nlg-eval uses GloVe (6B, 300 numbers a word, lower case) and NLTK's `word_tokenize`; [`words`] gives nearly
//! the same: 13a tokens in lower case, contractions split as GloVe has them.
//!
//! **Files.** GloVe's text form: a line a word, then its numbers, single blanks between. The number of numbers is that of the
//! first line; a word may itself hold blanks (`. . .`). A first line of two whole numbers is word2vec's header, words and
//! numbers a word. Files are of 1 to 5 GB, or compressed: they are read through, and only the vectors of words that are needed
//! stay.

use super::mean::Mean;
use super::script::Share;
use super::tokenize::{contractions, lower_case_words, Tokenization};
use crate::excerpt::excerpt_of_bytes;
use crate::input;
use anyhow::{bail, Context};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};
use std::path::Path;

/// Most bytes of a line, so that a binary file without line feeds does not fill the memory.
const LONGEST_LINE: u64 = 1 << 20;

/// The words of a text whose vectors are averaged.
pub fn words(text: &str, tokenization: &Tokenization) -> Vec<String> {
    contractions::split(&lower_case_words(text, tokenization))
}

/// Vectors of the words that are needed, and the mean of all of the file.
#[derive(Debug, Clone)]
pub struct WordVectors {
    vectors: HashMap<String, Vec<f32>>,
    mean: Vec<f64>,
}

impl WordVectors {
    /// Reads a file, and keeps the vectors of the `needed` words. Of a word that comes twice the first one counts. A compressed
    /// file is decompressed while it is read.
    ///
    /// # Errors
    /// A file that can't be read or decompressed, that has no vector or not as many as its header says, or a line that is not a word and as
    /// many finite numbers as the first; they name file and line.
    pub fn read(path: &Path, needed: &HashSet<String>) -> anyhow::Result<WordVectors> {
        let open = || format!("cannot read the word vectors {}", path.display());
        let mut file = input::stream(path).with_context(open)?;
        let (mut dimensions, mut promised) = (None, None);
        let mut vectors = HashMap::new();
        let (mut sum, mut lines, mut count) = (Vec::new(), 0, 0u64);
        let (mut line, mut vector) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let read = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            let read = read.map_err(|error| input::damaged(path, &error)).with_context(open)?;
            if read == 0 {
                break;
            }
            lines += 1;
            let place = || format!("{}:{lines}", path.display());
            if read as u64 == LONGEST_LINE {
                bail!(
                    "{}: the line is longer than {LONGEST_LINE} bytes; word vectors are read in GloVe's text form",
                    place()
                );
            }
            let text = trimmed(&line);
            if lines == 1 {
                if let Some((words, numbers)) = header(text) {
                    (promised, dimensions) = (Some(words), Some(numbers));
                    continue;
                }
            }
            let dimensions = *dimensions.get_or_insert_with(|| text.iter().filter(|&&byte| byte == b' ').count());
            let word = parse(text, dimensions, &mut vector).with_context(place)?;
            sum.resize(dimensions, 0.0);
            sum.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += f64::from(*x));
            count += 1;
            if let Ok(word) = std::str::from_utf8(word) {
                if needed.contains(word) && !vectors.contains_key(word) {
                    vectors.insert(word.to_owned(), vector.clone());
                }
            }
        }
        if count == 0 {
            bail!("{}: no word vector in this file", path.display());
        }
        if let Some(promised) = promised.filter(|&promised| promised != count) {
            let path = path.display();
            bail!("{path}:1: {promised} word vectors are announced, but {count} follow; was the file cut off?");
        }
        sum.iter_mut().for_each(|sum| *sum /= count as f64);
        Ok(WordVectors { vectors, mean: sum })
    }

    /// How many numbers a vector has.
    pub fn dimensions(&self) -> usize {
        self.mean.len()
    }

    /// How many of the needed words have a vector.
    pub fn known(&self) -> usize {
        self.vectors.len()
    }

    /// The sum of the vectors of some words.
    fn sum(&self, words: &[String]) -> Vec<f64> {
        let mut sum = vec![0.0; self.dimensions()];
        for word in words {
            match self.vectors.get(word) {
                Some(vector) => sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += f64::from(*x)),
                None => sum.iter_mut().zip(&self.mean).for_each(|(sum, x)| *sum += x),
            }
        }
        sum
    }
}

/// Embedding average of a corpus, pair by pair.
#[derive(Debug)]
pub struct EmbeddingAverage<'a> {
    vectors: &'a WordVectors,
    mean: Mean,
    /// Words of the references without a vector.
    unknown: Share,
}

impl<'a> EmbeddingAverage<'a> {
    /// Over these vectors; all words of the pairs to come must have been among the needed ones.
    pub fn new(vectors: &'a WordVectors) -> EmbeddingAverage<'a> {
        EmbeddingAverage { vectors, mean: Mean::default(), unknown: Share::default() }
    }

    /// Adds the [`words`] of a hypothesis and of its reference; their own cosine, -1 to 1.
    pub fn add(&mut self, hypothesis: &[String], reference: &[String]) -> f64 {
        // The cosine of sums is that of means.
        let (a, b) = (self.vectors.sum(hypothesis), self.vectors.sum(reference));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let norms = dot(&a, &a).sqrt() * dot(&b, &b).sqrt();
        let cosine = if norms == 0.0 { 0.0 } else { dot(&a, &b) / norms };
        self.mean.add(cosine);
        self.unknown.whole += reference.len() as u64;
        self.unknown.part += reference.iter().filter(|word| !self.vectors.vectors.contains_key(*word)).count() as u64;
        cosine
    }

    /// The share of the references' words without a vector.
    pub fn unknown(&self) -> Share {
        self.unknown
    }

    /// The mean over all pairs, times 100; `None` where no word of a reference has a vector, since every text would then be
    /// the mean of all vectors.
    pub fn score(&self) -> Option<f64> {
        self.mean.percent().filter(|_| self.unknown.part < self.unknown.whole)
    }
}

/// How the embedding average is computed over the vectors of `path`, of which the file name is told.
pub fn signature(path: &Path, tokenization: &Tokenization) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "nlg-eval-embedding-average|vectors:{file}|unk:mean|tok:{}+contractions|case:lc|version:synthesizer-{}",
        tokenization.name(),
        env!("CARGO_PKG_VERSION")
    )
}

/// Without line end and blanks before it, which some writers leave, and without a byte-order mark.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(input::MARK).unwrap_or(line);
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | b' ')).map_or(0, |last| last + 1);
    &line[..end]
}

/// Words and numbers a word of word2vec's header.
fn header(line: &[u8]) -> Option<(u64, usize)> {
    let (words, numbers) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((words.parse().ok()?, numbers.parse().ok().filter(|&numbers| numbers > 0)?))
}

/// The word of a line, which is what stands before its last `dimensions` fields, and their numbers in `vector`.
fn parse<'a>(line: &'a [u8], dimensions: usize, vector: &mut Vec<f32>) -> anyhow::Result<&'a [u8]> {
    let lacking = || {
        if dimensions == 0 {
            return "a word without numbers".to_owned();
        }
        let found = line.iter().filter(|&&byte| byte == b' ').count();
        format!(
            "a word and {dimensions} numbers were expected, as the first line says, but {found} fields follow the word; \
             was the file cut off?"
        )
    };
    vector.clear();
    vector.resize(dimensions, 0.0);
    let mut rest = line;
    for (place, x) in vector.iter_mut().enumerate().rev() {
        let blank = memchr::memrchr(b' ', rest).with_context(lacking)?;
        let field = &rest[blank + 1..];
        *x = std::str::from_utf8(field)
            .ok()
            .and_then(|field| field.parse::<f32>().ok())
            .filter(|x| x.is_finite())
            .with_context(|| {
                format!(
                    "number {} of {dimensions} is {}, which is not a finite number; word vectors are read in GloVe's text form",
                    place + 1,
                    excerpt_of_bytes(field)
                )
            })?;
        rest = &rest[..blank];
    }
    if dimensions == 0 {
        bail!(lacking());
    }
    if rest.is_empty() {
        bail!("there is no word before the numbers");
    }
    Ok(rest)
}
