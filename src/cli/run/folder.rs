//! The folder of a run, which one process at a time may change.

use crate::experiment::PlannedRun;
use crate::files::{self, Lock};
use crate::task::evaluation;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Held while a run trains: two processes in one folder would spoil each other's log and checkpoint. `None` if another process
/// holds it.
///
/// # Errors
/// The folder or the lock file cannot be made.
pub(super) fn lock(planned: &PlannedRun) -> Result<Option<Lock>> {
    let folder = &planned.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot make this folder", folder.display()))?;
    Lock::try_take(&lock_file(folder))
}

/// Stands in a run's folder as long as a process trains the run there.
pub(super) fn lock_file(folder: &Path) -> PathBuf {
    folder.join(".lock")
}

/// Whether another process holds the run. Makes nothing where there is no folder yet.
///
/// # Errors
/// As [`lock`].
pub(super) fn is_held(planned: &PlannedRun) -> Result<bool> {
    Ok(planned.folder.exists() && lock(planned)?.is_none())
}

/// Everything that a run may have written into its folder, `config.toml` last: while it stands, the rest is known to be of its
/// settings. The lock file is not among them.
fn contents(folder: &Path) -> Result<Vec<PathBuf>> {
    let first = ["metrics.json", "checkpoint", "log.csv", "attention.csv", "tokenizer.json", "labels.json"];
    let mut found: Vec<PathBuf> = first.iter().map(|name| folder.join(name)).collect();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("{}: cannot read this folder", folder.display()))?,
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("{}: cannot read this folder", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // `.labels.txt` is a file of version 0.1.0
        let mut endings = evaluation::ENDINGS.iter().chain(&[".labels.txt"]);
        if name.starts_with("events.out.tfevents.") || endings.any(|ending| name.ends_with(ending)) {
            found.push(entry.path());
        }
    }
    found.push(folder.join("config.toml"));
    found.retain(|path| path.symlink_metadata().is_ok());
    Ok(found)
}

/// Makes sure that [`clear`] can delete what is there.
///
/// # Errors
/// The folder, or one in it, is read-only.
pub(super) fn check_clearable(folder: &Path) -> Result<()> {
    let contents = contents(folder)?;
    if folder.exists() {
        files::check_writable(folder)?;
    }
    contents.iter().filter(|path| path.is_dir()).try_for_each(|path| files::check_writable(path))
}

/// Deletes the files of a run, and nothing else that may lie in its folder.
///
/// # Errors
/// A file cannot be deleted.
pub(super) fn clear(folder: &Path) -> Result<()> {
    for path in contents(folder)? {
        let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let removed = if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.with_context(|| format!("{}: cannot remove", path.display()))?;
    }
    Ok(())
}
