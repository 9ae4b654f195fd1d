//! A table, before it has a format.

pub mod functions;
pub mod notes;
pub mod quality;

use super::number;
use super::statistics::Summary;

/// One cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// Nothing measured or published.
    #[default]
    Blank,
    /// Words.
    Text(String),
    /// A number with so many decimal places.
    Number(f64, usize),
    /// A number with so many significant digits.
    Significant(f64, usize),
    /// A difference, with its sign.
    Difference(f64, usize),
    /// An integer, all its digits.
    Count(u64),
    /// A large number in k, M, G.
    Compact(f64),
    /// Mean, spread and number of seeds, with so many decimal places.
    Measured(Summary, usize),
}

impl Cell {
    /// For people: `11.80 ± 0.21 (3)`.
    pub fn show(&self) -> String {
        match self {
            Cell::Blank => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value, decimals) => number::fixed(*value, *decimals),
            Cell::Significant(value, digits) => number::significant(*value, *digits),
            Cell::Difference(value, decimals) => number::signed(*value, *decimals),
            Cell::Count(value) => number::thousands(*value),
            Cell::Compact(value) => number::compact(*value),
            Cell::Measured(s, decimals) => {
                let mean = number::fixed(s.mean, *decimals);
                match s.std {
                    Some(std) => format!("{mean} ± {} ({})", number::fixed(std, *decimals), s.n),
                    None => format!("{mean} ({})", s.n),
                }
            }
        }
    }

    /// For machines: all digits, no signs of print; mean only, where measured.
    pub fn raw(&self) -> String {
        match self {
            Cell::Blank => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value, _)
            | Cell::Significant(value, _)
            | Cell::Difference(value, _)
            | Cell::Compact(value) => raw(*value),
            Cell::Count(value) => value.to_string(),
            Cell::Measured(s, _) => raw(s.mean),
        }
    }
}

/// A number rounded to 9 significant digits, so that 0.1 + 0.2 prints as 0.3.
pub fn raw(value: f64) -> String {
    format!("{value:.8e}").parse::<f64>().unwrap_or(value).to_string()
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words, set left.
    Text,
    /// Numbers, set right.
    Number,
    /// Mean, spread and n: three columns for machines.
    Measured,
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Heading above several columns; empty for none.
    pub group: String,
    /// Heading.
    pub heading: String,
    /// Name for machines.
    pub key: String,
    /// What it holds.
    pub kind: Kind,
    /// Kept even when every cell is blank.
    pub keep: bool,
}

impl Column {
    /// A column under a group's heading.
    pub fn new(group: &str, heading: &str, key: &str, kind: Kind) -> Column {
        Column { group: group.into(), heading: heading.into(), key: key.into(), kind, keep: false }
    }

    /// The same, kept when blank.
    pub fn kept(self) -> Column {
        Column { keep: true, ..self }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// `table2`.
    pub name: String,
    /// What it shows, with the warnings that belong to it.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows; each has a cell a column.
    pub rows: Vec<Vec<Cell>>,
    /// Lines under the table: signatures, unfinished runs.
    pub notes: Vec<String>,
}

impl Table {
    /// Without the columns that are blank in every row and need not be kept.
    pub fn without_blank_columns(mut self) -> Table {
        let used: Vec<bool> = (0..self.columns.len())
            .map(|c| self.columns[c].keep || self.rows.iter().any(|row| row[c] != Cell::Blank))
            .collect();
        let mut at = 0..;
        self.columns.retain(|_| at.next().is_some_and(|c: usize| used[c]));
        for row in &mut self.rows {
            let mut at = 0..;
            row.retain(|_| at.next().is_some_and(|c: usize| used[c]));
        }
        self
    }

    /// Heading groups in order, each with its number of columns.
    pub fn groups(&self) -> Vec<(&str, usize)> {
        let mut groups: Vec<(&str, usize)> = Vec::new();
        for column in &self.columns {
            match groups.last_mut() {
                Some((name, span)) if *name == column.group && !name.is_empty() => *span += 1,
                _ => groups.push((&column.group, 1)),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_for_people_and_machines() {
        let summary = Summary { mean: 11.8, std: Some(0.214), n: 3 };
        assert_eq!(Cell::Measured(summary, 2).show(), "11.80 ± 0.21 (3)");
        assert_eq!(Cell::Measured(Summary { mean: 11.8, std: None, n: 1 }, 2).show(), "11.80 (1)");
        assert_eq!(Cell::Difference(0.1 + 0.2, 2).show(), "+0.30");
        assert_eq!(Cell::Difference(0.1 + 0.2, 2).raw(), "0.3");
        assert_eq!(Cell::Difference(-0.4, 2).raw(), "-0.4");
        assert_eq!(Cell::Blank.show(), "");
    }

    #[test]
    fn blank_columns_go_unless_kept() {
        let column = |key: &str| Column::new("", key, key, Kind::Number);
        let table = Table {
            name: "t".into(),
            caption: String::new(),
            columns: vec![column("a"), column("b"), column("c").kept()],
            rows: vec![vec![Cell::Count(1), Cell::Blank, Cell::Blank]],
            notes: vec![],
        }
        .without_blank_columns();
        assert_eq!(table.columns.iter().map(|c| c.key.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(table.rows, [vec![Cell::Count(1), Cell::Blank]]);
    }
}
