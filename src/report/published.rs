//! The paper's figures: `experiments/published/table<N>.csv`, a source per cell.

use super::error::Result;
use super::number;
use super::read::{Sheet, Tail};
use super::results::row_key;
use std::path::Path;

/// One cell of the paper's table, as printed there.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedCell {
    /// The row's name in the paper.
    pub row: String,
    /// The mix, as in the grammar; empty for rows that no mix of ours stands for.
    pub mix: String,
    /// `control` or empty.
    pub variant: String,
    /// Column, such as `ende`.
    pub column: String,
    /// The figure as printed, such as `27.30`.
    pub text: String,
    /// Where it can be checked.
    pub source: String,
}

impl PublishedCell {
    /// The figure, where it is a plain number.
    pub fn value(&self) -> Option<f64> {
        self.text.parse().ok()
    }

    /// The figures of a cell that holds several, as `92.0/88.7`; none for parts that are no numbers.
    pub fn values(&self) -> Vec<Option<f64>> {
        self.text.split('/').map(|part| part.trim().parse().ok()).collect()
    }

    /// The mean of the cell's figures; none where one is no number.
    pub fn mean(&self) -> Option<f64> {
        let values = self.values().into_iter().collect::<Option<Vec<f64>>>()?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Decimal places printed, of the first figure.
    pub fn places(&self) -> usize {
        number::places(self.text.split('/').next().unwrap_or_default())
    }
}

/// The paper's figures of one table; empty when nothing is published.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Published {
    /// Cells in the file's order, which is the paper's.
    pub cells: Vec<PublishedCell>,
}

/// One row of the paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedRow {
    /// Its name.
    pub name: String,
    /// Its mix; may be empty.
    pub mix: String,
    /// Its variant; may be empty.
    pub variant: String,
}

impl Published {
    /// Reads `folder/<table>.csv`; a table without such a file has nothing published.
    pub fn read(folder: &Path, table: &str) -> Result<Published> {
        let path = folder.join(format!("{table}.csv"));
        if !path.is_file() {
            return Ok(Published::default());
        }
        let required = ["row", "mix", "variant", "column", "value", "source"];
        let sheet = Sheet::read(&path, &required, Tail::Strict)?;
        let mut cells = Vec::new();
        for row in sheet.rows() {
            cells.push(PublishedCell {
                row: row.value("row")?,
                mix: row.text("mix").to_string(),
                variant: row.text("variant").to_string(),
                column: row.value("column")?,
                text: row.text("value").to_string(),
                source: row.text("source").to_string(),
            });
        }
        Ok(Published { cells })
    }

    /// Rows in the paper's order.
    pub fn rows(&self) -> Vec<PublishedRow> {
        let mut rows: Vec<PublishedRow> = Vec::new();
        for cell in &self.cells {
            let row = PublishedRow { name: cell.row.clone(), mix: cell.mix.clone(), variant: cell.variant.clone() };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    }

    /// Columns in the order of their first cell.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for cell in &self.cells {
            if !columns.contains(&cell.column) {
                columns.push(cell.column.clone());
            }
        }
        columns
    }

    /// One cell; none when it is blank in the paper's table or was never confirmed.
    pub fn cell(&self, row: &PublishedRow, column: &str) -> Option<&PublishedCell> {
        self.cells.iter().find(|c| {
            c.column == column
                && (&c.row, &c.mix, &c.variant) == (&row.name, &row.mix, &row.variant)
                && !c.text.is_empty()
        })
    }

    /// The row that our runs of a mix stand beside: the last of that mix and variant (a paper's own run comes after the
    /// one it quotes).
    pub fn row_of(&self, mix: &str, variant: &str) -> Option<PublishedRow> {
        self.rows()
            .into_iter()
            .rev()
            .find(|r| !r.mix.is_empty() && row_key(&r.mix, &r.variant) == row_key(mix, variant))
    }
}
