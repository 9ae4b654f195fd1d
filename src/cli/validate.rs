//! `synthesizer validate`.

use super::preflight::{self, Checked, Facts};
use crate::experiment::{self, PlannedRun, Problem, Problems};
use crate::task::size::Size;
use crate::terminal::tell;
use crate::{interrupt, machine};
use serde_json::{json, Value};
use std::io::Write;
use std::path::PathBuf;

/// Options of `validate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiment files; a folder stands for all *.toml beneath it
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Where results would go
    #[arg(long, default_value = "results")]
    results: PathBuf,
    /// Print plans, problems and warnings as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan of each good file, and warnings; all problems of all files are the error.
pub fn run(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    let (plans, problems) = match experiment::files(&args.paths) {
        Ok(files) => preflight::check(&files, &args.results, machine::memory(), true)?,
        Err(found) => (Vec::new(), found.0),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let files: Vec<Value> = plans.iter().map(plan_json).collect();
        let problems: Vec<Value> = problems.iter().map(problem_json).collect();
        let warnings: Vec<Value> = plans.iter().flat_map(|checked| &checked.warnings).map(problem_json).collect();
        writeln!(out, "{:#}", json!({ "files": files, "problems": problems, "warnings": warnings }))?;
    } else {
        for checked in &plans {
            write!(out, "{}", plan_text(checked))?;
        }
        out.flush()?;
        for warning in plans.iter().flat_map(|checked| &checked.warnings) {
            tell(&format!("warning: {warning}"));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems).into())
    }
}

fn plan_text(checked: &Checked) -> String {
    let Checked { experiment, plan, facts, .. } = checked;
    let mut text = format!("{}: {}, {}\n", experiment.source.path.display(), plan.title, runs(plan.runs.len()));
    let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    text.push_str(&format!("  {}\n  results: {}\n", names.join("  "), plan.results_csv.display()));
    let mut unread: Vec<&str> = facts.iter().filter_map(|facts| facts.unread.as_deref()).collect();
    // a packaged corpus is known to be good
    unread.retain(|why| *why != preflight::NOT_FETCHED);
    unread.dedup();
    unread.iter().for_each(|why| text.push_str(&format!("  data not read: {why}\n")));
    text
}

fn runs(count: usize) -> String {
    match count {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    }
}

fn run_json((run, (size, facts)): (&PlannedRun, (&Size, &Facts))) -> Value {
    let data = json!({ "test_seen_in_training": facts.seen.map(|seen| seen.share()), "not_read": facts.unread });
    json!({
        "name": run.name, "mix": run.run.mix, "variant": run.run.variant, "seed": run.run.seed,
        "folder": run.folder, "config_hash": run.hash,
        "total_parameters": size.total, "trainable_parameters": size.trainable, "vocabulary": size.vocabulary,
        "vocabulary_is_exact": size.is_exact, "data": data,
    })
}

fn plan_json(checked: &Checked) -> Value {
    let Checked { experiment, plan, sizes, facts, .. } = checked;
    let runs = plan.runs.iter().zip(sizes.iter().zip(facts)).map(run_json);
    json!({
        "path": experiment.source.path, "title": plan.title, "profile": plan.profile, "table": plan.table,
        "column": plan.column, "results_csv": plan.results_csv, "runs": runs.collect::<Vec<_>>(),
    })
}

fn problem_json(problem: &Problem) -> Value {
    let place = problem.place.as_ref();
    json!({
        "path": problem.path, "line": place.map(|place| place.line), "column": place.map(|place| place.column),
        "excerpt": place.map(|place| &place.excerpt), "message": problem.text, "help": problem.help,
    })
}
