//! What a hypothesis may not contain, whatever the model says: an end mark too early, the same n-gram twice.

use tch::{TchError, Tensor};

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

    /// Log-probabilities [R, vocabulary] of the token at `position`, with -inf where it is not allowed, given the state row
    /// and the tokens of each hypothesis. Rows of no hypothesis stay as they are.
    pub(super) fn apply<'a>(
        &self,
        log_probabilities: Tensor,
        hypotheses: impl Iterator<Item = (usize, &'a [u32])>,
        position: usize,
    ) -> Result<Tensor, TchError> {
        if self.free(position) {
            return Ok(log_probabilities);
        }
        let vocabulary = log_probabilities.size()[1];
        let mut places = Vec::new();
        for (row, tokens) in hypotheses {
            let row = row as i64 * vocabulary;
            let end = (position <= self.min_length).then_some(self.end);
            let banned = repeating(tokens, self.no_repeat_ngram).chain(end);
            places.extend(banned.map(|token| row + i64::from(token)));
        }
        if places.is_empty() {
            return Ok(log_probabilities);
        }
        let places = Tensor::from_slice(&places).f_to_device(log_probabilities.device())?;
        // A copy: what the model gave may be its own.
        let flat = log_probabilities.f_reshape([-1])?.f_index_fill(0, &places, f64::NEG_INFINITY)?;
        flat.f_reshape(log_probabilities.size())
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
    use tch::Kind;

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
    fn only_what_is_banned_is_lost_and_the_models_tensor_stays() {
        let given = Tensor::from_slice(&[-1.0f32, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0]).reshape([2, 4]);
        let constraints = Constraints { min_length: 3, no_repeat_ngram: 2, end: 0 };
        let hypotheses = [(1, &[2u32, 3, 2][..])];
        let masked = constraints.apply(given.shallow_clone(), hypotheses.into_iter(), 3).unwrap();
        let never = f32::NEG_INFINITY;
        let expected = [-1.0, -2.0, -3.0, -4.0, never, -6.0, -7.0, never];
        assert_eq!(Vec::<f32>::try_from(masked.reshape([-1])).unwrap(), expected);
        assert_eq!(given.sum(Kind::Float).double_value(&[]), -36.0);
    }
}
