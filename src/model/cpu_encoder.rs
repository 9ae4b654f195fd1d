//! The encoder on the CPU in float32, without LibTorch: what [`Encoder::forward`] computes, of sources of several lengths
//! laid end to end, without padding.

use super::cpu_decoder::{CpuDecoder, CpuMemory};
use super::cpu_layer::{norm, CpuLayer, Group, Scratch};
use super::encoder::Encoder;
use super::ModelError;
use crate::native::decode::Norm;

/// The encoder's weights, packed.
#[derive(Debug)]
pub struct CpuEncoder {
    layers: Vec<CpuLayer>,
    norm: Norm,
}

impl CpuEncoder {
    /// None for a mix whose functions have no form that the kernels know.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn new(encoder: &Encoder) -> Result<Option<CpuEncoder>, ModelError> {
        let mut layers = Vec::with_capacity(encoder.layers.len());
        for layer in &encoder.layers {
            let norms = [&layer.attention_norm, &layer.feed_forward_norm];
            let Some(own) = CpuLayer::new(norms, &layer.attention, &layer.feed_forward, false)? else {
                return Ok(None);
            };
            layers.push(own);
        }
        Ok(Some(CpuEncoder { layers, norm: norm(&encoder.norm)? }))
    }

    /// The memory of sources of one token at least, embedded as the decoder's inputs are.
    ///
    /// # Errors
    /// A source of more than N tokens, or a token that the vocabulary lacks.
    pub fn encode(&self, decoder: &CpuDecoder, sources: &[Vec<u32>]) -> Result<CpuMemory, ModelError> {
        let embedding = &decoder.embedding;
        let d = embedding.d_model;
        let rows: usize = sources.iter().map(Vec::len).sum();
        let mut scratch = Scratch::default();
        scratch.start(rows, d);
        let places = sources.iter().flat_map(|source| source.iter().enumerate());
        for (x, (position, &token)) in scratch.x.chunks_exact_mut(d).zip(places) {
            embedding.embed(token, position, x)?;
        }
        let all: Vec<u32> = (0..rows as u32).collect();
        let mut first = 0;
        let groups: Vec<Group> = (sources.iter().filter(|source| !source.is_empty()))
            .map(|source| {
                let (start, length) = (first, source.len());
                first += length;
                let entries = &all[start..first];
                Group { first: start, rows: length, position: 0, is_sequence: true, length, entries, stride: 0 }
            })
            .collect();
        for layer in &self.layers {
            let mut entries = vec![0.0; rows * layer.entry_width()];
            layer.attend(&groups, &mut entries, 0, &mut scratch);
            layer.feed_forward(&mut scratch);
        }
        let mut values = vec![0.0; rows * d];
        self.norm.apply(&scratch.x, &mut values);
        Ok(CpuMemory { values, lengths: sources.iter().map(|source| source.len() as u32).collect() })
    }
}
