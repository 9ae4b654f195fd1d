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

use super::decoder::{Decoder, Layer, Memory};
use super::embedding::Embedding;
use super::{layers, ModelError};
use crate::attention::frozen::{Frozen, Map};
use crate::native::decode::{attend_memory, floats, likeliest, Mode, Norm, Packed, SelfAttention, Table};
use tch::{Device, Kind, TchError, Tensor};

/// The weights of embedding and decoder, packed.
#[derive(Debug)]
pub struct CpuDecoder {
    /// √d · E, [vocabulary, d]
    table: Vec<f32>,
    /// [N, d]
    positions: Vec<f32>,
    layers: Vec<CpuLayer>,
    norm: Norm,
    logits: Packed,
    d_model: usize,
    max_length: usize,
}

#[derive(Debug)]
struct CpuLayer {
    norm: Norm,
    /// d to values, then keys: what an entry holds.
    entry: Packed,
    /// d to queries.
    query: Option<Packed>,
    rank: usize,
    dense: Option<Dense>,
    table: Option<Logits>,
    output: Packed,
    cross: Option<Cross>,
    feed_forward_norm: Norm,
    first: Packed,
    second: Packed,
    heads: usize,
    d_ff: usize,
}

#[derive(Debug)]
struct Dense {
    first: Packed,
    /// One a head.
    second: Vec<Packed>,
}

/// [h, N, N], or the softmax of each row up to its own position.
#[derive(Debug)]
struct Logits {
    values: Vec<f32>,
    is_softmax: bool,
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
    logits: Vec<f32>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Entries {
    own: Vec<f32>,
    memory: Vec<f32>,
}

/// Room that every layer uses anew.
#[derive(Debug, Default)]
struct Scratch {
    x: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    hidden: Vec<f32>,
    dense: Vec<f32>,
    context: Vec<f32>,
    weights: Vec<f32>,
}

impl CpuDecoder {
    /// None for weights that are not float32 on the CPU, and for a mix whose functions have no form that the kernels know.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn new(embedding: &Embedding, decoder: &Decoder) -> Result<Option<CpuDecoder>, ModelError> {
        let table = &embedding.table;
        if table.kind() != Kind::Float || table.device() != Device::Cpu {
            return Ok(None);
        }
        let mut layers = Vec::with_capacity(decoder.layers.len());
        for layer in &decoder.layers {
            let Some(frozen) = layer.attention.frozen() else { return Ok(None) };
            layers.push(CpuLayer::new(layer, &frozen)?);
        }
        let d_model = table.size()[1] as usize;
        Ok(Some(CpuDecoder {
            table: floats(&(table.detach() * embedding.scale))?,
            positions: floats(&embedding.positions)?,
            layers,
            norm: norm(&decoder.norm)?,
            logits: Packed::new(table, None)?,
            d_model,
            max_length: embedding.positions.size()[0] as usize,
        }))
    }

    /// A state of one row for each row of the memory, which is as long as those of it that are no padding.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn start(&self, memory: &Memory) -> Result<CpuState, ModelError> {
        let (rows, longest, _) = memory.values.size3()?;
        let (rows, longest) = (rows as usize, longest as usize);
        let padding: Vec<bool> = match &memory.padding {
            Some(padding) => Vec::try_from(padding.f_to_device(Device::Cpu)?.f_reshape([-1])?)?,
            None => vec![false; rows * longest],
        };
        let mut state = self.empty(rows);
        let values = floats(&memory.values)?;
        let mut real = Vec::with_capacity(values.len());
        for row in 0..rows {
            state.memory_firsts.push((real.len() / self.d_model) as u32);
            let mut length = 0;
            for place in (row * longest..(row + 1) * longest).filter(|&place| !padding[place]) {
                real.extend_from_slice(&values[place * self.d_model..][..self.d_model]);
                length += 1;
            }
            state.memory_lengths.push(length);
        }
        let places = real.len() / self.d_model;
        for (layer, entries) in self.layers.iter().zip(&mut state.layers) {
            if let Some(cross) = &layer.cross {
                entries.memory = vec![0.0; places * cross.entry.columns()];
                cross.entry.apply(places, &real, Mode::Set, &mut entries.memory);
            }
        }
        Ok(state)
    }

    fn empty(&self, rows: usize) -> CpuState {
        CpuState {
            position: 0,
            rows,
            ancestors: vec![0; rows * self.max_length],
            memory_firsts: Vec::with_capacity(rows),
            memory_lengths: Vec::with_capacity(rows),
            layers: self.layers.iter().map(|_| Entries::default()).collect(),
            logits: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Appends a token to each row: then [`CpuState::logits`] are those of the next.
    ///
    /// # Errors
    /// More than N steps; another number of tokens than rows, or a token that the vocabulary lacks.
    pub fn step(&self, tokens: &[u32], state: &mut CpuState) -> Result<(), ModelError> {
        let (d, rows, position) = (self.d_model, state.rows, state.position);
        if position >= self.max_length {
            let max_length = self.max_length as i64;
            return Err(ModelError::TooLong { length: position as i64 + 1, max_length });
        }
        let vocabulary = self.logits.columns();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(ModelError::Token { token, vocabulary });
        }
        if tokens.len() != rows {
            return Err(ModelError::Rows { tokens: tokens.len(), rows });
        }
        let CpuState { ancestors, layers, scratch, logits, memory_firsts, memory_lengths, .. } = state;
        let written = layers.first().map_or(0, |entries| entries.own.len() / self.layers[0].entry.columns());
        for (row, past) in ancestors.chunks_exact_mut(self.max_length).enumerate() {
            past[position] = (written + row) as u32;
        }
        scratch.x.resize(rows * d, 0.0);
        scratch.normed.resize(rows * d, 0.0);
        let place = &self.positions[position * d..][..d];
        for (x, &token) in scratch.x.chunks_exact_mut(d).zip(tokens) {
            let embedded = &self.table[token as usize * d..][..d];
            x.iter_mut().zip(embedded).zip(place).for_each(|((x, token), place)| *x = token + place);
        }
        for (layer, entries) in self.layers.iter().zip(layers) {
            layer.attend(rows, position, self.max_length, ancestors, &mut entries.own, scratch);
            if let Some(cross) = &layer.cross {
                cross.attend(rows, &entries.memory, memory_firsts, memory_lengths, scratch);
            }
            layer.feed_forward(rows, scratch);
        }
        self.norm.apply(&scratch.x, &mut scratch.normed);
        logits.resize(rows * vocabulary, 0.0);
        self.logits.apply(rows, &scratch.normed, Mode::Set, logits);
        state.position += 1;
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

impl CpuLayer {
    fn new(layer: &Layer, frozen: &Frozen) -> Result<CpuLayer, ModelError> {
        let heads = frozen.heads as usize;
        let logits = &frozen.logits;
        let maps = [Some(&frozen.value), logits.dot_product.as_ref().map(|(_, key)| key)];
        let query = logits.dot_product.as_ref().map(|(query, _)| packed(query)).transpose()?;
        let dense = (logits.dense.as_ref())
            .map(|(first, second)| {
                let second = second.iter().map(packed).collect::<Result<_, _>>()?;
                Ok::<_, TchError>(Dense { first: packed(first)?, second })
            })
            .transpose()?;
        let is_softmax = query.is_none() && dense.is_none();
        let table = logits.table.as_ref().map(|table| Logits::new(table, is_softmax)).transpose()?;
        Ok(CpuLayer {
            norm: norm(&layer.attention_norm)?,
            entry: joined(&maps.into_iter().flatten().collect::<Vec<_>>())?,
            rank: query.as_ref().map_or(0, |query| query.columns() / heads),
            query,
            dense,
            table,
            output: packed(&frozen.output)?,
            cross: layer
                .cross
                .as_ref()
                .map(|(before, cross)| {
                    let frozen = cross.frozen();
                    Ok::<_, ModelError>(Cross {
                        norm: norm(before)?,
                        query: packed(&frozen.query)?,
                        entry: joined(&[&frozen.value, &frozen.key])?,
                        output: packed(&frozen.output)?,
                        heads: frozen.heads as usize,
                    })
                })
                .transpose()?,
            feed_forward_norm: norm(&layer.feed_forward_norm)?,
            first: packed(&Map::of(&layer.feed_forward.w1))?,
            second: packed(&Map::of(&layer.feed_forward.w2))?,
            heads,
            d_ff: layer.feed_forward.w1.ws.size()[0] as usize,
        })
    }

    /// x += attention(norm(x)), the position's entries appended to `entries`.
    fn attend(
        &self,
        rows: usize,
        position: usize,
        max_length: usize,
        ancestors: &[u32],
        entries: &mut Vec<f32>,
        scratch: &mut Scratch,
    ) {
        let Scratch { x, normed, queries, hidden, dense: added, context, weights } = scratch;
        let (length, written) = (position + 1, entries.len());
        self.norm.apply(x, normed);
        let (new, columns) = (rows * self.entry.columns(), self.entry.columns());
        // An odd number of entries: else those of one past, a power of 2 apart, would drive each other out of the cache.
        entries.resize(written + new + (rows + 1) % 2 * columns, 0.0);
        self.entry.apply(rows, normed, Mode::Set, &mut entries[written..written + new]);
        if let Some(query) = &self.query {
            queries.resize(rows * query.columns(), 0.0);
            query.apply(rows, normed, Mode::Set, queries);
        }
        if let Some(Dense { first, second }) = &self.dense {
            let (all, size) = (first.columns(), max_length);
            hidden.resize(rows * all, 0.0);
            first.apply(rows, normed, Mode::Relu, hidden);
            added.resize(rows * self.heads * size, 0.0);
            for (head, second) in second.iter().enumerate() {
                let from = (&hidden[head * (all / self.heads)..], all);
                second.multiply((rows, length), from, Mode::Set, (&mut added[head * size..], self.heads * size));
            }
        }
        let table = self.table.as_ref().map(|table| Table {
            logits: &table.values[position * max_length..],
            head_stride: max_length * max_length,
            is_softmax: table.is_softmax,
        });
        context.resize(rows * self.output.columns(), 0.0);
        let attention = SelfAttention {
            heads: self.heads,
            width: self.output.columns() / self.heads,
            length,
            entries,
            entry: self.entry.columns(),
            ancestors,
            ancestors_stride: max_length,
            queries: self.query.as_ref().map(|_| (&queries[..], self.rank)),
            dense: self.dense.as_ref().map(|_| (&added[..], max_length)),
            table,
        };
        attention.attend(weights, context);
        self.output.apply(rows, context, Mode::Add, x);
    }

    /// x += w2 relu(w1 norm(x)).
    fn feed_forward(&self, rows: usize, scratch: &mut Scratch) {
        self.feed_forward_norm.apply(&scratch.x, &mut scratch.normed);
        scratch.hidden.resize(rows * self.d_ff, 0.0);
        self.first.apply(rows, &scratch.normed, Mode::Relu, &mut scratch.hidden);
        self.second.apply(rows, &scratch.hidden, Mode::Add, &mut scratch.x);
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

impl Logits {
    fn new(table: &Tensor, is_softmax: bool) -> Result<Logits, TchError> {
        let values = if is_softmax {
            let length = table.size()[2];
            let later = Tensor::f_ones([length, length], (Kind::Bool, table.device()))?.f_triu(1)?;
            floats(&table.f_masked_fill(&later, f64::NEG_INFINITY)?.f_softmax(-1, Kind::Float)?)?
        } else {
            floats(table)?
        };
        Ok(Logits { values, is_softmax })
    }
}

fn packed(map: &Map) -> Result<Packed, TchError> {
    Packed::new(&map.weight, Some(&map.bias))
}

/// The maps' outputs one after the other.
fn joined(maps: &[&Map]) -> Result<Packed, TchError> {
    let weights: Vec<&Tensor> = maps.iter().map(|map| &map.weight).collect();
    let biases: Vec<&Tensor> = maps.iter().map(|map| &map.bias).collect();
    Packed::new(&Tensor::f_cat(&weights, 0)?, Some(&Tensor::f_cat(&biases, 0)?))
}

fn norm(layer: &layers::Norm) -> Result<Norm, TchError> {
    Ok(Norm { weight: floats(&layer.weight)?, bias: floats(&layer.bias)?, epsilon: layers::EPSILON })
}
