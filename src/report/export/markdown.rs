//! Markdown (GitHub's tables), padded so that it reads as plain text too.

use super::{Exporter, PRINTED_COLUMNS};
use crate::report::table::{Column, Kind, Table};

/// The Markdown format.
#[derive(Debug)]
pub struct Markdown;

impl Exporter for Markdown {
    fn extension(&self) -> &'static str {
        "md"
    }

    fn export(&self, table: &Table) -> String {
        let mut text = format!("{}\n", table.caption);
        for block in table.blocks(|block| block.columns.len() <= PRINTED_COLUMNS) {
            text.push('\n');
            text += &lay_out(&block);
        }
        if !table.notes.is_empty() {
            text.push('\n');
        }
        for note in &table.notes {
            text += &format!("- {}\n", escape(note));
        }
        text
    }
}

fn lay_out(table: &Table) -> String {
    let heading = |c: &Column| match c.group.as_str() {
        "" => escape(&c.heading),
        group => escape(&format!("{group}: {}", c.heading)),
    };
    let mut lines: Vec<Vec<String>> = vec![table.columns.iter().map(heading).collect()];
    lines.extend(table.rows.iter().map(|row| row.iter().map(|cell| escape(&cell.show())).collect()));
    let width = |c: usize| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        for (c, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            match table.columns[c].kind {
                Kind::Text => text += &format!("| {cell}{pad} "),
                _ => text += &format!("| {pad}{cell} "),
            }
        }
        text += "|\n";
        if at == 0 {
            for (c, column) in table.columns.iter().enumerate() {
                match column.kind {
                    Kind::Text => text += &format!("| {} ", "-".repeat(widths[c])),
                    _ => text += &format!("| {}: ", "-".repeat(widths[c] - 1)),
                }
            }
            text += "|\n";
        }
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('*', "\\*").replace('_', "\\_").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn bars_do_not_end_a_cell() {
        assert_eq!(super::escape("a|b_c"), "a\\|b\\_c");
    }
}
