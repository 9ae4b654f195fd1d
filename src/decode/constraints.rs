//! What a hypothesis may not contain, whatever the model says: an end mark too early, the same n-gram twice.

/// Limits on hypotheses. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Constraints {
    /// Tokens that must stand before the end mark.
    pub(super) min_length: usize,
    /// No n-gram of so many tokens may occur twice.
    pub(super) no_repeat_ngram: usize,
    /// The end mark.
    pub(super) end: u32,
}

impl Constraints {
    /// Whether the token at `position` (counted from 1) may be any at all.
    pub(super) fn free(&self, position: usize) -> bool {
        position > self.min_length && (self.no_repeat_ngram == 0 || position <= self.no_repeat_ngram)
    }

    /// The pairs (state row, token) that may not come at `position`, given the state row and the tokens of each hypothesis, in
    /// order of rows. A pair may come twice.
    pub(super) fn bans<'a>(
        &self,
        hypotheses: impl Iterator<Item = (usize, &'a [u32])>,
        position: usize,
    ) -> Vec<[u32; 2]> {
        if self.free(position) {
            return Vec::new();
        }
        let mut bans: Vec<[u32; 2]> = hypotheses
            .flat_map(|(row, tokens)| {
                let end = (position <= self.min_length).then_some(self.end);
                repeating(tokens, self.no_repeat_ngram).chain(end).map(move |token| [row as u32, token])
            })
            .collect();
        bans.sort_unstable();
        bans
    }
}

/// The tokens that would end an n-gram of `order` tokens which `tokens` has already; some may come twice.
fn repeating(tokens: &[u32], order: usize) -> impl Iterator<Item = u32> + '_ {
    let last = if order == 0 { None } else { tokens.len().checked_sub(order - 1).map(|start| &tokens[start..]) };
    last.into_iter().flat_map(move |last| {
        tokens.windows(order).filter(move |ngram| ngram[..order - 1] == *last).map(move |ngram| ngram[order - 1])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_repeats_if_it_ends_an_ngram_that_was_there() {
        let banned = |tokens: &[u32], order| repeating(tokens, order).collect::<Vec<_>>();
        assert_eq!(banned(&[5, 6, 5, 7, 5], 2), [6, 7]);
        assert_eq!(banned(&[5, 6, 5, 7, 5], 1), [5, 6, 5, 7, 5]);
        assert_eq!(banned(&[5, 6, 7, 5, 6], 3), [7]);
        // overlapping: 5 5 5 is 5 5 twice
        assert_eq!(banned(&[5, 5], 2), [5]);
        for (tokens, order) in [(&[5][..], 2), (&[5, 6], 4), (&[5, 6, 5], 0), (&[], 1)] {
            assert!(banned(tokens, order).is_empty(), "{tokens:?} {order}");
        }
    }

    #[test]
    fn bans_are_of_rows_in_order() {
        let constraints = Constraints { min_length: 3, no_repeat_ngram: 2, end: 0 };
        let hypotheses = [(4, &[7u32, 7][..]), (1, &[2, 3, 2])];
        assert_eq!(constraints.bans(hypotheses.into_iter(), 3), [[1, 0], [1, 3], [4, 0], [4, 7]]);
        assert_eq!(constraints.bans(hypotheses.into_iter(), 4), [[1, 3], [4, 7]]);
        let free = Constraints { no_repeat_ngram: 0, ..constraints };
        assert!(free.bans(hypotheses.into_iter(), 4).is_empty());
    }
}
