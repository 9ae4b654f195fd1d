//! Tables of quality: a row a mix, and for each column of the paper published | measured, each with its difference to V.

use super::{notes, Cell, Column, Kind, Table};
use crate::report::published::{Published, PublishedRow};
use crate::report::results::{self, row_key, TableResults};
use crate::report::statistics::Summary;

/// A number that a task is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Column of the result file.
    pub key: &'static str,
    /// Heading.
    pub heading: &'static str,
    /// Decimal places.
    pub decimals: usize,
    /// Whether more is better.
    pub higher_is_better: bool,
}

const BLEU: Metric = Metric { key: "test.bleu", heading: "BLEU", decimals: 2, higher_is_better: true };
const BLEU_TOKENIZED: Metric =
    Metric { key: "test.bleu_tokenized", heading: "BLEU (tokenized)", decimals: 2, higher_is_better: true };
const WORD_PERPLEXITY: Metric =
    Metric { key: "test.word_perplexity", heading: "word perplexity", decimals: 2, higher_is_better: false };
const PERPLEXITY: Metric =
    Metric { key: "test.perplexity", heading: "subword perplexity", decimals: 2, higher_is_better: false };

/// The metrics of a task; the first is the one that rows are compared by.
pub fn metrics(task: &str) -> &'static [Metric] {
    match task {
        "language-modelling" => &[WORD_PERPLEXITY, PERPLEXITY],
        _ => &[BLEU, BLEU_TOKENIZED],
    }
}

/// The paper's headings, where a column's own title is not known.
fn known_heading(stem: &str) -> &str {
    match stem {
        "ende" => "EnDe",
        "enfr" => "EnFr",
        "lm1b" => "LM1B",
        other => other,
    }
}

/// The heading of a column's results.
pub fn heading(column: &results::Column) -> String {
    if column.title.is_empty() {
        known_heading(&column.stem).to_string()
    } else {
        column.title.clone()
    }
}

/// One row of a table: what the paper calls it and what is measured for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualityRow {
    /// Name in the paper; the mix where the paper has none.
    pub name: String,
    /// The row in the paper.
    pub published: Option<PublishedRow>,
    /// Mix and variant of its runs; none for a figure that the paper only quotes.
    pub measured: Option<(String, String)>,
}

/// Rows in the paper's order, then the mixes that the paper has not, in the order found.
pub fn rows(results: &TableResults, published: &Published) -> Vec<QualityRow> {
    let mut rows: Vec<QualityRow> = Vec::new();
    for row in published.rows() {
        let stands = !row.mix.is_empty() && published.row_of(&row.mix, &row.variant).as_ref() == Some(&row);
        let measured = stands.then(|| (row.mix.clone(), row.variant.clone()));
        rows.push(QualityRow { name: row.name.clone(), published: Some(row), measured });
    }
    let mut others: Vec<(String, String)> = Vec::new();
    for column in &results.columns {
        for (mix, variant) in column.keys() {
            let key = row_key(&mix, &variant);
            let known = rows.iter().filter_map(|r| r.measured.as_ref()).any(|m| row_key(&m.0, &m.1) == key);
            if !known && !others.iter().any(|o| row_key(&o.0, &o.1) == key) {
                others.push((mix, variant));
            }
        }
    }
    others.sort_by_key(|(mix, variant)| (paper_order(mix), !variant.is_empty()));
    rows.extend(others.into_iter().map(|(mix, variant)| QualityRow {
        name: function_name(&mix).unwrap_or(&mix).to_string() + &suffix(&variant),
        published: None,
        measured: Some((mix, variant)),
    }));
    rows
}

fn suffix(variant: &str) -> String {
    if variant.is_empty() {
        String::new()
    } else {
        format!(" ({variant})")
    }
}

const FUNCTIONS: [(&str, &str); 9] = [
    ("V", "Transformer"),
    ("Rfix", "Fixed Random"),
    ("R", "Random"),
    ("FR", "Factorized Random"),
    ("D", "Dense"),
    ("FD", "Factorized Dense"),
    ("D+R", "Random + Dense"),
    ("D+V", "Dense + Vanilla"),
    ("R+V", "Random + Vanilla"),
];

/// The paper's name of a mix.
pub fn function_name(mix: &str) -> Option<&'static str> {
    FUNCTIONS.iter().find(|f| f.0 == row_key(mix, "").0).map(|f| f.1)
}

/// Place of a mix in the paper's tables; others come after.
pub fn paper_order(mix: &str) -> usize {
    let key = row_key(mix, "").0;
    FUNCTIONS.iter().position(|f| f.0 == key).unwrap_or(FUNCTIONS.len())
}

/// Mean of a metric over the seeds of a row; runs that diverged are left out.
pub fn measured(column: &results::Column, mix: &str, variant: &str, key: &str) -> Option<Summary> {
    Summary::of(column.rows_of(mix, variant).filter_map(|r| r.metric(key)))
}

/// Builds the table.
pub fn table(results: &TableResults, published: &Published) -> Table {
    let rows = rows(results, published);
    let mut columns =
        vec![Column::new("", "Model", "row", Kind::Text).kept(), Column::new("", "Mix", "mix", Kind::Text).kept()];
    let mut cells: Vec<Vec<Cell>> = rows.iter().map(identity).collect();
    let mut put = |column: Column, column_cells: Vec<Cell>| {
        columns.push(column);
        cells.iter_mut().zip(column_cells).for_each(|(row, cell)| row.push(cell));
    };
    let mut below = Vec::new();
    let mut shown: Vec<(&results::Column, String)> = Vec::new();
    for stem in stems(results, published) {
        let of_paper = |row: &QualityRow| row.published.as_ref().and_then(|r| published.cell(r, &stem)).cloned();
        if let Some(task) = stem.strip_prefix("params_") {
            let figures = rows.iter().map(|row| of_paper(row).map_or(Cell::Blank, |c| Cell::Text(c.text)));
            let heading = format!("published parameters, {}", task.to_uppercase());
            put(Column::new("", &heading, &format!("{stem}.published"), Kind::Number), figures.collect());
            continue;
        }
        let base = published.row_of("V", "").and_then(|r| published.cell(&r, &stem)?.value());
        let measured_column = results.columns.iter().find(|c| c.stem == stem);
        let group = measured_column.map_or(known_heading(&stem).to_string(), heading);
        let task = measured_column.map_or("", |c| c.task.as_str());
        let of_stem: Vec<_> = rows.iter().map(of_paper).collect();
        if of_stem.iter().any(|c| c.is_some()) {
            let figures = of_stem.iter().map(|c| c.as_ref().map_or(Cell::Blank, |c| Cell::Text(c.text.clone())));
            put(Column::new(&group, "published", &format!("{stem}.published"), Kind::Number), figures.collect());
            let differences = of_stem.iter().map(|c| match c.as_ref().and_then(|c| Some((c.value()?, c.places()))) {
                Some((value, places)) => difference(value, base, places),
                None => Cell::Blank,
            });
            put(Column::new(&group, "Δ to V", &format!("{stem}.published.delta"), Kind::Number), differences.collect());
        }
        for (at, metric) in metrics(task).iter().enumerate() {
            let value = |row: &QualityRow| {
                let (mix, variant) = row.measured.as_ref()?;
                measured(measured_column?, mix, variant, metric.key)
            };
            let name = metric.key.trim_start_matches("test.");
            let figures = rows.iter().map(|row| match value(row) {
                Some(summary) => Cell::Measured(summary, metric.decimals),
                None if at == 0 => absent(measured_column, row),
                None => Cell::Blank,
            });
            let (label, name) = match measured_column {
                Some(_) => (metric.heading, name),
                None => ("measured", "measured"),
            };
            let column = Column::new(&group, label, &format!("{stem}.{name}"), Kind::Measured);
            put(if at == 0 { column.kept() } else { column }, figures.collect());
            if at == 0 {
                let base = measured_column.and_then(|c| measured(c, "V", "", metric.key)).map(|s| s.mean);
                let differences = rows.iter().map(|row| match value(row) {
                    Some(summary) => difference(summary.mean, base, metric.decimals),
                    None => Cell::Blank,
                });
                put(
                    Column::new(&group, "Δ to V", &format!("{stem}.{name}.delta"), Kind::Number),
                    differences.collect(),
                );
            }
        }
        if let Some(column) = measured_column {
            let parameters = rows.iter().map(|row| parameters(column, row)).collect();
            put(Column::new(&group, "parameters", &format!("{stem}.parameters"), Kind::Number), parameters);
            below.extend(notes::of(column, &group, metrics(task)[0].key));
            shown.push((column, group));
        }
    }
    below.splice(0..0, notes::signatures(&shown));
    Table { name: results.name.clone(), caption: caption(results, published), columns, rows: cells, notes: below }
        .without_blank_columns()
}

fn identity(row: &QualityRow) -> Vec<Cell> {
    let mix = row.measured.as_ref().map(|m| m.0.clone());
    let mix = mix.or_else(|| row.published.as_ref().map(|p| p.mix.clone())).unwrap_or_default();
    vec![Cell::Text(row.name.clone()), if mix.is_empty() { Cell::Blank } else { Cell::Text(mix) }]
}

fn difference(value: f64, base: Option<f64>, decimals: usize) -> Cell {
    base.map_or(Cell::Blank, |base| Cell::Difference(value - base, decimals))
}

fn absent(column: Option<&results::Column>, row: &QualityRow) -> Cell {
    let state = row.measured.as_ref().and_then(|(mix, variant)| notes::state(column?, mix, variant));
    state.map_or(Cell::Blank, |state| Cell::Text(state.to_string()))
}

fn parameters(column: &results::Column, row: &QualityRow) -> Cell {
    let Some((mix, variant)) = &row.measured else { return Cell::Blank };
    let counts = column.rows_of(mix, variant).filter_map(|r| r.trainable_parameters);
    Summary::of(counts.map(|c| c as f64)).map_or(Cell::Blank, |s| Cell::Compact(s.mean))
}

/// Columns of the paper first, in its order, then others that have results.
fn stems(results: &TableResults, published: &Published) -> Vec<String> {
    let mut stems = published.columns();
    for column in &results.columns {
        if !stems.contains(&column.stem) {
            stems.push(column.stem.clone());
        }
    }
    stems
}

fn caption(results: &TableResults, published: &Published) -> String {
    let number = results.name.strip_prefix("table").filter(|n| n.parse::<u32>().is_ok());
    let what = number.map_or(format!("Results of \"{}\"", results.name), |n| format!("Table {n}"));
    let mut caption = format!("{what}, profile {}. ", results.profile);
    if !published.cells.is_empty() {
        let data = if results.name == "table2" { "WMT'14 and LM1B" } else { "other data" };
        caption += &format!("Published: the paper's figures ({data}, its model sizes). ");
        if results.profile != "paper" {
            caption += &format!(
                "The {} profile trains small models on other, small data: compare a row's Δ to V with the published Δ, \
                 never the figures themselves. ",
                results.profile
            );
        }
    }
    caption + "Measured: mean ± sample standard deviation (number of seeds). Δ to V: a row minus the V row of the same column."
}
