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
    let absent: Vec<String> = suite
        .tasks
        .iter()
        .filter(|task| !measured(task))
        .map(|(stem, _)| column(stem).map_or_else(|| known_heading(stem).to_string(), heading))
        .collect();
    let label = row_label(mix, variant);
    match absent.len() {
        n if n == suite.tasks.len() => None,
        0 => {
            Some(format!("{} score, {label}: blank, since no seed has all {} tasks.", suite.heading, suite.tasks.len()))
        }
        _ => Some(format!("{} score, {label}: blank, since not measured: {}.", suite.heading, absent.join(", "))),
    }
}
