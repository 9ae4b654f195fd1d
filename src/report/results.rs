//! What lies under `results/<profile>/<table>/`: finished rows, and the runs' folders with their logs.

use super::error::{ReportError, Result};
use super::read::attention::Histogram;
use super::read::cost::{CostRow, TimeRow};
use super::read::log::Log;
use super::read::runs::RunRow;
use super::read::{attention, cost, log, runs, Tail};
pub use crate::experiment::row::row_key;
use crate::experiment::Run;
use crate::files::is_clutter;
use crate::regular;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// `V`, or `V (control)`.
pub fn row_label(mix: &str, variant: &str) -> String {
    if variant.is_empty() {
        mix.to_string()
    } else {
        format!("{mix} ({variant})")
    }
}

/// One run's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFolder {
    /// The mix.
    pub mix: String,
    /// Its variant; empty for none.
    pub variant: String,
    /// Its seed.
    pub seed: u64,
    /// Steps it is meant to take.
    pub steps: Option<u64>,
    /// Its log; empty when it has none.
    pub log: Log,
    /// Its histograms; empty when it has none.
    pub histograms: Vec<Histogram>,
    /// Whether the column's file has a row of it, with its settings.
    pub finished: bool,
}

/// One column of a table: an experiment's results.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// File stem, such as `ende`.
    pub stem: String,
    /// Heading that the experiment gave itself; empty when no run has finished.
    pub title: String,
    /// Task; empty when unknown.
    pub task: String,
    /// Finished runs that can be compared with each other.
    pub rows: Vec<RunRow>,
    /// Finished runs of other settings or other data: no mean, difference or figure has them.
    pub set_aside: Vec<RunRow>,
    /// Folders of runs, finished or not, by mix and seed.
    pub runs: Vec<RunFolder>,
}

impl Column {
    /// Mixes and variants of the rows and folders, in the order found.
    pub fn keys(&self) -> Vec<(String, String)> {
        let mut keys: Vec<(String, String)> = Vec::new();
        let rows = self.rows.iter().chain(&self.set_aside).map(|r| (r.mix.clone(), r.variant.clone()));
        for key in rows.chain(self.runs.iter().map(|r| (r.mix.clone(), r.variant.clone()))) {
            if !keys.iter().any(|k| row_key(&k.0, &k.1) == row_key(&key.0, &key.1)) {
                keys.push(key);
            }
        }
        keys
    }

    /// Finished rows of one mix and variant.
    pub fn rows_of<'a>(&'a self, mix: &str, variant: &str) -> impl Iterator<Item = &'a RunRow> {
        let key = row_key(mix, variant);
        self.rows.iter().filter(move |r| row_key(&r.mix, &r.variant) == key)
    }

    /// Folders of one mix and variant.
    pub fn runs_of<'a>(&'a self, mix: &str, variant: &str) -> impl Iterator<Item = &'a RunFolder> {
        let key = row_key(mix, variant);
        self.runs.iter().filter(move |r| row_key(&r.mix, &r.variant) == key)
    }
}

/// Results of one table of one profile.
#[derive(Debug, Clone, PartialEq)]
pub struct TableResults {
    /// `mini`, `paper`, …
    pub profile: String,
    /// `table1`, …
    pub name: String,
    /// `cost.csv`, when there is one.
    pub costs: Vec<CostRow>,
    /// `time.csv`, when there is one.
    pub times: Vec<TimeRow>,
    /// Columns with any result, by name.
    pub columns: Vec<Column>,
}

impl TableResults {
    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.costs.is_empty() && self.times.is_empty() && self.columns.is_empty()
    }
}

/// Folders of a folder, sorted by name; none when it does not exist.
pub fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    list(path, |p| p.is_dir())
}

fn list(path: &Path, keep: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let fault = |source| ReportError::Read { path: path.into(), source };
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fault)? {
        let entry = entry.map_err(fault)?.path();
        if !is_clutter(&entry) && keep(&entry) {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a folder holds columns itself, as that of custom experiments does, and not tables.
pub fn holds_columns(folder: &Path) -> Result<bool> {
    if !list(folder, |p| p.is_file() && p.extension().is_some_and(|e| e == "csv") && holds_runs(p))?.is_empty() {
        return Ok(true);
    }
    for column in folders(folder)? {
        if folders(&column)?.iter().any(|run| parse_name(&name_of(run)).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a file's header is that of runs, so that a CSV of something else makes no table of its folder.
fn holds_runs(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut header = String::new();
    // Bounded, since anything may lie there; what is no text holds no runs.
    let read = std::io::BufReader::new(file.take(1 << 16)).read_line(&mut header);
    let columns: Vec<&str> = header.trim_end().split(',').collect();
    read.is_ok() && ["title", "task", "mix", "seed"].iter().all(|name| columns.contains(name))
}

/// Stem of the files that the report writes beside the results: the table's name, unless a column has it.
pub fn table_stem(results: &TableResults) -> String {
    if results.columns.iter().any(|c| c.stem == results.name) {
        format!("{}.table", results.name)
    } else {
        results.name.clone()
    }
}

/// Whether the report wrote this file; a run's rows say of which settings they are.
fn is_own_table(path: &Path, stem: &str, table: &str) -> bool {
    let start = || regular::read(path, regular::TABLE).map(|b| b.starts_with(b"row,mix,")).unwrap_or(false);
    (stem == table || stem == format!("{table}.table")) && start()
}

/// The last part of a path, as text.
pub fn name_of(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Names of the columns under a table's folder, sorted.
pub fn stems(folder: &Path) -> Result<Vec<String>> {
    let table = name_of(folder);
    let mut stems: Vec<String> = Vec::new();
    for path in list(folder, |p| p.is_file() && p.extension().is_some_and(|e| e == "csv"))? {
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        if stem != "cost" && stem != "time" && !is_own_table(&path, &stem, &table) {
            stems.push(stem);
        }
    }
    for path in folders(folder)? {
        let stem = name_of(&path);
        if !stems.contains(&stem) && !folders(&path)?.is_empty() {
            stems.push(stem);
        }
    }
    stems.sort();
    Ok(stems)
}

/// Reads everything under `folder` = `results/<profile>/<table>`.
pub fn read(folder: &Path, profile: &str) -> Result<TableResults> {
    let mut columns = Vec::new();
    for stem in stems(folder)? {
        let column = read_column(folder, &stem)?;
        if !column.rows.is_empty() || !column.set_aside.is_empty() || !column.runs.is_empty() {
            columns.push(column);
        }
    }
    let costs = folder.join("cost.csv");
    let times = folder.join("time.csv");
    Ok(TableResults {
        profile: profile.to_string(),
        name: name_of(folder),
        costs: if costs.is_file() { cost::read_cost(&costs)? } else { Vec::new() },
        times: if times.is_file() { cost::read_time(&times, Tail::Strict)? } else { Vec::new() },
        columns,
    })
}

fn read_column(folder: &Path, stem: &str) -> Result<Column> {
    let path = folder.join(format!("{stem}.csv"));
    let rows = if path.is_file() { runs::read(&path)? } else { Vec::new() };
    let mut found = Vec::new();
    for run in folders(&folder.join(stem))? {
        if let Some(run) = read_run(&run, &rows)? {
            found.push(run);
        }
    }
    found.sort_by_key(|r| r.seed);
    let (rows, set_aside): (Vec<RunRow>, Vec<RunRow>) = rows.into_iter().partition(|row| row.status.is_comparable());
    let last = rows.last().or(set_aside.last());
    Ok(Column {
        stem: stem.to_string(),
        title: last.map(|r| r.title.clone()).unwrap_or_default(),
        task: last.map(|r| r.task.clone()).unwrap_or_default(),
        rows,
        set_aside,
        runs: found,
    })
}

fn read_run(folder: &Path, rows: &[RunRow]) -> Result<Option<RunFolder>> {
    let config = folder.join("config.toml");
    let mut config_hash = None;
    let config: toml::Table = if config.is_file() {
        let text = regular::read_text(&config, regular::EXPERIMENT)
            .map_err(|source| ReportError::Read { path: config.clone(), source })?;
        config_hash = Run::from_toml(&text).ok().map(|run| run.hash());
        text.parse().map_err(|e: toml::de::Error| {
            let before = e.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..before].iter().filter(|b| **b == b'\n').count() as u64 + 1;
            ReportError::content(&config, line, e.message())
        })?
    } else {
        toml::Table::new()
    };
    let Some(by_name) = parse_name(&name_of(folder)) else { return Ok(None) };
    let text = |key: &str| config.get(key).and_then(|v| v.as_str()).map(str::to_string);
    let mix = text("mix").unwrap_or(by_name.0);
    let variant = text("variant").unwrap_or(by_name.1);
    let seed = config.get("seed").and_then(|v| v.as_integer()).map_or(by_name.2, |v| v as u64);
    let steps = config.get("train").and_then(|t| t.get("steps")).and_then(|v| v.as_integer()).map(|v| v as u64);
    let log_path = folder.join("log.csv");
    let attention_path = folder.join("attention.csv");
    let key = row_key(&mix, &variant);
    // The folder of a run that was started again with other settings is not that of its row.
    let is_of_row = |row: &RunRow| config_hash.as_ref().is_none_or(|hash| *hash == row.config_hash);
    let finished = rows.iter().any(|r| row_key(&r.mix, &r.variant) == key && r.seed == seed && is_of_row(r));
    Ok(Some(RunFolder {
        finished,
        mix,
        variant,
        seed,
        steps,
        log: if log_path.is_file() { log::read(&log_path)? } else { Log::default() },
        histograms: if attention_path.is_file() { attention::read(&attention_path)? } else { Vec::new() },
    }))
}

/// `V.control-s1` is mix `V`, variant `control`, seed 1; none for other folders.
fn parse_name(name: &str) -> Option<(String, String, u64)> {
    let (row, seed) = name.rsplit_once("-s")?;
    let seed = seed.parse().ok()?;
    match row.rsplit_once('.') {
        Some((mix, variant)) => Some((mix.to_string(), variant.to_string(), seed)),
        None => Some((row.to_string(), String::new(), seed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_run_folders() {
        assert_eq!(parse_name("R+V-s12"), Some(("R+V".into(), String::new(), 12)));
        assert_eq!(parse_name("V.control-s1"), Some(("V".into(), "control".into(), 1)));
        assert_eq!(parse_name("checkpoint"), None);
    }
}
