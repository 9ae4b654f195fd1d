//! The rows that a language model predicts: lines with their end mark, or windows of all lines laid end to end.
//!
//! Every line counts, a blank one as its end mark alone, as in the customary counts of WikiText (245,569 tokens in
//! WikiText-2's test set) and of LM1B.

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
    /// The rows where some line needs several; empty where each line is a row.
    chunks: Vec<Chunk>,
    /// Lines that need several rows.
    long_lines: usize,
}

/// A part of a line with its end mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    line: usize,
    /// First token that the model reads.
    from: usize,
    /// First token that is predicted: those before it are context.
    first: usize,
    /// After the last token.
    to: usize,
}

/// Cuts `tokens` tokens into chunks of at most `longest`: the first whole, each later one with at most half as many new
/// tokens, after the tokens before them.
fn chunks(line: usize, tokens: usize, longest: usize) -> impl Iterator<Item = Chunk> {
    let stride = (longest / 2).max(1);
    let mut first = 0;
    std::iter::from_fn(move || {
        let to = if first == 0 { longest.min(tokens) } else { (first + stride).min(tokens) };
        let chunk = Chunk { line, from: to.saturating_sub(longest), first, to };
        let left = first < tokens;
        first = to;
        left.then_some(chunk)
    })
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
        RunningText { store, window, starts, tokens, chunks: Vec::new(), long_lines: 0 }
    }

    /// The same, with lines of more than `longest` tokens (end mark included) in several rows, so that each token is predicted
    /// once: the first `longest` tokens, then at most `longest` / 2 more a row. A later row begins with the tokens before its
    /// new ones, at least `longest` / 2 of them, as context.
    pub fn in_full(store: TokenStore, window: usize, longest: usize) -> RunningText {
        let mut text = RunningText::new(store, window);
        let length = |line: usize| text.store.text_length(line, 0) + 1;
        let lines = 0..text.store.len();
        let long_lines = lines.clone().filter(|line| length(*line) > longest).count();
        if window == 0 && long_lines > 0 {
            text.chunks = lines.flat_map(|line| chunks(line, length(line), longest)).collect();
            text.long_lines = long_lines;
        }
        text
    }

    /// Rows.
    pub fn len(&self) -> usize {
        match self.window {
            0 if !self.chunks.is_empty() => self.chunks.len(),
            0 => self.store.len(),
            window => self.tokens.div_ceil(window as u64) as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lines that are in several rows.
    pub fn long_lines(&self) -> usize {
        self.long_lines
    }

    /// Tokens of each row.
    pub fn lengths(&self) -> Vec<u32> {
        (0..self.len()).map(|row| self.length(row) as u32).collect()
    }

    /// Tokens of one row.
    pub fn length(&self, row: usize) -> usize {
        match self.window as u64 {
            0 => match self.chunks.get(row) {
                Some(chunk) => chunk.to - chunk.from,
                None => self.store.text_length(row, 0) + 1,
            },
            window => window.min(self.tokens - row as u64 * window) as usize,
        }
    }

    /// How many of a row's first tokens are context, and predicted in another row.
    pub fn context(&self, row: usize) -> usize {
        self.chunks.get(row).map_or(0, |chunk| chunk.first - chunk.from)
    }

    /// Tokens of the running text, an end mark for each line included.
    pub fn token_count(&self) -> u64 {
        self.tokens
    }

    /// Words between white space, and an end mark for each line: what a perplexity per word divides by.
    pub fn words(&self) -> u64 {
        self.store.counts.words[0] + self.store.len() as u64
    }

    /// The tokens of a row, which begin with its context. Error: the token file can't be read.
    pub fn tokens(&self, row: usize) -> anyhow::Result<Vec<u32>> {
        if self.window == 0 {
            let chunk = self.chunks.get(row);
            let mut tokens = self.store.tokens(chunk.map_or(row, |chunk| chunk.line), 0)?;
            tokens.push(END);
            return Ok(match chunk {
                Some(chunk) => tokens[chunk.from..chunk.to].to_vec(),
                None => tokens,
            });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_predicted_once_after_half_a_chunk() {
        for (tokens, longest) in [(1, 2), (2, 2), (3, 2), (9, 2), (20, 7), (7, 7), (8, 7), (1000, 64), (5, 1)] {
            let found: Vec<Chunk> = chunks(0, tokens, longest).collect();
            let predicted: Vec<usize> = found.iter().flat_map(|chunk| chunk.first..chunk.to).collect();
            assert_eq!(predicted, (0..tokens).collect::<Vec<_>>(), "{tokens} {longest}");
            assert!(found.iter().all(|chunk| chunk.to - chunk.from <= longest && chunk.from <= chunk.first));
            let later = &found[1..];
            assert!(later.iter().all(|chunk| chunk.first - chunk.from >= longest / 2), "{tokens} {longest}: {found:?}");
        }
    }

    #[test]
    fn chunks_by_hand() {
        let chunk = |from, first, to| Chunk { line: 3, from, first, to };
        // 7 at first, then 3 after 4; 2 are left at the end, after 5
        let expected = [chunk(0, 0, 7), chunk(3, 7, 10), chunk(5, 10, 12)];
        assert_eq!(chunks(3, 12, 7).collect::<Vec<_>>(), expected);
    }
}
