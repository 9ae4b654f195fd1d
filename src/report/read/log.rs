//! `log.csv` of a run: loss, dev loss, dev perplexity and learned α by step.

use super::{Sheet, Tail};
use crate::report::error::Result;
use std::path::Path;

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// Optimizer steps done.
    pub step: u64,
    /// Training loss: nats per target token, or per example where examples are labelled.
    pub loss: Option<f64>,
    /// The same on dev, where it was evaluated.
    pub dev_loss: Option<f64>,
    /// Perplexity on dev, where it was evaluated; none where examples are labelled.
    pub dev_perplexity: Option<f64>,
    /// α, in the order of [`Log::alphas`].
    pub alphas: Vec<Option<f64>>,
}

/// Which α a column of the log holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlphaKey {
    /// `encoder` or `decoder`.
    pub stack: String,
    /// Layer, from 0.
    pub layer: usize,
    /// Head, from 0.
    pub head: usize,
    /// The term of the mix.
    pub term: String,
}

/// A run's log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Lines, in order.
    pub lines: Vec<LogLine>,
    /// What the α columns are.
    pub alphas: Vec<AlphaKey>,
}

impl Log {
    /// The step of the first loss that is no finite number.
    pub fn diverged_at(&self) -> Option<u64> {
        self.lines.iter().find(|l| l.loss.is_some_and(|v| !v.is_finite())).map(|l| l.step)
    }

    /// The last step logged.
    pub fn last_step(&self) -> Option<u64> {
        self.lines.last().map(|l| l.step)
    }

    /// The last α logged, with its step; empty where none was.
    pub fn last_alphas(&self) -> Vec<(AlphaKey, f64)> {
        let Some(line) = self.lines.iter().rev().find(|l| l.alphas.iter().any(|a| a.is_some())) else {
            return Vec::new();
        };
        self.alphas.iter().cloned().zip(&line.alphas).filter_map(|(key, value)| Some((key, (*value)?))).collect()
    }
}

/// Reads a log; a last line that is still being written is left out.
pub fn read(path: &Path) -> Result<Log> {
    let sheet = Sheet::read(path, &["step", "loss"], Tail::Growing)?;
    let columns: Vec<(String, AlphaKey)> =
        sheet.header().iter().filter_map(|name| Some((name.clone(), alpha_key(name)?))).collect();
    let mut lines = Vec::new();
    for row in sheet.rows() {
        lines.push(LogLine {
            step: row.value("step")?,
            loss: row.optional("loss")?,
            dev_loss: row.optional("dev_loss")?,
            dev_perplexity: row.optional("dev_perplexity")?,
            alphas: columns.iter().map(|(name, _)| row.optional(name)).collect::<Result<_>>()?,
        });
    }
    Ok(Log { lines, alphas: columns.into_iter().map(|(_, key)| key).collect() })
}

/// `alpha.<stack>.<layer>.<head>.<term>`; a term may hold dots of its own.
fn alpha_key(name: &str) -> Option<AlphaKey> {
    let mut parts = name.strip_prefix("alpha.")?.splitn(4, '.');
    Some(AlphaKey {
        stack: parts.next()?.to_string(),
        layer: parts.next()?.parse().ok()?,
        head: parts.next()?.parse().ok()?,
        term: parts.next()?.to_string(),
    })
}
