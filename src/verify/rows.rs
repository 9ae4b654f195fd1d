//! The rows of a column against the folders of their runs.

use super::scores::{self, Recomputed};
use super::{Check, Part};
use crate::data::rows::sha256_hex;
use crate::experiment::Run;
use crate::regular;
use crate::report::read::{Row, Sheet, Tail};
use crate::task::evaluation::DIGESTS;
use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::Path;

/// Verifies the rows of one column; nothing where it has no CSV.
pub fn column(folder: &Path, stem: &str) -> Option<Part> {
    let csv = folder.join(format!("{stem}.csv"));
    if !csv.exists() {
        return None;
    }
    let mut part = Part::new(&csv);
    let sheet = match Sheet::read(&csv, &["title", "task", "mix", "variant", "seed"], Tail::Strict) {
        Ok(sheet) => sheet,
        Err(error) => {
            part.problem(Check::Row, &csv, None, reason(&error, &csv));
            return Some(part);
        }
    };
    let mut seen = HashSet::new();
    for row in sheet.rows() {
        part.rows += 1;
        let name = run_name(&row);
        if !seen.insert(name.clone()) {
            part.problem(Check::Row, &csv, Some(&name), "there are two rows of this mix, variant and seed");
            continue;
        }
        part.ok(Check::Row);
        verify(&mut part, &sheet, &row, &name, &folder.join(stem).join(&name), &csv);
    }
    Some(part)
}

/// The name of the row's run, which is that of its folder.
fn run_name(row: &Row) -> String {
    let (mix, variant, seed) = (row.text("mix"), row.text("variant"), row.text("seed"));
    let dot = if variant.is_empty() { "" } else { "." };
    format!("{mix}{dot}{variant}-s{seed}")
}

fn verify(part: &mut Part, sheet: &Sheet, row: &Row, name: &str, folder: &Path, csv: &Path) {
    for (check, column, digits) in [
        (Check::ConfigHash, "config_hash", 16..=64),
        (Check::DataHash, "data_hash", 64..=64),
        (Check::Commit, "git_commit", 7..=64),
    ] {
        let text = row.text(column);
        if text.is_empty() || text == "unknown" {
            part.absent(check, format!("`{column}` of rows"));
        } else if digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            part.ok(check);
        } else {
            part.problem(check, csv, Some(name), format!("`{column}` holds {text:?}, which is no hash"));
        }
    }
    if row.text("status") == "other settings"
        && settings_hash(folder).is_some_and(|hash| hash != row.text("config_hash"))
    {
        // the row is kept until the run is finished with its new settings, which the folder has already
        for check in [Check::Config, Check::Record, Check::Files, Check::Scores] {
            part.absent(check, "the folders of rows with other settings");
        }
        return;
    }
    let run = settings(part, row, name, folder);
    record(part, sheet, row, name, folder, csv);
    if let Some(run) = run {
        let found = scores::recompute(&run, folder, row.text("test.words").parse().ok());
        compare(part, sheet, row, name, csv, found);
    } else {
        part.absent(Check::Scores, "outputs and references of runs without `config.toml`");
    }
}

/// The hash of the settings in a run's folder, if they can be read.
fn settings_hash(folder: &Path) -> Option<String> {
    let text = regular::read_text(&folder.join("config.toml"), regular::EXPERIMENT).ok()?;
    Some(Run::from_toml(&text).ok()?.hash())
}

/// The settings in `config.toml`, if they are those of the row.
fn settings(part: &mut Part, row: &Row, name: &str, folder: &Path) -> Option<Run> {
    let file = folder.join("config.toml");
    if !file.exists() {
        part.absent(Check::Config, "`config.toml` of runs");
        return None;
    }
    let read = regular::read_text(&file, regular::RECORD).map_err(|error| error.to_string());
    let run = match read.and_then(|text| Run::from_toml(&text).map_err(|error| error.message)) {
        Ok(run) => run,
        Err(error) => {
            part.problem(Check::Config, &file, Some(name), format!("not the settings of a run: {error}"));
            return None;
        }
    };
    let (found, wanted) = (run.hash(), row.text("config_hash"));
    if run.name() != name {
        part.problem(Check::Config, &file, Some(name), format!("these are the settings of run {}", run.name()));
    } else if found != wanted {
        let message = format!("its settings have the hash {found}, but the row's `config_hash` is {wanted}");
        part.problem(Check::Config, &file, Some(name), message);
    } else {
        part.ok(Check::Config);
        return Some(run);
    }
    None
}

/// The content of a `metrics.json`; none where there is no such file.
fn load(file: &Path) -> Result<Option<Map<String, Value>>> {
    match regular::read(file, regular::TABLE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        bytes => Ok(Some(serde_json::from_slice(&bytes.context("cannot read")?).context("damaged")?)),
    }
}

/// How a value of metrics.json stands in the CSV.
fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// `metrics.json` against the row, and the run's files against its digests.
fn record(part: &mut Part, sheet: &Sheet, row: &Row, name: &str, folder: &Path, csv: &Path) {
    let file = folder.join("metrics.json");
    let saved = match load(&file) {
        Ok(Some(saved)) => saved,
        Ok(None) => {
            part.absent(Check::Record, "`metrics.json` of runs");
            part.absent(Check::Files, "digests of runs without `metrics.json`");
            return;
        }
        Err(error) => return part.problem(Check::Record, &file, Some(name), reason(&error, &file)),
    };
    let before = part.problems.len();
    // how a row stands to its experiment file is no fact of the run
    for column in sheet.header().iter().filter(|column| *column != "status") {
        let (found, wanted) = (row.text(column), cell(saved.get(column)));
        if found != wanted.trim() {
            let message = format!("`{column}` is {found:?} here and {wanted:?} in {}", file.display());
            part.problem(Check::Record, csv, Some(name), message);
        }
    }
    for key in saved.keys().filter(|key| *key != DIGESTS && !sheet.header().contains(key)) {
        let message = format!("there is no column `{key}`, which {} has", file.display());
        part.problem(Check::Record, csv, Some(name), message);
    }
    if part.problems.len() == before {
        part.ok(Check::Record);
    }
    match saved.get(DIGESTS).and_then(Value::as_object) {
        Some(digests) => digests_of(part, digests, name, folder),
        None => part.absent(Check::Files, "digests in `metrics.json` of older versions"),
    }
}

fn digests_of(part: &mut Part, digests: &Map<String, Value>, name: &str, folder: &Path) {
    for (file, wanted) in digests {
        let path = folder.join(file);
        let wanted = wanted.as_str().unwrap_or_default();
        match regular::read(&path, regular::TABLE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                part.problem(Check::Files, &path, Some(name), "missing, but metrics.json has its digest")
            }
            Err(error) => part.problem(Check::Files, &path, Some(name), format!("cannot read: {error}")),
            Ok(bytes) => match sha256_hex(&bytes) {
                found if found == wanted => part.ok(Check::Files),
                found => {
                    let message = format!("changed: its SHA-256 is {found:.16}, and {wanted:.16} in metrics.json");
                    part.problem(Check::Files, &path, Some(name), message)
                }
            },
        }
    }
}

/// The scores of the row against those that were computed again.
fn compare(part: &mut Part, sheet: &Sheet, row: &Row, name: &str, csv: &Path, found: Recomputed) {
    for (file, error) in &found.faults {
        part.problem(Check::Scores, file, Some(name), error.clone());
    }
    for what in &found.missing {
        part.absent(Check::Scores, what.clone());
    }
    for (metric, value) in &found.metrics {
        let (reported, again) = (row.text(metric), cell(Some(value)));
        if !sheet.header().contains(metric) {
            let message = format!("there is no column `{metric}`; the saved outputs give {again}");
            part.problem(Check::Scores, csv, Some(name), message);
        } else if same(reported, &again) {
            part.ok(Check::Scores);
        } else {
            let message = format!("`{metric}` is {reported:?}, but the saved outputs give {again:?}");
            part.problem(Check::Scores, csv, Some(name), message);
        }
    }
}

/// Equal to the last digit, but for the rounding by which logarithms and exponentials of two processors differ. Signatures
/// may be of another version of this program.
fn same(reported: &str, again: &str) -> bool {
    if reported == again {
        return true;
    }
    if let (Ok(a), Ok(b)) = (reported.parse::<f64>(), again.parse::<f64>()) {
        return (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    }
    let without_version = |signature: &str| {
        let parts = signature.split('|').filter(|part| !part.starts_with("version:")).map(str::to_owned);
        parts.collect::<Vec<_>>()
    };
    reported.contains("|version:") && without_version(reported) == without_version(again)
}

/// An error's chain in one line, without the file's name, which stands before it.
pub(super) fn reason(error: &impl ToReason, file: &Path) -> String {
    error.chain_text().replace(&format!("{}: ", file.display()), "").replace(&format!("{}:", file.display()), "line ")
}

/// Errors as one line.
pub(super) trait ToReason {
    /// The error and its causes.
    fn chain_text(&self) -> String;
}

impl ToReason for anyhow::Error {
    fn chain_text(&self) -> String {
        format!("{self:#}")
    }
}

impl ToReason for crate::report::error::ReportError {
    fn chain_text(&self) -> String {
        use std::error::Error;
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn scores_are_equal_but_for_the_last_bits() {
        assert!(same("15.347817300646568", "15.34781730064657"));
        assert!(!same("15.347817300646568", "15.347817300546568"));
        assert!(!same("", "0") && !same("NaN", "0") && same("", ""));
        let signature = |version: &str, tok: &str| format!("nrefs:1|tok:{tok}|version:synthesizer-{version}");
        assert!(same(&signature("0.1.0", "13a"), &signature("0.2.0", "13a")));
        assert!(!same(&signature("0.1.0", "13a"), &signature("0.1.0", "zh")));
    }
}
