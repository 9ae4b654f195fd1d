//! From a run's corpus to token ids, and from ids to tensors.

use crate::data::batching::{self, BatchOptions};
use crate::data::token_store::{Counts, TokenStore};
use crate::data::tokenizer::PAD;
use crate::data::{self, Corpus, Prepared};
use crate::experiment::Run;
use anyhow::Result;
use tch::{Device, Kind, Tensor};

/// A corpus as token ids, with the tokenizer that made them.
pub struct TokenizedCorpus {
    /// The texts; references of dev and test are read from here.
    pub corpus: Corpus,
    /// Tokenizer and ids of every split.
    pub prepared: Prepared,
    /// What a reader should know, a line each.
    pub notes: Vec<String>,
    /// Longest side of each training row, with its mark.
    train_lengths: Vec<u32>,
}

impl TokenizedCorpus {
    /// Reads the corpus; tokenizer and ids come from the cache where it has them.
    pub fn new(run: &Run) -> Result<Self> {
        let corpus = data::load(&run.data, run.task)?;
        let prepared = data::prepare(&corpus, &run.data)?;
        let mut notes = vec![format!("{}, hash {:.16}", corpus.name, corpus.hash)];
        notes.extend(corpus.notes.iter().cloned());
        for (split, store) in [("train", &prepared.train), ("dev", &prepared.dev), ("test", &prepared.test)] {
            notes.push(describe(split, &store.counts, run.data.max_tokens));
        }
        let train_lengths = lengths(&prepared.train);
        Ok(Self { corpus, prepared, notes, train_lengths })
    }

    /// The batches of an epoch.
    pub fn epoch(&self, run: &Run, epoch: u64) -> Vec<Vec<u32>> {
        let options = BatchOptions { tokens: run.train.batch_tokens, seed: run.seed, epoch };
        batching::epoch(&self.train_lengths, &options)
    }
}

fn describe(split: &str, counts: &Counts, max_tokens: usize) -> String {
    let mut line = format!("{split}: {} of {} rows", counts.kept, counts.rows);
    for (count, what) in
        [(counts.empty, "empty"), (counts.skipped, "too long and skipped"), (counts.cut, "too long and cut")]
    {
        if count > 0 {
            line.push_str(&format!(", {count} {what} (max_tokens {max_tokens})"));
        }
    }
    line
}

/// Longest side of each row, one mark included.
pub fn lengths(store: &TokenStore) -> Vec<u32> {
    store.lengths().into_iter().map(|length| length + 1).collect()
}

/// Batches for evaluation: neighbours in length together.
pub fn evaluation_batches(store: &TokenStore, tokens: usize) -> Vec<Vec<u32>> {
    batching::in_order(&lengths(store), tokens)
}

/// Rows filled up with PAD to the longest: [B, L] (int64), and its padding mask where there is any.
pub fn pad(rows: &[Vec<i64>], device: Device) -> (Tensor, Option<Tensor>) {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut flat = Vec::with_capacity(rows.len() * longest);
    for row in rows {
        flat.extend_from_slice(row);
        flat.resize(flat.len() + longest - row.len(), i64::from(PAD));
    }
    let tensor = Tensor::from_slice(&flat).view([rows.len() as i64, longest as i64]).to_device(device);
    let padded = rows.iter().any(|row| row.len() < longest);
    let mask = padded.then(|| tensor.eq(i64::from(PAD)));
    (tensor, mask)
}

/// Where a flattened [B, L] batch holds tokens (int64 positions), if it has padding.
pub fn real_positions(rows: &[Vec<i64>], device: Device) -> Option<Tensor> {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    if rows.iter().all(|row| row.len() == longest) {
        return None;
    }
    let positions: Vec<i64> = rows
        .iter()
        .enumerate()
        .flat_map(|(index, row)| (0..row.len()).map(move |at| (index * longest + at) as i64))
        .collect();
    Some(Tensor::from_slice(&positions).to_device(device))
}

/// Summed cross-entropy of `targets`, the rows laid end to end, under the logits of `hidden` [B, L, d].
///
/// Padding is left out before the softmax, the dearest product of a small model.
pub fn cross_entropy(
    hidden: &Tensor,
    targets: &[Vec<i64>],
    logits: impl Fn(&Tensor) -> Tensor,
    label_smoothing: f64,
) -> Tensor {
    let device = hidden.device();
    let flat = hidden.reshape([-1, *hidden.size().last().unwrap_or(&1)]);
    let flat = match real_positions(targets, device) {
        Some(positions) => flat.index_select(0, &positions),
        None => flat,
    };
    let wanted = Tensor::from_slice(&targets.concat()).to_device(device);
    logits(&flat).to_kind(Kind::Float).cross_entropy_loss::<Tensor>(
        &wanted,
        None,
        tch::Reduction::Sum,
        -100,
        label_smoothing,
    )
}
