//! `synthesizer report`.

use crate::report::export::{terminal::Terminal, Exporter};
use crate::report::results::holds_columns;
use crate::report::statistics::Summary;
use crate::report::table::{Cell, Column, Table};
use crate::report::{report, Options, Report, Selection};
use anyhow::{bail, Result};
use serde_json::{json, Value};
use std::path::{Component, Path, PathBuf};

/// Options of `report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results or experiments to report, such as results/mini/table1 or experiments/mini; everything under the results when none is given
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder of results
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Folder that figures and the page are written to
    #[arg(long, value_name = "DIR", default_value = "plots")]
    plots: PathBuf,
    /// Folder of the paper's figures
    #[arg(long, value_name = "DIR", default_value = "experiments/published")]
    published: PathBuf,
    /// Print tables and paths as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let selected = args.paths.iter().map(|path| select(path, &args.results)).collect::<Result<Vec<_>>>()?;
    // the folder of all results selects everything, as no path does
    let selection = selected.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default();
    let options = Options { results: args.results, plots: args.plots, published: args.published, selection };
    let report = report(&options)?;
    if args.json {
        println!("{:#}", as_json(&report));
        return Ok(());
    }
    for made in &report.tables {
        println!("{}", Terminal.export(&made.table));
    }
    println!("Written:");
    for path in report.tables.iter().flat_map(|made| &made.files).chain(&report.pages) {
        println!("  {}", path.display());
    }
    Ok(())
}

/// The profile and table that a path under the results, or under a folder of experiments, belongs to; none for the folder
/// of all of them.
fn select(path: &Path, results: &Path) -> Result<Option<Selection>> {
    if path.is_file() && path.extension().is_some_and(|e| e == "toml") {
        let plan = crate::experiment::load(path)?.plan(results)?;
        let table = Some(plan.table).filter(|t| !t.is_empty());
        return Ok(Some(Selection { profile: plan.profile, table }));
    }
    let parts: Vec<String> = match path.strip_prefix(results) {
        Ok(rest) => names(rest),
        Err(_) => {
            let all = names(path);
            match all.iter().rposition(|name| name == "experiments" || name == "results") {
                Some(at) => all[at + 1..].to_vec(),
                None => all,
            }
        }
    };
    let exists = path.exists() || results.join(parts.join("/")).exists();
    if !exists {
        bail!(
            "{}: no such file or folder; `synthesizer report` takes paths such as {}/mini/table1 or experiments/mini/table2",
            path.display(),
            results.display()
        );
    }
    let Some(profile) = parts.first() else { return Ok(None) };
    // the folder of custom experiments holds columns, not tables
    let table = parts.get(1).filter(|_| !holds_columns(&results.join(profile)).unwrap_or(false));
    Ok(Some(Selection { profile: profile.clone(), table: table.cloned() }))
}

fn names(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect()
}

fn as_json(report: &Report) -> Value {
    let tables: Vec<Value> = report
        .tables
        .iter()
        .map(|made| {
            json!({
                "profile": made.profile,
                "table": made.table.name,
                "caption": made.table.caption,
                "rows": rows(&made.table),
                "notes": made.table.notes,
                "files": made.files,
            })
        })
        .collect();
    json!({ "tables": tables, "pages": report.pages })
}

fn rows(table: &Table) -> Vec<Value> {
    let measured = |s: Option<Summary>| s.map_or(Value::Null, |s| json!({ "mean": s.mean, "std": s.std, "n": s.n }));
    let value = |cell: &Cell, at: usize| match cell {
        Cell::Measured(summary, _) => measured(Some(*summary)),
        Cell::Several(summaries, _) => measured(summaries.get(at).copied().flatten()),
        Cell::Differences(values, _) => json!(values.get(at).copied().flatten()),
        Cell::Text(text) => text.parse::<f64>().map_or_else(|_| json!(text), |number| json!(number)),
        other => other.raw().parse::<f64>().map_or(Value::Null, |number| json!(number)),
    };
    let row = |cells: &Vec<Cell>| {
        let of = |(column, cell): (&Column, &Cell)| -> Vec<(String, Value)> {
            let names = column.names().iter().enumerate();
            // The paper's differences of two metrics have one name, as its figures have.
            let joined = column.parts.is_empty() && matches!(cell, Cell::Differences(..));
            names.map(|(at, name)| (name.clone(), if joined { json!(cell.raw()) } else { value(cell, at) })).collect()
        };
        Value::Object(table.columns.iter().zip(cells).flat_map(of).collect())
    };
    table.rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_profile_and_table() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("results");
        std::fs::create_dir_all(results.join("mini/table2")).unwrap();
        std::fs::create_dir_all(results.join("custom/mine/V-s1")).unwrap();
        let selected = |path: &Path| select(path, &results).ok()?.map(|s| (s.profile, s.table));
        let table2 = Some(("mini".to_string(), Some("table2".to_string())));
        assert_eq!(selected(&results.join("mini/table2")), table2);
        assert_eq!(selected(&results.join("mini")), Some(("mini".into(), None)));
        assert_eq!(selected(Path::new("experiments/mini/table2")), table2);
        assert_eq!(selected(&results.join("custom/mine")), Some(("custom".into(), None)));
        assert!(select(&results, &results).is_ok_and(|all| all.is_none()));
        assert!(select(Path::new("experiments"), &results).is_ok_and(|all| all.is_none()));
        assert!(select(Path::new("experiments/mini/table9"), &results).is_err());
    }
}
