//! Batches by token count, in length buckets.
//!
//! An epoch's order is a function of (seed, epoch) alone, so that a resumed run needs to know no more than the place in it:
//! 1. the rows are shuffled (Fisher-Yates, ChaCha8 with the key seed, epoch, 0, 0 as little-endian 64-bit words);
//! 2. pools of consecutive rows (8192, or as many as make 64 batches if that is more) are sorted by length, equal lengths
//!    keep their shuffled order;
//! 3. each pool is cut into batches such that rows x longest <= tokens;
//! 4. the batches are shuffled with the same generator.

use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

const POOL_ROWS: usize = 8192;
const POOL_BATCHES: u64 = 64;

/// How an epoch is batched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// Largest number of tokens in a batch, padding included, in the unit of the lengths given.
    pub tokens: usize,
    /// The run's seed.
    pub seed: u64,
    /// Passes over the data before this one.
    pub epoch: u64,
}

/// The batches of one pass over rows of these lengths: each row once, as indices into `lengths`.
///
/// A row longer than `tokens` makes a batch of its own; a length of 0 counts as 1.
pub fn epoch(lengths: &[u32], options: &BatchOptions) -> Vec<Vec<u32>> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&options.seed.to_le_bytes());
    key[8..16].copy_from_slice(&options.epoch.to_le_bytes());
    let mut random = ChaCha8Rng::from_seed(key);

    let mut rows: Vec<u32> = (0..lengths.len() as u32).collect();
    shuffle(&mut rows, &mut random);
    let total: u64 = lengths.iter().map(|length| u64::from(*length).max(1)).sum();
    let mean = (total / (lengths.len() as u64).max(1)).max(1);
    let pool = ((options.tokens as u64).saturating_mul(POOL_BATCHES) / mean).max(POOL_ROWS as u64);
    let pool = usize::try_from(pool).unwrap_or(usize::MAX);

    let mut batches = Vec::new();
    for rows in rows.chunks_mut(pool) {
        rows.sort_by_key(|row| lengths[*row as usize]);
        cut(rows, lengths, options.tokens, &mut batches);
    }
    shuffle(&mut batches, &mut random);
    batches
}

/// The same batches every time, short rows first: for evaluation.
pub fn in_order(lengths: &[u32], tokens: usize) -> Vec<Vec<u32>> {
    let mut rows: Vec<u32> = (0..lengths.len() as u32).collect();
    rows.sort_by_key(|row| lengths[*row as usize]);
    let mut batches = Vec::new();
    cut(&rows, lengths, tokens, &mut batches);
    batches
}

/// Cuts rows of ascending length.
fn cut(rows: &[u32], lengths: &[u32], tokens: usize, batches: &mut Vec<Vec<u32>>) {
    let mut start = 0;
    for (at, row) in rows.iter().enumerate() {
        // The row at hand is the longest so far.
        let longest = lengths[*row as usize].max(1) as usize;
        if at > start && (at - start + 1).saturating_mul(longest) > tokens {
            batches.push(rows[start..at].to_vec());
            start = at;
        }
    }
    if start < rows.len() {
        batches.push(rows[start..].to_vec());
    }
}

/// Fisher-Yates.
pub(super) fn shuffle<T>(items: &mut [T], random: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        // A 64-bit number scaled to 0..=last: its bias is under last / 2^64.
        let other = (u128::from(random.next_u64()) * (last as u128 + 1)) >> 64;
        items.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(tokens: usize, seed: u64, epoch: u64) -> BatchOptions {
        BatchOptions { tokens, seed, epoch }
    }

    fn lengths(rows: u32) -> Vec<u32> {
        (0..rows).map(|row| 1 + row.wrapping_mul(2_654_435_761) % 60).collect()
    }

    #[test]
    fn short_rows_first_in_evaluation() {
        assert_eq!(in_order(&[3, 9, 1, 3, 2], 6), [vec![2, 4], vec![0, 3], vec![1]]);
        assert!(in_order(&[], 6).is_empty() && epoch(&[], &options(6, 1, 0)).is_empty());
    }

    #[test]
    fn the_order_depends_on_seed_and_epoch() {
        let lengths = lengths(1000);
        let first = epoch(&lengths, &options(256, 1, 0));
        assert_eq!(first, epoch(&lengths, &options(256, 1, 0)));
        assert_ne!(first, epoch(&lengths, &options(256, 1, 1)));
        assert_ne!(first, epoch(&lengths, &options(256, 2, 0)));
        // Not (seed + epoch) or the like.
        assert_ne!(epoch(&lengths, &options(256, 0, 1)), epoch(&lengths, &options(256, 1, 0)));
    }

    #[test]
    fn padding_is_small() {
        let lengths = lengths(20_000);
        let batches = epoch(&lengths, &options(1024, 3, 0));
        let padded: usize = batches
            .iter()
            .map(|rows| rows.len() * rows.iter().map(|row| lengths[*row as usize]).max().unwrap() as usize)
            .sum();
        let real: u32 = lengths.iter().sum();
        let waste = padded as f64 / f64::from(real) - 1.0;
        assert!(waste < 0.03, "{waste}");
        // Batches, not rows, fill the budget: few are half empty.
        assert!(batches.len() < 1 + padded * 11 / 10 / 1024, "{} batches, {padded} tokens", batches.len());
    }

    #[test]
    fn big_batches_have_big_pools() {
        // One pool of 8192 rows would make each batch nearly a whole pool, of all lengths.
        let lengths = lengths(40_000);
        let batches = epoch(&lengths, &options(100_000, 3, 0));
        let padded: usize = batches
            .iter()
            .map(|rows| rows.len() * rows.iter().map(|row| lengths[*row as usize]).max().unwrap() as usize)
            .sum();
        assert!((padded as f64) < 1.1 * f64::from(lengths.iter().sum::<u32>()), "{padded}");
    }

    proptest! {
        #[test]
        fn every_row_once_and_no_batch_too_large(
            lengths in prop::collection::vec(0u32..50, 0..300), tokens in 1usize..200, seed: u64, number: u64,
        ) {
            for batches in [epoch(&lengths, &options(tokens, seed, number)), in_order(&lengths, tokens)] {
                let mut rows: Vec<u32> = batches.iter().flatten().copied().collect();
                rows.sort_unstable();
                prop_assert_eq!(rows, (0..lengths.len() as u32).collect::<Vec<_>>());
                for batch in batches {
                    let longest = batch.iter().map(|row| lengths[*row as usize].max(1)).max().unwrap() as usize;
                    prop_assert!(batch.len() == 1 || batch.len() * longest <= tokens);
                }
            }
        }
    }
}
