//! CSV for machines: all digits, a measured column as mean, std and n, no caption.

use super::Exporter;
use crate::report::table::{raw, Cell, Kind, Table};

/// The CSV format.
#[derive(Debug)]
pub struct Csv;

impl Exporter for Csv {
    fn extension(&self) -> &'static str {
        "csv"
    }

    fn export(&self, table: &Table) -> String {
        let mut lines: Vec<Vec<String>> = vec![Vec::new()];
        for column in &table.columns {
            match column.kind {
                Kind::Measured => {
                    for part in ["mean", "std", "n"] {
                        lines[0].push(format!("{}.{part}", column.key));
                    }
                }
                _ => lines[0].push(column.key.clone()),
            }
        }
        for row in &table.rows {
            let mut line = Vec::new();
            for (column, cell) in table.columns.iter().zip(row) {
                // A word such as "diverged" is for people; a program finds no number here.
                let word = column.kind == Kind::Measured && matches!(cell, Cell::Text(_));
                line.push(if word { String::new() } else { cell.raw() });
                if column.kind == Kind::Measured {
                    if let Cell::Measured(s, _) = cell {
                        line.push(s.std.map_or(String::new(), raw));
                        line.push(s.n.to_string());
                    } else {
                        line.extend([String::new(), String::new()]);
                    }
                }
            }
            lines.push(line);
        }
        let mut text = String::new();
        for line in lines {
            text += &line.iter().map(|cell| quote(cell)).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }
}

fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_string()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn commas_and_quotes_stay_in_their_cell() {
        assert_eq!(super::quote("FD(a=4,b=8)"), "\"FD(a=4,b=8)\"");
        assert_eq!(super::quote("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
