//! What a corpus is, split by split: sizes, lengths, what was dropped, what train and test share, and rows as a model sees them.

use super::token_store::{Counts, TokenStore};
use super::tokenizer::Tokenizer;
use super::Examples;
use crate::interrupt;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Rows that are read together when two splits are compared.
const CHUNK: usize = 1 << 16;

/// Rows that are shown of a split.
pub const SHOWN: usize = 3;

/// One split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SplitReport {
    /// `train`, `dev`, `test`, or `test` and the name of a further test set.
    pub name: String,
    /// What became of the rows, and tokens and words of those that are kept.
    pub counts: Counts,
    /// Lengths of the kept rows, a column each.
    pub columns: Vec<ColumnReport>,
    /// Rows that the training split has too; nothing for the training split itself.
    pub overlap: Option<Overlap>,
    /// Labelled pairs of texts of which one was cut because they don't fit together into the model.
    pub cut_pairs: u64,
    /// What the rows are labelled with; nothing for texts without labels.
    pub labels: Option<Labels>,
    /// Some kept rows.
    pub shown: Vec<Shown>,
}

/// One column of a split. Tokens are those that the model gets, without marks, after cutting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnReport {
    /// `source`, `target`, `text`, …
    pub name: String,
    /// Tokens of all kept rows.
    pub tokens: u64,
    /// Words of all kept rows, between white space.
    pub words: u64,
    /// Half of the rows have at most so many tokens.
    pub median: u32,
    /// 95 of 100 rows have at most so many.
    pub percentile_95: u32,
    /// The longest row.
    pub longest: u32,
}

/// What a split shares with the training split, text for text, before anything is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Overlap {
    /// Rows.
    pub rows: u64,
    /// Rows whose first text is the first text of a training row.
    pub first_texts: u64,
    /// Rows of which all texts are those of a training row.
    pub whole_rows: u64,
}

/// The labels of a split.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Labels {
    /// Rows of each class, in the order of the classes.
    Classes(Vec<(String, u64)>),
    /// The lowest, the mean and the highest score.
    Scores(f64, f64, f64),
}

/// One row as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its number in the split, from 1.
    pub row: u64,
    /// Whether a text was cut.
    pub cut: bool,
    /// Its class or score, if it has one.
    pub label: Option<String>,
    /// What the model gets, marks included, tokens parted by blanks (see [`Tokenizer::visible`]): a sequence each.
    pub sequences: Vec<String>,
}

/// [`ColumnReport`]s of a store; `names` has one name a column.
pub fn columns(store: &TokenStore, names: &[&str]) -> Vec<ColumnReport> {
    let column = |(column, name): (usize, &&str)| {
        let mut lengths = BTreeMap::new();
        for row in 0..store.len() {
            *lengths.entry(store.text_length(row, column) as u32).or_insert(0u64) += 1;
        }
        ColumnReport {
            name: name.to_string(),
            tokens: store.counts.tokens[column],
            words: store.counts.words[column],
            median: quantile(&lengths, 50),
            percentile_95: quantile(&lengths, 95),
            longest: lengths.keys().next_back().copied().unwrap_or(0),
        }
    };
    names.iter().enumerate().map(column).collect()
}

/// The smallest length that at least `percent` of 100 rows do not exceed; `lengths` counts rows by length.
fn quantile(lengths: &BTreeMap<u32, u64>, percent: u64) -> u32 {
    let rows: u64 = lengths.values().sum();
    let wanted = (u128::from(rows) * u128::from(percent)).div_ceil(100);
    let mut seen = 0u128;
    let found = lengths.iter().find(|(_, count)| {
        seen += u128::from(**count);
        seen >= wanted
    });
    found.map_or(0, |(length, _)| *length)
}

/// Compares each of `others` with `train`, text for text, by 64-bit hashes. Memory grows with `others`, not with `train`,
/// which is read once.
///
/// Errors: a text that can't be read; Ctrl-C.
pub fn overlaps(train: &dyn Examples, others: &[&dyn Examples]) -> anyhow::Result<Vec<Overlap>> {
    let rows = others.iter().map(|split| hashes(*split, 0..split.len())).collect::<anyhow::Result<Vec<_>>>()?;
    // Hashes of first texts and of whole rows, and whether train has them.
    let (mut firsts, mut wholes) = (HashMap::new(), HashMap::new());
    for (first, whole) in rows.iter().flatten() {
        firsts.insert(*first, false);
        wholes.insert(*whole, false);
    }
    for start in (0..train.len()).step_by(CHUNK) {
        for (first, whole) in hashes(train, start..(start + CHUNK).min(train.len()))? {
            if let Some(found) = firsts.get_mut(&first) {
                *found = true;
            }
            if let Some(found) = wholes.get_mut(&whole) {
                *found = true;
            }
        }
    }
    let count = |found: &HashMap<u64, bool>, hash: &u64| u64::from(found[hash]);
    let overlap = |rows: &Vec<(u64, u64)>| Overlap {
        rows: rows.len() as u64,
        first_texts: rows.iter().map(|(first, _)| count(&firsts, first)).sum(),
        whole_rows: rows.iter().map(|(_, whole)| count(&wholes, whole)).sum(),
    };
    Ok(rows.iter().map(overlap).collect())
}

/// Of each row the hash of its first text, and that of all its texts.
fn hashes(examples: &dyn Examples, rows: std::ops::Range<usize>) -> anyhow::Result<Vec<(u64, u64)>> {
    let hash = |row: usize| -> anyhow::Result<(u64, u64)> {
        interrupt::check()?;
        let mut hasher = DefaultHasher::new();
        examples.text(row, 0)?.hash(&mut hasher);
        let first = hasher.finish();
        for column in 1..examples.columns() {
            examples.text(row, column)?.hash(&mut hasher);
        }
        Ok((first, hasher.finish()))
    };
    rows.into_par_iter().map(hash).collect()
}

/// Kept rows to show: the first, the first of which a text was cut, the last; others where these are the same.
///
/// `limits` are the longest texts of each column, in tokens; `fits` says whether the model gets all that is kept of a row, and
/// `sequences` gives what it gets.
/// Errors: a row that can't be read; Ctrl-C.
pub fn show(
    examples: &dyn Examples,
    store: &TokenStore,
    tokenizer: &Tokenizer,
    limits: &[usize],
    fits: impl Fn(usize) -> bool,
    sequences: impl Fn(usize) -> anyhow::Result<Vec<Vec<u32>>>,
) -> anyhow::Result<Vec<Shown>> {
    let is_cut = |row: usize| -> anyhow::Result<bool> {
        if !fits(row) {
            return Ok(true);
        }
        for (column, limit) in limits.iter().enumerate() {
            let full = store.text_length(row, column) == *limit;
            if full && tokenizer.encode(&examples.text(store.row(row)?, column)?)?.len() > *limit {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut cut = None;
    for row in 0..store.len() {
        interrupt::check()?;
        if !fits(row) || (store.counts.cut > 0 && is_cut(row)?) {
            cut = Some(row);
            break;
        }
    }
    let mut rows = Vec::new();
    for row in [Some(0), cut, store.len().checked_sub(1), Some(store.len() / 2), Some(1)].into_iter().flatten() {
        if rows.len() < SHOWN && row < store.len() && !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.sort_unstable();
    let show = |row: usize| {
        let sequences = sequences(row)?.iter().map(|ids| tokenizer.visible(ids)).collect();
        Ok(Shown { row: store.row(row)? as u64 + 1, cut: is_cut(row)?, label: None, sequences })
    };
    rows.into_iter().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;

    #[test]
    fn quantiles_are_the_smallest_lengths_that_hold_enough_rows() {
        let lengths = |rows: &[u32]| {
            let mut counts = BTreeMap::new();
            rows.iter().for_each(|length| *counts.entry(*length).or_insert(0) += 1);
            counts
        };
        let twenty: Vec<u32> = (1..=20).collect();
        assert_eq!([50, 95, 100].map(|percent| quantile(&lengths(&twenty), percent)), [10, 19, 20]);
        assert_eq!(quantile(&lengths(&[7, 1, 7]), 50), 7);
        assert_eq!(quantile(&lengths(&[]), 50), 0);
    }

    #[test]
    fn overlap_is_of_exact_texts() {
        let pairs = |pairs: &[(&str, &str)]| {
            Rows::pairs(pairs.iter().map(|(source, target)| (source.to_string(), target.to_string())))
        };
        let train = pairs(&[("a", "b"), ("a", "c"), ("d", "e"), ("ab", "c")]);
        // Whole row; source alone; target alone; another case; the same letters parted elsewhere; a repetition.
        let test = pairs(&[("a", "c"), ("d", "x"), ("x", "e"), ("A", "b"), ("a", "bc"), ("a", "c")]);
        let found = overlaps(&train, &[&test, &pairs(&[("y", "z")])]).unwrap();
        let expected =
            [Overlap { rows: 6, first_texts: 4, whole_rows: 2 }, Overlap { rows: 1, first_texts: 0, whole_rows: 0 }];
        assert_eq!(found, expected);
    }
}
