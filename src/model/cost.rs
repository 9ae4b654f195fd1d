//! Floating-point operations of a whole model's forward pass.

use super::TransformerConfig;
use crate::attention::cost::{CostError, Input, Layer};
use crate::attention::registry::Shape;

/// Operations of a forward pass, by [`MODEL_FLOPS_DEFINITION`](crate::experiment::MODEL_FLOPS_DEFINITION).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFlops {
    /// Of the self-attention layers.
    pub self_attention: u64,
    /// Of encoder-decoder attention and feed-forward layers.
    pub rest: u64,
    /// Of the logits at every position of the target.
    pub logits: u64,
    /// The sum.
    pub total: u64,
}

impl TransformerConfig {
    /// Operations of the forward pass over `batch` rows: of a [`Seq2Seq`](super::seq2seq::Seq2Seq) with sources of `source`
    /// tokens and targets of `target` tokens, or, without sources, of a
    /// [`LanguageModel`](super::language_model::LanguageModel).
    ///
    /// # Errors
    /// A mix or shape that no layer can have, a side longer than `max_length`, sizes out of bounds, more than 2^64 operations.
    pub fn flops(&self, batch: i64, source: Option<i64>, target: i64) -> Result<ModelFlops, CostError> {
        let attention = self.layer_cost()?;
        // checks batch and length, so that the products below stay within 128 bits
        let layer = |length| Ok::<_, CostError>(u128::from(attention.flops(Input { batch, length })?.total));
        let [b, t, d, h, ff, vocabulary, encoder, decoder] = [
            batch,
            target,
            self.d_model,
            self.heads,
            self.d_ff,
            self.vocabulary,
            self.encoder_layers,
            self.decoder_layers,
        ]
        .map(|size| size as u128);
        let feed_forward = |tokens: u128| 2 * (2 * tokens * d * ff);
        let mut self_attention = decoder * layer(target)?;
        let mut rest = decoder * feed_forward(b * t);
        let logits = 2 * b * t * d * vocabulary;
        if let Some(source) = source {
            self_attention += encoder * layer(source)?;
            let s = source as u128;
            // queries and output of the target's tokens, keys and values of the source's; logits, softmax, weighted values
            let cross = 2 * (2 * b * t * d * d) + 2 * (2 * b * s * d * d) + 2 * (2 * b * t * s * d) + 5 * b * h * t * s;
            rest += encoder * feed_forward(b * s) + decoder * cross;
        }
        let fits = |operations: u128| u64::try_from(operations).map_err(|_| CostError::TooMany);
        Ok(ModelFlops {
            self_attention: fits(self_attention)?,
            rest: fits(rest)?,
            logits: fits(logits)?,
            total: fits(self_attention + rest + logits)?,
        })
    }

    /// What one self-attention layer costs.
    ///
    /// # Errors
    /// A mix or shape that no layer can have.
    pub fn layer_cost(&self) -> Result<Layer, CostError> {
        let shape = Shape { d_model: self.d_model, heads: self.heads, max_length: self.max_length };
        Layer::new(&self.terms, shape, self.mixing)
    }
}
