//! The decoder: causal self-attention by mix, dot-product attention to a memory where there is one, feed-forward.

use super::layers::{FeedForward, Norm};
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::{AttentionState, CrossAttention, CrossState, SelfAttention};
use tch::nn;
use tch::Tensor;

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Norm,
    pub(super) attention: SelfAttention,
    pub(super) cross: Option<(Norm, CrossAttention)>,
    pub(super) feed_forward_norm: Norm,
    pub(super) feed_forward: FeedForward,
}

/// `decoder_layers` layers and a last norm.
#[derive(Debug)]
pub struct Decoder {
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
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
                    attention_norm: Norm::new(&(&path / "attention_norm"), d),
                    attention: SelfAttention::new(&(&path / "attention"), &config.attention(true))?,
                    cross: cross
                        .then(|| {
                            let norm = Norm::new(&(&path / "cross_norm"), d);
                            Ok::<_, ModelError>((
                                norm,
                                CrossAttention::new(&(&path / "cross"), d, h, config.attention_dropout)?,
                            ))
                        })
                        .transpose()?,
                    feed_forward_norm: Norm::new(&(&path / "feed_forward_norm"), d),
                    feed_forward: FeedForward::new(&(&path / "feed_forward"), d, config.d_ff, config.relu_dropout),
                })
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Self { layers, norm: Norm::new(&(path / "norm"), d), dropout: config.dropout })
    }

    /// x [B, T, d] -> [B, T, d]. Padding stands at the end of rows, where the causal mask hides it.
    pub fn forward(&self, x: Tensor, memory: Option<&Memory>, train: bool) -> Result<Tensor, ModelError> {
        self.run(x, memory, if train { self.dropout } else { 0.0 }, train, &mut |_, _, _| Ok(()))
    }

    /// Hands on the attention weights [B, h, T, T] of each self-attention that has shares of attention, without dropout;
    /// none is kept for the next.
    pub fn attention_weights(
        &self,
        x: Tensor,
        memory: Option<&Memory>,
        see: &mut dyn FnMut(LayerView),
    ) -> Result<(), ModelError> {
        let see_layer = &mut |index: usize, attention: &SelfAttention, normed: &Tensor| {
            if attention.has_shares() {
                see(LayerView { stack: "decoder", layer: index, values: attention.weights(normed, None)? });
            }
            Ok(())
        };
        self.run(x, memory, 0.0, false, see_layer).map(|_| ())
    }

    /// `see` gets each layer's number, self-attention, and its input. Every sum of a residual branch is made together with
    /// the norm that follows it.
    fn run(
        &self,
        x: Tensor,
        memory: Option<&Memory>,
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
            let attended = layer.attention.forward(&normed, None, train)?;
            if let (Some((norm, cross)), Some(memory)) = (&layer.cross, memory) {
                (x, normed) = norm.after(&x, &attended, rate, train)?;
                let seen = cross.forward(&normed, &memory.values, memory.padding.as_ref(), train)?;
                (x, normed) = layer.feed_forward_norm.after(&x, &seen, rate, train)?;
            } else {
                (x, normed) = layer.feed_forward_norm.after(&x, &attended, rate, train)?;
            }
            let fed = layer.feed_forward.forward(&normed, train)?;
            (x, normed) = next.after(&x, &fed, rate, train)?;
        }
        Ok(normed)
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
            x = &x + layer.attention.step(&layer.attention_norm.forward(&x)?, attention_state)?;
            if let (Some((norm, cross)), Some(cross_state)) = (&layer.cross, cross_state) {
                x = &x + cross.step(&norm.forward(&x)?, cross_state)?;
            }
            x = &x + layer.feed_forward.forward(&layer.feed_forward_norm.forward(&x)?, false)?;
        }
        Ok(self.norm.forward(&x)?)
    }

    /// The self-attention layers, first to last.
    pub fn attentions(&self) -> impl Iterator<Item = &SelfAttention> {
        self.layers.iter().map(|layer| &layer.attention)
    }
}
