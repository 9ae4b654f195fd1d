//! What takes the place of attention weights times values: convolutions, projections along the length, transforms.
//!
//! An operator maps a layer's input to its output, and makes no logits that could be added to those of a function: in a mix it
//! stands alone.

use super::cache::Cache;
use super::registry::Shape;
use super::{AttentionError, Term};
use std::fmt::Debug;
use tch::nn::Path;
use tch::Tensor;

/// How an operator is made: under the layer's path, its `value` and `output` projections (where it has them) directly, its
/// own weights under its entry's name. The last argument: whether no position may see a later one.
pub type Build = fn(&Path, &Term, &Shape, bool) -> Result<Box<dyn Operator>, AttentionError>;

/// x [B, L, d] with zeros where padding (bool [B, L]) is true.
pub(super) fn clear(x: &Tensor, padding: Option<&Tensor>) -> Tensor {
    match padding {
        Some(padding) => x.masked_fill(&padding.unsqueeze(-1), 0.0),
        None => x.shallow_clone(),
    }
}

/// An operator with its weights.
pub trait Operator: Debug + Send {
    /// x [B, L, d] to [B, L, d], L ≤ N. What stands at padding (bool [B, L], true = padded) counts as zero. `dropout` acts on
    /// weights that mix positions; it is 0 but in training. Error: LibTorch's.
    fn forward(&self, x: &Tensor, padding: Option<&Tensor>, dropout: f64) -> Result<Tensor, AttentionError>;

    /// The matrices [B, h, L, L] by which heads mix the values of positions; none for an operator that has no such view.
    fn weights(&self, _x: &Tensor, _padding: Option<&Tensor>) -> Option<Tensor> {
        None
    }

    /// Whether the weights are shares: none is negative, and those of a query sum to 1 at most.
    fn has_shares(&self) -> bool {
        false
    }

    /// The output at `position` (0-based) of its input x [R, 1, d], as `forward` would give it for the whole sequence. What
    /// later steps need of x is put into the cache. Error: an operator that is never causal.
    fn step(&self, _x: &Tensor, _position: i64, _cache: &mut Cache) -> Result<Tensor, AttentionError> {
        Err(AttentionError::NotCausal)
    }
}
