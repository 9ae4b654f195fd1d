//! Language modelling: the next token, one sentence a row, scored by perplexity.

use super::attention_view::{histogram, visible, Histogram, VIEWED_ROWS};
use super::tokens::{cross_entropy, evaluation_batches, pad, TokenizedCorpus};
use super::{encode_line, tokenizer_file, transformer_config, Answer, DevScore, Generator, Metric, Task};
use crate::attention::SelfAttention;
use crate::data::token_store::TokenStore;
use crate::data::tokenizer::{Tokenizer, BEGIN, END, PAD};
use crate::experiment::Run;
use crate::metric::perplexity::exp_mean;
use crate::model::language_model::LanguageModel;
use anyhow::Result;
use std::path::Path;
use tch::{nn, Device, Tensor};

/// The model with its tokenizer: beginnings in, completions out.
pub struct Completer {
    variables: nn::VarStore,
    model: LanguageModel,
    tokenizer: Tokenizer,
    max_length: usize,
}

impl Completer {
    /// A model with fresh weights from the run's seed.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let model = LanguageModel::new(&variables.root(), &transformer_config(run, tokenizer.size()))?;
        Ok(Self { variables, model, tokenizer, max_length: run.model.max_length as usize })
    }

    /// The likeliest continuation, token by token, after the given ids.
    fn complete(&self, beginning: &[u32]) -> Result<Vec<u32>> {
        let _guard = tch::no_grad_guard();
        let device = self.variables.device();
        let mut state = self.model.start()?;
        let mut tokens = beginning.to_vec();
        let mut next = BEGIN;
        for position in 0..self.max_length {
            let logits = self.model.step(&Tensor::from_slice(&[i64::from(next)]).to_device(device), &mut state)?;
            next = match beginning.get(position) {
                Some(&given) => given,
                None => {
                    let best = logits.argmax(-1, false).int64_value(&[0]) as u32;
                    if best == END {
                        break;
                    }
                    tokens.push(best);
                    best
                }
            };
        }
        Ok(tokens)
    }
}

impl Generator for Completer {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        lines
            .iter()
            .map(|line| {
                let (beginning, cut) = encode_line(&self.tokenizer, line, self.max_length - 1)?;
                Ok(Answer { text: self.tokenizer.decode(&self.complete(&beginning)?)?, cut })
            })
            .collect()
    }
}

/// Completer and data.
pub struct LanguageModelling {
    run: Run,
    data: TokenizedCorpus,
    completer: Completer,
}

impl LanguageModelling {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let data = TokenizedCorpus::new(run)?;
        let completer = Completer::new(run, data.prepared.tokenizer.clone(), device)?;
        Ok(Self { run: run.clone(), data, completer })
    }

    /// Begin mark and sentence in, sentence and end mark out.
    fn batch(&self, store: &TokenStore, rows: &[u32]) -> Result<(Tensor, Vec<Vec<i64>>)> {
        let shift = |first: Option<u32>, tokens: &[u32], last: Option<u32>| -> Vec<i64> {
            first.into_iter().chain(tokens.iter().copied()).chain(last).map(i64::from).collect()
        };
        let texts: Vec<Vec<u32>> = rows.iter().map(|&row| store.tokens(row as usize, 0)).collect::<Result<_>>()?;
        let inputs: Vec<Vec<i64>> = texts.iter().map(|text| shift(Some(BEGIN), text, None)).collect();
        let outputs = texts.iter().map(|text| shift(None, text, Some(END))).collect();
        Ok((pad(&inputs, self.completer.variables.device()).0, outputs))
    }

    fn batch_loss(&self, store: &TokenStore, rows: &[u32], label_smoothing: f64, train: bool) -> Result<Tensor> {
        let model = &self.completer.model;
        let (input, output) = self.batch(store, rows)?;
        let hidden = model.forward(&input, train)?;
        Ok(cross_entropy(&hidden, &output, |hidden| model.logits(hidden), label_smoothing))
    }

    fn held_out(&self, store: &TokenStore) -> Result<DevScore> {
        let _guard = tch::no_grad_guard();
        let mut score = DevScore { nll: 0.0, tokens: 0 };
        for rows in evaluation_batches(store, self.run.train.batch_tokens.max(2048)) {
            score.nll += self.batch_loss(store, &rows, 0.0, false)?.double_value(&[]);
            score.tokens += rows.iter().map(|&row| store.text_length(row as usize, 0) as u64 + 1).sum::<u64>();
        }
        Ok(score)
    }
}

impl Task for LanguageModelling {
    fn variables(&self) -> &nn::VarStore {
        &self.completer.variables
    }

    fn notes(&self) -> &[String] {
        &self.data.notes
    }

    fn data_hash(&self) -> &str {
        &self.data.corpus.hash
    }

    fn epoch(&self, epoch: u64) -> Vec<Vec<u32>> {
        self.data.epoch(&self.run, epoch)
    }

    fn target_tokens(&self, rows: &[u32]) -> u64 {
        rows.iter().map(|&row| self.data.prepared.train.text_length(row as usize, 0) as u64 + 1).sum()
    }

    fn loss(&self, rows: &[u32]) -> Result<Tensor> {
        self.batch_loss(&self.data.prepared.train, rows, self.run.train.label_smoothing, true)
    }

    fn dev(&self) -> Result<DevScore> {
        self.held_out(&self.data.prepared.dev)
    }

    /// Per subword, and per word: the same sum over the number of words, each sentence's end mark counted as one.
    fn score(&self, dev: &DevScore, _folder: &Path) -> Result<Vec<Metric>> {
        let mut metrics = Vec::new();
        let test = self.held_out(&self.data.prepared.test)?;
        for (split, score, store) in [("dev", *dev, &self.data.prepared.dev), ("test", test, &self.data.prepared.test)]
        {
            let words = store.counts.words[0] + store.len() as u64;
            metrics.push((format!("{split}.perplexity"), exp_mean(score.nll, score.tokens).into()));
            metrics.push((format!("{split}.word_perplexity"), exp_mean(score.nll, words).into()));
        }
        Ok(metrics)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.completer.model.attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let _guard = tch::no_grad_guard();
        let rows: Vec<u32> = (0..self.data.prepared.dev.len().min(VIEWED_ROWS) as u32).collect();
        let (input, _) = self.batch(&self.data.prepared.dev, &rows)?;
        let real = input.ne(i64::from(PAD));
        let visible = visible(&real, true);
        Ok(self
            .completer
            .model
            .attention_weights(&input)?
            .iter()
            .map(|view| histogram(view, &real, &visible))
            .collect())
    }

    fn save_assets(&self, folder: &Path) -> Result<()> {
        self.data.prepared.tokenizer.save(&tokenizer_file(folder))
    }
}
