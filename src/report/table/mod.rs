//! A table, before it has a format.

pub mod bench;
pub mod functions;
pub mod layout;
pub mod metric;
pub mod notes;
pub mod quality;
pub mod suite;

use super::number;
use super::statistics::Summary;

/// One cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// Nothing measured or published.
    #[default]
    Blank,
    /// A figure that the paper does not have, or that nobody could confirm.
    Unpublished,
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
    /// The same of several metrics in one cell; none for a metric that has no figure.
    Several(Vec<Option<Summary>>, usize),
    /// Differences of several metrics in one cell.
    Differences(Vec<Option<f64>>, usize),
}

impl Cell {
    /// For people: `11.80 ± 0.21 (3)`.
    pub fn show(&self) -> String {
        match self {
            Cell::Blank => String::new(),
            Cell::Unpublished => NO_FIGURE.into(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value, decimals) => number::fixed(*value, *decimals),
            Cell::Significant(value, digits) => number::significant(*value, *digits),
            Cell::Difference(value, decimals) => number::signed(*value, *decimals),
            Cell::Count(value) => number::thousands(*value),
            Cell::Compact(value) => number::compact(*value),
            Cell::Measured(s, decimals) => several(&[Some(*s)], *decimals),
            Cell::Several(summaries, decimals) => several(summaries, *decimals),
            Cell::Differences(values, decimals) => {
                joined(values.iter(), |value| value.map(|value| number::signed(value, *decimals)))
            }
        }
    }

    /// For machines: all digits, no signs of print; mean only, where measured.
    pub fn raw(&self) -> String {
        match self {
            Cell::Blank | Cell::Unpublished => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value, _)
            | Cell::Significant(value, _)
            | Cell::Difference(value, _)
            | Cell::Compact(value) => raw(*value),
            Cell::Count(value) => value.to_string(),
            Cell::Measured(s, _) => raw(s.mean),
            Cell::Several(..) | Cell::Differences(..) => {
                self.values().into_iter().map(|v| v.map_or(String::new(), raw)).collect::<Vec<_>>().join("/")
            }
        }
    }

    /// What was measured, a metric each; empty for other cells.
    pub fn summaries(&self) -> Vec<Option<Summary>> {
        match self {
            Cell::Measured(summary, _) => vec![Some(*summary)],
            Cell::Several(summaries, _) => summaries.clone(),
            _ => Vec::new(),
        }
    }

    /// The numbers of a cell of several metrics; empty for other cells.
    pub fn values(&self) -> Vec<Option<f64>> {
        match self {
            Cell::Several(summaries, _) => summaries.iter().map(|s| s.map(|s| s.mean)).collect(),
            Cell::Differences(values, _) => values.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether nothing was measured or published.
    pub fn is_blank(&self) -> bool {
        matches!(self, Cell::Blank | Cell::Unpublished)
    }
}

/// Stands for a figure that there is not.
const NO_FIGURE: &str = "·";

/// `92.0/88.7`, with a dot for what is missing.
fn joined<T>(values: impl Iterator<Item = T>, show: impl Fn(T) -> Option<String>) -> String {
    values.map(|value| show(value).unwrap_or_else(|| NO_FIGURE.into())).collect::<Vec<_>>().join("/")
}

/// `92.0/88.7 ± 0.3/0.4 (3)`; spreads only where there are any, seeds of each metric where they differ.
fn several(summaries: &[Option<Summary>], decimals: usize) -> String {
    let means = joined(summaries.iter(), |s| s.map(|s| number::fixed(s.mean, decimals)));
    let mut counts: Vec<usize> = summaries.iter().map(|s| s.map_or(0, |s| s.n)).collect();
    if counts.windows(2).all(|pair| pair[0] == pair[1]) {
        counts.truncate(1);
    }
    let counts = joined(counts.into_iter(), |n| Some(n.to_string()));
    if summaries.iter().flatten().any(|s| s.std.is_some()) {
        let spreads = joined(summaries.iter(), |s| s.and_then(|s| s.std).map(|std| number::fixed(std, decimals)));
        return format!("{means} ± {spreads} ({counts})");
    }
    format!("{means} ({counts})")
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
    /// Names for machines of the numbers in a cell, where there are several.
    pub parts: Vec<String>,
    /// What it holds.
    pub kind: Kind,
    /// Kept even when every cell is blank.
    pub keep: bool,
}

impl Column {
    /// A column under a group's heading.
    pub fn new(group: &str, heading: &str, key: &str, kind: Kind) -> Column {
        Column { group: group.into(), heading: heading.into(), key: key.into(), parts: Vec::new(), kind, keep: false }
    }

    /// A column whose cells hold as many numbers as there are keys.
    pub fn of_parts(group: &str, heading: &str, keys: &[String], kind: Kind) -> Column {
        let parts = if keys.len() > 1 { keys.to_vec() } else { Vec::new() };
        Column { parts, ..Column::new(group, heading, &keys.join("/"), kind) }
    }

    /// Names for machines: one for each number of a cell.
    pub fn names(&self) -> &[String] {
        if self.parts.is_empty() {
            std::slice::from_ref(&self.key)
        } else {
            &self.parts
        }
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
            .map(|c| self.columns[c].keep || self.rows.iter().any(|row| !row[c].is_blank()))
            .collect();
        let mut at = 0..;
        self.columns.retain(|_| at.next().is_some_and(|c: usize| used[c]));
        for row in &mut self.rows {
            let mut at = 0..;
            row.retain(|_| at.next().is_some_and(|c: usize| used[c]));
        }
        self
    }

    /// The table cut between groups of columns into parts that fit, as far as a group alone does; each part names its rows.
    pub fn blocks(&self, fits: impl Fn(&Table) -> bool) -> Vec<Table> {
        let names = self.columns.iter().take_while(|c| c.kind == Kind::Text && c.group.is_empty()).count();
        let pick = |columns: &[usize]| {
            let all = || (0..names).chain(columns.iter().copied());
            Table {
                columns: all().map(|c| self.columns[c].clone()).collect(),
                rows: self.rows.iter().map(|row| all().map(|c| row[c].clone()).collect()).collect(),
                ..self.clone()
            }
        };
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        let (mut from, mut at) = (names, 0);
        for (name, span) in self.groups() {
            at += span;
            // A column on its own, such as published parameters, belongs to the group after it.
            if at <= from || (name.is_empty() && at < self.columns.len()) {
                continue;
            }
            let group: Vec<usize> = (from..at).collect();
            from = at;
            match blocks.last_mut() {
                Some(block) => {
                    let joined = [block.as_slice(), &group].concat();
                    if fits(&pick(&joined)) {
                        *block = joined;
                    } else {
                        blocks.push(group);
                    }
                }
                None => blocks.push(group),
            }
        }
        if blocks.is_empty() {
            blocks.push(Vec::new());
        }
        blocks.iter().map(|block| pick(block)).collect()
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
        assert_eq!((Cell::Unpublished.show().as_str(), Cell::Unpublished.raw().as_str()), ("·", ""));
    }

    #[test]
    fn cells_of_two_metrics() {
        let summary = |mean, std, n| Some(Summary { mean, std, n });
        let both = Cell::Several(vec![summary(92.04, Some(0.31), 3), summary(88.66, Some(0.44), 3)], 1);
        assert_eq!(both.show(), "92.0/88.7 ± 0.3/0.4 (3)");
        assert_eq!(Cell::Several(vec![summary(92.04, None, 1), summary(88.66, None, 1)], 1).show(), "92.0/88.7 (1)");
        // A correlation that is no number: one metric has fewer seeds, or none.
        let fewer = Cell::Several(vec![summary(92.04, Some(0.31), 2), summary(88.66, None, 1)], 1);
        assert_eq!(fewer.show(), "92.0/88.7 ± 0.3/· (2/1)");
        assert_eq!(Cell::Several(vec![None, summary(88.66, None, 1)], 1).show(), "·/88.7 (0/1)");
        let differences = Cell::Differences(vec![Some(0.44), Some(-0.96)], 1);
        assert_eq!((differences.show().as_str(), differences.raw().as_str()), ("+0.4/\u{2212}1.0", "0.44/-0.96"));
    }

    #[test]
    fn blocks_part_between_groups_and_keep_names_and_what_leads_a_group() {
        let column =
            |group: &str, key: &str| Column::new(group, key, key, if key == "row" { Kind::Text } else { Kind::Number });
        let columns = [
            ("", "row"),
            ("", "p"),
            ("A", "a1"),
            ("A", "a2"),
            ("", "q"),
            ("B", "b1"),
            ("B", "b2"),
            ("C", "c"),
            ("", "last"),
        ];
        let table = Table {
            name: "t".into(),
            caption: String::new(),
            columns: columns.iter().map(|(group, key)| column(group, key)).collect(),
            rows: vec![(0..9).map(Cell::Count).collect()],
            notes: vec![],
        };
        let keys = |most: usize| -> Vec<String> {
            let blocks = table.blocks(|block| block.columns.len() <= most);
            blocks.iter().map(|b| b.columns.iter().map(|c| c.key.as_str()).collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(keys(9), ["row p a1 a2 q b1 b2 c last"]);
        assert_eq!(keys(6), ["row p a1 a2", "row q b1 b2 c last"]);
        assert_eq!(keys(2), ["row p a1 a2", "row q b1 b2", "row c", "row last"]);
        let blocks = table.blocks(|block| block.columns.len() <= 6);
        assert_eq!(blocks[1].rows, [[0, 4, 5, 6, 7, 8].map(Cell::Count).to_vec()]);
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
