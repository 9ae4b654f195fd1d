//! Table 1: what each function costs by formula, by count and by the clock, and what it is worth.

use super::quality::{self, function_name, paper_order};
use super::{layout, metric, notes, Cell, Column, Kind, Table};
use crate::report::read::cost::{CostRow, TimeRow};
use crate::report::results::{self, row_key, TableResults};

/// Mixes in the paper's order.
pub fn mixes(results: &TableResults) -> Vec<(String, String)> {
    let mut mixes: Vec<(String, String)> = Vec::new();
    let costs = results.costs.iter().map(|c| (c.mix.clone(), String::new()));
    let times = results.times.iter().map(|t| (t.mix.clone(), String::new()));
    let trained = results.columns.iter().flat_map(|c| c.keys());
    for (mix, variant) in costs.chain(times).chain(trained) {
        if !mixes.iter().any(|m| row_key(&m.0, &m.1) == row_key(&mix, &variant)) {
            mixes.push((mix, variant));
        }
    }
    mixes.sort_by_key(|(mix, variant)| (paper_order(mix), !variant.is_empty()));
    mixes
}

/// The setting whose times are shown: that of the first row.
pub fn setting(results: &TableResults) -> Option<&str> {
    results.times.first().map(|t| t.setting.as_str())
}

/// The length at which times are compared: the longest measured that the layer of `cost.csv` covers, or the longest.
pub fn reference_length(results: &TableResults) -> Option<u64> {
    let limit = results.costs.first().map_or(u64::MAX, |c| c.max_length);
    let lengths = || results.times.iter().map(|t| t.length);
    lengths().filter(|l| *l <= limit).max().or_else(|| lengths().max())
}

/// The time of a mix at a length, in the setting that is shown.
pub fn time<'a>(results: &'a TableResults, mix: &str, length: u64, backward: bool) -> Option<&'a TimeRow> {
    let key = row_key(mix, "");
    let setting = setting(results)?;
    results
        .times
        .iter()
        .find(|t| row_key(&t.mix, "") == key && t.length == length && t.backward == backward && t.setting == setting)
}

/// The cost of a mix.
pub fn cost<'a>(results: &'a TableResults, mix: &str) -> Option<&'a CostRow> {
    let key = row_key(mix, "");
    results.costs.iter().find(|c| row_key(&c.mix, "") == key)
}

/// Builds Table 1.
pub fn table(results: &TableResults) -> Table {
    let mixes = mixes(results);
    let mut columns =
        vec![Column::new("", "Function", "row", Kind::Text).kept(), Column::new("", "Mix", "mix", Kind::Text).kept()];
    let mut cells: Vec<Vec<Cell>> = mixes
        .iter()
        .map(|(mix, variant)| {
            let name = function_name(mix).unwrap_or(mix);
            let name = if mix == "V" && variant.is_empty() { "Dot product" } else { name };
            vec![Cell::Text(results::row_label(name, variant)), Cell::Text(mix.clone())]
        })
        .collect();
    let mut put = |group: &str, heading: &str, key: &str, kind: Kind, cell: &dyn Fn(&str, &str) -> Cell| {
        columns.push(Column::new(group, heading, key, kind));
        for (row, (mix, variant)) in cells.iter_mut().zip(&mixes) {
            row.push(cell(mix, variant));
        }
    };
    let of_cost = |mix: &str, variant: &str| if variant.is_empty() { cost(results, mix) } else { None };
    let count = |value: Option<u64>| value.map_or(Cell::Blank, Cell::Count);
    let head = "paper, one head";
    put(head, "formula", "formula", Kind::Text, &|m, v| match of_cost(m, v) {
        Some(c) if !c.formula.is_empty() => Cell::Text(c.formula.clone()),
        _ => Cell::Blank,
    });
    put(head, "its value", "formula_parameters", Kind::Number, &|m, v| {
        count(of_cost(m, v).and_then(|c| c.formula_parameters))
    });
    put(head, "counted", "counted_one_head_no_bias", Kind::Number, &|m, v| {
        count(of_cost(m, v).and_then(|c| c.counted_one_head_no_bias))
    });
    let layer = "whole layer";
    put(layer, "trained parameters", "trainable_parameters", Kind::Number, &|m, v| {
        count(of_cost(m, v).map(|c| c.trainable_parameters))
    });
    put(layer, "all parameters", "total_parameters", Kind::Number, &|m, v| {
        count(of_cost(m, v).map(|c| c.total_parameters))
    });
    put(layer, "forward FLOPs", "forward_flops", Kind::Number, &|m, v| {
        of_cost(m, v).and_then(|c| c.forward_flops).map_or(Cell::Blank, Cell::Compact)
    });
    let mut below = Vec::new();
    if let Some(length) = reference_length(results) {
        let group = format!("time at length {length}");
        let of_time = |m: &str, v: &str, backward| if v.is_empty() { time(results, m, length, backward) } else { None };
        let milliseconds =
            |t: Option<&TimeRow>| t.map_or(Cell::Blank, |t| Cell::Significant(t.median_seconds * 1e3, 3));
        put(&group, "forward ms", "forward_ms", Kind::Number, &|m, v| milliseconds(of_time(m, v, false)));
        put(&group, "forward + backward ms", "forward_backward_ms", Kind::Number, &|m, v| {
            milliseconds(of_time(m, v, true))
        });
        let base = time(results, "V", length, true).map(|t| t.median_seconds);
        put(&group, "ratio to V", "ratio_to_v", Kind::Number, &|m, v| match (of_time(m, v, true), base) {
            (Some(t), Some(base)) if base > 0.0 => Cell::Number(t.median_seconds / base, 2),
            _ => Cell::Blank,
        });
        put(&group, "peak MB", "peak_mb", Kind::Number, &|m, v| {
            let peak = [true, false].iter().find_map(|b| of_time(m, v, *b)?.peak_memory_bytes);
            peak.map_or(Cell::Blank, |bytes| Cell::Number(bytes as f64 / 1e6, 0))
        });
        if let Some(setting) = setting(results) {
            below.push(format!("Times are medians; {setting}. Ratio to V: forward + backward, below 1 is faster."));
        }
    }
    for column in &results.columns {
        let group = layout::heading(column);
        let metrics = metric::of(column);
        for (at, metric) in metrics.iter().enumerate() {
            let key = format!("{}.{}", column.stem, metric.name());
            let value = |m: &str, v: &str| quality::measured(column, m, v, metric.key);
            put(&group, metric.heading, &key, Kind::Measured, &|m, v| match value(m, v) {
                Some(summary) => Cell::Measured(summary, metric.decimals),
                None if at == 0 => notes::state(column, m, v).map_or(Cell::Blank, |s| Cell::Text(s.into())),
                None => Cell::Blank,
            });
            if at > 0 {
                continue;
            }
            let base = value("V", "").map(|s| s.mean);
            put(&group, "Δ to V", &format!("{key}.delta"), Kind::Number, &|m, v| match (value(m, v), base) {
                (Some(summary), Some(base)) => Cell::Difference(summary.mean - base, metric.decimals),
                _ => Cell::Blank,
            });
        }
        below.extend(notes::of(column, &group, metrics[0].key));
    }
    let shown: Vec<_> = results.columns.iter().map(|c| (c, layout::heading(c), metric::of(c)[0].key)).collect();
    below.extend(notes::signatures(&shown));
    below.extend(notes::seeds(&shown));
    let table = Table { name: results.name.clone(), caption: caption(results), columns, rows: cells, notes: below };
    table.without_blank_columns()
}

fn caption(results: &TableResults) -> String {
    let mut caption = format!("Table 1, profile {}. The synthesizing functions", results.profile);
    if let Some(c) = results.costs.first() {
        caption += &format!(" at d = {}, {} heads, maximum length N = {}", c.d_model, c.heads, c.max_length);
    }
    caption += ". The paper's formula counts one head without biases, value and output projections; \
                the whole layer counts everything";
    caption += if results.columns.is_empty() {
        "."
    } else {
        ". Quality: a small language model trained with each function (the paper's Table 1 has none), \
         mean ± sample standard deviation (number of seeds); Δ to V: a row minus the V row."
    };
    caption
}
