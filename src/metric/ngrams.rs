//! Counting and matching n-grams, for every metric that compares them.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each n-gram of `order` words occurs in `words`.
pub(super) fn counts<T: Eq + Hash>(words: &[T], order: usize) -> HashMap<&[T], u64> {
    let mut counts = HashMap::with_capacity(total(words.len(), order));
    for ngram in words.windows(order) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// How many n-grams of `order` words `hypothesis` has in common with `reference`, each at most as often as it is there.
pub(super) fn matches<T: Eq + Hash>(hypothesis: &[T], reference: &[T], order: usize) -> u64 {
    let mut unmatched = counts(reference, order);
    let mut matches = 0;
    for ngram in hypothesis.windows(order) {
        if let Some(left @ 1..) = unmatched.get_mut(ngram) {
            *left -= 1;
            matches += 1;
        }
    }
    matches
}

/// How many n-grams of `order` words a text of `words` words has.
pub(super) fn total(words: usize, order: usize) -> usize {
    (words + 1).saturating_sub(order)
}
