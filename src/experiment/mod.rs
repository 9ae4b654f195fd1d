//! Plain data: what a user types (a TOML), and the runs that it resolves to.
//!
//! [`load`] reads a file into an [`Experiment`] (what was typed, with places for messages); [`Experiment::plan`] fills
//! the [`defaults`], [`check`]s every run and gives each its name, folder and hash.

pub mod check;
pub mod config;
pub mod defaults;
mod effects;
pub mod message;
pub mod mix;
pub mod names;
pub mod paths;
pub mod pattern;
mod place;
pub mod resolve;
pub mod row;
pub mod rows;
pub mod source;
pub mod spans;
pub mod typed;
pub mod unusual;

pub use config::{
    CorpusKind, DataConfig, DecodeConfig, ModelConfig, Precision, Run, Schedule, Select, TaskKind, TooLong, TrainConfig,
};
pub use message::{Problem, Problems};
pub use mix::Mix;
pub use resolve::{Plan, PlannedRun};
pub use row::RowStatus;

use crate::files::is_clutter;
use crate::regular;
use source::Source;
use std::path::{Path, PathBuf};
use typed::ExperimentToml;

/// What counts as a floating-point operation of a model, for notes under tables.
pub const MODEL_FLOPS_DEFINITION: &str = "\
self-attention as `synthesizer cost` counts it, encoder-decoder attention by the same rule, and the matrix products of the \
feed-forward layers and of the logits, a multiply-add being 2; not counted are embeddings, biases, norms, dropout, residual \
sums and the loss";

/// An experiment file, as typed.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its text and the places of its keys.
    pub source: Source,
    /// What was typed.
    pub typed: ExperimentToml,
}

impl Experiment {
    /// Parses a file's text; `path` is for messages and for the names of the results.
    pub fn parse(path: &Path, text: &str) -> Result<Experiment, Problems> {
        Source::parse(path, text).map(|(source, typed)| Experiment { source, typed })
    }
}

/// Reads one experiment file. Errors: unreadable, not a file, too large, not UTF-8, not TOML, unknown keys, wrong types.
pub fn load(path: &Path) -> Result<Experiment, Problems> {
    let text = regular::read_text(path, regular::EXPERIMENT).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => Problems::of_file(path, error.to_string(), "save the file as UTF-8"),
        _ => Problems::of_file(path, format!("can't be read: {error}"), ""),
    })?;
    Experiment::parse(path, &text)
}

/// Loads and plans every experiment file that `paths` name; `results` is the root of the results folders.
/// Errors: all problems of all files, and two files with one results folder.
pub fn plan_all(paths: &[PathBuf], results: &Path) -> Result<Vec<(Experiment, Plan)>, Problems> {
    let (plans, problems) = examine(&files(paths)?, results);
    if problems.is_empty() {
        Ok(plans)
    } else {
        Err(Problems(problems))
    }
}

/// As [`plan_all`], but good files come back beside the problems of the others.
pub fn examine(files: &[PathBuf], results: &Path) -> (Vec<(Experiment, Plan)>, Vec<Problem>) {
    let mut plans: Vec<(Experiment, Plan)> = Vec::new();
    let mut problems = Vec::new();
    for file in files {
        let planned = load(file).and_then(|experiment| experiment.plan(results).map(|plan| (experiment, plan)));
        match planned {
            Err(found) => problems.extend(found.0),
            Ok((experiment, plan)) => {
                if let Some((other, _)) = plans.iter().find(|(_, other)| other.results_csv == plan.results_csv) {
                    let text = format!("its results would go where those of {} go", other.source.path.display());
                    let help = format!("both write {}: rename one", plan.results_csv.display());
                    problems.extend(Problems::of_file(file, text, help).0);
                }
                plans.push((experiment, plan));
            }
        }
    }
    (plans, problems)
}

/// The experiment files that paths name: a file is itself, a folder all `*.toml` beneath it, sorted.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Problems> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        let before = found.len();
        let result = collect(path, &mut found);
        found[before..].sort();
        match result {
            Err(error) => problems.extend(Problems::of_file(path, format!("can't be read: {error}"), "").0),
            Ok(()) if found.len() == before => {
                problems.extend(Problems::of_file(path, "no *.toml beneath this folder", "").0);
            }
            Ok(()) => {}
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| seen.insert(place::normalized(path)));
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(Problems(problems))
    }
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.metadata()?.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in path.read_dir()? {
        let path = entry?.path();
        if is_clutter(&path) {
            continue;
        }
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "toml") {
            collect(&path, found)?;
        }
    }
    Ok(())
}
