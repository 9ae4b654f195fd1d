//! From a run's corpus to token ids, and from ids to tensors.

use crate::data::batching::{self, BatchOptions};
use crate::data::token_store::TokenStore;
use crate::data::tokenizer::{Tokenizer, PAD};
use crate::data::{self, Corpus, Examples};
use crate::experiment::{Run, TooLong};
use anyhow::{bail, Result};
use tch::{Device, Kind, Tensor};

/// A corpus as token ids, with the tokenizer that made them.
pub struct TokenizedCorpus {
    /// The texts; references of dev and test are read from here.
    pub corpus: Corpus,
    /// Trained on the training split.
    pub tokenizer: Tokenizer,
    /// Training rows, too long ones skipped or cut.
    pub train: TokenStore,
    /// Dev rows, all of them, too long ones cut.
    pub dev: TokenStore,
    /// Test rows, all of them, too long ones cut.
    pub test: TokenStore,
    /// What a reader should know, a line each.
    pub notes: Vec<String>,
    /// Longest side of each training row, with its mark.
    pub train_lengths: Vec<u32>,
}

impl TokenizedCorpus {
    /// Reads the corpus; tokenizer and ids are kept in the cache, under names made of the data's hash and the settings.
    pub fn new(run: &Run) -> Result<Self> {
        let settings = &run.data;
        let corpus = data::load(settings, run.task)?;
        let folder = data::cache_folder()?.join("tokens");
        let stem = format!("{}-{}", &corpus.hash[..16.min(corpus.hash.len())], settings.vocabulary);
        let tokenizer_file = folder.join(format!("{stem}.tokenizer.json"));
        let tokenizer = match Tokenizer::load(&tokenizer_file) {
            Ok(tokenizer) => tokenizer,
            Err(_) => {
                let tokenizer = Tokenizer::train(corpus.train.as_ref(), settings.vocabulary)?;
                tokenizer.save(&tokenizer_file)?;
                tokenizer
            }
        };
        let store = |split: &str, examples: &dyn Examples, too_long: TooLong, keep_all: bool| {
            let policy = if too_long == TooLong::Skip { "skip" } else { "cut" };
            let file = folder.join(format!("{stem}-{}-{policy}.{split}.tokens", settings.max_tokens));
            TokenStore::build(examples, &tokenizer, settings.max_tokens, too_long, keep_all, &corpus.hash, &file)
        };
        let train = store("train", corpus.train.as_ref(), settings.too_long, false)?;
        let dev = store("dev", corpus.dev.as_ref(), TooLong::Cut, true)?;
        let test = store("test", corpus.test.as_ref(), TooLong::Cut, true)?;
        for (split, store) in [("training", &train), ("dev", &dev), ("test", &test)] {
            if store.is_empty() {
                bail!(
                    "{}: the {split} set is empty ({}); nothing can be trained on it",
                    corpus.name,
                    store.counts().describe()
                );
            }
        }
        let mut notes = vec![format!("data: {}, hash {}", corpus.name, &corpus.hash[..16.min(corpus.hash.len())])];
        notes.extend(corpus.notes.iter().cloned());
        for (split, store) in [("train", &train), ("dev", &dev), ("test", &test)] {
            notes.push(format!("{split}: {}", store.counts().describe()));
        }
        let train_lengths = lengths(&train);
        Ok(Self { corpus, tokenizer, train, dev, test, notes, train_lengths })
    }

    /// The batches of an epoch.
    pub fn epoch(&self, run: &Run, epoch: u64) -> Vec<Vec<u32>> {
        let options = BatchOptions { tokens: run.train.batch_tokens, seed: run.seed, epoch };
        batching::epoch(&self.train_lengths, &options)
    }
}

/// Longest side of each row, one mark included.
pub fn lengths(store: &TokenStore) -> Vec<u32> {
    (0..store.len()).map(|row| store.length(row) as u32 + 1).collect()
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
