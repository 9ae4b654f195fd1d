//! Formats of a [`Table`]: one file a format.

pub mod csv;
pub mod html;
pub mod latex;
pub mod markdown;
pub mod terminal;

use super::table::Table;

/// Writes a table in one format.
pub trait Exporter {
    /// The format's file name extension.
    fn extension(&self) -> &'static str;
    /// The whole file.
    fn export(&self, table: &Table) -> String;
}

/// Columns before a table for print is cut into parts below each other.
const PRINTED_COLUMNS: usize = 16;

/// The formats that are written beside the results.
pub fn all() -> [&'static dyn Exporter; 3] {
    [&markdown::Markdown, &csv::Csv, &latex::Latex]
}
