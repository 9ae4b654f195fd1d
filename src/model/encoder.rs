//! The encoder: self-attention by mix, then feed-forward, each in a pre-norm residual branch.

use super::layers::{dropout, layer_norm, FeedForward};
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::SelfAttention;
use tch::nn::{self, Module};
use tch::Tensor;

#[derive(Debug)]
struct Layer {
    attention_norm: nn::LayerNorm,
    attention: SelfAttention,
    feed_forward_norm: nn::LayerNorm,
    feed_forward: FeedForward,
}

/// `encoder_layers` layers and a last norm.
#[derive(Debug)]
pub struct Encoder {
    layers: Vec<Layer>,
    norm: nn::LayerNorm,
    dropout: f64,
}

impl Encoder {
    /// Variables are named `layers.I.…` and `norm.…` under `path`.
    pub fn new(path: &nn::Path, config: &TransformerConfig) -> Result<Self, ModelError> {
        let layers = (0..config.encoder_layers)
            .map(|index| {
                let path = path / "layers" / index;
                Ok(Layer {
                    attention_norm: layer_norm(&(&path / "attention_norm"), config.d_model),
                    attention: SelfAttention::new(&(&path / "attention"), &config.attention(false))?,
                    feed_forward_norm: layer_norm(&(&path / "feed_forward_norm"), config.d_model),
                    feed_forward: FeedForward::new(
                        &(&path / "feed_forward"),
                        config.d_model,
                        config.d_ff,
                        config.relu_dropout,
                    ),
                })
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Self { layers, norm: layer_norm(&(path / "norm"), config.d_model), dropout: config.dropout })
    }

    /// x [B, S, d], padding [B, S] (bool, true = no token) -> [B, S, d].
    pub fn forward(&self, x: Tensor, padding: Option<&Tensor>, train: bool) -> Result<Tensor, ModelError> {
        let mut x = x;
        for layer in &self.layers {
            x = layer.forward(&x, padding, self.dropout, train)?;
        }
        Ok(self.norm.forward(&x))
    }

    /// Hands on the attention weights [B, h, S, S] of each layer that has shares of attention, without dropout; none is
    /// kept for the next.
    pub fn attention_weights(
        &self,
        x: Tensor,
        padding: Option<&Tensor>,
        see: &mut dyn FnMut(LayerView),
    ) -> Result<(), ModelError> {
        let mut x = x;
        for (index, layer) in self.layers.iter().enumerate() {
            if layer.attention.has_shares() {
                let values = layer.attention.weights(&layer.attention_norm.forward(&x), padding)?;
                see(LayerView { stack: "encoder", layer: index, values });
            }
            x = layer.forward(&x, padding, 0.0, false)?;
        }
        Ok(())
    }

    /// The self-attention layers, first to last.
    pub fn attentions(&self) -> impl Iterator<Item = &SelfAttention> {
        self.layers.iter().map(|layer| &layer.attention)
    }
}

impl Layer {
    fn forward(&self, x: &Tensor, padding: Option<&Tensor>, rate: f64, train: bool) -> Result<Tensor, ModelError> {
        let attended = self.attention.forward(&self.attention_norm.forward(x), padding, train)?;
        let x = x + dropout(attended, rate, train);
        let fed = self.feed_forward.forward(&self.feed_forward_norm.forward(&x), train);
        Ok(x + dropout(fed, rate, train))
    }
}
