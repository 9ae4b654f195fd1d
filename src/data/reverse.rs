//! Made-up digit sequences and their reversal: a task that a small model learns in seconds, for tests.

use super::rows::Rows;
use super::Corpus;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;

const SIZES: [usize; 3] = [4000, 100, 200];
const SHORTEST: u64 = 3;
const LONGEST: u64 = 8;

/// 4000 training, 100 dev and 200 test rows, always the same; no source occurs twice.
///
/// A source is 3 to 8 digits with blanks between them, its target the same digits from the end.
pub fn corpus() -> anyhow::Result<Corpus> {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut seen = HashSet::new();
    let mut split = |size: usize| {
        let mut pairs = Vec::with_capacity(size);
        while pairs.len() < size {
            let length = SHORTEST + random.next_u64() % (LONGEST - SHORTEST + 1);
            let digits: Vec<String> = (0..length).map(|_| (random.next_u64() % 10).to_string()).collect();
            let source = digits.join(" ");
            if seen.insert(source.clone()) {
                let target: Vec<&str> = digits.iter().rev().map(String::as_str).collect();
                pairs.push((source, target.join(" ")));
            }
        }
        Box::new(Rows::pairs(pairs))
    };
    let [train, dev, test] = SIZES.map(&mut split);
    Corpus::new("reversed digits (made up)".into(), train, dev, test, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_reversed_sources_and_splits_do_not_meet() {
        let corpus = corpus().unwrap();
        let mut seen = HashSet::new();
        for (rows, size) in [(&corpus.train, 4000), (&corpus.dev, 100), (&corpus.test, 200)] {
            assert_eq!(rows.len(), size);
            for row in 0..size {
                let source = rows.text(row, 0).unwrap().into_owned();
                let reversed: String = source.chars().rev().collect();
                assert_eq!(rows.text(row, 1).unwrap(), reversed);
                assert!((3..=8).contains(&source.split(' ').count()), "{source}");
                assert!(seen.insert(source));
            }
        }
        assert_eq!(corpus.hash, super::corpus().unwrap().hash);
    }

    #[test]
    fn a_row_is_two_columns() {
        assert_eq!(corpus().unwrap().dev.columns(), 2);
    }
}
