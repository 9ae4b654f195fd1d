//! The decoder's steps on the CPU in float32, without LibTorch: what [`Decoder::step`] computes, in few calls on packed weights.
//!
//! **Caches.** Every position of every hypothesis is an entry that is written once and never moved. A hypothesis is the list of
//! the entries of its past, so that to reorder hypotheses is to copy lists of numbers, and those that share a past share its
//! entries. Keys and values of a memory lie there once for all hypotheses of a sentence, its padding left out.
//!
//! **Logits that no input changes.** Where all functions of a mix are tables, the attention weights of every position are known
//! before the first step: their softmax is taken once, and entries hold values alone.
//!
//! Nothing here is shared between states, so that threads decode sentences of their own with one decoder.

use super::cpu_layer::{joined, norm, packed, CpuLayer, Group, Scratch};
use super::decoder::{Decoder, Memory};
use super::embedding::Embedding;
use super::ModelError;
use crate::native;
use crate::native::decode::{attend_memory, floats, likeliest, Mode, Norm, Packed};
use tch::{Device, Kind};

/// The weights of embedding and decoder, packed.
#[derive(Debug)]
pub struct CpuDecoder {
    pub(super) embedding: CpuEmbedding,
    layers: Vec<(CpuLayer, Option<Cross>)>,
    norm: Norm,
    logits: Packed,
}

/// √d · E and the positions.
#[derive(Debug)]
pub(super) struct CpuEmbedding {
    /// [vocabulary, d]
    table: Vec<f32>,
    /// [N, d]
    positions: Vec<f32>,
    pub(super) d_model: usize,
    pub(super) max_length: usize,
}

#[derive(Debug)]
struct Cross {
    norm: Norm,
    query: Packed,
    /// d to values, then keys.
    entry: Packed,
    output: Packed,
    heads: usize,
}

/// What an encoder made of several sources, their padding left out.
#[derive(Debug)]
pub struct CpuMemory {
    /// [all tokens, d], source by source.
    pub values: Vec<f32>,
    /// Tokens of each source.
    pub lengths: Vec<u32>,
}

/// Hypotheses that are decoded together; row i of everything is hypothesis i.
#[derive(Debug)]
pub struct CpuState {
    position: usize,
    rows: usize,
    /// [rows, N]: the entries of each past.
    ancestors: Vec<u32>,
    /// Where each row's memory lies, and how many entries long it is.
    memory_firsts: Vec<u32>,
    memory_lengths: Vec<u32>,
    layers: Vec<Entries>,
    /// Of every layer's own.
    written: usize,
    logits: Vec<f32>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Entries {
    own: Vec<f32>,
    memory: Vec<f32>,
}

impl CpuEmbedding {
    fn new(embedding: &Embedding) -> Result<CpuEmbedding, ModelError> {
        Ok(CpuEmbedding {
            table: floats(&(embedding.table.detach() * embedding.scale))?,
            positions: floats(&embedding.positions)?,
            d_model: embedding.table.size()[1] as usize,
            max_length: embedding.positions.size()[0] as usize,
        })
    }

    /// The input x [d] of a token at a position, counted from 0.
    ///
    /// # Errors
    /// More than N positions, or a token that the vocabulary lacks.
    pub(super) fn embed(&self, token: u32, position: usize, x: &mut [f32]) -> Result<(), ModelError> {
        let d = self.d_model;
        if position >= self.max_length {
            return Err(ModelError::TooLong { length: position as i64 + 1, max_length: self.max_length as i64 });
        }
        let vocabulary = self.table.len() / d;
        if token as usize >= vocabulary {
            return Err(ModelError::Token { token, vocabulary });
        }
        let token = &self.table[token as usize * d..][..d];
        let place = &self.positions[position * d..][..d];
        x.iter_mut().zip(token).zip(place).for_each(|((x, token), place)| *x = token + place);
        Ok(())
    }
}

impl CpuDecoder {
    /// None for weights that are not float32 on the CPU, where the kernels are off, and for a mix whose functions have no form that the kernels know.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn new(embedding: &Embedding, decoder: &Decoder) -> Result<Option<CpuDecoder>, ModelError> {
        let table = &embedding.table;
        if table.kind() != Kind::Float || !native::takes(table.device(), table.kind()) {
            return Ok(None);
        }
        let mut layers = Vec::with_capacity(decoder.layers.len());
        for layer in &decoder.layers {
            let norms = [&layer.attention_norm, &layer.feed_forward_norm];
            let Some(own) = CpuLayer::new(norms, &layer.attention, &layer.feed_forward, true)? else { return Ok(None) };
            let cross = layer.cross.as_ref().map(|(before, cross)| {
                let frozen = cross.frozen();
                Ok::<_, ModelError>(Cross {
                    norm: norm(before)?,
                    query: packed(&frozen.query)?,
                    entry: joined(&[&frozen.value, &frozen.key])?,
                    output: packed(&frozen.output)?,
                    heads: frozen.heads as usize,
                })
            });
            layers.push((own, cross.transpose()?));
        }
        let embedding = CpuEmbedding::new(embedding)?;
        Ok(Some(CpuDecoder { embedding, layers, norm: norm(&decoder.norm)?, logits: Packed::new(table, None)? }))
    }

    /// A state of one row for each row of the memory, which is as long as those of it that are no padding.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn start(&self, memory: &Memory) -> Result<CpuState, ModelError> {
        let (rows, longest, d) = memory.values.size3()?;
        let (rows, longest, d) = (rows as usize, longest as usize, d as usize);
        let padding: Vec<bool> = match &memory.padding {
            Some(padding) => Vec::try_from(padding.f_to_device(Device::Cpu)?.f_reshape([-1])?)?,
            None => vec![false; rows * longest],
        };
        let all = floats(&memory.values)?;
        let mut real = CpuMemory { values: Vec::with_capacity(all.len()), lengths: Vec::with_capacity(rows) };
        for row in 0..rows {
            let places = (row * longest..(row + 1) * longest).filter(|&place| !padding[place]);
            let before = real.values.len();
            places.for_each(|place| real.values.extend_from_slice(&all[place * d..][..d]));
            real.lengths.push(((real.values.len() - before) / d) as u32);
        }
        Ok(self.start_from(&real))
    }

    /// A state of one row for each source of the memory.
    pub fn start_from(&self, memory: &CpuMemory) -> CpuState {
        let rows = memory.lengths.len();
        let memory_of = |cross: &Option<Cross>| {
            cross.as_ref().map_or_else(Vec::new, |cross| {
                let places = memory.values.len() / self.embedding.d_model;
                let mut entries = vec![0.0; places * cross.entry.columns()];
                cross.entry.apply(places, &memory.values, Mode::Set, &mut entries);
                entries
            })
        };
        let firsts = memory.lengths.iter().scan(0, |next, length| {
            let first = *next;
            *next += length;
            Some(first)
        });
        CpuState {
            position: 0,
            rows,
            ancestors: vec![0; rows * self.embedding.max_length],
            memory_firsts: firsts.collect(),
            memory_lengths: memory.lengths.clone(),
            layers: self.layers.iter().map(|(_, cross)| Entries { own: vec![], memory: memory_of(cross) }).collect(),
            written: 0,
            logits: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Appends a token to each row: then [`CpuState::logits`] are those of the next.
    ///
    /// # Errors
    /// More than N steps; another number of tokens than rows, or a token that the vocabulary lacks.
    pub fn step(&self, tokens: &[u32], state: &mut CpuState) -> Result<(), ModelError> {
        let (d, max_length) = (self.embedding.d_model, self.embedding.max_length);
        let (rows, position, written) = (state.rows, state.position, state.written);
        if tokens.len() != rows {
            return Err(ModelError::Rows { tokens: tokens.len(), rows });
        }
        let CpuState { ancestors, layers, scratch, logits, memory_firsts, memory_lengths, .. } = state;
        scratch.start(rows, d);
        for (x, &token) in scratch.x.chunks_exact_mut(d).zip(tokens) {
            self.embedding.embed(token, position, x)?;
        }
        for (row, past) in ancestors.chunks_exact_mut(max_length).enumerate() {
            past[position] = (written + row) as u32;
        }
        // An odd number of entries: else those of one past, a power of 2 apart, would drive each other out of the cache.
        let taken = rows + (rows + 1) % 2;
        let length = position + 1;
        let group =
            Group { first: 0, rows, position, is_sequence: false, length, entries: ancestors, stride: max_length };
        for ((layer, cross), entries) in self.layers.iter().zip(layers) {
            entries.own.resize((written + taken) * layer.entry_width(), 0.0);
            layer.attend(&[group], &mut entries.own, written, scratch);
            if let Some(cross) = cross {
                cross.attend(rows, &entries.memory, memory_firsts, memory_lengths, scratch);
            }
            layer.feed_forward(scratch);
        }
        self.norm.apply(&scratch.x, &mut scratch.normed);
        logits.resize(rows * self.logits.columns(), 0.0);
        self.logits.apply(rows, &scratch.normed, Mode::Set, logits);
        state.position += 1;
        state.written += taken;
        Ok(())
    }

    /// The `count` likeliest next tokens of each row after a step, but for `bans`, fewer if the vocabulary is smaller: their
    /// log-probabilities and ids, as [`likeliest`] gives them.
    pub fn likeliest(&self, state: &CpuState, bans: &[[u32; 2]], count: usize) -> (Vec<f64>, Vec<u32>) {
        let vocabulary = self.logits.columns();
        likeliest(&state.logits, vocabulary, bans, count.min(vocabulary))
    }
}

impl CpuState {
    /// Logits [rows, vocabulary] of the token after the last step.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Row i becomes what row `rows[i]` was.
    pub fn reorder(&mut self, rows: &[usize]) {
        let stride = self.ancestors.len() / self.rows.max(1);
        let mut ancestors = vec![0; rows.len() * stride];
        for (to, &row) in ancestors.chunks_exact_mut(stride.max(1)).zip(rows) {
            to[..self.position].copy_from_slice(&self.ancestors[row * stride..][..self.position]);
        }
        self.ancestors = ancestors;
        self.memory_firsts = rows.iter().map(|&row| self.memory_firsts[row]).collect();
        self.memory_lengths = rows.iter().map(|&row| self.memory_lengths[row]).collect();
        self.rows = rows.len();
    }
}

impl Cross {
    /// x += attention of norm(x) to the memory.
    fn attend(&self, rows: usize, memory: &[f32], firsts: &[u32], lengths: &[u32], scratch: &mut Scratch) {
        let Scratch { x, normed, queries, context, weights, .. } = scratch;
        self.norm.apply(x, normed);
        queries.resize(rows * self.query.columns(), 0.0);
        self.query.apply(rows, normed, Mode::Set, queries);
        context.resize(queries.len(), 0.0);
        attend_memory(self.heads, memory, firsts, lengths, queries, weights, context);
        self.output.apply(rows, context, Mode::Add, x);
    }
}
