//! A layer's core, apart from its projections: logits, mixture, mask, softmax, weighted values. What benchmarks measure
//! alone, as it is where forms differ.

use super::fused::{attend, compose, plain, Form, Visibility};
use super::heads::merge;
use super::mask::Causal;
use super::{AttentionError, Mixing};
use crate::native::attention::Part;
use tch::Tensor;

/// Attention of a mix to inputs that stand still: what the projections of some x gave, and the functions' own weights, each
/// cut off from what it came from.
#[derive(Debug)]
pub struct CoreAttention {
    parts: Vec<Part>,
    /// [terms, h]; none for one term and for a plain sum
    alpha: Option<Tensor>,
    mixing: Mixing,
    /// [B, h, L, d_h], lying in memory as [B, L, h, d_h]
    values: Tensor,
    causal: Option<Causal>,
    form: Form,
}

/// The same numbers as a leaf of the graph, which wants a gradient if its origin had one.
fn leaf(tensor: &Tensor) -> Tensor {
    tensor.detach().set_requires_grad(tensor.requires_grad())
}

impl CoreAttention {
    pub(super) fn new(
        parts: &[Part],
        alpha: Option<&Tensor>,
        mixing: Mixing,
        values: &Tensor,
        causal: bool,
        form: Form,
    ) -> CoreAttention {
        let parts = parts.iter().map(|part| match part {
            Part::Product { queries, keys, scale, bias } => {
                Part::Product { queries: leaf(queries), keys: leaf(keys), scale: *scale, bias: bias.as_ref().map(leaf) }
            }
            Part::Table(table) => Part::Table(leaf(table)),
            Part::Outer { first, second, columns } => {
                Part::Outer { first: leaf(first), second: leaf(second), columns: *columns }
            }
        });
        CoreAttention {
            parts: parts.collect(),
            alpha: alpha.map(leaf),
            mixing,
            values: leaf(values),
            causal: causal.then(Causal::default),
            form,
        }
    }

    /// The heads' contexts side by side, [B, L, d]: what the layer gives to its output projection.
    ///
    /// # Errors
    /// The kernel's, as [`super::SelfAttention::forward`].
    pub fn forward(&self) -> Result<Tensor, AttentionError> {
        let parts = || self.parts.iter().map(Part::shallow_clone).collect::<Vec<_>>();
        let weights = self.alpha.as_ref().map(|alpha| self.mixing.weights(alpha));
        let visibility = Visibility { causal: self.causal.as_ref(), padding: None, dropout: 0.0 };
        let context = match self.form.resolve(&self.values) {
            Form::Plain | Form::Auto => plain(&self.parts, weights.as_ref(), &self.values, visibility),
            Form::Composed => compose(&self.parts, weights.as_ref(), &self.values, visibility),
            Form::Fused => attend(parts(), weights, self.values.shallow_clone(), visibility)?,
        };
        Ok(merge(&context))
    }

    /// Every tensor that goes in.
    pub fn inputs(&self) -> Vec<Tensor> {
        let parts = self.parts.iter().flat_map(|part| part.tensors().into_iter().flatten());
        [&self.values].into_iter().chain(&self.alpha).chain(parts).map(Tensor::shallow_clone).collect()
    }

    /// B, L and d of the output.
    pub fn output_size(&self) -> [i64; 3] {
        let size = self.values.size();
        [size[0], size[2], size[1] * size[3]]
    }
}
