//! What a layer of encoder and decoder has in common on the CPU in float32, without LibTorch: weights that are packed once,
//! self-attention by entries, feed-forward.

use super::layers::{self, FeedForward};
use super::ModelError;
use crate::attention::frozen::Map;
use crate::native::decode::{floats, Mode, Norm, Packed, SelfAttention, Table};
use tch::{Kind, TchError, Tensor};

/// Room that every layer uses anew; row i of everything is row i.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// [rows, d], what the layers add to
    pub(super) x: Vec<f32>,
    /// Its norm.
    pub(super) normed: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) context: Vec<f32>,
    pub(super) weights: Vec<f32>,
    hidden: Vec<f32>,
    /// Logits of D, [rows, h, any].
    dense: Vec<f32>,
}

impl Scratch {
    /// Room for rows of width d, which hold anything.
    pub(super) fn start(&mut self, rows: usize, d: usize) {
        self.x.resize(rows * d, 0.0);
        self.normed.resize(rows * d, 0.0);
    }
}

/// The weights of self-attention and feed-forward, packed.
#[derive(Debug)]
pub(super) struct CpuLayer {
    norm: Norm,
    /// d to values, then keys: what an entry holds.
    entry: Packed,
    /// d to queries.
    query: Option<Packed>,
    rank: usize,
    dense: Option<Dense>,
    table: Option<Logits>,
    output: Packed,
    feed_forward_norm: Norm,
    first: Packed,
    second: Packed,
    heads: usize,
    max_length: usize,
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

/// Rows that attend to the same number of entries, each to its own list of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    /// The first of them, of all rows.
    pub(super) first: usize,
    /// How many.
    pub(super) rows: usize,
    /// Where the first of them stands in its sequence, from 0.
    pub(super) position: usize,
    /// Whether the rows are the positions of one sequence, one after the other; else all stand at `position`.
    pub(super) is_sequence: bool,
    /// Entries of a list.
    pub(super) length: usize,
    /// Row i's list starts at `i · stride`; 0 where they share one.
    pub(super) entries: &'a [u32],
    /// From one row's list to the next.
    pub(super) stride: usize,
}

impl CpuLayer {
    /// None if a function of the mix has no form that the kernels know. `causal` is whether every row sees just its past.
    pub(super) fn new(
        norms: [&layers::Norm; 2],
        attention: &crate::attention::SelfAttention,
        feed_forward: &FeedForward,
        causal: bool,
    ) -> Result<Option<CpuLayer>, ModelError> {
        let Some(frozen) = attention.frozen() else { return Ok(None) };
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
        let is_softmax = causal && query.is_none() && dense.is_none();
        let table = logits.table.as_ref().map(|table| Logits::new(table, is_softmax)).transpose()?;
        Ok(Some(CpuLayer {
            norm: norm(norms[0])?,
            entry: joined(&maps.into_iter().flatten().collect::<Vec<_>>())?,
            rank: query.as_ref().map_or(0, |query| query.columns() / heads),
            query,
            dense,
            table,
            output: packed(&frozen.output)?,
            feed_forward_norm: norm(norms[1])?,
            first: packed(&Map::of(&feed_forward.w1))?,
            second: packed(&Map::of(&feed_forward.w2))?,
            heads,
            max_length: frozen.max_length as usize,
        }))
    }

    /// Width of an entry.
    pub(super) fn entry_width(&self) -> usize {
        self.entry.columns()
    }

    /// x += attention(norm(x)). Writes the rows' own entries to the end of `entries`, which has room for them from entry `own`
    /// on; the groups are all rows, in order.
    pub(super) fn attend(&self, groups: &[Group], entries: &mut [f32], own: usize, scratch: &mut Scratch) {
        let Scratch { x, normed, queries, hidden, dense, context, weights } = scratch;
        let (d, width) = (self.output.columns(), self.entry.columns());
        let rows = x.len() / d;
        let longest = groups.iter().map(|group| group.length).max().unwrap_or(0);
        self.norm.apply(x, normed);
        self.entry.apply(rows, normed, Mode::Set, &mut entries[own * width..(own + rows) * width]);
        if let Some(query) = &self.query {
            queries.resize(rows * query.columns(), 0.0);
            query.apply(rows, normed, Mode::Set, queries);
        }
        if let Some(Dense { first, second }) = &self.dense {
            let all = first.columns();
            hidden.resize(rows * all, 0.0);
            first.apply(rows, normed, Mode::Relu, hidden);
            dense.resize(rows * self.heads * longest, 0.0);
            for (head, second) in second.iter().enumerate() {
                let from = (&hidden[head * (all / self.heads)..], all);
                let to = (&mut dense[head * longest..], self.heads * longest);
                second.multiply((rows, longest), from, Mode::Set, to);
            }
        }
        context.resize(rows * d, 0.0);
        for group in groups {
            let keys = self.heads * self.rank;
            let table = self.table.as_ref().map(|table| Table {
                logits: &table.values[group.position * self.max_length..],
                head_stride: self.max_length * self.max_length,
                row_stride: if group.is_sequence { self.max_length } else { 0 },
                is_softmax: table.is_softmax,
            });
            let attention = SelfAttention {
                heads: self.heads,
                width: d / self.heads,
                length: group.length,
                entries,
                entry: width,
                ancestors: group.entries,
                ancestors_stride: group.stride,
                queries: self.query.as_ref().map(|_| (&queries[group.first * keys..], self.rank)),
                dense: self.dense.as_ref().map(|_| (&dense[group.first * self.heads * longest..], longest)),
                table,
            };
            attention.attend(weights, &mut context[group.first * d..(group.first + group.rows) * d]);
        }
        self.output.apply(rows, context, Mode::Add, x);
    }

    /// x += w2 relu(w1 norm(x)).
    pub(super) fn feed_forward(&self, scratch: &mut Scratch) {
        let rows = scratch.x.len() / self.output.columns();
        self.feed_forward_norm.apply(&scratch.x, &mut scratch.normed);
        scratch.hidden.resize(rows * self.first.columns(), 0.0);
        self.first.apply(rows, &scratch.normed, Mode::Relu, &mut scratch.hidden);
        self.second.apply(rows, &scratch.hidden, Mode::Add, &mut scratch.x);
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

/// A map that the products read.
pub(super) fn packed(map: &Map) -> Result<Packed, TchError> {
    Packed::new(&map.weight, Some(&map.bias))
}

/// The maps' outputs one after the other.
pub(super) fn joined(maps: &[&Map]) -> Result<Packed, TchError> {
    let weights: Vec<&Tensor> = maps.iter().map(|map| &map.weight).collect();
    let biases: Vec<&Tensor> = maps.iter().map(|map| &map.bias).collect();
    Packed::new(&Tensor::f_cat(&weights, 0)?, Some(&Tensor::f_cat(&biases, 0)?))
}

/// A norm that the kernels read.
pub(super) fn norm(layer: &layers::Norm) -> Result<Norm, TchError> {
    Ok(Norm { weight: floats(&layer.weight)?, bias: floats(&layer.bias)?, epsilon: layers::EPSILON })
}
