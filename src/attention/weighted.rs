//! Attention as the paper has it: softmax over the logits of a mix, times the values, then the output projection.

use super::cache::Cache;
use super::heads::{linear, merge, split};
use super::mask::{Causal, Mask};
use super::mixture::Mixture;
use super::{AttentionConfig, AttentionError};
use tch::nn::{Linear, Module, Path};
use tch::{Device, Tensor};

/// The layer of one or more functions that make logits.
#[derive(Debug)]
pub(super) struct Weighted {
    heads: i64,
    value: Linear,
    output: Linear,
    pub(super) mixture: Mixture,
    causal: Option<Causal>,
}

impl Weighted {
    /// Makes the weights under `path`: `value`, `output`, `alpha` and a sub-path a function. The config has been checked.
    pub(super) fn new(path: &Path, config: &AttentionConfig) -> Result<Weighted, AttentionError> {
        Ok(Weighted {
            heads: config.heads,
            value: linear(path / "value", config.d_model, config.d_model),
            output: linear(path / "output", config.d_model, config.d_model),
            mixture: Mixture::new(path, &config.terms, config.mixing, &config.shape())?,
            causal: config.causal.then(Causal::default),
        })
    }

    /// As [`super::SelfAttention::forward`], shapes checked; `dropout` is 0 but in training.
    pub(super) fn forward(&self, x: &Tensor, padding: Option<&Tensor>, dropout: f64) -> Tensor {
        let mask = self.mask(x.size()[1], x.device(), padding);
        let mut weights = self.softmax(x, mask.as_ref());
        let values = split(&self.value.forward(x), self.heads);
        if dropout > 0.0 {
            let size = values.size();
            // Each row of the batch drops its own.
            weights = weights.expand([size[0], size[1], size[2], size[2]], false).dropout(dropout, true);
        }
        let context = if weights.size()[0] == 1 { shared(&weights, &values) } else { weights.matmul(&values) };
        self.output.forward(&merge(&Mask::clear_blind(mask.as_ref(), context)))
    }

    /// As [`super::SelfAttention::weights`], shapes checked.
    pub(super) fn weights(&self, x: &Tensor, padding: Option<&Tensor>) -> Tensor {
        let (batch, length) = (x.size()[0], x.size()[1]);
        let mask = self.mask(length, x.device(), padding);
        let weights = Mask::clear_blind(mask.as_ref(), self.softmax(x, mask.as_ref()));
        weights.expand([batch, self.heads, length, length], false)
    }

    /// As [`super::SelfAttention::step`], shapes checked.
    pub(super) fn step(&self, x: &Tensor, position: i64, values: &mut Cache, functions: &mut [Cache]) -> Tensor {
        let values = values.push(&split(&self.value.forward(x), self.heads));
        let weights = self.mixture.step(x, position, functions).softmax(-1, None);
        self.output.forward(&merge(&weights.matmul(&values)))
    }

    fn mask(&self, length: i64, device: Device, padding: Option<&Tensor>) -> Option<Mask> {
        Mask::new(self.causal.as_ref().map(|causal| causal.cut(length, device)), padding)
    }

    /// [B or 1, h, L, L]
    fn softmax(&self, x: &Tensor, mask: Option<&Mask>) -> Tensor {
        Mask::softmax(mask, self.mixture.logits(x), self.mixture.depends_on_input())
    }
}

/// weights [1, h, L, L] times values [B, h, L, w] to [B, h, L, w], as one [L, L] × [L, B·w] product a head: no copy of the
/// weights for each row of the batch.
fn shared(weights: &Tensor, values: &Tensor) -> Tensor {
    let size = values.size();
    let (batch, heads, length, width) = (size[0], size[1], size[2], size[3]);
    let columns = values.permute([1, 2, 0, 3]).reshape([heads, length, batch * width]);
    weights.squeeze_dim(0).bmm(&columns).view([heads, length, batch, width]).permute([2, 0, 1, 3])
}
