//! What encoder and decoder layers share: norms with the residual sum before them, dropout, the feed-forward block.
//!
//! On the CPU they run in our own kernels, elsewhere in LibTorch's operations; [`plain`] has the definitions.

use crate::attention::linear;
use crate::native::{self, feed_forward, norm};
use tch::nn::{self, Init, Linear, Path};
use tch::{TchError, Tensor};

/// ε of every layer norm (Tensor2Tensor's).
pub const EPSILON: f64 = 1e-6;

/// Layer normalization over the last dimension: γ·(x − mean)/√(variance + ε) + β.
#[derive(Debug)]
pub struct Norm {
    pub(super) weight: Tensor,
    pub(super) bias: Tensor,
}

impl Norm {
    /// γ (`weight`) starts at 1, β (`bias`) at 0.
    pub fn new(path: &Path, d_model: i64) -> Self {
        Self {
            weight: path.var("weight", &[d_model], Init::Const(1.0)),
            bias: path.var("bias", &[d_model], Init::Const(0.0)),
        }
    }

    /// The norm of x [.., d]. Errors: LibTorch's.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor, TchError> {
        if native::takes(x.device(), x.kind()) {
            return norm::norm(x, self.affine());
        }
        plain::norm(x, self.affine())
    }

    /// (s, its norm) of s = x + dropout(branch), which acts if `train`: the end of one residual branch and the start of the
    /// next. Errors: LibTorch's.
    pub fn after(&self, x: &Tensor, branch: &Tensor, rate: f64, train: bool) -> Result<(Tensor, Tensor), TchError> {
        let rate = if train { rate } else { 0.0 };
        if native::takes(x.device(), x.kind()) {
            return norm::residual_norm(x, branch, rate, self.affine());
        }
        let sum = x + dropout(branch.shallow_clone(), rate, train)?;
        let normed = plain::norm(&sum, self.affine())?;
        Ok((sum, normed))
    }

    fn affine(&self) -> norm::Affine<'_> {
        norm::Affine { weight: &self.weight, bias: &self.bias, epsilon: EPSILON }
    }
}

/// Dropout that costs nothing where it does nothing. Errors: LibTorch's.
pub fn dropout(x: Tensor, rate: f64, train: bool) -> Result<Tensor, TchError> {
    if train && rate > 0.0 {
        native::dropout::dropout(&x, rate)
    } else {
        Ok(x)
    }
}

/// w2(dropout(relu(w1 x))).
#[derive(Debug)]
pub struct FeedForward {
    pub(super) w1: Linear,
    pub(super) w2: Linear,
    dropout: f64,
}

impl FeedForward {
    /// Widths d -> d_ff -> d; `dropout` acts after the relu.
    pub fn new(path: &nn::Path, d_model: i64, d_ff: i64, dropout: f64) -> Self {
        Self { w1: linear(path / "w1", d_model, d_ff), w2: linear(path / "w2", d_ff, d_model), dropout }
    }

    /// x [.., d] -> [.., d]. Errors: LibTorch's.
    pub fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor, TchError> {
        let rate = if train { self.dropout } else { 0.0 };
        let (Linear { ws: w1, bs: Some(b1) }, Linear { ws: w2, bs: Some(b2) }) = (&self.w1, &self.w2) else {
            return Err(TchError::Kind("a feed-forward block has biases".into()));
        };
        let weights = feed_forward::Weights { w1, b1, w2, b2 };
        if native::takes(x.device(), x.kind()) {
            return feed_forward::feed_forward(x, weights, rate);
        }
        plain::feed_forward(x, weights, |hidden| dropout(hidden, rate, train))
    }
}

/// The same from LibTorch's operations.
pub mod plain {
    use super::{feed_forward, norm, TchError, Tensor};

    /// γ·(x − mean)/√(variance + ε) + β over the last dimension. Errors: LibTorch's.
    pub fn norm(x: &Tensor, affine: norm::Affine) -> Result<Tensor, TchError> {
        let norm::Affine { weight, bias, epsilon } = affine;
        x.f_layer_norm(weight.size(), Some(weight), Some(bias), epsilon, false)
    }

    /// w2(dropout(relu(w1 x + b1))) + b2. Errors: LibTorch's.
    pub fn feed_forward(
        x: &Tensor,
        weights: feed_forward::Weights,
        dropout: impl Fn(Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let feed_forward::Weights { w1, b1, w2, b2 } = weights;
        let hidden = x.f_linear(w1, Some(b1))?.f_relu_()?;
        dropout(hidden)?.f_linear(w2, Some(b2))
    }
}
