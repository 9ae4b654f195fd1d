//! Rows in memory, and the hash of a corpus.

use super::Examples;
use crate::interrupt;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Rows held in memory, for corpora of megabytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    columns: usize,
    texts: Vec<String>,
}

impl Rows {
    /// One text a row.
    pub fn single(texts: Vec<String>) -> Rows {
        Rows { columns: 1, texts }
    }

    /// Source and target.
    pub fn pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Rows {
        Rows { columns: 2, texts: pairs.into_iter().flat_map(|(source, target)| [source, target]).collect() }
    }
}

impl Examples for Rows {
    fn len(&self) -> usize {
        self.texts.len() / self.columns
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(&self.texts[row * self.columns + column]))
    }
}

/// SHA-256 over texts and numbers, each with its length, so that no two contents look alike.
#[derive(Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Adds bytes whose length was added before.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 64 hexadecimal digits.
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Adds rows of two texts, each read once and many at a time: what [`Examples::hash_into`] adds for the same rows.
///
/// Memory holds a thousand rows. Error: the first row's that can't be read.
pub fn hash_pairs(
    rows: usize,
    hasher: &mut Hasher,
    pair: impl Fn(usize) -> anyhow::Result<(String, String)> + Sync,
) -> anyhow::Result<()> {
    hash_rows(rows, 2, hasher, |row| pair(row).map(|(source, target)| vec![source, target]))
}

/// As [`hash_pairs`], of rows of so many texts.
pub fn hash_rows(
    rows: usize,
    columns: usize,
    hasher: &mut Hasher,
    texts: impl Fn(usize) -> anyhow::Result<Vec<String>> + Sync,
) -> anyhow::Result<()> {
    hasher.number(rows as u64);
    hasher.number(columns as u64);
    for start in (0..rows).step_by(1000) {
        interrupt::check()?;
        let read: Vec<_> = (start..rows.min(start + 1000)).into_par_iter().map(&texts).collect();
        for row in read {
            row?.iter().for_each(|text| hasher.text(text));
        }
    }
    Ok(())
}

/// SHA-256 of some bytes, 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.bytes(bytes);
    hasher.finish()
}

/// A number that depends on the text alone, evenly spread over 0..100: decides what is held out.
pub fn percentile(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first) % 100
}

/// Which split a unit (integration, article) belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// Learned from.
    Train,
    /// Chooses among checkpoints.
    Dev,
    /// Reported.
    Test,
}

/// The split of a unit, a function of its content alone: [`percentile`] 0 to 4 is dev, 5 to 9 test, the rest train.
pub fn split_of(unit: &str) -> Split {
    split_at(unit, 5, 5)
}

/// As [`split_of`], with `dev` and `test` of 100 units for those two: small corpora need more to be judged by.
pub fn split_at(unit: &str, dev: u64, test: u64) -> Split {
    match percentile(unit) {
        number if number < dev => Split::Dev,
        number if number < dev + test => Split::Test,
        _ => Split::Train,
    }
}

/// Whether a text shows nothing: white space, control characters and characters that Unicode says to ignore where they are not
/// supported (zero-width spaces and joiners, byte-order marks, variation selectors, …).
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || character.is_control() || is_ignorable(character))
}

/// Unicode's `Default_Ignorable_Code_Point`.
fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Trims, and makes one blank of each run of white space that holds a line break; other blanks stay as they are.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for part in text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_sha256_of_lengths_and_texts() {
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let hash = |texts: &[&str]| {
            let mut hasher = Hasher::default();
            texts.iter().for_each(|text| hasher.text(text));
            hasher.finish()
        };
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }

    #[test]
    fn split_depends_on_the_name_alone() {
        // python3: int.from_bytes(hashlib.sha256(b"hue").digest()[:8], "big") % 100
        assert_eq!((percentile("hue"), percentile("zha"), percentile("")), (94, 33, 52));
    }

    #[test]
    fn texts_that_show_nothing_are_blank() {
        for text in ["", " ", "\t\r\n", "\u{a0}\u{3000}\u{2028}\u{85}", "\u{feff}\u{200b}\u{200d}", "\0\u{1c}\u{ad}"] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["a", " . ", "\u{fffd}", "\u{301}", "\u{2800}", "\u{200d}🔬"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn line_breaks_become_one_blank() {
        assert_eq!(one_line(" a  b \r\n\n  c\u{a0}: d\n"), "a  b c\u{a0}: d");
        assert_eq!(one_line("\n \n"), "");
    }
}
