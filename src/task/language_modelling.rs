//! Language modelling: the next token, a line a row or in windows of the running text, scored by perplexity.

use super::attention_view::{chunks, visible, Histogram, Histograms, VIEWED_ROWS};
use super::tokens::{self, cross_entropy, held_out, pad, shifted, TrainingRows};
use super::{encode_line, transformer_config, Answer, BatchLoss, DevScore, Generator, Scores, Task, TokenBatch};
use crate::attention::SelfAttention;
use crate::data::running_text::RunningText;
use crate::data::token_store::SourceLimit;
use crate::data::tokenizer::{Tokenizer, BEGIN, END, PAD};
use crate::experiment::Run;
use crate::metric::perplexity::exp_mean;
use crate::model::language_model::LanguageModel;
use crate::model::LayerView;
use anyhow::Result;
use std::path::Path;
use std::time::Instant;
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
                // of a long beginning the end counts most, and some room is for what follows
                let limit = SourceLimit { tokens: (self.max_length * 3 / 4).max(1), keep_end: true };
                let (beginning, cut) = encode_line(&self.tokenizer, line, limit)?;
                Ok(Answer { text: self.tokenizer.decode(&self.complete(&beginning)?)?, cut })
            })
            .collect()
    }
}

/// Completer and data.
pub struct LanguageModelling {
    run: Run,
    train: RunningText,
    dev: RunningText,
    test: RunningText,
    training: TrainingRows,
    completer: Completer,
}

impl LanguageModelling {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let (_, prepared, training) = tokens::read(run)?;
        let completer = Completer::new(run, prepared.tokenizer.clone(), device)?;
        let text = |store| RunningText::new(store, run.data.window);
        let (train, dev, test) = (text(prepared.train), text(prepared.dev), text(prepared.test));
        let training = TrainingRows { lengths: train.lengths(), ..training };
        Ok(Self { run: run.clone(), train, dev, test, training, completer })
    }

    /// What the model is to predict at each position of some rows.
    fn targets_of(&self, text: &RunningText, rows: &[u32]) -> Result<Vec<Vec<i64>>> {
        rows.iter().map(|&row| Ok(text.tokens(row as usize)?.into_iter().map(i64::from).collect())).collect()
    }

    /// What it reads to predict them: [B, L].
    fn input_of(&self, targets: &[Vec<i64>]) -> Tensor {
        pad(&shifted(targets), self.completer.variables.device()).0
    }

    fn batch_loss(&self, input: &Tensor, targets: &[Vec<i64>], label_smoothing: f64, train: bool) -> Result<Tensor> {
        let model = &self.completer.model;
        let hidden = model.forward(input, train)?;
        cross_entropy(&hidden, targets, model.table(), label_smoothing)
    }

    fn held_out(&self, text: &RunningText) -> Result<DevScore> {
        held_out(&text.lengths(), self.run.train.batch_tokens, |rows| {
            let targets = self.targets_of(text, rows)?;
            let tokens = targets.iter().map(|row| row.len() as u64).sum();
            Ok((self.batch_loss(&self.input_of(&targets), &targets, 0.0, false)?, tokens))
        })
    }
}

impl Task for LanguageModelling {
    fn variables(&self) -> &nn::VarStore {
        &self.completer.variables
    }

    fn training(&self) -> &TrainingRows {
        &self.training
    }

    fn targets(&self, rows: &[u32]) -> u64 {
        rows.iter().map(|&row| u64::from(self.training.lengths[row as usize])).sum()
    }

    fn loss(&self, _epoch: u64, rows: &[u32]) -> Result<BatchLoss> {
        let started = Instant::now();
        let targets = self.targets_of(&self.train, rows)?;
        let input = self.input_of(&targets);
        let waited = started.elapsed();
        Ok(BatchLoss { sum: self.batch_loss(&input, &targets, self.run.train.label_smoothing, true)?, waited })
    }

    fn token_batch(&self, _epoch: u64, rows: &[u32]) -> Result<Option<TokenBatch>> {
        let targets = self.targets_of(&self.train, rows)?;
        let target = pad(&targets, self.completer.variables.device()).0;
        Ok(Some(TokenBatch { source: None, input: self.input_of(&targets), target }))
    }

    fn dev(&self) -> Result<DevScore> {
        self.held_out(&self.dev)
    }

    /// Per subword, and per word: the same sum over the number of words, each line's end mark counted as one.
    fn score(&self, dev: &DevScore, _folder: &Path) -> Result<Scores> {
        let mut metrics = Vec::new();
        let test = self.held_out(&self.test)?;
        for (split, score, text) in [("dev", *dev, &self.dev), ("test", test, &self.test)] {
            metrics.push((format!("{split}.perplexity"), exp_mean(score.nll, score.tokens).into()));
            metrics.push((format!("{split}.word_perplexity"), exp_mean(score.nll, text.words()).into()));
        }
        Ok(Scores { metrics, notes: Vec::new() })
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.completer.model.attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let _guard = tch::no_grad_guard();
        let rows: Vec<u32> = (0..self.dev.len().min(VIEWED_ROWS) as u32).collect();
        let input = self.input_of(&self.targets_of(&self.dev, &rows)?);
        let mut histograms = Histograms::default();
        for (first, count) in chunks(rows.len() as i64) {
            let input = input.narrow(0, first, count);
            let real = input.ne(i64::from(PAD));
            let visible = visible(&real, true);
            let see = &mut |view: LayerView| histograms.add(&view, &real, &visible);
            self.completer.model.attention_weights(&input, see)?;
        }
        Ok(histograms.finish())
    }
}
