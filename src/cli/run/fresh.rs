//! `run --fresh`: throws away what earlier calls left of the wanted runs, once it is known that they can be trained again.

use super::folder;
use super::plan::Wanted;
use crate::data;
use crate::experiment::{DataConfig, TaskKind};
use crate::files;
use anyhow::{bail, Context, Result};
use std::path::Path;

/// Deletes the files of the wanted runs. Rows of the CSV stay until the runs have new results.
///
/// # Errors
/// Something would stop the runs: another process trains one of them, a folder is read-only, the data cannot be read. Nothing
/// is deleted then.
pub(super) fn start_again(all: &[Wanted]) -> Result<()> {
    let runs = || all.iter().flat_map(Wanted::runs);
    let mut locks = Vec::new();
    let mut held = Vec::new();
    // A folder that is not there holds nothing to delete, and is not made before everything is checked.
    for planned in runs().filter(|planned| planned.folder.exists()) {
        match folder::lock(planned)? {
            Some(lock) => locks.push(lock),
            None => held.push(planned.folder.display().to_string()),
        }
    }
    if !held.is_empty() {
        bail!("{}: another process trains this run, so --fresh has deleted nothing", held.join(", "));
    }
    for wanted in all {
        files::check_writable(wanted.plan.results_csv.parent().unwrap_or(Path::new(".")))?;
    }
    runs().try_for_each(|planned| folder::check_clearable(&planned.folder)).context("--fresh has deleted nothing")?;
    let mut read: Vec<(&DataConfig, TaskKind)> = Vec::new();
    for planned in runs() {
        let wanted = (&planned.run.data, planned.run.task);
        if !read.contains(&wanted) {
            data::check_readable(wanted.0, wanted.1).with_context(|| {
                format!("{}: the data cannot be read, so --fresh has deleted nothing", planned.name)
            })?;
            read.push(wanted);
        }
    }
    runs().try_for_each(|planned| folder::clear(&planned.folder))
}
