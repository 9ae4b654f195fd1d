//! From a run's corpus to token ids, and from ids to tensors.

use super::DevScore;
use crate::data::batching::{self, BatchOptions};
use crate::data::overlap::Seen;
use crate::data::token_store::{Counts, TokenStore};
use crate::data::tokenizer::{Tokenizer, BEGIN, END, PAD};
use crate::data::{self, Corpus, Prepared};
use crate::experiment::{DataConfig, Run};
use crate::interrupt;
use crate::model;
use crate::native::device::to_device;
use anyhow::Result;
use tch::{Device, Tensor};

/// What the trainer and `generate` need of a task's data.
pub struct TrainingRows {
    /// Made from the training split.
    pub tokenizer: Tokenizer,
    /// SHA-256 (hex) of the data.
    pub hash: String,
    /// Test rows that the training split has too.
    pub seen: Seen,
    /// What a reader should know, a line each: name, sizes, what was dropped and why.
    pub notes: Vec<String>,
    /// Length of each training row as the model sees it, marks included.
    pub lengths: Vec<u32>,
    /// Largest number of tokens in a batch.
    pub batch_tokens: usize,
    /// The run's seed.
    pub seed: u64,
}

impl TrainingRows {
    /// The batches of an epoch, a function of (run seed, epoch) alone.
    pub fn epoch(&self, epoch: u64) -> Vec<Vec<u32>> {
        batching::epoch(&self.lengths, &BatchOptions { tokens: self.batch_tokens, seed: self.seed, epoch })
    }
}

/// Reads the run's corpus; tokenizer and ids come from the cache where it has them. `lengths` are those of lines with a mark.
pub fn read(run: &Run) -> Result<(Corpus, Prepared, TrainingRows)> {
    let corpus = data::load(&run.data, run.task)?;
    let prepared = data::prepare(&corpus, &run.data, run.task)?;
    let mut notes = vec![format!("{}, hash {:.16}", corpus.name, corpus.hash)];
    notes.extend(corpus.notes.iter().cloned());
    let limits = limits(&run.data);
    for (split, store) in [("train", &prepared.train), ("dev", &prepared.dev), ("test", &prepared.test)] {
        notes.push(describe(split, &store.counts, &limits));
    }
    let rows = TrainingRows {
        tokenizer: prepared.tokenizer.clone(),
        hash: corpus.hash.clone(),
        seen: data::seen_in_training(&corpus)?,
        notes,
        lengths: lengths(&prepared.train),
        batch_tokens: run.train.batch_tokens,
        seed: run.seed,
    };
    Ok((corpus, prepared, rows))
}

fn limits(data: &DataConfig) -> String {
    match data.max_source_tokens {
        0 => format!("max_tokens {}", data.max_tokens),
        most => format!("max_tokens {}, max_source_tokens {most}", data.max_tokens),
    }
}

/// What became of the rows of a split, in a line; `limits` says how long they may be.
pub fn describe(split: &str, counts: &Counts, limits: &str) -> String {
    let mut line = format!("{split}: {} of {} rows", counts.kept, counts.rows);
    for (count, what, why) in [
        (counts.empty, "empty", String::new()),
        (counts.skipped, "too long and skipped", format!(" ({limits})")),
        (counts.cut, "too long and cut", format!(" ({limits})")),
    ] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}{why}"));
        }
    }
    line
}

/// Longest side of each row, one mark included.
pub fn lengths(store: &TokenStore) -> Vec<u32> {
    store.lengths().into_iter().map(|length| length + 1).collect()
}

/// Cross-entropy of one evaluation batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchScore {
    /// Rows of the batch.
    pub rows: usize,
    /// Their sum.
    pub score: DevScore,
}

impl BatchScore {
    /// The score of a split: the sum over its batches, in their order.
    pub fn sum(batches: &[BatchScore]) -> DevScore {
        let zero = DevScore { nll: 0.0, tokens: 0 };
        batches.iter().fold(zero, |sum, BatchScore { score, .. }| DevScore {
            nll: sum.nll + score.nll,
            tokens: sum.tokens + score.tokens,
        })
    }
}

/// Cross-entropy of held-out rows of these lengths, batch by batch, neighbours in length together. `loss` is the sum over
/// some rows, and the number of tokens that they predict.
pub fn held_out(
    lengths: &[u32],
    batch_tokens: usize,
    mut loss: impl FnMut(&[u32]) -> Result<(Tensor, u64)>,
) -> Result<Vec<BatchScore>> {
    let _guard = tch::no_grad_guard();
    let mut batches = Vec::new();
    for rows in batching::in_order(lengths, batch_tokens.max(SMALLEST_EVALUATION_BATCH)) {
        interrupt::check()?;
        let (sum, tokens) = loss(&rows)?;
        batches.push(BatchScore { rows: rows.len(), score: DevScore { nll: sum.double_value(&[]), tokens } });
    }
    Ok(batches)
}

/// Tokens of an evaluation batch, at the least: nothing is kept for a backward pass.
const SMALLEST_EVALUATION_BATCH: usize = 2048;

/// The begin mark and all tokens but the last: what a decoder reads to predict `targets`.
pub fn shifted(targets: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let shift =
        |row: &Vec<i64>| [i64::from(BEGIN)].iter().chain(&row[..row.len().saturating_sub(1)]).copied().collect();
    targets.iter().map(shift).collect()
}

/// Ids and the end mark.
pub fn marked(tokens: impl IntoIterator<Item = u32>) -> Vec<i64> {
    tokens.into_iter().chain([END]).map(i64::from).collect()
}

/// Rows filled up with PAD to the longest: [B, L] (int64), and its padding mask where there is any.
pub fn pad(rows: &[Vec<i64>], device: Device) -> (Tensor, Option<Tensor>) {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut flat = Vec::with_capacity(rows.len() * longest);
    for row in rows {
        flat.extend_from_slice(row);
        flat.resize(flat.len() + longest - row.len(), i64::from(PAD));
    }
    let tensor = Tensor::from_slice(&flat).view([rows.len() as i64, longest as i64]);
    let tensor = to_device(&tensor, device);
    let padded = rows.iter().any(|row| row.len() < longest);
    let mask = padded.then(|| tensor.eq(i64::from(PAD)));
    (tensor, mask)
}

/// Where a flattened [B, L] batch holds tokens after the first `skipped` of each row (int64 positions), if that is not
/// everywhere.
fn positions(rows: &[Vec<i64>], skipped: &[usize], device: Device) -> Option<Tensor> {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    if rows.iter().all(|row| row.len() == longest) && skipped.iter().all(|skipped| *skipped == 0) {
        return None;
    }
    let positions: Vec<i64> = rows
        .iter()
        .zip(skipped)
        .enumerate()
        .flat_map(|(index, (row, skipped))| (*skipped..row.len()).map(move |at| (index * longest + at) as i64))
        .collect();
    Some(to_device(&Tensor::from_slice(&positions), device))
}

/// Summed cross-entropy of `targets`, the rows laid end to end, under the logits hidden·tableᵀ of hidden [B, L, d]; errors:
/// LibTorch's.
///
/// Padding is left out before the softmax, the dearest product of a small model.
pub fn cross_entropy(hidden: &Tensor, targets: &[Vec<i64>], table: &Tensor, label_smoothing: f64) -> Result<Tensor> {
    let none = vec![0; targets.len()];
    cross_entropy_of(&none, hidden, targets, table, label_smoothing)
}

/// As [`cross_entropy`] without label smoothing, of the targets after the first `context` ones of each row.
pub fn cross_entropy_after(context: &[usize], hidden: &Tensor, targets: &[Vec<i64>], table: &Tensor) -> Result<Tensor> {
    cross_entropy_of(context, hidden, targets, table, 0.0)
}

fn cross_entropy_of(
    skipped: &[usize],
    hidden: &Tensor,
    targets: &[Vec<i64>],
    table: &Tensor,
    label_smoothing: f64,
) -> Result<Tensor> {
    let flat = hidden.f_reshape([-1, *hidden.size().last().unwrap_or(&1)])?;
    let flat = match positions(targets, skipped, hidden.device()) {
        Some(positions) => flat.f_index_select(0, &positions)?,
        None => flat,
    };
    let targets: Vec<i64> = targets.iter().zip(skipped).flat_map(|(row, skipped)| &row[*skipped..]).copied().collect();
    Ok(model::cross_entropy::cross_entropy(&flat, table, &targets, label_smoothing)?)
}
