//! Encoder-decoder Transformer with one embedding for source, target and softmax.

use super::cpu_decoder::CpuDecoder;
use super::cpu_encoder::CpuEncoder;
use super::decoder::{Decoder, DecoderState, Memory};
use super::embedding::Embedding;
use super::encoder::Encoder;
use super::{LayerView, ModelError, TransformerConfig};
use crate::attention::SelfAttention;
use tch::{nn, Tensor};

/// Source tokens in, target tokens out.
#[derive(Debug)]
pub struct Seq2Seq {
    embedding: Embedding,
    encoder: Encoder,
    decoder: Decoder,
}

impl Seq2Seq {
    /// Variables are named `embedding.…`, `encoder.…`, `decoder.…` under `path`.
    pub fn new(path: &nn::Path, config: &TransformerConfig) -> Result<Self, ModelError> {
        let embedding =
            Embedding::new(&(path / "embedding"), config.vocabulary, config.d_model, config.max_length, config.dropout);
        Ok(Self {
            embedding,
            encoder: Encoder::new(&(path / "encoder"), config)?,
            decoder: Decoder::new(&(path / "decoder"), config, true)?,
        })
    }

    /// Source [B, S] and its padding [B, S] -> memory.
    pub fn encode(&self, source: &Tensor, padding: Option<Tensor>, train: bool) -> Result<Memory, ModelError> {
        let x = self.embedding.forward(source, 0, train)?;
        Ok(Memory { values: self.encoder.forward(x, padding.as_ref(), train)?, padding })
    }

    /// Target [B, T], shifted right (begin mark first) -> hidden [B, T, d].
    pub fn decode(&self, target: &Tensor, memory: &Memory, train: bool) -> Result<Tensor, ModelError> {
        self.decoder.forward(self.embedding.forward(target, 0, train)?, Some(memory), train)
    }

    /// E [vocabulary, d]: the logits of a hidden vector are its products with the rows.
    pub fn table(&self) -> &Tensor {
        self.embedding.table()
    }

    /// Hidden [.., d] -> logits [.., vocabulary].
    pub fn logits(&self, hidden: &Tensor) -> Tensor {
        self.embedding.logits(hidden)
    }

    /// A state for generating from `memory`, a row for each of its rows.
    pub fn start(&self, memory: &Memory) -> Result<DecoderState, ModelError> {
        self.decoder.start(Some(memory))
    }

    /// The decoder as the CPU's kernels read it, with the weights of this moment; none where the plain steps must do.
    pub fn cpu_decoder(&self) -> Result<Option<CpuDecoder>, ModelError> {
        CpuDecoder::new(&self.embedding, &self.decoder)
    }

    /// The encoder, likewise; its tokens are embedded by the decoder's table.
    pub fn cpu_encoder(&self) -> Result<Option<CpuEncoder>, ModelError> {
        CpuEncoder::new(&self.encoder)
    }

    /// Last tokens `[R]` -> logits [R, vocabulary] of the next.
    pub fn step(&self, tokens: &Tensor, state: &mut DecoderState) -> Result<Tensor, ModelError> {
        let x = self.embedding.forward(&tokens.unsqueeze(1), state.len(), false)?;
        Ok(self.logits(&self.decoder.step(x, state)?.squeeze_dim(1)))
    }

    /// Hands on the self-attention weights of each layer, encoder first.
    pub fn attention_weights(
        &self,
        source: &Tensor,
        padding: Option<Tensor>,
        target: &Tensor,
        see: &mut dyn FnMut(LayerView),
    ) -> Result<(), ModelError> {
        let x = self.embedding.forward(source, 0, false)?;
        self.encoder.attention_weights(x, padding.as_ref(), see)?;
        let memory = self.encode(source, padding, false)?;
        self.decoder.attention_weights(self.embedding.forward(target, 0, false)?, Some(&memory), see)
    }

    /// Every self-attention layer with its stack's name and its number there.
    pub fn attentions(&self) -> impl Iterator<Item = (&'static str, usize, &SelfAttention)> {
        let encoder = self.encoder.attentions().enumerate().map(|(layer, attention)| ("encoder", layer, attention));
        encoder.chain(self.decoder.attentions().enumerate().map(|(layer, attention)| ("decoder", layer, attention)))
    }
}
