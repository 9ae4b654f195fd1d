//! The encoder: self-attention by mix, then feed-forward, each in a pre-norm residual branch.

use super::layers::{FeedForward, Norm};
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::SelfAttention;
use tch::nn;
use tch::Tensor;

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Norm,
    pub(super) attention: SelfAttention,
    pub(super) feed_forward_norm: Norm,
    pub(super) feed_forward: FeedForward,
}

/// `encoder_layers` layers and a last norm.
#[derive(Debug)]
pub struct Encoder {
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    dropout: f64,
}

impl Encoder {
    /// Variables are named `layers.I.…` and `norm.…` under `path`.
    pub fn new(path: &nn::Path, config: &TransformerConfig) -> Result<Self, ModelError> {
        let layers = (0..config.encoder_layers)
            .map(|index| {
                let path = path / "layers" / index;
                Ok(Layer {
                    attention_norm: Norm::new(&(&path / "attention_norm"), config.d_model),
                    attention: SelfAttention::new(&(&path / "attention"), &config.attention(false))?,
                    feed_forward_norm: Norm::new(&(&path / "feed_forward_norm"), config.d_model),
                    feed_forward: FeedForward::new(
                        &(&path / "feed_forward"),
                        config.d_model,
                        config.d_ff,
                        config.relu_dropout,
                    ),
                })
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Self { layers, norm: Norm::new(&(path / "norm"), config.d_model), dropout: config.dropout })
    }

    /// x [B, S, d], padding [B, S] (bool, true = no token) -> [B, S, d].
    pub fn forward(&self, x: Tensor, padding: Option<&Tensor>, train: bool) -> Result<Tensor, ModelError> {
        self.run(x, padding, if train { self.dropout } else { 0.0 }, train, &mut |_, _, _| Ok(()))
    }

    /// Hands on the attention weights [B, h, S, S] of each layer that has shares of attention, without dropout; none is
    /// kept for the next.
    pub fn attention_weights(
        &self,
        x: Tensor,
        padding: Option<&Tensor>,
        see: &mut dyn FnMut(LayerView),
    ) -> Result<(), ModelError> {
        let see_layer = &mut |index: usize, attention: &SelfAttention, normed: &Tensor| {
            if attention.has_shares() {
                see(LayerView { stack: "encoder", layer: index, values: attention.weights(normed, padding)? });
            }
            Ok(())
        };
        self.run(x, padding, 0.0, false, see_layer).map(|_| ())
    }

    /// `see` gets each layer's number, attention, and the attention's input. Every sum of a residual branch is made together
    /// with the norm that follows it.
    fn run(
        &self,
        x: Tensor,
        padding: Option<&Tensor>,
        rate: f64,
        train: bool,
        see: &mut dyn FnMut(usize, &SelfAttention, &Tensor) -> Result<(), ModelError>,
    ) -> Result<Tensor, ModelError> {
        let norms = self.layers.iter().map(|layer| &layer.attention_norm).chain([&self.norm]);
        let mut x = x;
        let mut normed = match self.layers.first() {
            Some(layer) => layer.attention_norm.forward(&x)?,
            None => self.norm.forward(&x)?,
        };
        for (index, (layer, next)) in self.layers.iter().zip(norms.skip(1)).enumerate() {
            see(index, &layer.attention, &normed)?;
            let attended = layer.attention.forward(&normed, padding, train)?;
            (x, normed) = layer.feed_forward_norm.after(&x, &attended, rate, train)?;
            let fed = layer.feed_forward.forward(&normed, train)?;
            (x, normed) = next.after(&x, &fed, rate, train)?;
        }
        Ok(normed)
    }

    /// The self-attention layers, first to last.
    pub fn attentions(&self) -> impl Iterator<Item = &SelfAttention> {
        self.layers.iter().map(|layer| &layer.attention)
    }
}
