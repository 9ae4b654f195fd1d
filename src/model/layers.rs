//! What encoder and decoder layers share: norms, dropout, the feed-forward block.

use crate::attention::linear;
use tch::nn::{self, Module};
use tch::Tensor;

/// Layer normalization over the last dimension, ε = 1e-6 (Tensor2Tensor's).
pub fn layer_norm(path: &nn::Path, d_model: i64) -> nn::LayerNorm {
    nn::layer_norm(path, vec![d_model], nn::LayerNormConfig { eps: 1e-6, ..Default::default() })
}

/// Dropout that costs nothing where it does nothing.
pub fn dropout(x: Tensor, rate: f64, train: bool) -> Tensor {
    if train && rate > 0.0 {
        x.dropout(rate, true)
    } else {
        x
    }
}

/// w2(dropout(relu(w1 x))).
#[derive(Debug)]
pub struct FeedForward {
    w1: nn::Linear,
    w2: nn::Linear,
    dropout: f64,
}

impl FeedForward {
    /// Widths d -> d_ff -> d; `dropout` acts after the relu.
    pub fn new(path: &nn::Path, d_model: i64, d_ff: i64, dropout: f64) -> Self {
        Self { w1: linear(path / "w1", d_model, d_ff), w2: linear(path / "w2", d_ff, d_model), dropout }
    }

    /// x [.., d] -> [.., d].
    pub fn forward(&self, x: &Tensor, train: bool) -> Tensor {
        let hidden = self.w1.forward(x).relu_();
        self.w2.forward(&dropout(hidden, self.dropout, train))
    }
}
