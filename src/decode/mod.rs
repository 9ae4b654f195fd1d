//! Search for output sequences on incremental states.

pub mod beam;
mod constraints;

use tch::Tensor;

/// A model that extends R rows of output by one token at a time.
pub trait Stepper {
    /// Log-probabilities of the next token, shape R by vocabulary, after `tokens` (R of them, int64, on the CPU) were
    /// appended to the rows. A token that may not come next has -inf. An error here ends the search.
    fn step(&mut self, tokens: &Tensor) -> anyhow::Result<Tensor>;
    /// Row i of the state becomes what row `rows[i]` was; `rows` is int64, on the CPU, and may be shorter or longer than R.
    fn reorder(&mut self, rows: &Tensor);
}
