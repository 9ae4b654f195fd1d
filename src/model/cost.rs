//! Floating-point operations of a whole model's forward pass.

use super::TransformerConfig;
use crate::attention::cost::{CostError, Input, Layer};
use crate::attention::registry::Shape;

impl TransformerConfig {
    /// Operations of a [`Seq2Seq`](super::seq2seq::Seq2Seq)'s forward pass over `batch` sources of `source` tokens and targets
    /// of `target` tokens, by [`MODEL_FLOPS_DEFINITION`](crate::experiment::MODEL_FLOPS_DEFINITION).
    ///
    /// # Errors
    /// A mix or shape that no layer can have, a side longer than `max_length`, sizes out of bounds, more than 2^64 operations.
    pub fn seq2seq_flops(&self, batch: i64, source: i64, target: i64) -> Result<u64, CostError> {
        let shape = Shape { d_model: self.d_model, heads: self.heads, max_length: self.max_length };
        let attention = Layer::new(&self.terms, shape, self.mixing)?;
        // both check batch and length, so that the products below stay within 128 bits
        let encoder_attention = attention.flops(Input { batch, length: source })?.total;
        let decoder_attention = attention.flops(Input { batch, length: target })?.total;
        let [b, s, t, d, h, ff, vocabulary, encoder, decoder] = [
            batch,
            source,
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
        // queries and output of the target's tokens, keys and values of the source's; logits, softmax, weighted values
        let cross = 2 * (2 * b * t * d * d) + 2 * (2 * b * s * d * d) + 2 * (2 * b * t * s * d) + 5 * b * h * t * s;
        let encoder_layer = u128::from(encoder_attention) + feed_forward(b * s);
        let decoder_layer = u128::from(decoder_attention) + cross + feed_forward(b * t);
        let logits = 2 * b * t * d * vocabulary;
        u64::try_from(encoder * encoder_layer + decoder * decoder_layer + logits).map_err(|_| CostError::TooMany)
    }
}
