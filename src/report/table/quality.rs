//! Tables of quality: a row a mix, and for each column of the paper published | measured, each with its difference to V.

use super::layout::{self, heading, known_heading, Part, QualityColumn, Suite};
use super::metric::{self, Metric};
use super::{notes, suite, Cell, Column, Kind, Table};
use crate::report::number;
use crate::report::published::{Published, PublishedRow};
use crate::report::results::{self, row_key, TableResults};
use crate::report::statistics::Summary;

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

/// Rows in the paper's order, then the mixes that the paper has not.
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
    // Where the paper's first rows could not be confirmed, as in Table 7, the mixes that stand before the rest come first.
    let first = rows.iter().map(|r| r.published.as_ref().map_or(0, |p| paper_order(&p.mix))).min();
    let before = others.iter().filter(|(mix, _)| first.is_some_and(|first| paper_order(mix) < first)).count();
    let mut others: Vec<QualityRow> = others
        .into_iter()
        .map(|(mix, variant)| QualityRow {
            name: function_name(&mix).unwrap_or(&mix).to_string() + &suffix(&variant),
            published: None,
            measured: Some((mix, variant)),
        })
        .collect();
    let after = others.split_off(before);
    others.into_iter().chain(rows).chain(after).collect()
}

fn suffix(variant: &str) -> String {
    if variant.is_empty() {
        String::new()
    } else {
        format!(" ({variant})")
    }
}

const FUNCTIONS: [(&str, &str); 13] = [
    ("V", "Transformer"),
    ("DC", "Dynamic convolution"),
    ("LC", "Lightweight convolution"),
    ("Lin", "Linformer"),
    ("Rfix", "Fixed Random"),
    ("R", "Random"),
    ("FR", "Factorized Random"),
    ("D", "Dense"),
    ("FD", "Factorized Dense"),
    ("D+R", "Random + Dense"),
    ("D+V", "Dense + Vanilla"),
    ("R+V", "Random + Vanilla"),
    ("FR+V", "Factorized Random + Vanilla"),
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
    let columns =
        vec![Column::new("", "Model", "row", Kind::Text).kept(), Column::new("", "Mix", "mix", Kind::Text).kept()];
    let cells: Vec<Vec<Cell>> = rows.iter().map(identity).collect();
    let mut builder = Builder { results, published, rows, columns, cells };
    let mut below = Vec::new();
    let mut shown: Vec<(&results::Column, String, &'static str)> = Vec::new();
    for part in layout::parts(results, published) {
        match part {
            Part::Parameters(name) => builder.published_parameters(&name),
            Part::Score(suite) => below.extend(builder.score(&suite)),
            Part::Quality(quality) => {
                let column = builder.quality(&quality);
                let metric = quality.measures.first().and_then(|m| m.metrics.first());
                if let (Some(column), Some(metric), true) = (column, metric, quality.first) {
                    let group = heading(column);
                    below.extend(notes::of(column, &group, metric.key));
                    shown.push((column, group, metric.key));
                }
            }
        }
    }
    if layout::suite(&results.name).is_some() {
        builder.largest_parameters();
    }
    below.splice(0..0, notes::signatures(&shown).into_iter().chain(notes::seeds(&shown)));
    below.extend(unknowns(results, published));
    let Builder { columns, cells, .. } = builder;
    Table { name: results.name.clone(), caption: caption(results, published), columns, rows: cells, notes: below }
        .without_blank_columns()
}

/// A table that grows by columns.
struct Builder<'a> {
    results: &'a TableResults,
    published: &'a Published,
    rows: Vec<QualityRow>,
    columns: Vec<Column>,
    cells: Vec<Vec<Cell>>,
}

impl<'a> Builder<'a> {
    fn put(&mut self, column: Column, cell: impl Fn(&QualityRow) -> Cell) {
        self.columns.push(column);
        self.cells.iter_mut().zip(&self.rows).for_each(|(cells, row)| cells.push(cell(row)));
    }

    fn column(&self, stem: &str) -> Option<&'a results::Column> {
        self.results.columns.iter().find(|column| column.stem == stem)
    }

    fn published_parameters(&mut self, name: &str) {
        let published = self.published;
        let task = name.trim_start_matches("params_").to_uppercase();
        let column =
            Column::new("", &format!("published parameters, {task}"), &format!("{name}.published"), Kind::Number);
        self.put(column, |row| match row.published.as_ref().and_then(|r| published.cell(r, name)) {
            Some(cell) => Cell::Text(cell.text.clone()),
            None => Cell::Unpublished,
        });
    }

    /// The paper's figures and their differences to its V row; nothing where it has none.
    fn published(&mut self, group: &str, name: &str) {
        let published = self.published;
        let of_paper = |row: &QualityRow| row.published.as_ref().and_then(|r| published.cell(r, name));
        if !self.rows.iter().any(|row| of_paper(row).is_some()) {
            return;
        }
        let base = published.row_of("V", "").and_then(|r| published.cell(&r, name)).map(|c| c.values());
        let column = Column::new(group, "published", &format!("{name}.published"), Kind::Number);
        self.put(column, |row| of_paper(row).map_or(Cell::Unpublished, |c| Cell::Text(c.text.clone())));
        let column = Column::new(group, "Δ to V", &format!("{name}.published.delta"), Kind::Number);
        self.put(column, |row| match (of_paper(row), &base) {
            (Some(cell), Some(base)) => differences(&cell.values(), base, cell.places()),
            _ => Cell::Blank,
        });
    }

    /// A suite's score, published and measured; returns the notes on what is missing.
    fn score(&mut self, of: &Suite) -> Vec<String> {
        let results = self.results;
        let group = format!("{} score", of.heading);
        self.published(&group, of.published);
        let key = format!("{}.score", of.published);
        let value = |row: &QualityRow| {
            let (mix, variant) = row.measured.as_ref()?;
            suite::score(results, of, mix, variant)
        };
        self.put(Column::new(&group, "measured", &key, Kind::Measured).kept(), |row| {
            value(row).map_or(Cell::Blank, |summary| Cell::Measured(summary, suite::DECIMALS))
        });
        let base = suite::score(results, of, "V", "");
        self.put(Column::new(&group, "Δ to V", &format!("{key}.delta"), Kind::Number), |row| {
            differences(&[value(row)], &[base], suite::DECIMALS)
        });
        self.rows
            .iter()
            .filter_map(|row| {
                let (mix, variant) = row.measured.as_ref()?;
                suite::missing(results, of, mix, variant)
            })
            .collect()
    }

    /// Published beside measured; returns the results that it shows.
    fn quality(&mut self, quality: &QualityColumn) -> Option<&'a results::Column> {
        let column = self.column(&quality.stem);
        let mut group = column.map_or(known_heading(&quality.stem).to_string(), heading);
        if let (true, Some(measure)) = (quality.one_of_several, quality.measures.first()) {
            group += &format!(", {}", metric::joined_heading(&measure.metrics));
        }
        self.published(&group, &quality.published);
        if column.is_none() {
            let key = format!("{}.measured", quality.published);
            self.put(Column::new(&group, "measured", &key, Kind::Measured).kept(), |_| Cell::Blank);
        }
        for (at, measure) in quality.measures.iter().enumerate().filter(|_| column.is_some()) {
            let decimals = measure.metrics[0].decimals;
            let values = |row: &QualityRow| -> Vec<Option<Summary>> {
                let key = row.measured.as_ref();
                let of = |metric: &Metric| key.and_then(|(mix, variant)| measured(column?, mix, variant, metric.key));
                measure.metrics.iter().map(of).collect()
            };
            let keys: Vec<String> =
                measure.metrics.iter().map(|metric| format!("{}.{}", quality.stem, metric.name())).collect();
            let label = match at {
                0 if quality.one_of_several => "measured".to_string(),
                _ => metric::joined_heading(&measure.metrics),
            };
            let heads = Column::of_parts(&group, &label, &keys, Kind::Measured);
            self.put(if at == 0 { heads.kept() } else { heads }, |row| {
                let values = values(row);
                match (values.iter().any(|v| v.is_some()), values.as_slice()) {
                    (true, [Some(summary)]) => measure.metrics[0].cell(*summary),
                    (true, _) => Cell::Several(values, decimals),
                    (false, _) if at == 0 && quality.first => absent(column, row),
                    (false, _) => Cell::Blank,
                }
            });
            if measure.compared {
                let of_base = |metric: &Metric| column.and_then(|c| measured(c, "V", "", metric.key));
                let base: Vec<Option<Summary>> = measure.metrics.iter().map(of_base).collect();
                let keys: Vec<String> = keys.iter().map(|key| format!("{key}.delta")).collect();
                self.put(Column::of_parts(&group, "Δ to V", &keys, Kind::Number), |row| {
                    differences(&values(row), &base, decimals)
                });
            }
        }
        if let (Some(column), true) = (column, quality.last) {
            // A file with several columns has its parameters once, under its own name.
            let group = heading(column);
            let key = format!("{}.parameters", quality.stem);
            self.put(Column::new(&group, "parameters", &key, Kind::Number), |row| parameters(column, row));
        }
        column
    }

    /// The most parameters that a mix has in any task: tasks differ by a few in their heads.
    fn largest_parameters(&mut self) {
        let results = self.results;
        self.put(Column::new("", "largest parameters", "parameters", Kind::Number), |row| {
            let Some((mix, variant)) = &row.measured else { return Cell::Blank };
            let counts = results.columns.iter().flat_map(|c| c.rows_of(mix, variant));
            let largest = counts.filter_map(|r| r.trainable_parameters).max();
            largest.map_or(Cell::Blank, |count| Cell::Compact(count as f64))
        });
    }
}

/// Something that may hold a value to subtract.
trait Value {
    fn value(&self) -> Option<f64>;
}

impl Value for Option<f64> {
    fn value(&self) -> Option<f64> {
        *self
    }
}

impl Value for Option<Summary> {
    fn value(&self) -> Option<f64> {
        self.map(|summary| summary.mean)
    }
}

/// Values minus those of the base row, one by one.
fn differences<T: Value>(values: &[T], base: &[T], decimals: usize) -> Cell {
    let of = |(value, base): (&T, &T)| Some(value.value()? - base.value()?);
    let found: Vec<Option<f64>> = values.iter().zip(base).map(of).collect();
    match found.as_slice() {
        [Some(difference)] if values.len() == base.len() => Cell::Difference(*difference, decimals),
        _ if values.len() != base.len() || found.iter().all(|d| d.is_none()) => Cell::Blank,
        _ => Cell::Differences(found, decimals),
    }
}

fn identity(row: &QualityRow) -> Vec<Cell> {
    let mix = row.measured.as_ref().map(|m| m.0.clone());
    let mix = mix.or_else(|| row.published.as_ref().map(|p| p.mix.clone())).unwrap_or_default();
    vec![Cell::Text(row.name.clone()), if mix.is_empty() { Cell::Blank } else { Cell::Text(mix) }]
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

/// What the paper leaves open about the figures that something is measured beside.
fn unknowns(results: &TableResults, published: &Published) -> Option<String> {
    let is_published = |column: &str| published.cells.iter().any(|c| c.column == column);
    let is_measured = |stem: &str| results.columns.iter().any(|c| c.stem == stem);
    let text = match results.name.as_str() {
        "table2" if is_published("lm1b") && is_measured("lm1b") => {
            "The paper's LM1B perplexity: per word or per subword is not stated, so both are measured. Lower is better: \
             a Δ below 0 is better than V."
        }
        "table3" if is_published("rougel") && is_measured("summarization") => {
            "The paper's R-L: whether it is taken sentence by sentence (ROUGE-Lsum) is not known here, so both are measured."
        }
        "table6" if is_published("tflops") && !results.columns.is_empty() => {
            return Some(format!(
                "Steps/s: training steps alone, without evaluations and checkpoints; the paper's are of its TPUs. TFLOPs: \
                 what the paper counts is not stated. Ours are operations of one step's forward pass, in 10¹²: {}.",
                crate::experiment::MODEL_FLOPS_DEFINITION
            ));
        }
        _ => return None,
    };
    Some(text.to_string())
}

/// The data of a table's published figures.
fn data(table: &str) -> &'static str {
    match table {
        "table2" => "WMT'14 and LM1B",
        "table3" => "CNN/DailyMail and PersonaChat",
        "table4" => "GLUE dev sets, T5-base co-trained on a mixture of tasks",
        "table5" => "SuperGLUE dev sets, T5-base co-trained on a mixture of tasks",
        "table6" => "C4, T5-base",
        "table7" => "AGNews",
        _ => "other data",
    }
}

fn caption(results: &TableResults, published: &Published) -> String {
    let number = results.name.strip_prefix("table").filter(|n| n.parse::<u32>().is_ok());
    let what = number.map_or(format!("Results of \"{}\"", results.name), |n| format!("Table {n}"));
    let mut caption = format!("{what}, profile {}. ", results.profile);
    let suite = layout::suite(&results.name);
    if !published.cells.is_empty() {
        caption += &format!("Published: the paper's figures ({}, its model sizes). ", data(&results.name));
        if suite.is_some() {
            caption += "Ours are encoders trained on each task alone: compare a row's Δ to V with the published Δ, \
                        never the figures themselves. ";
        } else if results.profile != "paper" {
            caption += &format!(
                "The {} profile trains small models on other, small data: compare a row's Δ to V with the published Δ, \
                 never the figures themselves. ",
                results.profile
            );
        }
    }
    caption += "Measured: mean ± sample standard deviation (number of seeds). Δ to V: a row minus the V row of the same column.";
    if let Some(suite) = suite {
        let tasks = number::thousands(suite.tasks.len() as u64);
        caption += &format!(
            " {} score: the mean over the {tasks} tasks, a task with two metrics averaged first; per seed, and only where all {tasks} are measured.",
            suite.heading
        );
    }
    caption
}
