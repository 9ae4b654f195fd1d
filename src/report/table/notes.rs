//! Lines under a table: what is missing and why, and what the metrics were computed by.

use super::metric;
use crate::experiment::RowStatus;
use crate::report::number::thousands;
use crate::report::read::runs::RunRow;
use crate::report::results::{row_key, row_label, Column};

/// Why a cell has no figure, in a word; none where nothing was started.
pub fn state(column: &Column, mix: &str, variant: &str) -> Option<&'static str> {
    let mut state = None;
    for run in column.runs_of(mix, variant) {
        if run.log.diverged_at().is_some() {
            return Some("diverged");
        }
        if !run.finished {
            state = Some("unfinished");
        }
    }
    if column.rows_of(mix, variant).next().is_some() {
        state = state.or(Some("no figure"));
    }
    let key = row_key(mix, variant);
    let aside = column.set_aside.iter().find(|row| row_key(&row.mix, &row.variant) == key);
    state.or(aside.map(|row| row.status.text()))
}

/// Notes on runs of a column: diverged, unfinished, of several data; then the signatures of its metrics.
pub fn of(column: &Column, heading: &str, metric: &str) -> Vec<String> {
    let mut notes = Vec::new();
    for run in &column.runs {
        let label = row_label(&run.mix, &run.variant);
        if let Some(step) = run.log.diverged_at() {
            notes.push(format!(
                "{heading}, {label}, seed {}: diverged, the loss is not a number at step {}; not in the mean.",
                run.seed,
                thousands(step)
            ));
        } else if !run.finished {
            let at = run.log.last_step().map_or("not yet logged".to_string(), |s| format!("at step {}", thousands(s)));
            let of = run.steps.map_or(String::new(), |s| format!(" of {}", thousands(s)));
            notes.push(format!("{heading}, {label}, seed {}: unfinished, {at}{of}.", run.seed));
        }
    }
    for row in &column.rows {
        let logged =
            column.runs_of(&row.mix, &row.variant).any(|r| r.seed == row.seed && r.log.diverged_at().is_some());
        if row.metric(metric).is_some_and(|v| !v.is_finite()) && !logged {
            let label = row_label(&row.mix, &row.variant);
            notes.push(format!("{heading}, {label}, seed {}: diverged; not in the mean.", row.seed));
        }
    }
    notes.extend(remarks(column, heading));
    notes.extend(marks(column, heading));
    let mut hashes: Vec<&str> = column.rows.iter().map(|r| r.data_hash.as_str()).filter(|h| !h.is_empty()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    if hashes.len() > 1 {
        notes.push(format!(
            "{heading}: the rows come from {} versions of the data (see data_hash in {}.csv) and can't be compared; \
             `synthesizer run --fresh` makes them anew.",
            hashes.len(),
            column.stem
        ));
    }
    notes
}

/// The remarks that the rows carry. Rows that share a remark share its line.
fn remarks(column: &Column, heading: &str) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&RunRow>)> = Vec::new();
    for row in &column.rows {
        for note in &row.notes {
            match found.iter_mut().find(|(text, _)| text == note) {
                Some((_, rows)) => rows.push(row),
                None => found.push((note, vec![row])),
            }
        }
    }
    let names = |rows: &[&RunRow]| match rows.len() {
        count if count > 1 && count == column.rows.len() => format!("all {count} rows"),
        _ => row_names(rows),
    };
    found.into_iter().map(|(note, rows)| format!("{heading}, {}: {note}", names(&rows))).collect()
}

/// The rows that are not what the experiment file plans, by their status.
fn marks(column: &Column, heading: &str) -> Vec<String> {
    let rows = || column.rows.iter().chain(&column.set_aside);
    let line = |status: RowStatus| {
        let marked: Vec<&RunRow> = rows().filter(|row| row.status == status).collect();
        let why = match status {
            _ if marked.is_empty() => return None,
            RowStatus::Current => return None,
            RowStatus::NotPlanned => "not in the experiment file, whose settings these rows have.",
            RowStatus::OtherSettings => {
                "trained with other settings than the experiment file has; in no mean, difference or figure. \
                 `synthesizer run --fresh` trains these runs again."
            }
            RowStatus::OtherData => {
                "trained on other data than the newest row; in no mean, difference or figure. \
                 `synthesizer run --fresh` trains these runs again."
            }
        };
        Some(format!("{heading}, {}: {why}", row_names(&marked)))
    };
    RowStatus::ALL.into_iter().filter_map(line).collect()
}

/// `V, seed 1`, or `V, seeds 1, 2; R (control), seed 1`.
fn row_names(rows: &[&RunRow]) -> String {
    let mut labels: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let (label, seed) = (row_label(&row.mix, &row.variant), row.seed.to_string());
        match labels.iter_mut().find(|(known, _)| *known == label) {
            Some((_, seeds)) => seeds.push(seed),
            None => labels.push((label, vec![seed])),
        }
    }
    let name = |(label, seeds): (String, Vec<String>)| {
        format!("{label}, {} {}", if seeds.len() == 1 { "seed" } else { "seeds" }, seeds.join(", "))
    };
    labels.into_iter().map(name).collect::<Vec<_>>().join("; ")
}

/// One line a signature, naming the columns that share it.
pub fn signatures(columns: &[(&Column, String, &str)]) -> Vec<String> {
    let mut found: Vec<(String, String, Vec<String>)> = Vec::new();
    for (column, heading, _) in columns {
        for row in &column.rows {
            for (key, signature) in &row.signatures {
                let key = key.trim_end_matches(".signature");
                let metric = match key.rsplit('.').next().unwrap_or(key) {
                    // one signature for all of them
                    "rouge" => "ROUGE".to_string(),
                    name => metric::heading_of(name),
                };
                let at = found.iter().position(|f| f.0 == metric && f.1 == *signature).unwrap_or_else(|| {
                    found.push((metric.clone(), signature.clone(), Vec::new()));
                    found.len() - 1
                });
                if !found[at].2.contains(heading) {
                    found[at].2.push(heading.clone());
                }
            }
        }
    }
    found.into_iter().map(|(m, s, h)| format!("{m} signature ({}): {s}", h.join(", "))).collect()
}

/// Which rows have how many seeds, for columns where they differ; one line for columns with the same rows and seeds.
pub fn seeds(columns: &[(&Column, String, &str)]) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (column, heading, metric) in columns {
        let mut counts: Vec<(usize, Vec<String>)> = Vec::new();
        for (mix, variant) in column.keys() {
            let seeds = column.rows_of(&mix, &variant).filter(|r| r.metric(metric).is_some_and(f64::is_finite)).count();
            let label = row_label(&mix, &variant);
            match counts.iter_mut().find(|c| c.0 == seeds) {
                Some((_, labels)) => labels.push(label),
                None if seeds > 0 => counts.push((seeds, vec![label])),
                None => {}
            }
        }
        if counts.len() < 2 {
            continue;
        }
        counts.sort_by_key(|c| std::cmp::Reverse(c.0));
        let text: Vec<String> = counts.iter().map(|(n, labels)| format!("{n} for {}", labels.join(", "))).collect();
        let text = text.join("; ");
        match found.iter_mut().find(|f| f.0 == text) {
            Some((_, headings)) => headings.push(heading.clone()),
            None => found.push((text, vec![heading.clone()])),
        }
    }
    found.into_iter().map(|(text, headings)| format!("Seeds differ ({}): {text}.", headings.join(", "))).collect()
}
