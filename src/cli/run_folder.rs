//! The folder of a finished run, as commands that use its model read it.

use crate::data::rows::sha256_hex;
use crate::experiment::Run;
use crate::regular;
use crate::train::checkpoint::{self, State};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use tch::nn;

/// The run as it was resolved, and the file of its tested weights, once the files that belong to them were checked.
///
/// # Errors
/// No `config.toml`, or one that is none of a run; no weights; a file that is not the one with which the weights were saved.
pub fn read(folder: &Path) -> Result<(Run, PathBuf)> {
    let config = folder.join("config.toml");
    let text = regular::read_text(&config, regular::EXPERIMENT)
        .with_context(|| format!("{}: cannot read; give the folder of a run", config.display()))?;
    let weights = checkpoint::final_file(folder);
    if !weights.exists() {
        bail!("{}: there are no weights; train the run first (checkpoints are not committed)", weights.display());
    }
    check(folder, &weights)?;
    let run = Run::from_toml(&text).with_context(|| format!("{}: not a resolved run", config.display()))?;
    Ok((run, weights))
}

/// Checks the files beside the weights against the checksums that the weights were saved with.
///
/// # Errors
/// The weights' header or one of the files is damaged.
pub fn check(folder: &Path, weights: &Path) -> Result<()> {
    let state: State = checkpoint::load_state(weights).with_context(|| advice(weights))?;
    for (name, expected) in &state.assets {
        let path = folder.join(name);
        let bytes = regular::read(&path, regular::TOKENIZER)
            .with_context(|| format!("{}: cannot read. {}", path.display(), advice(&path)))?;
        let found = sha256_hex(&bytes);
        if found != *expected {
            bail!(
                "{}: damaged, or of another run than {} (SHA-256 {found}, and the weights were saved with {expected}). {}",
                path.display(),
                weights.display(),
                advice(&path)
            );
        }
    }
    Ok(())
}

/// Loads the tested weights.
///
/// # Errors
/// They are damaged, or of another model.
pub fn load_weights(weights: &Path, variables: &nn::VarStore) -> Result<()> {
    checkpoint::load_weights(weights, variables).map(drop).with_context(|| advice(weights))
}

/// How a damaged file of a finished run is made again.
fn advice(path: &Path) -> String {
    format!(
        "To make {} again, remove it and the run's metrics.json and run the experiment again: a run whose last checkpoint is \
         whole is scored again without training",
        path.display()
    )
}
