//! log.csv: a line every `log_every` steps and at every evaluation.

use anyhow::{bail, Context, Result};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Steps done.
    pub step: u64,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Loss since the last line: nats per predicted token, label smoothing included; of a classifier, loss per row.
    pub loss: f64,
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Gradient norm of this step, before clipping.
    pub gradient_norm: f64,
    /// Predictions in all: tokens, of a classifier rows.
    pub tokens: u64,
    /// Predictions a second of training steps, since the last line: evaluations and saves take none of that time.
    pub tokens_per_second: f64,
    /// Share of the steps' time spent on making batches.
    pub data_wait: f64,
    /// Loss on dev, at evaluations, in the same unit without smoothing.
    pub dev_loss: Option<f64>,
    /// Its exponential, where tokens are predicted.
    pub dev_perplexity: Option<f64>,
    /// Mixing weights.
    pub alphas: Vec<f64>,
}

impl Line {
    /// The line of a step that diverged.
    pub fn diverged(self) -> Line {
        Line { loss: f64::NAN, ..self }
    }

    /// The numbers that there are, under names for TensorBoard.
    pub fn scalars(&self, alpha_columns: &[String]) -> Vec<(String, f64)> {
        let fixed = [
            ("loss", Some(self.loss)),
            ("learning_rate", Some(self.learning_rate)),
            ("gradient_norm", Some(self.gradient_norm)),
            ("tokens_per_second", Some(self.tokens_per_second)),
            ("data_wait", Some(self.data_wait)),
            ("dev_loss", self.dev_loss),
        ];
        let fixed = fixed.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
        fixed.chain(alpha_columns.iter().cloned().zip(self.alphas.iter().copied())).collect()
    }
}

/// Columns before the α.
pub const COLUMNS: [&str; 10] = [
    "step",
    "epoch",
    "loss",
    "learning_rate",
    "gradient_norm",
    "tokens",
    "tokens_per_second",
    "data_wait",
    "dev_loss",
    "dev_perplexity",
];

/// An open log.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    writer: csv::Writer<File>,
}

impl Log {
    /// Opens the log, keeping lines up to `step` (0: a new log).
    pub fn open(path: &Path, alpha_columns: &[String], step: u64) -> Result<Self> {
        let context = || format!("{}: cannot write the log", path.display());
        let kept = if step > 0 { lines_up_to(path, step)? } else { Vec::new() };
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(COLUMNS.iter().copied().chain(alpha_columns.iter().map(String::as_str)))?;
        for record in kept {
            writer.write_record(&record).with_context(context)?;
        }
        crate::files::write_atomically(path, &writer.into_inner()?)?;
        let file = OpenOptions::new().append(true).open(path).with_context(context)?;
        Ok(Self { path: path.into(), writer: csv::Writer::from_writer(file) })
    }

    /// Makes the lines so far durable.
    pub fn sync(&self) -> Result<()> {
        let synced = self.writer.get_ref().sync_data();
        synced.with_context(|| format!("{}: cannot write the log", self.path.display()))
    }

    /// Appends a line, at once in the file.
    pub fn write(&mut self, line: &Line) -> Result<()> {
        let dev = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
        let mut record = vec![
            line.step.to_string(),
            line.epoch.to_string(),
            format!("{:.6}", line.loss),
            format!("{:.6e}", line.learning_rate),
            format!("{:.6}", line.gradient_norm),
            line.tokens.to_string(),
            format!("{:.0}", line.tokens_per_second),
            format!("{:.4}", line.data_wait),
            dev(line.dev_loss),
            dev(line.dev_perplexity),
        ];
        record.extend(line.alphas.iter().map(|alpha| format!("{alpha:.6}")));
        let context = || format!("{}: cannot write the log", self.path.display());
        self.writer.write_record(&record).with_context(context)?;
        self.writer.flush().with_context(context)
    }
}

fn lines_up_to(path: &Path, step: u64) -> Result<Vec<csv::StringRecord>> {
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("{}: the log of a run to resume", path.display()))?;
    let mut kept = Vec::new();
    for record in reader.records() {
        // a line that a crash cut short stands after the checkpoint, and is dropped with the others there
        let Ok(record) = record else { break };
        let Some(at) = record.get(0).and_then(|cell| cell.parse::<u64>().ok()) else {
            bail!("{}: a line without a step", path.display());
        };
        if at > step {
            break;
        }
        kept.push(record);
    }
    Ok(kept)
}
