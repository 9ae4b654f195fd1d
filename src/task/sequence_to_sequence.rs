//! Source text to target text by encoder and decoder: what translation, summarization and dialogue share.

use super::attention_view::{chunks, visible, Histogram, Histograms, VIEWED_ROWS};
use super::tokens::{self, cross_entropy, held_out, lengths, marked, pad, shifted, TrainingRows};
use super::{encode_line, transformer_config, Answer, BatchLoss, DevScore, Generator, Metric, Task, TokenBatch};
use crate::attention::SelfAttention;
use crate::data::token_store::{SourceLimit, TokenStore};
use crate::data::tokenizer::{Tokenizer, BEGIN, END, PAD};
use crate::data::{self, Corpus, Examples, Prepared};
use crate::decode::beam::{beam_search, BeamError, BeamOptions};
use crate::decode::Stepper;
use crate::error::Outcome;
use crate::experiment::{DecodeConfig, Run, TaskKind};
use crate::interrupt;
use crate::model::decoder::DecoderState;
use crate::model::seq2seq::Seq2Seq;
use crate::model::LayerView;
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
    /// A model with fresh weights from the run's seed.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let model = Seq2Seq::new(&variables.root(), &transformer_config(run, tokenizer.size()))?;
        let decode = run.decode.clone().context("a run that writes text has a [decode] section")?;
        let limit = match run.task {
            TaskKind::Translation => Limit::Source(decode.max_extra, run.model.max_length as usize),
            _ => Limit::Fixed(run.data.max_tokens + 1),
        };
        let both = SourceLimit { tokens: run.data.max_tokens, keep_end: false };
        let source = data::source_limit(&run.data, run.task).unwrap_or(both);
        Ok(Self { variables, model, tokenizer, task: run.task, source, limit, decode })
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

struct Batch {
    source: Tensor,
    source_padding: Option<Tensor>,
    target_in: Tensor,
    target_out: Vec<Vec<i64>>,
}

impl SequenceToSequence {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device, judge: Box<dyn Judge>) -> Result<Self> {
        let (corpus, prepared, training) = tokens::read(run)?;
        let writer = Writer::new(run, prepared.tokenizer.clone(), device)?;
        Ok(Self { run: run.clone(), corpus, prepared, training, writer, judge })
    }

    fn batch(&self, store: &TokenStore, rows: &[u32]) -> Result<Batch> {
        let device = self.writer.variables.device();
        let side = |column| -> Result<Vec<Vec<i64>>> {
            rows.iter().map(|&row| Ok(marked(store.tokens(row as usize, column)?))).collect()
        };
        let (source, source_padding) = pad(&side(0)?, device);
        let target_out = side(1)?;
        let (target_in, _) = pad(&shifted(&target_out), device);
        Ok(Batch { source, source_padding, target_in, target_out })
    }

    fn batch_loss(&self, batch: Batch, label_smoothing: f64, train: bool) -> Result<Tensor> {
        let model = &self.writer.model;
        let memory = model.encode(&batch.source, batch.source_padding, train)?;
        let hidden = model.decode(&batch.target_in, &memory, train)?;
        Ok(cross_entropy(&hidden, &batch.target_out, |hidden| model.logits(hidden), label_smoothing))
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

    fn loss(&self, rows: &[u32]) -> Result<BatchLoss> {
        let started = Instant::now();
        let batch = self.batch(&self.prepared.train, rows)?;
        let waited = started.elapsed();
        Ok(BatchLoss { sum: self.batch_loss(batch, self.run.train.label_smoothing, true)?, waited })
    }

    fn token_batch(&self, rows: &[u32]) -> Result<Option<TokenBatch>> {
        let batch = self.batch(&self.prepared.train, rows)?;
        let target = pad(&batch.target_out, self.writer.variables.device()).0;
        Ok(Some(TokenBatch { source: Some(batch.source), input: batch.target_in, target }))
    }

    fn dev(&self) -> Result<DevScore> {
        let dev = &self.prepared.dev;
        held_out(&lengths(dev), self.run.train.batch_tokens, |rows| {
            let batch = self.batch(dev, rows)?;
            let tokens = batch.target_out.iter().map(|row| row.len() as u64).sum();
            Ok((self.batch_loss(batch, 0.0, false)?, tokens))
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
        let _guard = tch::no_grad_guard();
        let rows: Vec<u32> = (0..self.prepared.dev.len().min(VIEWED_ROWS) as u32).collect();
        let batch = self.batch(&self.prepared.dev, &rows)?;
        let mut histograms = Histograms::default();
        for (first, count) in chunks(rows.len() as i64) {
            let part = |tensor: &Tensor| tensor.narrow(0, first, count);
            let (source, target) = (part(&batch.source), part(&batch.target_in));
            let real = [&source, &target].map(|tokens| tokens.ne(i64::from(PAD)));
            let visible = [visible(&real[0], false), visible(&real[1], true)];
            let see = &mut |view: LayerView| {
                let side = usize::from(view.stack != "encoder");
                histograms.add(&view, &real[side], &visible[side]);
            };
            self.writer.model.attention_weights(&source, batch.source_padding.as_ref().map(part), &target, see)?;
        }
        Ok(histograms.finish())
    }
}
