//! `attention.csv` of a run: histograms of attention weights per layer, at the start and the end of training.

use super::{Sheet, Tail};
use crate::report::error::Result;
use std::path::Path;

/// The histogram of one layer's attention weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Whether before (`start`) or after (`end`) training.
    pub end: bool,
    /// `encoder` or `decoder`.
    pub stack: String,
    /// Layer, from 0.
    pub layer: usize,
    /// Bins: low and high weight, number of weights.
    pub bins: Vec<(f64, f64, f64)>,
    /// Mean entropy of a row of weights, nats.
    pub entropy: Option<f64>,
    /// Entropy of uniform attention over the same keys, nats.
    pub uniform_entropy: Option<f64>,
}

/// Reads the histograms of a run, in the file's order.
pub fn read(path: &Path) -> Result<Vec<Histogram>> {
    let sheet = Sheet::read(path, &["when", "stack", "layer", "low", "high", "count"], Tail::Strict)?;
    let mut histograms: Vec<Histogram> = Vec::new();
    for row in sheet.rows() {
        let end = match row.text("when") {
            "start" => false,
            "end" => true,
            other => return Err(row.fault(format!("column `when` holds \"{other}\", not `start` or `end`"))),
        };
        let stack = row.text("stack");
        let layer: usize = row.value("layer")?;
        let at = histograms.iter().position(|h| h.end == end && h.stack == stack && h.layer == layer);
        let at = match at {
            Some(at) => at,
            None => {
                histograms.push(Histogram {
                    end,
                    stack: stack.to_string(),
                    layer,
                    bins: Vec::new(),
                    entropy: row.optional("entropy")?,
                    uniform_entropy: row.optional("uniform_entropy")?,
                });
                histograms.len() - 1
            }
        };
        histograms[at].bins.push((row.value("low")?, row.value("high")?, row.value("count")?));
    }
    Ok(histograms)
}
