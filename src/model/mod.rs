//! Pre-norm Transformers whose self-attention is any mix; encoder-decoder attention is always the dot product.

pub mod classifier;
pub mod cost;
pub mod cpu_decoder;
pub mod cpu_encoder;
mod cpu_layer;
pub mod cross_entropy;
pub mod decoder;
pub mod embedding;
pub mod encoder;
pub mod language_model;
pub mod layers;
pub mod seq2seq;

use crate::attention::cost::CostError;
use crate::attention::{AttentionConfig, AttentionError, Mixing, Term};
use tch::Tensor;

/// Sizes of a model; widths in numbers, dropout as probabilities.
#[derive(Debug, Clone)]
pub struct TransformerConfig {
    /// Rows of the shared embedding.
    pub vocabulary: i64,
    /// Width d.
    pub d_model: i64,
    /// Heads h of every attention.
    pub heads: i64,
    /// Encoder layers.
    pub encoder_layers: i64,
    /// Decoder layers.
    pub decoder_layers: i64,
    /// Width of the feed-forward blocks.
    pub d_ff: i64,
    /// N, the longest sequence.
    pub max_length: i64,
    /// On embeddings and residual branches.
    pub dropout: f64,
    /// On attention weights.
    pub attention_dropout: f64,
    /// After the feed-forward relu.
    pub relu_dropout: f64,
    /// Functions of every self-attention.
    pub terms: Vec<Term>,
    /// How they are weighted.
    pub mixing: Mixing,
}

impl TransformerConfig {
    /// The self-attention of one layer.
    pub fn attention(&self, causal: bool) -> AttentionConfig {
        AttentionConfig {
            d_model: self.d_model,
            heads: self.heads,
            max_length: self.max_length,
            terms: self.terms.clone(),
            mixing: self.mixing,
            dropout: self.attention_dropout,
            causal,
        }
    }
}

impl TransformerConfig {
    /// Trainable and total parameters, without making a tensor; with `cross`, decoder layers attend to a memory. At most
    /// `u64::MAX`.
    pub fn parameters(&self, cross: bool) -> Result<(u64, u64), CostError> {
        let attention = self.layer_cost()?.parameters();
        // 128 bits hold the product of any four sizes; a count that 64 bits do not hold is the largest that they do
        let [d, ff, vocabulary, encoder, decoder] =
            [self.d_model, self.d_ff, self.vocabulary, self.encoder_layers, self.decoder_layers]
                .map(|size| size.max(0) as u128);
        let norm = 2 * d;
        let feed_forward = 2 * d * ff + ff + d;
        let layer = 2 * norm + feed_forward;
        let cross_layer = if cross { norm + 4 * (d * d + d) } else { 0 };
        let stacks = u128::from(encoder > 0) + u128::from(decoder > 0);
        let around = vocabulary * d + (encoder + decoder) * layer + decoder * cross_layer + stacks * norm;
        let all = |of_layer: u64| around + (encoder + decoder) * u128::from(of_layer);
        let narrow = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
        Ok((narrow(all(attention.trainable)), narrow(all(attention.total))))
    }

    /// Trainable and total parameters of a [`classifier::Classifier`] with `outputs` outputs, without making a tensor.
    pub fn classifier_parameters(&self, outputs: u64) -> Result<(u64, u64), CostError> {
        let (trainable, total) = TransformerConfig { decoder_layers: 0, ..self.clone() }.parameters(false)?;
        let d = self.d_model as u64;
        let head = d * d + d + d * outputs + outputs;
        Ok((trainable.saturating_add(head), total.saturating_add(head)))
    }
}

/// A model that can't be built, or can't take an input.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// From a self-attention layer.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// LibTorch or one of our kernels refused.
    #[error(transparent)]
    Torch(#[from] tch::TchError),
    /// Longer than the position table.
    #[error("a sequence of {length} tokens is longer than the model's max_length {max_length}")]
    TooLong {
        /// Tokens, marks included.
        length: i64,
        /// N.
        max_length: i64,
    },
    /// A step of other rows than the state has.
    #[error("a step was given {tokens} tokens for {rows} rows")]
    Rows {
        /// Tokens given.
        tokens: usize,
        /// Rows of the state.
        rows: usize,
    },
    /// A token beyond the embedding.
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    Token {
        /// Its id.
        token: u32,
        /// Ids are below this.
        vocabulary: usize,
    },
}

/// One self-attention layer as reports see it.
#[derive(Debug)]
pub struct LayerView {
    /// `encoder` or `decoder`.
    pub stack: &'static str,
    /// From 0.
    pub layer: usize,
    /// Attention weights [B, h, L, L].
    pub values: Tensor,
}

/// Number of trainable parameters, and of all stored ones (fixed matrices included).
pub fn count_parameters(variables: &tch::nn::VarStore) -> (u64, u64) {
    let size = |tensor: &Tensor| tensor.numel() as u64;
    let all = variables.variables();
    (all.values().filter(|tensor| tensor.requires_grad()).map(size).sum(), all.values().map(size).sum())
}
