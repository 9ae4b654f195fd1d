//! Labelled rows as a classifier reads them: `BEGIN text END`, or `BEGIN text END text END` for a pair.

use super::{LabelledCorpus, LabelledRows};
use crate::data::token_store::{self, Keep, StoreOptions, TokenStore};
use crate::data::tokenizer::{self, Tokenizer, BEGIN, END};
use crate::data::{token_folder, Examples};
use anyhow::Context;

/// How long texts may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest text in tokens, marks not counted; more than fits into `max_length` counts as what fits.
    pub max_tokens: usize,
    /// Longest input of the model, marks counted.
    pub max_length: usize,
}

impl Limits {
    /// Most tokens of a text that stands alone, marks not counted.
    pub fn single(self) -> usize {
        self.max_tokens.min(self.max_length.saturating_sub(2))
    }

    /// How many tokens of each text (of one or two, of these lengths) are taken. Of a pair that is too long the longer text
    /// is cut to the length of the shorter before both are.
    pub fn taken(self, lengths: &[usize]) -> Vec<usize> {
        let most = self.single();
        let (first, second) = match *lengths {
            [first, second] => (first.min(most), second.min(most)),
            _ => return lengths.iter().map(|&length| length.min(most)).collect(),
        };
        let room = self.max_length.saturating_sub(3);
        let half = room / 2;
        let (first, second) = match (first, second) {
            fits if first + second <= room => fits,
            (first, _) if first <= half => (first, room - first),
            (_, second) if second <= half => (room - second, second),
            _ => (room - half, half),
        };
        vec![first, second]
    }

    /// Tokens of the model's input that texts of these lengths make, marks counted.
    pub fn input_length(self, lengths: &[usize]) -> usize {
        1 + self.taken(lengths).iter().map(|taken| taken + 1).sum::<usize>()
    }

    /// The model's input of a row of texts.
    pub fn input(self, texts: &[Vec<u32>]) -> Vec<i64> {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let mut input = vec![i64::from(BEGIN)];
        for (text, taken) in texts.iter().zip(self.taken(&lengths)) {
            input.extend(text[..taken].iter().map(|&id| i64::from(id)));
            input.push(i64::from(END));
        }
        input
    }
}

/// Tokenizer and token ids of every split, each with all its rows in order.
pub struct LabelledTokens {
    /// Trained on the training split, or read from the cache.
    pub tokenizer: Tokenizer,
    /// Training rows.
    pub train: TokenStore,
    /// Dev rows.
    pub dev: TokenStore,
    /// The test sets.
    pub tests: Vec<TokenStore>,
}

/// Trains the tokenizer and writes the token files, or takes both from the cache (`tokens/`) where data and settings are the
/// same. Texts are cut to [`Limits::max_tokens`]; no row is dropped, so that labels line up.
pub fn prepare(corpus: &LabelledCorpus, vocabulary: usize, limits: Limits) -> anyhow::Result<LabelledTokens> {
    let folder = token_folder()?;
    let tokenizer = tokenizer::train_or_load_rows(&corpus.name, &corpus.hash, &corpus.train, vocabulary, &folder)?;
    let store = |name: &str, rows: &LabelledRows| {
        let data_hash = format!("{} {name}", corpus.hash);
        let options = StoreOptions { max_tokens: limits.single(), source: None, keep: Keep::All, data_hash };
        let file = folder.join(format!("{}.tokens", token_store::key(&options, &tokenizer)));
        TokenStore::build(rows as &dyn Examples, &tokenizer, &options, &file)
            .with_context(|| format!("in the {name} set of {}", corpus.name))
    };
    let tests = corpus.tests.iter().map(|test| store(format!("test {}", test.name).trim_end(), test));
    Ok(LabelledTokens {
        train: store("train", &corpus.train)?,
        dev: store("dev", &corpus.dev)?,
        tests: tests.collect::<anyhow::Result<_>>()?,
        tokenizer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(max_tokens: usize, max_length: usize) -> Limits {
        Limits { max_tokens, max_length }
    }

    #[test]
    fn marks_stand_around_texts() {
        let [begin, end] = [BEGIN, END].map(i64::from);
        assert_eq!(limits(9, 9).input(&[vec![7, 8]]), [begin, 7, 8, end]);
        assert_eq!(limits(9, 9).input(&[vec![7, 8], vec![9]]), [begin, 7, 8, end, 9, end]);
        assert_eq!(limits(9, 9).input(&[vec![], vec![]]), [begin, end, end]);
        // room for 3 tokens beside 3 marks, then for 4 beside 2
        assert_eq!(limits(9, 6).input(&[vec![7, 8, 9, 10], vec![5, 6]]), [begin, 7, 8, end, 5, end]);
        assert_eq!(limits(9, 6).input(&[vec![7, 8, 9, 10, 11]]), [begin, 7, 8, 9, 10, end]);
        assert_eq!(limits(3, 6).input(&[vec![7, 8, 9, 10, 11]]), [begin, 7, 8, 9, end]);
    }

    /// The definition, token by token.
    fn cut_one_by_one(mut first: usize, mut second: usize, room: usize) -> (usize, usize) {
        while first + second > room {
            if first > second {
                first -= 1;
            } else {
                second -= 1;
            }
        }
        (first, second)
    }

    proptest! {
        #[test]
        fn the_longer_text_is_cut_first(first in 0usize..40, second in 0usize..40, max_length in 8usize..50, max_tokens in 1usize..60) {
            let limits = limits(max_tokens, max_length);
            let most = max_tokens.min(max_length - 2);
            let (a, b) = cut_one_by_one(first.min(most), second.min(most), max_length - 3);
            prop_assert_eq!(limits.taken(&[first, second]), vec![a, b]);
            prop_assert!(limits.input_length(&[first, second]) <= max_length);
            let texts = [vec![5; first], vec![6; second]];
            prop_assert_eq!(limits.input(&texts).len(), limits.input_length(&[first, second]));
        }
    }
}
