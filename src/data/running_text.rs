//! The rows that a language model predicts: lines with their end mark, or windows of all lines laid end to end.

use super::token_store::TokenStore;
use super::tokenizer::END;

/// The place of every 16th line in the running text is kept.
const EVERY: usize = 16;

/// A split, as what is to be predicted.
#[derive(Debug)]
pub struct RunningText {
    store: TokenStore,
    /// Tokens of a window; 0 = a line a row.
    window: usize,
    /// Where line 0, 16, 32, … begins in the running text, each line with its end mark.
    starts: Vec<u64>,
    /// Tokens of the running text.
    tokens: u64,
}

impl RunningText {
    /// Of the lines of a store; `window` = 0 makes each a row, n makes windows of n tokens that don't overlap, the last one
    /// shorter.
    pub fn new(store: TokenStore, window: usize) -> RunningText {
        let (mut starts, mut tokens) = (Vec::new(), 0);
        for (line, length) in store.lengths().iter().enumerate() {
            if line % EVERY == 0 {
                starts.push(tokens);
            }
            tokens += u64::from(*length) + 1;
        }
        RunningText { store, window, starts, tokens }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        match self.window {
            0 => self.store.len(),
            window => self.tokens.div_ceil(window as u64) as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of each row.
    pub fn lengths(&self) -> Vec<u32> {
        match self.window {
            0 => self.store.lengths().iter().map(|length| length + 1).collect(),
            window => {
                let window = window as u64;
                (0..self.len() as u64).map(|row| window.min(self.tokens - row * window) as u32).collect()
            }
        }
    }

    /// Words between white space, and an end mark a line: what a perplexity per word divides by.
    pub fn words(&self) -> u64 {
        self.store.counts.words[0] + self.store.len() as u64
    }

    /// The tokens to predict in a row.
    ///
    /// Error: the token file can't be read.
    pub fn tokens(&self, row: usize) -> anyhow::Result<Vec<u32>> {
        let line = |line: usize| -> anyhow::Result<Vec<u32>> {
            let mut tokens = self.store.tokens(line, 0)?;
            tokens.push(END);
            Ok(tokens)
        };
        if self.window == 0 {
            return line(row);
        }
        let from = row as u64 * self.window as u64;
        let block = self.starts.partition_point(|start| *start <= from) - 1;
        let mut skip = (from - self.starts[block]) as usize;
        let mut tokens = Vec::with_capacity(self.window);
        for number in block * EVERY..self.store.len() {
            let line = line(number)?;
            if skip >= line.len() {
                skip -= line.len();
                continue;
            }
            tokens.extend_from_slice(&line[skip..]);
            skip = 0;
            if tokens.len() >= self.window {
                break;
            }
        }
        tokens.truncate(self.window);
        Ok(tokens)
    }
}
