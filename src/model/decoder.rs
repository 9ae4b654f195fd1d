//! The decoder: causal self-attention by mix, dot-product attention to a memory where there is one, feed-forward.

use super::layers::{dropout, layer_norm, FeedForward};
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::{AttentionState, CrossAttention, CrossState, SelfAttention};
use tch::nn::{self, Module};
use tch::Tensor;

#[derive(Debug)]
struct Layer {
    attention_norm: nn::LayerNorm,
    attention: SelfAttention,
    cross: Option<(nn::LayerNorm, CrossAttention)>,
    feed_forward_norm: nn::LayerNorm,
    feed_forward: FeedForward,
}

/// `decoder_layers` layers and a last norm.
#[derive(Debug)]
pub struct Decoder {
    layers: Vec<Layer>,
    norm: nn::LayerNorm,
    dropout: f64,
}

/// An encoded source: [B, S, d] and its padding [B, S].
#[derive(Debug)]
pub struct Memory {
    /// The encoder's output.
    pub values: Tensor,
    /// True where there is no token.
    pub padding: Option<Tensor>,
}

/// What the decoder keeps between steps, for R rows.
#[derive(Debug)]
pub struct DecoderState {
    layers: Vec<(AttentionState, Option<CrossState>)>,
}

impl DecoderState {
    /// Row i becomes what row `rows[i]` was (int64 [R']).
    pub fn reorder(&mut self, rows: &Tensor) {
        for (attention, cross) in &mut self.layers {
            attention.reorder(rows);
            if let Some(cross) = cross {
                cross.reorder(rows);
            }
        }
    }

    /// Tokens taken so far.
    pub fn len(&self) -> i64 {
        self.layers.first().map_or(0, |(attention, _)| attention.len())
    }

    /// Whether no token was taken yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Decoder {
    /// With `cross`, every layer attends to a memory. Variables are named `layers.I.…` and `norm.…` under `path`.
    pub fn new(path: &nn::Path, config: &TransformerConfig, cross: bool) -> Result<Self, ModelError> {
        let (d, h) = (config.d_model, config.heads);
        let layers = (0..config.decoder_layers)
            .map(|index| {
                let path = path / "layers" / index;
                Ok(Layer {
                    attention_norm: layer_norm(&(&path / "attention_norm"), d),
                    attention: SelfAttention::new(&(&path / "attention"), &config.attention(true))?,
                    cross: cross
                        .then(|| {
                            let norm = layer_norm(&(&path / "cross_norm"), d);
                            Ok::<_, ModelError>((
                                norm,
                                CrossAttention::new(&(&path / "cross"), d, h, config.attention_dropout)?,
                            ))
                        })
                        .transpose()?,
                    feed_forward_norm: layer_norm(&(&path / "feed_forward_norm"), d),
                    feed_forward: FeedForward::new(&(&path / "feed_forward"), d, config.d_ff, config.relu_dropout),
                })
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Self { layers, norm: layer_norm(&(path / "norm"), d), dropout: config.dropout })
    }

    /// x [B, T, d] -> [B, T, d]. Padding stands at the end of rows, where the causal mask hides it.
    pub fn forward(&self, x: Tensor, memory: Option<&Memory>, train: bool) -> Result<Tensor, ModelError> {
        let mut x = x;
        for layer in &self.layers {
            x = layer.forward(&x, memory, self.dropout, train)?;
        }
        Ok(self.norm.forward(&x))
    }

    /// Hands on the attention weights [B, h, T, T] of each self-attention that has shares of attention, without
    /// dropout; none is kept for the next.
    pub fn attention_weights(
        &self,
        x: Tensor,
        memory: Option<&Memory>,
        see: &mut dyn FnMut(LayerView),
    ) -> Result<(), ModelError> {
        let mut x = x;
        for (index, layer) in self.layers.iter().enumerate() {
            if layer.attention.has_shares() {
                let values = layer.attention.weights(&layer.attention_norm.forward(&x), None)?;
                see(LayerView { stack: "decoder", layer: index, values });
            }
            x = layer.forward(&x, memory, 0.0, false)?;
        }
        Ok(())
    }

    /// Empty states; keys and values of the memory are computed here, once.
    pub fn start(&self, memory: Option<&Memory>) -> Result<DecoderState, ModelError> {
        let layers = self.layers.iter().map(|layer| {
            let cross = match (&layer.cross, memory) {
                (Some((_, cross)), Some(memory)) => Some(cross.start(&memory.values, memory.padding.as_ref())?),
                _ => None,
            };
            Ok((layer.attention.start(), cross))
        });
        Ok(DecoderState { layers: layers.collect::<Result<_, ModelError>>()? })
    }

    /// One position: x [R, 1, d] -> [R, 1, d], the state growing by it.
    pub fn step(&self, x: Tensor, state: &mut DecoderState) -> Result<Tensor, ModelError> {
        let mut x = x;
        for (layer, (attention_state, cross_state)) in self.layers.iter().zip(&mut state.layers) {
            x = &x + layer.attention.step(&layer.attention_norm.forward(&x), attention_state)?;
            if let (Some((norm, cross)), Some(cross_state)) = (&layer.cross, cross_state) {
                x = &x + cross.step(&norm.forward(&x), cross_state)?;
            }
            x = &x + layer.feed_forward.forward(&layer.feed_forward_norm.forward(&x), false);
        }
        Ok(self.norm.forward(&x))
    }

    /// The self-attention layers, first to last.
    pub fn attentions(&self) -> impl Iterator<Item = &SelfAttention> {
        self.layers.iter().map(|layer| &layer.attention)
    }
}

impl Layer {
    fn forward(&self, x: &Tensor, memory: Option<&Memory>, rate: f64, train: bool) -> Result<Tensor, ModelError> {
        let attended = self.attention.forward(&self.attention_norm.forward(x), None, train)?;
        let mut x = x + dropout(attended, rate, train);
        if let (Some((norm, cross)), Some(memory)) = (&self.cross, memory) {
            let seen = cross.forward(&norm.forward(&x), &memory.values, memory.padding.as_ref(), train)?;
            // not +=, which LibTorch does in place: the norm above keeps x for its gradient
            x = &x + dropout(seen, rate, train);
        }
        let fed = self.feed_forward.forward(&self.feed_forward_norm.forward(&x), train);
        Ok(x + dropout(fed, rate, train))
    }
}
