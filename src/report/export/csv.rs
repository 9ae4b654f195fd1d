//! CSV for machines: all digits, a measured column as mean, std and n, no caption.

use super::Exporter;
use crate::report::table::{raw, Kind, Table};

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
            for name in column.names() {
                match column.kind {
                    Kind::Measured => lines[0].extend(["mean", "std", "n"].map(|part| format!("{name}.{part}"))),
                    _ => lines[0].push(name.clone()),
                }
            }
        }
        for row in &table.rows {
            let mut line = Vec::new();
            for (column, cell) in table.columns.iter().zip(row) {
                let count = column.names().len();
                if column.kind == Kind::Measured {
                    // A word such as "diverged" is for people; a program finds no number here.
                    let summaries = cell.summaries();
                    for summary in (0..count).map(|at| summaries.get(at).copied().flatten()) {
                        line.push(summary.map_or(String::new(), |s| raw(s.mean)));
                        line.push(summary.and_then(|s| s.std).map_or(String::new(), raw));
                        line.push(summary.map_or(String::new(), |s| s.n.to_string()));
                    }
                } else if count > 1 {
                    let values = cell.values();
                    line.extend((0..count).map(|at| values.get(at).copied().flatten().map_or(String::new(), raw)));
                } else {
                    line.push(cell.raw());
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
