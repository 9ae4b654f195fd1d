//! Span corruption: some spans of a window are taken out of it, a sentinel standing for each (Raffel et al. 2020, T5).
//!
//! `a b c d e f` with the spans `b c` and `f` becomes the source `a <0> d e <1>` and the target `<0> b c <1> f <2>`. Sentinel i
//! has the id `first + i`, after all ids of the tokenizer. The numbers of masked tokens and of spans are fixed by the window's
//! length ([`SpanCounts`]); where the spans stand is drawn: the unmasked tokens are cut into as many stretches as there are
//! spans, and so are the masked ones, every cut as likely as any other; a window begins with an unmasked stretch and ends with a
//! span. The draw is a function of (seed, epoch, window) in training, and of the window alone in dev and test.

use super::batching::shuffle;
use crate::experiment::spans::SpanCounts;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// What a window's spans are a function of, beside its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// Other spans in each epoch of each run.
    Training {
        /// The run's seed.
        seed: u64,
        /// Passes over the data before this one.
        epoch: u64,
    },
    /// The same for everyone, always.
    HeldOut,
}

impl Draw {
    /// ChaCha8 with the key seed, epoch, window, 1 (dev and test: 0, 0, window, 2) as little-endian 64-bit words: no key of
    /// [`batching`](super::batching).
    fn generator(self, window: u64) -> ChaCha8Rng {
        let words = match self {
            Draw::Training { seed, epoch } => [seed, epoch, window, 1],
            Draw::HeldOut => [0, 0, window, 2],
        };
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

/// The masked spans of window number `window`, in order.
pub fn spans(counts: SpanCounts, draw: Draw, window: u64) -> Vec<Range<usize>> {
    let mut random = draw.generator(window);
    let kept = segments(counts.length - counts.noise, counts.spans, &mut random);
    let masked = segments(counts.noise, counts.spans, &mut random);
    let mut at = 0;
    let pairs = kept.into_iter().zip(masked);
    pairs
        .map(|(kept, masked)| {
            let start = at + kept;
            at = start + masked;
            start..at
        })
        .collect()
}

/// Lengths of `count` segments of `items` items, none of them empty unless there are too few items: every way to cut is as
/// likely as any other.
fn segments(items: usize, count: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
    let gaps = items.saturating_sub(1);
    let mut cuts: Vec<bool> = (0..gaps).map(|gap| gap + 1 < count).collect();
    shuffle(&mut cuts, random);
    let ends = (0..gaps).filter(|gap| cuts[*gap]).map(|gap| gap + 1).chain([items]);
    let mut start = 0;
    ends.map(|end| end - std::mem::replace(&mut start, end)).collect()
}

/// Source and target of a window of which `spans` are masked, without end marks.
pub fn corrupt(tokens: &[u32], spans: &[Range<usize>], first: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut source, mut target) = (Vec::new(), Vec::new());
    let (mut at, mut sentinel) = (0, first);
    for span in spans {
        source.extend_from_slice(&tokens[at..span.start]);
        source.push(sentinel);
        target.push(sentinel);
        target.extend_from_slice(&tokens[span.clone()]);
        (at, sentinel) = (span.end, sentinel + 1);
    }
    source.extend_from_slice(&tokens[at..]);
    target.push(sentinel);
    (source, target)
}

/// What a target says stands in the first `count` gaps; nothing for a gap whose sentinel is not in it, the first mention where
/// one comes twice. Tokens before the first sentinel belong to none.
pub fn fillings(target: &[u32], first: u32, count: usize) -> Vec<Option<Vec<u32>>> {
    let mut found: Vec<Option<Vec<u32>>> = vec![None; count];
    let starts: Vec<usize> = (0..target.len()).filter(|at| target[*at] >= first).collect();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(target.len());
        if let Some(gap @ None) = found.get_mut((target[start] - first) as usize) {
            *gap = Some(target[start + 1..end].to_vec());
        }
    }
    found
}
