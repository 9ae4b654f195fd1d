//! Search for output sequences on incremental states.

pub mod beam;
mod by_tensor;
mod constraints;

use beam::BeamError;
use tch::Tensor;

/// A model that extends R rows of output by one token at a time, and gives all log-probabilities.
pub trait Stepper {
    /// Log-probabilities of the next token, shape R by vocabulary, after `tokens` (R of them, int64, on the CPU) were
    /// appended to the rows. A token that may not come next has -inf. An error here ends the search.
    fn step(&mut self, tokens: &Tensor) -> anyhow::Result<Tensor>;
    /// Row i of the state becomes what row `rows[i]` was; `rows` is int64, on the CPU, and may be shorter or longer than R.
    fn reorder(&mut self, rows: &Tensor);
}

/// A model that extends R rows of output by one token at a time, and gives the likeliest next tokens alone.
pub trait Proposer {
    /// After `tokens` (R of them) were appended to the rows: the `count` likeliest tokens of each row, fewer if the vocabulary is
    /// smaller. `position`, counted from 1, is that of the next token. `bans` are pairs (row, token), in order of rows, that may
    /// not come next, whatever their probability.
    ///
    /// # Errors
    /// The model's; they end the search.
    fn propose(
        &mut self,
        tokens: &[u32],
        bans: &[[u32; 2]],
        count: usize,
        position: usize,
    ) -> Result<Likeliest, BeamError>;
    /// Row i of the state becomes what row `rows[i]` was; there may be fewer or more rows than before.
    fn reorder(&mut self, rows: &[usize]);
    /// Whether to reorder costs less than to carry a row along that nobody needs.
    fn reorders_cheaply(&self) -> bool {
        false
    }
}

/// The likeliest tokens of each state row, likeliest first, equal ones by id. Places without a token have -inf.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeliest {
    /// Places of a row.
    pub count: usize,
    /// [R, count]
    pub log_probabilities: Vec<f64>,
    /// [R, count]
    pub tokens: Vec<u32>,
}
