//! What is written about attention: α in the log, histograms in attention.csv.

use super::log::record;
use super::side_text;
use crate::attention::SelfAttention;
use crate::files::write_atomically;
use crate::task::attention_view::{Histogram, BINS};
use crate::task::Task;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Names of the α columns of the log: `alpha.STACK.LAYER.HEAD.TERM`.
pub fn alpha_columns(task: &dyn Task) -> Vec<String> {
    mixtures(task)
        .flat_map(|(stack, layer, attention)| {
            let heads = attention.mixing_weights().map_or(0, |weights| weights.size()[1]);
            let terms = attention.term_names();
            (0..heads).flat_map(move |head| {
                terms.clone().into_iter().map(move |term| format!("alpha.{stack}.{layer}.{head}.{term}"))
            })
        })
        .collect()
}

/// The weights of the mixtures, in the order of [`alpha_columns`].
pub fn alphas(task: &dyn Task) -> Vec<f64> {
    mixtures(task)
        .filter_map(|(_, _, attention)| attention.mixing_weights())
        .flat_map(|weights| {
            let weights = weights.to_device(tch::Device::Cpu).to_kind(tch::Kind::Double);
            let (terms, heads) = (weights.size()[0], weights.size()[1]);
            (0..heads)
                .flat_map(|head| (0..terms).map(move |term| [term, head]))
                .map(|at| weights.double_value(&at))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn mixtures(task: &dyn Task) -> impl Iterator<Item = (&'static str, usize, &SelfAttention)> {
    task.attentions().into_iter().filter(|(_, _, attention)| attention.mixing_weights().is_some())
}

/// attention.csv: histograms of attention weights from before the first step and after the last.
#[derive(Debug, Default)]
pub struct AttentionLog {
    /// The header and the histograms from before the first step; none if they are not known any more.
    start: Option<String>,
}

impl AttentionLog {
    /// Writes the histograms of an untrained model.
    ///
    /// # Errors
    /// Those of the task's data and model; the file cannot be written.
    pub fn start(folder: &Path, task: &dyn Task) -> Result<Self> {
        let text = record(HISTOGRAM_HEADER)? + &histograms_csv("start", &task.view_attention()?)?;
        write_atomically(&file(folder), text.as_bytes())?;
        Ok(Self { start: Some(text) })
    }

    /// As a checkpoint saved it, and a line to the user if the file had to be restored. Of a checkpoint that saved nothing (an
    /// earlier version's) the file is all there is.
    pub fn resume(folder: &Path, saved: Option<String>) -> (Self, Option<String>) {
        let Some(text) = saved else { return (Self { start: start_of(&file(folder)) }, None) };
        let told = side_text::damage(&file(folder), &text).map(|damage| {
            let written = write_atomically(&file(folder), text.as_bytes());
            let done = written.map_or_else(|error| format!("{error:#}"), |()| "restored from the checkpoint".into());
            format!("{damage}; {done}")
        });
        (Self { start: Some(text) }, told)
    }

    /// What a checkpoint saves.
    pub fn text(&self) -> Option<&str> {
        self.start.as_deref()
    }

    /// Writes the whole file, with the histograms of the trained model; what was wrong with the file of before.
    ///
    /// # Errors
    /// Those of the task's data and model, Ctrl-C; the file cannot be written.
    pub fn finish(&self, folder: &Path, task: &dyn Task) -> Result<Option<String>> {
        let path = file(folder);
        let damage = self.start.as_ref().and_then(|start| side_text::damage(&path, start));
        let end = histograms_csv("end", &task.view_attention()?)?;
        let start = self.start.clone().map_or_else(|| record(HISTOGRAM_HEADER), Ok)?;
        write_atomically(&path, (start + &end).as_bytes())?;
        Ok(damage)
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("attention.csv")
}

/// The header and the histograms from before the first step, if the file is whole.
fn start_of(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut kept = record(HISTOGRAM_HEADER).ok()?;
    for line in csv::Reader::from_reader(text.as_bytes()).records() {
        let line = line.ok()?;
        if line.get(0) == Some("start") {
            kept += &record(&line).ok()?;
        }
    }
    Some(kept)
}

/// Lines of attention.csv for one moment, `start` or `end`.
fn histograms_csv(when: &str, histograms: &[Histogram]) -> Result<String> {
    let edge = |bin: usize| format!("{:.2}", bin as f64 / BINS as f64);
    let mut lines = String::new();
    for histogram in histograms {
        for (bin, count) in histogram.counts.iter().enumerate() {
            lines += &record([
                when.to_string(),
                histogram.stack.to_string(),
                histogram.layer.to_string(),
                edge(bin),
                edge(bin + 1),
                count.to_string(),
                format!("{:.6}", histogram.entropy),
                format!("{:.6}", histogram.uniform_entropy),
            ])?;
        }
    }
    Ok(lines)
}

/// The header of attention.csv.
const HISTOGRAM_HEADER: [&str; 8] = ["when", "stack", "layer", "low", "high", "count", "entropy", "uniform_entropy"];
