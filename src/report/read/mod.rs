//! Result files: CSVs with a header, read by column name. Every fault names its file and line.

pub mod attention;
pub mod bench;
pub mod cost;
pub mod log;
pub mod runs;

use super::error::{ReportError, Result};
use crate::excerpt::excerpt;
use crate::experiment::message::is_printable;
use crate::regular;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A CSV file with a header line.
#[derive(Debug, Clone)]
pub struct Sheet {
    path: PathBuf,
    header: Vec<String>,
    rows: Vec<(u64, Vec<String>)>,
}

/// What to do about a last line without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The file was cut off: an error.
    Strict,
    /// The file is still being written: the line is left out.
    Growing,
}

impl Sheet {
    /// Reads a file that has at least the columns `required`.
    pub fn read(path: &Path, required: &[&str], tail: Tail) -> Result<Sheet> {
        let bytes =
            regular::read(path, regular::TABLE).map_err(|source| ReportError::Read { path: path.into(), source })?;
        Sheet::parse(path, &bytes, required, tail)
    }

    /// As [`Sheet::read`], from bytes that `path` names.
    pub fn parse(path: &Path, bytes: &[u8], required: &[&str], tail: Tail) -> Result<Sheet> {
        let fault = |line: u64, message: String| ReportError::content(path, line, &message);
        let mut bytes = bytes;
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            let line = bytes.iter().filter(|b| **b == b'\n').count() as u64 + 1;
            match tail {
                Tail::Strict => return Err(fault(line, "the last line has no end: was the file cut off?".into())),
                Tail::Growing => bytes = &bytes[..bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)],
            }
        }
        let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
        let mut header: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|e| {
                let line = e.position().map_or(1, |p| p.line());
                fault(
                    line,
                    if matches!(e.kind(), csv::ErrorKind::Utf8 { .. }) {
                        "not UTF-8 text".into()
                    } else {
                        e.to_string()
                    },
                )
            })?;
            let line = record.position().map_or(1, |p| p.line());
            let cells: Vec<String> = record.iter().map(printable).collect();
            if header.is_empty() {
                header = cells;
                continue;
            }
            if cells.len() != header.len() {
                return Err(fault(line, format!("{} cells, but the header has {}", cells.len(), header.len())));
            }
            rows.push((line, cells));
        }
        if header.is_empty() {
            if tail == Tail::Growing {
                header = required.iter().map(|name| name.to_string()).collect();
            } else {
                return Err(fault(1, format!("empty; a header with {} was expected", list(required))));
            }
        }
        let missing: Vec<&str> = required.iter().copied().filter(|name| !header.iter().any(|h| h == name)).collect();
        if !missing.is_empty() {
            return Err(fault(
                1,
                format!("no column {}: this is not the kind of file that its name says", list(&missing)),
            ));
        }
        Ok(Sheet { path: path.into(), header, rows })
    }

    /// Column names, in order.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { sheet: self, line: *line, cells })
    }
}

/// A cell without white space at its ends. Line breaks, control characters and the like, which would break a table, a figure or
/// a page, become blanks.
fn printable(cell: &str) -> String {
    let cell = cell.trim();
    match cell.chars().all(is_printable) {
        true => cell.to_string(),
        false => cell.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect(),
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// One row of a [`Sheet`].
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    sheet: &'a Sheet,
    line: u64,
    cells: &'a [String],
}

impl<'a> Row<'a> {
    /// A cell's text; empty when there is no such column.
    pub fn text(&self, column: &str) -> &'a str {
        self.sheet.header.iter().position(|h| h == column).map_or("", |at| self.cells[at].as_str())
    }

    /// A cell's value; none when the cell is empty.
    pub fn optional<T: FromStr>(&self, column: &str) -> Result<Option<T>> {
        match self.text(column) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                self.fault(format!("column `{column}` holds {}, which is no {}", excerpt(text), kind::<T>()))
            }),
        }
    }

    /// A cell's value; an empty cell is an error.
    pub fn value<T: FromStr>(&self, column: &str) -> Result<T> {
        self.optional(column)?.ok_or_else(|| self.fault(format!("column `{column}` is empty")))
    }

    /// An error at this row.
    pub fn fault(&self, message: String) -> ReportError {
        ReportError::content(&self.sheet.path, self.line, &message)
    }
}

fn kind<T>() -> &'static str {
    match std::any::type_name::<T>() {
        "f64" => "number",
        "bool" => "`true` or `false`",
        _ => "whole number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, tail: Tail) -> Result<Sheet> {
        Sheet::parse(Path::new("x.csv"), text.as_bytes(), &["mix", "seed"], tail)
    }

    fn message(text: &str) -> String {
        parse(text, Tail::Strict).unwrap_err().to_string()
    }

    #[test]
    fn faults_name_file_and_line() {
        assert_eq!(message("mix,seed\nV,1\nR\n"), "x.csv:3: 1 cells, but the header has 2");
        assert!(message("mix,seed\nV,1\nR,2").starts_with("x.csv:3: the last line has no end"));
        assert!(message("name,age\nAnn,1\n").starts_with("x.csv:1: no column `mix`, `seed`"));
        assert!(message("").starts_with("x.csv:1: empty"));
        let sheet = parse("mix,seed\nV,one\n", Tail::Strict).unwrap();
        let error = sheet.rows().next().unwrap().value::<u64>("seed").unwrap_err();
        assert_eq!(error.to_string(), "x.csv:2: column `seed` holds \"one\", which is no whole number");
    }

    #[test]
    fn a_cell_that_would_break_a_table_is_one_line() {
        let sheet = parse("title,mix,seed\n\"a\nb\u{2028}c\u{202e}d \",V,1\n", Tail::Strict).unwrap();
        assert_eq!(sheet.rows().next().unwrap().text("title"), "a b c d");
    }

    #[test]
    fn invalid_utf8_names_its_line() {
        let error = Sheet::parse(Path::new("x.csv"), b"mix,seed\nV,1\n\xff,2\n", &["mix"], Tail::Strict).unwrap_err();
        assert_eq!(error.to_string(), "x.csv:3: not UTF-8 text");
    }

    #[test]
    fn a_growing_file_loses_its_unfinished_line_only() {
        let sheet = parse("mix,seed\nV,1\nR,", Tail::Growing).unwrap();
        assert_eq!(sheet.rows().count(), 1);
        assert_eq!(parse("", Tail::Growing).unwrap().rows().count(), 0);
    }
}
