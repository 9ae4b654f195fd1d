//! Checks committed results against each other, without checkpoints and without training: rows of the CSVs, the runs' folders,
//! the scores that saved hypotheses and references give, and the tables.

pub mod rows;
pub mod scores;
pub mod tables;

use crate::report::results::{self, folders, holds_columns, name_of};
use anyhow::{bail, Result};
use std::path::{Path, PathBuf};

/// What to verify.
#[derive(Debug, Clone)]
pub struct Options {
    /// All results, a profile, or one table.
    pub results: PathBuf,
    /// Folder of the paper's figures, which the tables show too.
    pub published: PathBuf,
}

/// One thing that is checked for every row or table, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The row is readable and the only one of its mix, variant and seed.
    Row,
    /// The row has the hash of its settings.
    ConfigHash,
    /// The row has the hash of its data.
    DataHash,
    /// The row has the git commit of the program.
    Commit,
    /// `config.toml` of the run's folder has the row's hash.
    Config,
    /// `metrics.json` of the run's folder holds what the row holds.
    Record,
    /// The run's files have the digests that `metrics.json` gives.
    Files,
    /// Saved outputs and references give the scores of the row.
    Scores,
    /// The tables are those that `report` makes of the CSVs.
    Tables,
}

impl Check {
    /// The check's name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Check::Row => "row",
            Check::ConfigHash => "config hash",
            Check::DataHash => "data hash",
            Check::Commit => "git commit",
            Check::Config => "config.toml",
            Check::Record => "metrics.json",
            Check::Files => "digests",
            Check::Scores => "scores",
            Check::Tables => "tables",
        }
    }
}

/// Two values that should be equal, or a fault of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The check that found it.
    pub check: Check,
    /// The file at fault.
    pub file: PathBuf,
    /// Name of the row, such as `R+V-s1`, where it concerns one.
    pub row: Option<String>,
    /// What disagrees, with both values.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if let Some(row) = &self.row {
            write!(f, "row {row}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// How often a check held, could not be made, and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows, files or scores that agree.
    pub ok: usize,
    /// Those for which nothing was recorded that could be compared.
    pub not_recorded: usize,
    /// Those that disagree.
    pub failed: usize,
}

/// What was found in one column or one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The CSV of a column, or the folder of a table.
    pub path: PathBuf,
    /// Rows of the column; 0 for a table.
    pub rows: usize,
    /// Every check that was made, in order.
    pub tallies: Vec<(Check, Tally)>,
    /// What disagrees.
    pub problems: Vec<Problem>,
    /// What could not be checked, each kind once.
    pub not_recorded: Vec<String>,
}

impl Part {
    fn new(path: &Path) -> Part {
        Part { path: path.into(), rows: 0, tallies: Vec::new(), problems: Vec::new(), not_recorded: Vec::new() }
    }

    fn tally(&mut self, check: Check) -> &mut Tally {
        let at = match self.tallies.iter().position(|(known, _)| *known == check) {
            Some(at) => at,
            None => {
                self.tallies.push((check, Tally::default()));
                self.tallies.sort_by_key(|(check, _)| *check);
                self.tallies.iter().position(|(known, _)| *known == check).unwrap_or_default()
            }
        };
        &mut self.tallies[at].1
    }

    fn ok(&mut self, check: Check) {
        self.tally(check).ok += 1;
    }

    fn absent(&mut self, check: Check, what: impl Into<String>) {
        self.tally(check).not_recorded += 1;
        let what = what.into();
        if !self.not_recorded.contains(&what) {
            self.not_recorded.push(what);
        }
    }

    fn problem(&mut self, check: Check, file: &Path, row: Option<&str>, message: impl Into<String>) {
        self.tally(check).failed += 1;
        let problem = Problem { check, file: file.into(), row: row.map(str::to_owned), message: message.into() };
        self.problems.push(problem);
    }
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Columns and tables, by path.
    pub parts: Vec<Part>,
}

impl Verified {
    /// What disagrees, in all parts.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.parts.iter().flat_map(|part| &part.problems)
    }

    /// How many checks could not be made.
    pub fn not_recorded(&self) -> usize {
        self.parts.iter().flat_map(|part| &part.tallies).map(|(_, tally)| tally.not_recorded).sum()
    }

    /// Rows of all columns.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }
}

/// Verifies every column and table under a folder.
///
/// # Errors
/// A folder that does not exist, can't be listed, or holds no results. A fault within the results is a [`Problem`].
pub fn verify(options: &Options) -> Result<Verified> {
    if !options.results.is_dir() {
        bail!("{}: no such folder; give results, or a profile or table of them", options.results.display());
    }
    let mut verified = Verified::default();
    for Found { folder, profile } in tables_under(&options.results, 0)? {
        let stems = if name_of(&folder) == BENCHMARKS { Vec::new() } else { results::stems(&folder)? };
        for stem in stems {
            verified.parts.extend(rows::column(&folder, &stem));
        }
        verified.parts.extend(profile.and_then(|profile| tables::table(&folder, &profile, &options.published)));
    }
    if verified.parts.is_empty() {
        bail!("{}: no results here; give results, or a profile or table of them", options.results.display());
    }
    Ok(verified)
}

/// The folder of benchmarks: it holds no runs.
const BENCHMARKS: &str = "bench";

/// A folder of results: the table or profile whose columns lie in it, or loose columns that no table shows.
struct Found {
    folder: PathBuf,
    profile: Option<String>,
}

/// The folders that hold tables or columns: `folder` itself, and those at most two levels below it.
fn tables_under(folder: &Path, depth: usize) -> Result<Vec<Found>> {
    let whole = std::path::absolute(folder)?;
    let name = name_of(&whole);
    let above = whole.parent().map(name_of).unwrap_or_default();
    let table = |profile: String| Ok(vec![Found { folder: folder.into(), profile: Some(profile) }]);
    if name == BENCHMARKS {
        return table(name);
    }
    if name.starts_with("table") {
        return table(above);
    }
    let mut found = Vec::new();
    if depth < 2 {
        for below in folders(folder)? {
            found.extend(tables_under(&below, depth + 1)?);
        }
    }
    if holds_columns(folder)? {
        // the columns of custom experiments lie in the profile's folder, those of others in a folder of the profile
        match found.is_empty() {
            true if name == "custom" || above == "results" => return table(name),
            true => return table(above),
            false => found.insert(0, Found { folder: folder.into(), profile: None }),
        }
    }
    Ok(found)
}
