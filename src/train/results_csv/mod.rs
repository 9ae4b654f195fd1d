//! The CSV of a column: one row for each finished run.
//!
//! The file is committed and shared, while `metrics.json` stays on the machine that trained. So rows are merged into what is
//! there, by the rule of [`crate::experiment::row`]: a row is replaced only by a newer finished result of its run, all other
//! rows and all columns are kept. Processes that write the same file take turns by a lock file beside it.

mod table;

use super::outcome::Row;
use super::standing::{self, Standing};
use crate::experiment::Plan;
use crate::files::{self, write_atomically, Lock};
use crate::regular;
use anyhow::{bail, Context, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use table::Table;

/// How long to wait for a process that writes the same file, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a call of [`merge`] did, by the names of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Runs whose rows are new or replaced.
    pub written: BTreeSet<String>,
    /// Runs whose rows are newer in the file than in the run's folder, and were kept.
    pub newer: BTreeSet<String>,
    /// All rows of the file.
    pub rows: usize,
}

impl Merged {
    /// Adds what a later call did.
    pub fn and(&mut self, later: Merged) {
        self.written.extend(later.written);
        self.newer = later.newer;
        self.rows = later.rows;
    }
}

/// Merges the finished runs of a plan into its CSV, and marks every row. `trained` are runs that finished in this call:
/// their results are newer than any row, whatever the clocks say.
///
/// # Errors
/// The file is not one of results or cannot be written; it is left as it was.
pub fn merge(plan: &Plan, trained: &BTreeSet<String>) -> Result<Merged> {
    let path = &plan.results_csv;
    let finished: Vec<(&str, Row)> = plan
        .runs
        .iter()
        // A folder that cannot be read stops the runs that want it, not the rows of the others.
        .filter_map(|planned| match standing::look(planned).ok()?.standing {
            Standing::Done(row) => Some((planned.name.as_str(), row)),
            _ => None,
        })
        .collect();
    let merged = |before: Option<&[u8]>| -> Result<(Vec<u8>, Merged)> {
        let mut table = before.map_or_else(|| Ok(Table::default()), |bytes| Table::parse(path, bytes))?;
        let merged = table.merge(plan, &finished, trained);
        Ok((table.bytes()?, merged))
    };
    let before = read(path)?;
    let (after, done) = merged(before.as_deref())?;
    if done.rows == 0 || before.as_deref() == Some(&after) {
        return Ok(done);
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot make this folder", folder.display()))?;
    let _lock = lock(path)?;
    // Another process may have written in the meantime.
    let (after, done) = merged(read(path)?.as_deref())?;
    write_atomically(path, &after)?;
    Ok(done)
}

/// Whether rows can be merged into what is at `path`; nothing there is fine.
///
/// # Errors
/// The file cannot be read, or is not one of results.
pub fn check(path: &Path) -> Result<()> {
    match read(path)? {
        Some(bytes) => Table::parse(path, &bytes).map(drop),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match regular::read(path, regular::TABLE) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) if path.is_dir() => {
            bail!("{}: is a folder, and results are to be written there; rename it", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("{}: cannot read these results", path.display())),
    }
}

fn lock(path: &Path) -> Result<Lock> {
    let path = files::beside(path, ".", ".lock");
    let started = Instant::now();
    loop {
        if let Some(lock) = Lock::try_take(&path)? {
            return Ok(lock);
        }
        if started.elapsed() > PATIENCE {
            bail!("{}: another process has held this lock for {} s; end it", path.display(), PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, PlannedRun};
    use crate::train::outcome;
    use serde_json::json;

    fn finish(planned: &PlannedRun) {
        let row = json!({
            "title": "Toy", "task": "language-modelling", "mix": planned.run.mix.to_string(), "variant": "",
            "seed": planned.run.seed, "trainable_parameters": 1, "total_parameters": 1, "dev.loss": 2.5, "steps": 4,
            "config_hash": planned.hash, "data_hash": "d", "version": "0.1.0",
        });
        std::fs::create_dir_all(&planned.folder).unwrap();
        outcome::save(&planned.folder, row.as_object().unwrap()).unwrap();
    }

    #[test]
    fn writers_of_one_file_at_the_same_time_lose_no_row() {
        let folder = tempfile::tempdir().unwrap();
        let seeds = (1..=24).map(|seed| seed.to_string()).collect::<Vec<_>>().join(", ");
        let text = format!("task = \"language-modelling\"\nmix = \"V\"\nseeds = [{seeds}]\n");
        let plan = Experiment::parse(Path::new("toy.toml"), &text).unwrap().plan(folder.path()).unwrap();
        std::thread::scope(|scope| {
            for part in 0..4 {
                let plan = &plan;
                scope.spawn(move || {
                    for planned in plan.runs.iter().skip(part).step_by(4) {
                        finish(planned);
                        // as a call that knows of this run alone
                        let alone = Plan { runs: vec![planned.clone()], ..plan.clone() };
                        let done = merge(&alone, &BTreeSet::from([planned.name.clone()])).unwrap();
                        assert_eq!(done.written.len(), 1);
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&plan.results_csv).unwrap();
        assert_eq!(text.lines().count(), 25, "{text}");
    }

    #[test]
    fn a_file_in_which_nothing_changes_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let text = "task = \"language-modelling\"\nmix = \"V\"\n";
        let plan = Experiment::parse(Path::new("toy.toml"), text).unwrap().plan(folder.path()).unwrap();
        assert_eq!(merge(&plan, &BTreeSet::new()).unwrap(), Merged::default());
        assert!(!plan.results_csv.exists(), "no row, no file");
        finish(&plan.runs[0]);
        merge(&plan, &BTreeSet::new()).unwrap();
        let written = || std::fs::metadata(&plan.results_csv).unwrap().modified().unwrap();
        let before = written();
        assert_eq!(merge(&plan, &BTreeSet::new()).unwrap().rows, 1);
        assert_eq!(written(), before);
    }
}
