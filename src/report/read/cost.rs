//! `cost.csv` and `time.csv` of Table 1: counted parameters and operations, measured time and memory.

use super::{Row, Sheet, Tail};
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
    /// `layer` or `core`; empty where the file does not say.
    pub part: String,
    /// Sequence length L.
    pub length: u64,
    /// Sequences B, where the file says.
    pub batch: Option<u64>,
    /// Whether nothing was masked.
    pub open: bool,
    /// What else the time depends on, for people: batch, width, heads, mask, device, threads.
    pub setting: String,
    /// The same without batch and mask.
    pub sizes: String,
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
    /// What was typed; empty where the file does not say.
    pub command: String,
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

/// Reads `time.csv`, and what else `bench attention` writes.
pub fn read_time(path: &Path, tail: Tail) -> Result<Vec<TimeRow>> {
    let sheet = Sheet::read(path, &["mix", "length", "pass", "median_seconds"], tail)?;
    sheet
        .rows()
        .map(|row| {
            let backward = is_backward(&row)?;
            let named = |name: &str, column: &str| match row.text(column) {
                "" => None,
                text => Some(format!("{name} {text}")),
            };
            let mask = match row.text("causal") {
                "true" => "causal",
                "false" => "not causal",
                other => other,
            };
            let word = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
            let threads = row.optional::<u64>("threads")?;
            let threads = threads.map(|threads| format!("{threads} thread{}", if threads == 1 { "" } else { "s" }));
            let (batch, sizes) = (named("batch", "batch"), [named("d", "d_model"), named("h", "heads")]);
            let machine = [word(processor(&row)), threads];
            let join =
                |parts: &[&[Option<String>]]| parts.concat().into_iter().flatten().collect::<Vec<String>>().join(", ");
            Ok(TimeRow {
                mix: row.value("mix")?,
                part: row.text("part").to_string(),
                length: row.value("length")?,
                batch: row.optional("batch")?,
                open: row.text("causal") == "false",
                setting: join(&[&[batch], &sizes, &[word(mask)], &machine]),
                sizes: join(&[&sizes, &machine]),
                backward,
                median_seconds: row.value("median_seconds")?,
                low_seconds: row.optional("low_seconds")?,
                high_seconds: row.optional("high_seconds")?,
                peak_memory_bytes: row.optional("peak_memory_bytes")?,
                command: row.text("command").to_string(),
            })
        })
        .collect()
}

/// What a line was measured on: a CUDA device, or the CPU by its name where the file has that.
pub(super) fn processor<'a>(row: &Row<'a>) -> &'a str {
    match (row.text("device"), row.text("cpu")) {
        ("cpu" | "", cpu) if !cpu.is_empty() => cpu,
        (device, _) => device,
    }
}

/// Whether the column `pass` names the pass with gradients.
pub(super) fn is_backward(row: &Row) -> Result<bool> {
    match row.text("pass") {
        "forward" => Ok(false),
        "forward+backward" => Ok(true),
        other => Err(row.fault(format!("column `pass` holds \"{other}\", not `forward` or `forward+backward`"))),
    }
}
