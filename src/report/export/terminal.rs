//! Aligned plain text for the terminal.

use super::Exporter;
use crate::report::table::{Kind, Table};

/// The plain text format.
#[derive(Debug)]
pub struct Terminal;

const GAP: &str = "  ";
/// The widest line before a table is cut into parts.
const WIDTH: usize = 130;

impl Exporter for Terminal {
    fn extension(&self) -> &'static str {
        "txt"
    }

    fn export(&self, table: &Table) -> String {
        let mut text = wrap(&table.caption, 100, "");
        let fits = |block: &Table| lay_out(block).lines().map(length).max().unwrap_or(0) <= WIDTH;
        for block in table.blocks(fits) {
            text.push('\n');
            text += &lay_out(&block);
        }
        if !table.notes.is_empty() {
            text.push('\n');
        }
        for note in &table.notes {
            text += &wrap(&format!("- {note}"), 100, "  ");
        }
        text
    }
}

fn lay_out(table: &Table) -> String {
    let cells: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(|c| c.show()).collect()).collect();
    let mut widths: Vec<usize> = (0..table.columns.len())
        .map(|c| {
            let heading = lines_of(&table.columns[c].heading).iter().map(|l| length(l)).max().unwrap_or(0);
            cells.iter().map(|row| length(&row[c])).max().unwrap_or(0).max(heading)
        })
        .collect();
    let mut at = 0;
    for (name, span) in table.groups() {
        let inner: usize = widths[at..at + span].iter().sum::<usize>() + GAP.len() * (span - 1);
        if length(name) > inner {
            widths[at + span - 1] += length(name) - inner;
        }
        at += span;
    }
    let mut text = String::new();
    let mut line = String::new();
    let mut at = 0;
    for (name, span) in table.groups() {
        let inner: usize = widths[at..at + span].iter().sum::<usize>() + GAP.len() * (span - 1);
        let dashes = if name.is_empty() { 0 } else { (inner - length(name)).saturating_sub(1) };
        let (left, right) = (dashes / 2, dashes - dashes / 2);
        let mark = format!(
            "{}{}{}",
            "─".repeat(left),
            if dashes > 1 { format!(" {name} ") } else { name.into() },
            "─".repeat(right.saturating_sub(1))
        );
        line += &pad(&mark, inner, Kind::Text);
        line += GAP;
        at += span;
    }
    push_line(&mut text, &line);
    let headings: Vec<Vec<String>> = table.columns.iter().map(|c| lines_of(&c.heading)).collect();
    let height = headings.iter().map(|h| h.len()).max().unwrap_or(0);
    for level in 0..height {
        let mut line = String::new();
        for (c, heading) in headings.iter().enumerate() {
            let skipped = height - heading.len();
            let part = if level < skipped { "" } else { &heading[level - skipped] };
            line += &pad(part, widths[c], table.columns[c].kind);
            line += GAP;
        }
        push_line(&mut text, &line);
    }
    let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    push_line(&mut text, &"─".repeat(total));
    for row in &cells {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            line += &pad(cell, widths[c], table.columns[c].kind);
            line += GAP;
        }
        push_line(&mut text, &line);
    }
    text
}

/// A heading broken at spaces into lines of about ten letters.
fn lines_of(heading: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in heading.split(' ') {
        match lines.last_mut() {
            Some(line) if length(line) + length(word) < 10 => *line += &format!(" {word}"),
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

fn push_line(text: &mut String, line: &str) {
    *text += line.trim_end();
    text.push('\n');
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn pad(text: &str, width: usize, kind: Kind) -> String {
    let space = " ".repeat(width.saturating_sub(length(text)));
    match kind {
        Kind::Text => format!("{text}{space}"),
        _ => format!("{space}{text}"),
    }
}

fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && length(&line) + 1 + length(word) > width {
            push_line(&mut wrapped, &line);
            line = format!("{indent}{word}");
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
    }
    push_line(&mut wrapped, &line);
    wrapped
}
