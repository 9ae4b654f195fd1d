//! log.csv: a line every `log_every` steps and at every evaluation.

use super::side_text;
use crate::regular;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
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

/// An open log. Its text is kept in memory too: checkpoints save it, and a file that was damaged is restored from it.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    text: String,
}

impl Log {
    /// A new log.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(path: &Path, alpha_columns: &[String]) -> Result<Self> {
        Self::with(path, header(alpha_columns)?)
    }

    /// The log as it was at a checkpoint, which saved `text`; and what was wrong with the file, if anything. Later lines are
    /// dropped, because their steps are done again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn resume(path: &Path, text: String) -> Result<(Self, Option<String>)> {
        let damage = side_text::damage(path, &text);
        Ok((Self::with(path, text)?, damage))
    }

    /// The log of a checkpoint that saved no text: the lines up to `step` in the file.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn resume_unsaved(path: &Path, alpha_columns: &[String], step: u64) -> Result<Self> {
        let mut log = header(alpha_columns)?;
        for line in lines_up_to(path, step)? {
            log.push_str(&record(&line)?);
        }
        Self::with(path, log)
    }

    fn with(path: &Path, text: String) -> Result<Self> {
        crate::files::write_atomically(path, text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(path).with_context(|| writing(path))?;
        Ok(Self { path: path.into(), file, text })
    }

    /// All lines so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Makes the lines so far durable.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().with_context(|| writing(&self.path))
    }

    /// Appends a line, at once in the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, line: &Line) -> Result<()> {
        let dev = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
        let mut cells = vec![
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
        cells.extend(line.alphas.iter().map(|alpha| format!("{alpha:.6}")));
        let line = record(&cells)?;
        self.file.write_all(line.as_bytes()).with_context(|| writing(&self.path))?;
        self.text.push_str(&line);
        Ok(())
    }

    /// Restores the file if it is not what was written, and returns what was wrong.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(&self) -> Result<Option<String>> {
        side_text::restore(&self.path, &self.text)
    }
}

fn writing(path: &Path) -> String {
    format!("{}: cannot write the log", path.display())
}

fn header(alpha_columns: &[String]) -> Result<String> {
    record(COLUMNS.iter().copied().chain(alpha_columns.iter().map(String::as_str)))
}

/// A line of CSV with its end.
pub(super) fn record<T: AsRef<[u8]>>(cells: impl IntoIterator<Item = T>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells)?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn lines_up_to(path: &Path, step: u64) -> Result<Vec<csv::StringRecord>> {
    let reading = || format!("{}: cannot read this log; start the run again with --fresh", path.display());
    let mut reader = regular::open(path).map(csv::Reader::from_reader).with_context(reading)?;
    let mut kept = Vec::new();
    for record in reader.records() {
        // a line that a crash cut short stands after the checkpoint, and is dropped with the others there
        let Ok(record) = record else { break };
        let at = record.get(0).and_then(|cell| cell.parse::<u64>().ok()).context("a line without a step");
        let at = at.with_context(reading)?;
        if at > step {
            break;
        }
        kept.push(record);
    }
    Ok(kept)
}
