//! What a finished run leaves: metrics.json in its folder, and a row in its column's CSV.

use super::trainer::Trained;
use crate::experiment::{PlannedRun, Run};
use crate::files::write_atomically;
use crate::task::evaluation;
use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Facts of a run that its task does not know.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// Trainable parameters.
    pub trainable_parameters: u64,
    /// All stored numbers of the model.
    pub total_parameters: u64,
    /// Floating-point operations of a step's forward pass, where every step has the same.
    pub forward_flops: Option<u64>,
    /// SHA-256 of the data.
    pub data_hash: String,
    /// Such as `cpu`.
    pub device: String,
    /// Threads of one operation.
    pub threads: i32,
    /// The command line.
    pub command: String,
}

/// The row of a finished run: column names and values, in order.
pub fn row(planned: &PlannedRun, trained: &Trained, circumstances: &Circumstances) -> Map<String, Value> {
    let run: &Run = &planned.run;
    let seconds = trained.train_seconds + trained.score_seconds;
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| drop(row.insert(name.to_string(), value));
    put("title", run.title.clone().into());
    put("task", serde_json::to_value(run.task).unwrap_or_default());
    put("mix", run.mix.to_string().into());
    put("variant", run.variant.clone().unwrap_or_default().into());
    put("seed", run.seed.into());
    put("trainable_parameters", circumstances.trainable_parameters.into());
    put("total_parameters", circumstances.total_parameters.into());
    for (name, value) in &trained.metrics {
        put(name, value.clone());
    }
    put("notes", trained.notes.join(" ").into());
    put("steps", trained.steps.into());
    put("tokens", trained.tokens.into());
    put("wall_seconds", rounded(seconds, 1));
    put("tokens_per_second", rounded(trained.tokens as f64 / trained.train_seconds.max(1e-9), 0));
    put("steps_per_second", rounded(trained.steps as f64 / trained.step_seconds.max(1e-9), 4));
    if let Some(operations) = circumstances.forward_flops {
        put("forward_tflops", (operations as f64 / 1e12).into());
    }
    put("peak_memory_bytes", trained.peak_memory_bytes.map_or(Value::Null, Value::from));
    put("device", circumstances.device.clone().into());
    put("threads", circumstances.threads.into());
    put("config_hash", planned.hash.clone().into());
    put("data_hash", circumstances.data_hash.clone().into());
    put("version", env!("CARGO_PKG_VERSION").into());
    put("command", circumstances.command.clone().into());
    row
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    ((value * scale).round() / scale).into()
}

fn metrics_file(folder: &Path) -> PathBuf {
    folder.join("metrics.json")
}

/// Writes metrics.json, with the digests of the run's other files; it marks the run as finished.
pub fn save(folder: &Path, row: &Map<String, Value>) -> Result<()> {
    let mut row = row.clone();
    row.insert(evaluation::DIGESTS.into(), evaluation::digests(folder)?.into());
    write_atomically(&metrics_file(folder), (serde_json::to_string_pretty(&row)? + "\n").as_bytes())
}

/// The row of a finished run; `None` if it is not finished.
pub fn load(folder: &Path) -> Result<Option<Map<String, Value>>> {
    let path = metrics_file(folder);
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}: cannot read", path.display()))?;
    let row = serde_json::from_str(&text)
        .with_context(|| format!("{}: not whole; remove it to run this again", path.display()))?;
    Ok(Some(row))
}

/// Rewrites a column's CSV: a row for each planned run that is finished with the planned settings, in the plan's order.
pub fn write_column(csv_path: &Path, planned: &[PlannedRun]) -> Result<()> {
    let mut rows = Vec::new();
    for planned in planned {
        let row = load(&planned.folder)?;
        rows.extend(row.filter(|row| row.get("config_hash").and_then(Value::as_str) == Some(&planned.hash)));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut columns: Vec<String> = Vec::new();
    for row in &rows {
        let mut after = 0;
        for name in row.keys().filter(|name| *name != evaluation::DIGESTS) {
            match columns.iter().position(|column| column == name) {
                Some(at) => after = at + 1,
                None => {
                    columns.insert(after, name.clone());
                    after += 1;
                }
            }
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&columns)?;
    for row in &rows {
        writer.write_record(columns.iter().map(|column| cell(row.get(column))))?;
    }
    write_atomically(csv_path, &writer.into_inner()?)
}

/// Takes the rows of some runs out of a column's CSV; without a row left there is no file.
pub fn forget(csv_path: &Path, runs: &[&Run]) -> Result<()> {
    if !csv_path.exists() {
        return Ok(());
    }
    let reading = || format!("{}: cannot read; remove it to start again", csv_path.display());
    let mut reader = csv::Reader::from_path(csv_path).with_context(reading)?;
    let header = reader.headers().with_context(reading)?.clone();
    let place = |name| header.iter().position(|column| column == name);
    let [mix, variant, seed] = ["mix", "variant", "seed"].map(place);
    let gone = |record: &csv::StringRecord| {
        let at = |place: Option<usize>| place.and_then(|place| record.get(place)).unwrap_or_default();
        runs.iter().any(|run| {
            let named = run.variant.as_deref().unwrap_or_default();
            at(mix) == run.mix.to_string() && at(variant) == named && at(seed) == run.seed.to_string()
        })
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header)?;
    let mut kept = 0;
    for record in reader.records() {
        let record = record.with_context(reading)?;
        if !gone(&record) {
            writer.write_record(&record)?;
            kept += 1;
        }
    }
    if kept == 0 {
        return std::fs::remove_file(csv_path).with_context(|| format!("{}: cannot remove", csv_path.display()));
    }
    write_atomically(csv_path, &writer.into_inner()?)
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
