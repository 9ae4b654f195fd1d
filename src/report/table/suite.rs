//! The score of a suite of tasks: the mean over its tasks, a task with two metrics averaged first (PAPER.md, Tables 4 and 5).

use super::layout::{heading, known_heading, Suite};
use super::metric;
use crate::report::results::{row_label, TableResults};
use crate::report::statistics::Summary;

/// Decimal places of a score.
pub const DECIMALS: usize = 1;

/// The seeds of a mix in which all tasks have a figure, each with the mean over the tasks.
fn scores(results: &TableResults, suite: &Suite, mix: &str, variant: &str) -> Vec<f64> {
    let task = |stem: &str, metrics: &[metric::Metric], seed: u64| {
        let column = results.columns.iter().find(|column| column.stem == stem)?;
        let row = column.rows_of(mix, variant).find(|row| row.seed == seed)?;
        metric::score(row, metrics).filter(|score| score.is_finite())
    };
    let mut seeds: Vec<u64> =
        results.columns.iter().flat_map(|column| column.rows_of(mix, variant)).map(|row| row.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let score = |seed: u64| {
        let of_tasks = suite.tasks.iter().map(|(stem, metrics)| task(stem, metrics, seed));
        let scores = of_tasks.collect::<Option<Vec<f64>>>()?;
        Some(scores.iter().sum::<f64>() / scores.len() as f64)
    };
    seeds.into_iter().filter_map(score).collect()
}

/// A mix's score over the seeds in which every task is measured; none when there is no such seed.
pub fn score(results: &TableResults, suite: &Suite, mix: &str, variant: &str) -> Option<Summary> {
    Summary::of(scores(results, suite, mix, variant))
}

/// Why a mix that has some figure has no score; none for one that has a score, or nothing.
pub fn missing(results: &TableResults, suite: &Suite, mix: &str, variant: &str) -> Option<String> {
    if score(results, suite, mix, variant).is_some() {
        return None;
    }
    let column = |stem: &str| results.columns.iter().find(|column| column.stem == stem);
    let measured = |(stem, metrics): &(&str, &[metric::Metric])| {
        let rows = column(stem).into_iter().flat_map(|column| column.rows_of(mix, variant));
        rows.filter_map(|row| metric::score(row, metrics)).any(|score| score.is_finite())
    };
    let name = |stem: &str| column(stem).map_or_else(|| known_heading(stem).to_string(), heading);
    let has_row = |stem: &str| column(stem).is_some_and(|column| column.rows_of(mix, variant).next().is_some());
    let absent: Vec<&str> = suite.tasks.iter().filter(|task| !measured(task)).map(|(stem, _)| *stem).collect();
    if absent.len() == suite.tasks.len() && !absent.iter().any(|stem| has_row(stem)) {
        return None;
    }
    // a finished row without its metrics: they are undefined, or it diverged, as the column's own notes say
    let (undefined, unmeasured): (Vec<&str>, Vec<&str>) = absent.into_iter().partition(|stem| has_row(stem));
    let listed = |stems: &[&str]| stems.iter().map(|stem| name(stem)).collect::<Vec<_>>().join(", ");
    let why = match (unmeasured.is_empty(), undefined.is_empty()) {
        (true, true) => format!("no seed has all {} tasks", suite.tasks.len()),
        (false, true) => format!("not measured: {}", listed(&unmeasured)),
        (true, false) => format!("without a value: {}", listed(&undefined)),
        (false, false) => format!("not measured: {}; without a value: {}", listed(&unmeasured), listed(&undefined)),
    };
    Some(format!("{} score, {}: blank, since {why}.", suite.heading, row_label(mix, variant)))
}
