//! Attention as the paper has it: softmax over the logits of a mix, times the values, then the output projection.

use super::cache::Cache;
use super::fused::{apply, attend, compose, Form, Visibility};
use super::heads::{linear, merge, project, project_all, split};
use super::mask::{Causal, Mask};
use super::mixture::Mixture;
use super::{AttentionConfig, AttentionError, CoreAttention, Mixing};
use crate::native::attention::Part;
use std::iter::once;
use tch::nn::{Linear, Path};
use tch::{Device, Tensor};

/// The layer of one or more functions that make logits.
#[derive(Debug)]
pub(super) struct Weighted {
    heads: i64,
    pub(super) value: Linear,
    pub(super) output: Linear,
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
    pub(super) fn forward(
        &self,
        x: &Tensor,
        padding: Option<&Tensor>,
        dropout: f64,
        form: Form,
    ) -> Result<Tensor, AttentionError> {
        let visibility = Visibility { causal: self.causal.as_ref(), padding, dropout };
        let context = match form.resolve(x) {
            Form::Plain | Form::Auto => {
                let mask = self.mask(x.size()[1], x.device(), padding);
                let values = split(&project(&self.value, x), self.heads);
                apply(self.softmax(x, mask.as_ref()), &values, mask.as_ref(), dropout)
            }
            Form::Composed => {
                let (values, parts) = self.values_and_parts(x);
                compose(&parts, self.mixture.weights().as_ref(), &values, visibility)
            }
            Form::Fused => {
                let (values, parts) = self.values_and_parts(x);
                attend(parts, self.mixture.weights(), values, visibility)?
            }
        };
        Ok(project(&self.output, &merge(&context)))
    }

    /// Values [B, h, L, d_h], and what the logits are made of.
    fn values_and_parts(&self, x: &Tensor) -> (Tensor, Vec<Part>) {
        let maps: Vec<&Linear> = once(&self.value).chain(self.mixture.maps()).collect();
        let mapped = project_all(&maps, x);
        (split(&mapped[0], self.heads), self.mixture.parts(x, &mapped[1..]))
    }

    /// As [`super::SelfAttention::core`], shapes checked.
    pub(super) fn core(&self, x: &Tensor, mixing: Mixing, form: Form) -> CoreAttention {
        let (values, parts) = self.values_and_parts(x);
        CoreAttention::new(&parts, self.mixture.alpha(), mixing, &values, self.causal.is_some(), form)
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
        let values = values.push(&split(&project(&self.value, x), self.heads));
        let weights = self.mixture.step(x, position, functions).softmax(-1, None);
        project(&self.output, &merge(&weights.matmul(&values)))
    }

    fn mask(&self, length: i64, device: Device, padding: Option<&Tensor>) -> Option<Mask> {
        Mask::new(self.causal.as_ref().map(|causal| causal.cut(length, device)), padding)
    }

    /// [B or 1, h, L, L]
    fn softmax(&self, x: &Tensor, mask: Option<&Mask>) -> Tensor {
        Mask::softmax(mask, self.mixture.logits(x), self.mixture.depends_on_input())
    }
}
