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
        (0..self.len()).map(|row| self.length(row) as u32).collect()
    }

    /// Tokens of one row.
    pub fn length(&self, row: usize) -> usize {
        match self.window as u64 {
            0 => self.store.text_length(row, 0) + 1,
            window => window.min(self.tokens - row as u64 * window) as usize,
        }
    }

    /// Words between white space, and an end mark a line: what a perplexity per word divides by.
    pub fn words(&self) -> u64 {
        self.store.counts.words[0] + self.store.len() as u64
    }

    /// The tokens to predict in a row. Error: the token file can't be read.
    pub fn tokens(&self, row: usize) -> anyhow::Result<Vec<u32>> {
        if self.window == 0 {
            let mut tokens = self.store.tokens(row, 0)?;
            tokens.push(END);
            return Ok(tokens);
        }
        let from = row as u64 * self.window as u64;
        let block = self.starts.partition_point(|start| *start <= from) - 1;
        let (mut first, mut start) = (block * EVERY, self.starts[block]);
        let line_length = |line: usize| self.store.text_length(line, 0) as u64 + 1;
        while start + line_length(first) <= from {
            start += line_length(first);
            first += 1;
        }
        let (mut end, mut last) = (start, first);
        while last < self.store.len() && end < from + self.window as u64 {
            end += line_length(last);
            last += 1;
        }
        let ids = self.store.run(first..last)?;
        let mut tokens = Vec::with_capacity((end - start) as usize);
        let mut rest = &ids[..];
        for line in first..last {
            let (ids, after) = rest.split_at(self.store.text_length(line, 0));
            tokens.extend_from_slice(ids);
            tokens.push(END);
            rest = after;
        }
        tokens.drain(..(from - start) as usize);
        tokens.truncate(self.window);
        Ok(tokens)
    }
}
