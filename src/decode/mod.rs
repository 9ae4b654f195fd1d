//! Search for output sequences on incremental states.

use tch::Tensor;

/// A model that extends R rows of output by one token at a time.
pub trait Stepper {
    /// Log-probabilities [R, vocabulary] of the next token after `tokens` [R] (int64) were appended to the rows.
    fn step(&mut self, tokens: &Tensor) -> anyhow::Result<Tensor>;
    /// Row i of the state becomes what row `rows[i]` was (int64 [R']).
    fn reorder(&mut self, rows: &Tensor);
}
