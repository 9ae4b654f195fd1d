//! `cost.csv` and `time.csv` of Table 1: counted parameters and operations, measured time and memory.

use super::{Sheet, Tail};
use crate::report::error::Result;
use std::path::Path;

/// Parameters and operations of one mix's attention layer.
#[derive(Debug, Clone, PartialEq)]
pub struct CostRow {
    /// The mix.
    pub mix: String,
    /// Width d.
    pub d_model: u64,
    /// Heads h.
    pub heads: u64,
    /// Maximum length N.
    pub max_length: u64,
    /// Trained parameters of the whole layer (heads, biases, value and output included).
    pub trainable_parameters: u64,
    /// The same with fixed ones.
    pub total_parameters: u64,
    /// The paper's formula, such as `2d²`.
    pub formula: String,
    /// The formula's value.
    pub formula_parameters: Option<u64>,
    /// Parameters counted in a layer of one head without biases, value and output left out.
    pub counted_one_head_no_bias: Option<u64>,
    /// Floating-point operations of a forward pass.
    pub forward_flops: Option<f64>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeRow {
    /// The mix.
    pub mix: String,
    /// Sequence length L.
    pub length: u64,
    /// What else the time depends on, for people: batch, width, heads, mask, device, threads.
    pub setting: String,
    /// Whether the backward pass is in it.
    pub backward: bool,
    /// Median seconds.
    pub median_seconds: f64,
    /// A low quantile.
    pub low_seconds: Option<f64>,
    /// A high quantile.
    pub high_seconds: Option<f64>,
    /// Peak memory, bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// Reads `cost.csv`.
pub fn read_cost(path: &Path) -> Result<Vec<CostRow>> {
    let required = ["mix", "d_model", "heads", "max_length", "trainable_parameters", "total_parameters"];
    let sheet = Sheet::read(path, &required, Tail::Strict)?;
    sheet
        .rows()
        .map(|row| {
            Ok(CostRow {
                mix: row.value("mix")?,
                d_model: row.value("d_model")?,
                heads: row.value("heads")?,
                max_length: row.value("max_length")?,
                trainable_parameters: row.value("trainable_parameters")?,
                total_parameters: row.value("total_parameters")?,
                formula: row.text("formula").to_string(),
                formula_parameters: row.optional("formula_parameters")?,
                counted_one_head_no_bias: row.optional("counted_one_head_no_bias")?,
                forward_flops: row.optional("forward_flops")?,
            })
        })
        .collect()
}

/// Reads `time.csv`.
pub fn read_time(path: &Path) -> Result<Vec<TimeRow>> {
    let sheet = Sheet::read(path, &["mix", "length", "pass", "median_seconds"], Tail::Strict)?;
    sheet
        .rows()
        .map(|row| {
            let backward = match row.text("pass") {
                "forward" => false,
                "forward+backward" => true,
                other => {
                    return Err(
                        row.fault(format!("column `pass` holds \"{other}\", not `forward` or `forward+backward`"))
                    )
                }
            };
            let mask = match row.text("causal") {
                "true" => "causal",
                "false" => "not causal",
                other => other,
            };
            let mut setting: Vec<String> = Vec::new();
            for (name, column) in [("batch", "batch"), ("d", "d_model"), ("h", "heads")] {
                if !row.text(column).is_empty() {
                    setting.push(format!("{name} {}", row.text(column)));
                }
            }
            setting.extend([mask, row.text("device")].iter().filter(|t| !t.is_empty()).map(|t| t.to_string()));
            if let Some(threads) = row.optional::<u64>("threads")? {
                setting.push(format!("{threads} thread{}", if threads == 1 { "" } else { "s" }));
            }
            Ok(TimeRow {
                mix: row.value("mix")?,
                length: row.value("length")?,
                setting: setting.join(", "),
                backward,
                median_seconds: row.value("median_seconds")?,
                low_seconds: row.optional("low_seconds")?,
                high_seconds: row.optional("high_seconds")?,
                peak_memory_bytes: row.optional("peak_memory_bytes")?,
            })
        })
        .collect()
}
