//! Decoder-only Transformer: the next token from the ones before.

use super::decoder::{Decoder, DecoderState};
use super::embedding::Embedding;
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::SelfAttention;
use tch::{nn, Tensor};

/// Tokens in, logits of the next token out; softmax tied with the embedding.
#[derive(Debug)]
pub struct LanguageModel {
    embedding: Embedding,
    decoder: Decoder,
}

impl LanguageModel {
    /// Variables are named `embedding.…` and `decoder.…` under `path`.
    pub fn new(path: &nn::Path, config: &TransformerConfig) -> Result<Self, ModelError> {
        let embedding =
            Embedding::new(&(path / "embedding"), config.vocabulary, config.d_model, config.max_length, config.dropout);
        Ok(Self { embedding, decoder: Decoder::new(&(path / "decoder"), config, false)? })
    }

    /// Tokens [B, L] -> hidden [B, L, d].
    pub fn forward(&self, tokens: &Tensor, train: bool) -> Result<Tensor, ModelError> {
        self.decoder.forward(self.embedding.forward(tokens, 0, train)?, None, train)
    }

    /// E [vocabulary, d]: the logits of a hidden vector are its products with the rows.
    pub fn table(&self) -> &Tensor {
        self.embedding.table()
    }

    /// Hidden [.., d] -> logits [.., vocabulary].
    pub fn logits(&self, hidden: &Tensor) -> Tensor {
        self.embedding.logits(hidden)
    }

    /// A state for generating.
    pub fn start(&self) -> Result<DecoderState, ModelError> {
        self.decoder.start(None)
    }

    /// Last tokens `[R]` -> logits [R, vocabulary] of the next.
    pub fn step(&self, tokens: &Tensor, state: &mut DecoderState) -> Result<Tensor, ModelError> {
        let x = self.embedding.forward(&tokens.unsqueeze(1), state.len(), false)?;
        Ok(self.logits(&self.decoder.step(x, state)?.squeeze_dim(1)))
    }

    /// Hands on the self-attention weights of each layer.
    pub fn attention_weights(&self, tokens: &Tensor, see: &mut dyn FnMut(LayerView)) -> Result<(), ModelError> {
        self.decoder.attention_weights(self.embedding.forward(tokens, 0, false)?, None, see)
    }

    /// Every self-attention layer with its stack's name and its number there.
    pub fn attentions(&self) -> impl Iterator<Item = (&'static str, usize, &SelfAttention)> {
        self.decoder.attentions().enumerate().map(|(layer, attention)| ("decoder", layer, attention))
    }
}
