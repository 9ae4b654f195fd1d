//! Search for output sequences on incremental states.

pub mod beam;

use tch::Tensor;

/// A model that extends R rows of output by one token at a time.
pub trait Stepper {
    /// Log-probabilities [R, vocabulary] of the next token after `tokens` [R] (int64, on the CPU) were appended to the
    /// rows. A token that may not come next has -inf. An error here ends the search.
    fn step(&mut self, tokens: &Tensor) -> anyhow::Result<Tensor>;
    /// Row i of the state becomes what row `rows[i]` was (int64 [R'], on the CPU); R' may differ from R.
    fn reorder(&mut self, rows: &Tensor);
}
