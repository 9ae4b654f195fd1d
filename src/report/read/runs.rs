//! `results/<profile>/<table>/<column>.csv`: one row a finished run.

use super::{Row, Sheet, Tail};
use crate::experiment::RowStatus;
use crate::report::error::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// One finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// The column's heading.
    pub title: String,
    /// `translation`, `language-modelling`, …
    pub task: String,
    /// The mix, as in the grammar.
    pub mix: String,
    /// Variant of the settings; empty for none.
    pub variant: String,
    /// Seed.
    pub seed: u64,
    /// Parameters that are trained.
    pub trainable_parameters: Option<u64>,
    /// The same with fixed ones.
    pub total_parameters: Option<u64>,
    /// Metrics by column name, such as `test.bleu`, and what else a row is compared by (parameters, steps a second, operations);
    /// empty cells are left out, NaN is kept.
    pub metrics: BTreeMap<String, f64>,
    /// What metrics were computed by, by column name, such as `test.bleu.signature`.
    pub signatures: BTreeMap<String, String>,
    /// Remarks on the metrics, one sentence each; none in files of versions that did not write them.
    pub notes: Vec<String>,
    /// Hash of the resolved settings.
    pub config_hash: String,
    /// Hash of the data.
    pub data_hash: String,
    /// How the row stands to the experiment file; [`RowStatus::Current`] in files of versions that did not write it.
    pub status: RowStatus,
    /// `cpu`, `cuda`, …
    pub device: String,
    /// Wall-clock seconds of training.
    pub wall_seconds: Option<f64>,
}

impl RunRow {
    /// A metric, if it was measured.
    pub fn metric(&self, key: &str) -> Option<f64> {
        self.metrics.get(key).copied()
    }
}

/// Reads the rows of one column. A (mix, variant, seed) that comes twice counts once: the last comparable one.
pub fn read(path: &Path) -> Result<Vec<RunRow>> {
    let sheet = Sheet::read(path, &["title", "task", "mix", "variant", "seed"], Tail::Strict)?;
    let mut rows: Vec<RunRow> = Vec::new();
    for row in sheet.rows() {
        let mut metrics = BTreeMap::new();
        let mut signatures = BTreeMap::new();
        for column in sheet.header().iter().filter(|c| c.starts_with("dev.") || c.starts_with("test.")) {
            if column.ends_with(".signature") {
                if !row.text(column).is_empty() {
                    signatures.insert(column.clone(), row.text(column).to_string());
                }
            } else if let Some(value) = row.optional::<f64>(column)? {
                metrics.insert(column.clone(), value);
            }
        }
        for column in ["trainable_parameters", "steps_per_second", "forward_tflops"] {
            if let Some(value) = row.optional::<f64>(column)? {
                metrics.insert(column.to_string(), value);
            }
        }
        let mix = row.value::<String>("mix")?;
        let new = RunRow {
            title: row.text("title").to_string(),
            task: row.text("task").to_string(),
            mix,
            variant: row.text("variant").to_string(),
            seed: row.value("seed")?,
            trainable_parameters: row.optional("trainable_parameters")?,
            total_parameters: row.optional("total_parameters")?,
            metrics,
            signatures,
            notes: sentences(row.text("notes")),
            config_hash: row.text("config_hash").to_string(),
            data_hash: row.text("data_hash").to_string(),
            status: status(&row)?,
            device: row.text("device").to_string(),
            wall_seconds: row.optional("wall_seconds")?,
        };
        match rows.iter_mut().find(|r| (&r.mix, &r.variant, r.seed) == (&new.mix, &new.variant, new.seed)) {
            Some(old) if old.status.is_comparable() && !new.status.is_comparable() => {}
            Some(old) => *old = new,
            None => rows.push(new),
        }
    }
    Ok(rows)
}

fn status(row: &Row) -> Result<RowStatus> {
    let text = row.text("status");
    if text.is_empty() {
        return Ok(RowStatus::Current);
    }
    RowStatus::ALL.into_iter().find(|status| status.text() == text).ok_or_else(|| {
        let known = RowStatus::ALL.map(|status| format!("`{}`", status.text())).join(", ");
        row.fault(format!("column `status` holds \"{text}\"; known are {known}"))
    })
}

/// The remarks of a `notes` cell, which are sentences with a space between them.
fn sentences(cell: &str) -> Vec<String> {
    cell.split_inclusive(". ").map(|note| note.trim().to_string()).filter(|note| !note.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_notes_is_split_into_sentences() {
        assert_eq!(sentences("2.5 % are cut. CIDEr is blank."), ["2.5 % are cut.", "CIDEr is blank."]);
        assert!(sentences("").is_empty());
    }
}
