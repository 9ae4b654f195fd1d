//! Encoder with a pooled head: tokens in, a logit for each class (or one score) out.

use super::embedding::Embedding;
use super::encoder::Encoder;
use super::layers::dropout;
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::{linear, SelfAttention};
use tch::nn::{self, Module};
use tch::{Kind, Tensor};

/// h = mean of the encoder's output over real tokens; logits = W₂ dropout(tanh(W₁h + b₁)) + b₂.
///
/// The mean, and not the first position: under Random attention every position mixes the others by fixed weights, and the
/// first would hold one fixed mixture of the text.
#[derive(Debug)]
pub struct Classifier {
    embedding: Embedding,
    encoder: Encoder,
    hidden: nn::Linear,
    output: nn::Linear,
    dropout: f64,
}

impl Classifier {
    /// Variables are named `embedding.…`, `encoder.…`, `head.hidden.…`, `head.output.…` under `path`. `outputs`: the number
    /// of classes, or 1 for a score.
    pub fn new(path: &nn::Path, config: &TransformerConfig, outputs: i64) -> Result<Self, ModelError> {
        let embedding =
            Embedding::new(&(path / "embedding"), config.vocabulary, config.d_model, config.max_length, config.dropout);
        let head = path / "head";
        Ok(Self {
            embedding,
            encoder: Encoder::new(&(path / "encoder"), config)?,
            hidden: linear(&head / "hidden", config.d_model, config.d_model),
            output: linear(&head / "output", config.d_model, outputs),
            dropout: config.dropout,
        })
    }

    /// Tokens [B, L] (int64) and their padding [B, L] (bool, true = no token; each row has a token) -> [B, outputs].
    pub fn forward(&self, tokens: &Tensor, padding: Option<&Tensor>, train: bool) -> Result<Tensor, ModelError> {
        let x = self.encoder.forward(self.embedding.forward(tokens, 0, train)?, padding, train)?;
        let hidden = self.hidden.forward(&mean_of_real(&x, padding)).tanh();
        Ok(self.output.forward(&dropout(hidden, self.dropout, train)?))
    }

    /// Hands on the self-attention weights of each layer.
    pub fn attention_weights(
        &self,
        tokens: &Tensor,
        padding: Option<&Tensor>,
        see: &mut dyn FnMut(LayerView),
    ) -> Result<(), ModelError> {
        self.encoder.attention_weights(self.embedding.forward(tokens, 0, false)?, padding, see)
    }

    /// Every self-attention layer with its stack's name and its number there.
    pub fn attentions(&self) -> impl Iterator<Item = (&'static str, usize, &SelfAttention)> {
        self.encoder.attentions().enumerate().map(|(layer, attention)| ("encoder", layer, attention))
    }
}

/// x [B, L, d] -> [B, d]: the mean over positions that are no padding.
fn mean_of_real(x: &Tensor, padding: Option<&Tensor>) -> Tensor {
    let over_positions: &[i64] = &[1];
    let Some(padding) = padding else {
        return x.mean_dim(over_positions, false, x.kind());
    };
    let real = padding.logical_not().to_kind(x.kind()).unsqueeze(-1);
    // what stands at padding may be anything but must not be infinite times 0
    let sum = x.masked_fill(&padding.unsqueeze(-1), 0.0).sum_dim_intlist(over_positions, false, None::<Kind>);
    sum / real.sum_dim_intlist(over_positions, false, None::<Kind>)
}
