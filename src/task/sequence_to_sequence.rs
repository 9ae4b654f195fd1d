//! Source text to target text by encoder and decoder: what translation, summarization and dialogue share.

use super::attention_view::{Histogram, VIEWED_ROWS};
use super::encoder_decoder::Batch;
use super::tokens::{self, held_out, lengths, marked, pad, TrainingRows};
use super::{encode_line, transformer_config, Answer, BatchLoss, DevScore, Generator, Metric, Task, TokenBatch};
use crate::attention::SelfAttention;
use crate::data::token_store::{SourceLimit, TokenStore};
use crate::data::tokenizer::{Tokenizer, BEGIN, END};
use crate::data::{self, Corpus, Examples, Prepared};
use crate::decode::beam::{beam_search, BeamError, BeamOptions};
use crate::decode::Stepper;
use crate::error::Outcome;
use crate::experiment::{DecodeConfig, Run, TaskKind};
use crate::interrupt;
use crate::model::decoder::DecoderState;
use crate::model::seq2seq::Seq2Seq;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Instant;
use tch::{nn, Device, Kind, Tensor};

/// Scores what a model wrote against what a human wrote.
pub trait Judge {
    /// Metrics of one split (`dev` or `test`), by names such as `test.bleu`.
    fn judge(&self, split: &str, hypotheses: &[String], references: &[String]) -> Result<Vec<Metric>>;
}

/// The model with its tokenizer: lines in, lines out.
pub struct Writer {
    variables: nn::VarStore,
    model: Seq2Seq,
    tokenizer: Tokenizer,
    task: TaskKind,
    source: SourceLimit,
    limit: Limit,
    decode: DecodeConfig,
}

/// How long an output may grow, its end mark included.
enum Limit {
    /// Source length + this, but not over the second.
    Source(usize, usize),
    Fixed(usize),
}

impl Writer {
    /// A model with fresh weights from the run's seed, writing as its `[decode]` says.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let decode = run.decode.clone().context("a run that writes text has a [decode] section")?;
        Self::with(run, tokenizer, device, decode)
    }

    /// The same, writing as `decode` says.
    pub fn with(run: &Run, tokenizer: Tokenizer, device: Device, decode: DecodeConfig) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let model = Seq2Seq::new(&variables.root(), &transformer_config(run, tokenizer.size()))?;
        let limit = match run.task {
            TaskKind::Translation => Limit::Source(decode.max_extra, run.model.max_length as usize),
            TaskKind::MaskedLanguageModelling => Limit::Fixed(run.model.max_length as usize),
            _ => Limit::Fixed(run.data.max_tokens + 1),
        };
        let both = SourceLimit { tokens: run.data.max_tokens, keep_end: false };
        let source = data::source_limit(&run.data, run.task).unwrap_or(both);
        Ok(Self { variables, model, tokenizer, task: run.task, source, limit, decode })
    }

    /// Every variable.
    pub fn variables(&self) -> &nn::VarStore {
        &self.variables
    }

    /// The same, to load weights into.
    pub fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    /// Encoder and decoder.
    pub fn model(&self) -> &Seq2Seq {
        &self.model
    }

    /// What lines become tokens by.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Token ids of sources, without marks -> hypotheses without marks, in the same order.
    pub fn write(&self, sources: &[Vec<u32>]) -> Result<Vec<Vec<u32>>> {
        let _guard = tch::no_grad_guard();
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|&row| (sources[row].len(), row));
        let mut hypotheses = vec![Vec::new(); sources.len()];
        for rows in order.chunks(self.decode.batch) {
            interrupt::check()?;
            let batch: Vec<Vec<i64>> = rows.iter().map(|&row| marked(sources[row].iter().copied())).collect();
            let device = self.variables.device();
            let (source, padding) = pad(&batch, device);
            let memory = self.model.encode(&source, padding, false)?;
            let options = BeamOptions {
                beam: self.decode.beam,
                length_penalty: self.decode.length_penalty,
                max_length: batch.iter().map(|source| self.limit.of(source.len())).collect(),
                min_length: self.decode.min_length,
                no_repeat_ngram: self.decode.no_repeat_ngram,
                begin: BEGIN,
                end: END,
            };
            let mut stepper = DecoderStepper { model: &self.model, state: self.model.start(&memory)?, device };
            let found = beam_search(&mut stepper, rows.len(), &options).map_err(|error| match error {
                BeamError::NotANumber { .. } => Outcome::Failed(error.to_string()).into(),
                error => anyhow::Error::from(error),
            })?;
            for (&row, hypothesis) in rows.iter().zip(found) {
                hypotheses[row] = hypothesis.tokens;
            }
        }
        Ok(hypotheses)
    }

    fn write_store(&self, store: &TokenStore) -> Result<Vec<String>> {
        let sources: Vec<Vec<u32>> = (0..store.len()).map(|row| store.tokens(row, 0)).collect::<Result<_>>()?;
        self.write(&sources)?.iter().map(|tokens| self.tokenizer.decode(tokens)).collect()
    }
}

impl Limit {
    fn of(&self, source: usize) -> usize {
        match *self {
            Limit::Source(extra, most) => (source + extra).min(most),
            Limit::Fixed(most) => most,
        }
    }
}

impl Generator for Writer {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        let encoded = lines.iter().map(|line| match self.task {
            // what was said, the utterances parted by tabs
            TaskKind::Dialogue => encode_line(&self.tokenizer, &line.replace('\t', "\n"), self.source),
            _ => encode_line(&self.tokenizer, line, self.source),
        });
        let (sources, cuts): (Vec<_>, Vec<_>) = encoded.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let answers = self.write(&sources)?.into_iter().zip(cuts);
        answers.map(|(tokens, cut)| Ok(Answer { text: self.tokenizer.decode(&tokens)?, cut })).collect()
    }
}

struct DecoderStepper<'a> {
    model: &'a Seq2Seq,
    state: DecoderState,
    device: Device,
}

impl Stepper for DecoderStepper<'_> {
    fn step(&mut self, tokens: &Tensor) -> Result<Tensor> {
        Ok(self.model.step(&tokens.to_device(self.device), &mut self.state)?.log_softmax(-1, Kind::Float))
    }

    fn reorder(&mut self, rows: &Tensor) {
        self.state.reorder(&rows.to_device(self.device));
    }
}

/// Model, data, and who scores the outputs.
pub struct SequenceToSequence {
    run: Run,
    corpus: Corpus,
    prepared: Prepared,
    training: TrainingRows,
    writer: Writer,
    judge: Box<dyn Judge>,
}

impl SequenceToSequence {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device, judge: Box<dyn Judge>) -> Result<Self> {
        let (corpus, prepared, training) = tokens::read(run)?;
        let writer = Writer::new(run, prepared.tokenizer.clone(), device)?;
        Ok(Self { run: run.clone(), corpus, prepared, training, writer, judge })
    }

    fn batch(&self, store: &TokenStore, rows: &[u32]) -> Result<Batch> {
        let side = |column| -> Result<Vec<Vec<i64>>> {
            rows.iter().map(|&row| Ok(marked(store.tokens(row as usize, column)?))).collect()
        };
        Ok(Batch::new(&side(0)?, side(1)?, self.writer.variables.device()))
    }

    fn references(&self, examples: &dyn Examples) -> Result<Vec<String>> {
        (0..examples.len()).map(|row| Ok(examples.text(row, 1)?.into_owned())).collect()
    }
}

impl Task for SequenceToSequence {
    fn variables(&self) -> &nn::VarStore {
        &self.writer.variables
    }

    fn training(&self) -> &TrainingRows {
        &self.training
    }

    fn targets(&self, rows: &[u32]) -> u64 {
        rows.iter().map(|&row| self.prepared.train.text_length(row as usize, 1) as u64 + 1).sum()
    }

    fn loss(&self, _epoch: u64, rows: &[u32]) -> Result<BatchLoss> {
        let started = Instant::now();
        let batch = self.batch(&self.prepared.train, rows)?;
        let waited = started.elapsed();
        Ok(BatchLoss { sum: batch.loss(&self.writer.model, self.run.train.label_smoothing, true)?, waited })
    }

    fn token_batch(&self, _epoch: u64, rows: &[u32]) -> Result<Option<TokenBatch>> {
        Ok(Some(self.batch(&self.prepared.train, rows)?.tokens()))
    }

    fn dev(&self) -> Result<DevScore> {
        let dev = &self.prepared.dev;
        held_out(&lengths(dev), self.run.train.batch_tokens, |rows| {
            let batch = self.batch(dev, rows)?;
            let tokens = batch.targets();
            Ok((batch.loss(&self.writer.model, 0.0, false)?, tokens))
        })
    }

    /// Writes an output for every row of dev and test into `folder` (a line each, line feeds as `\n`), and has them judged.
    fn score(&self, _dev: &DevScore, folder: &Path) -> Result<Vec<Metric>> {
        let splits = [("dev", &self.prepared.dev, &self.corpus.dev), ("test", &self.prepared.test, &self.corpus.test)];
        let mut metrics = Vec::new();
        for (split, store, examples) in splits {
            let hypotheses = self.writer.write_store(store)?;
            let lines: Vec<String> = hypotheses.iter().map(|text| text.replace('\n', "\\n")).collect();
            crate::files::write_atomically(
                &folder.join(format!("{split}.hypotheses.txt")),
                (lines.join("\n") + "\n").as_bytes(),
            )?;
            metrics.extend(self.judge.judge(split, &hypotheses, &self.references(examples.as_ref())?)?);
        }
        Ok(metrics)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.writer.model.attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let rows: Vec<u32> = (0..self.prepared.dev.len().min(VIEWED_ROWS) as u32).collect();
        self.batch(&self.prepared.dev, &rows)?.view_attention(&self.writer.model)
    }
}
