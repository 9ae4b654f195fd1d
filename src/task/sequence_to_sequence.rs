//! Source text to target text by encoder and decoder: what translation, summarization and dialogue share.

use super::attention_view::{Histogram, VIEWED_ROWS};
use super::dialogue::Dialogue;
use super::encoder_decoder::Batch;
use super::evaluation;
use super::summarization::Summarization;
use super::tokens::{self, held_out, lengths, marked, BatchScore, TrainingRows};
use super::translation::Translation;
use super::writer::Writer;
use super::{remarks, BatchLoss, DevScore, Scores, Task, TokenBatch};
use crate::attention::SelfAttention;
use crate::data::token_store::TokenStore;
use crate::data::{Corpus, Examples, Prepared};
use crate::experiment::check::kebab;
use crate::experiment::{Run, TaskKind};
use crate::metric::script::Share;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Instant;
use tch::{nn, Device};

/// Scores what a model wrote against what a human wrote.
pub trait Judge {
    /// Metrics of one split (`dev` or `test`), by names such as `test.bleu`, with notes on what they cannot tell.
    fn judge(&self, split: &str, hypotheses: &[String], references: &[String]) -> Result<Scores>;
}

/// The judge of a run's outputs; none for tasks that are not scored by texts.
pub fn judge(run: &Run) -> Option<Box<dyn Judge>> {
    match run.task {
        TaskKind::Translation => Some(Box::new(Translation::new(run))),
        TaskKind::Summarization => Some(Box::new(Summarization::new(run))),
        TaskKind::Dialogue => Some(Box::new(Dialogue::new(run))),
        TaskKind::LanguageModelling | TaskKind::MaskedLanguageModelling | TaskKind::Classification => None,
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
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let judge = judge(run).with_context(|| format!("task {} is not judged by texts", kebab(&run.task)))?;
        let (corpus, prepared, training) = tokens::read(run)?;
        let writer = Writer::new(run, prepared.tokenizer.clone(), device)?;
        Ok(Self { run: run.clone(), corpus, prepared, training, writer, judge })
    }

    fn batch(&self, store: &TokenStore, rows: &[u32]) -> Result<Batch> {
        let side = |column| -> Result<Vec<Vec<i64>>> {
            rows.iter().map(|&row| Ok(marked(store.tokens(row as usize, column)?))).collect()
        };
        Ok(Batch::new(&side(0)?, side(1)?, self.writer.variables().device()))
    }

    /// Test rows whose source is longer than the model reads, and that limit in tokens.
    fn cut_sources(&self) -> Result<(usize, usize)> {
        let (store, limit) = (&self.prepared.test, self.writer.source_tokens());
        let mut cut = 0;
        // the store holds what is left of a source: one that fills the limit may have been longer
        for row in (0..store.len()).filter(|row| store.text_length(*row, 0) >= limit) {
            let source = self.corpus.test.text(store.row(row)?, 0)?;
            cut += usize::from(self.writer.tokenizer().encode(&source)?.len() > limit);
        }
        Ok((cut, limit))
    }

    fn references(&self, examples: &dyn Examples) -> Result<Vec<String>> {
        (0..examples.len()).map(|row| Ok(examples.text(row, 1)?.into_owned())).collect()
    }
}

impl Task for SequenceToSequence {
    fn variables(&self) -> &nn::VarStore {
        self.writer.variables()
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
        Ok(BatchLoss { sum: batch.loss(self.writer.model(), self.run.train.label_smoothing, true)?, waited })
    }

    fn token_batch(&self, _epoch: u64, rows: &[u32]) -> Result<Option<TokenBatch>> {
        Ok(Some(self.batch(&self.prepared.train, rows)?.tokens()))
    }

    fn dev(&self) -> Result<DevScore> {
        let dev = &self.prepared.dev;
        let batches = held_out(&lengths(dev), self.run.train.batch_tokens, |rows| {
            let batch = self.batch(dev, rows)?;
            let tokens = batch.targets();
            Ok((batch.loss(self.writer.model(), 0.0, false)?, tokens))
        })?;
        Ok(BatchScore::sum(&batches))
    }

    /// Saves an output and a reference for every row of dev and test in `folder`, and has them judged.
    fn score(&self, _dev: &DevScore, folder: &Path) -> Result<Scores> {
        let splits = [("dev", &self.prepared.dev, &self.corpus.dev), ("test", &self.prepared.test, &self.corpus.test)];
        let mut scores = Scores::default();
        let (cut, limit) = self.cut_sources()?;
        let test = self.prepared.test.len();
        scores.notes.extend(remarks::cut(cut, test, "sources", limit));
        let skipped = self.corpus.skipped_test;
        let (share, note) = remarks::coverage(Share { part: test as u64, whole: (test + skipped) as u64 }, "rows");
        scores.notes.extend(note);
        for (split, store, examples) in splits {
            let hypotheses = self.writer.write_store(store)?;
            let references = self.references(examples.as_ref())?;
            evaluation::write_lines(&evaluation::hypotheses_file(folder, split), &hypotheses)?;
            evaluation::write_lines(&evaluation::references_file(folder, split), &references)?;
            let judged = self.judge.judge(split, &hypotheses, &references)?;
            scores.metrics.extend(judged.metrics);
            scores.notes.extend(judged.notes);
        }
        scores.metrics.push(share);
        Ok(scores)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.writer.model().attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let rows: Vec<u32> = (0..self.prepared.dev.len().min(VIEWED_ROWS) as u32).collect();
        self.batch(&self.prepared.dev, &rows)?.view_attention(self.writer.model())
    }
}
