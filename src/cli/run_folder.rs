//! The folder of a finished run, as commands that use its model read it.

use crate::experiment::Run;
use crate::train::checkpoint;
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// The run as it was resolved, and the file of its tested weights.
///
/// # Errors
/// No `config.toml`, or one that is none of a run; no weights.
pub fn read(folder: &Path) -> Result<(Run, PathBuf)> {
    let config = folder.join("config.toml");
    let text = std::fs::read_to_string(&config)
        .with_context(|| format!("{}: cannot read; give the folder of a run", config.display()))?;
    let run = Run::from_toml(&text).with_context(|| format!("{}: not a resolved run", config.display()))?;
    let weights = checkpoint::final_file(folder);
    if !weights.exists() {
        bail!("{}: there are no weights; train the run first (checkpoints are not committed)", weights.display());
    }
    Ok((run, weights))
}
