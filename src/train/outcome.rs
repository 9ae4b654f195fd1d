//! The row of a finished run, which `metrics.json` in its folder holds. [`super::standing`] reads it back.

use super::device;
use super::trainer::Trained;
use crate::experiment::{PlannedRun, Run};
use crate::files::write_atomically;
use crate::origin;
use crate::task::evaluation;
use anyhow::Result;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Column names and values of a finished run, in order.
pub type Row = Map<String, Value>;

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

/// The row of a run that has just finished.
pub fn row(planned: &PlannedRun, trained: &Trained, circumstances: &Circumstances) -> Row {
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
    put("cpu", origin::cpu().into());
    put("threads", circumstances.threads.into());
    put("config_hash", planned.hash.clone().into());
    put("data_hash", circumstances.data_hash.clone().into());
    put("version", origin::VERSION.into());
    put("git_commit", origin::GIT_COMMIT.into());
    put("git_state", origin::GIT_STATE.into());
    put("libtorch", device::loaded_version().into());
    put("finished", origin::now().into());
    put("command", circumstances.command.clone().into());
    row
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    ((value * scale).round() / scale).into()
}

/// The file that marks a run as finished.
pub fn metrics_file(folder: &Path) -> PathBuf {
    folder.join("metrics.json")
}

/// Writes `metrics.json`, with the digests of the run's other files.
///
/// # Errors
/// A file cannot be read or written.
pub fn save(folder: &Path, row: &Row) -> Result<()> {
    let mut row = row.clone();
    row.insert(evaluation::DIGESTS.into(), evaluation::digests(folder)?.into());
    write_atomically(&metrics_file(folder), (serde_json::to_string_pretty(&row)? + "\n").as_bytes())
}
