//! `synthesizer validate`.

use crate::experiment::{self, Experiment, Plan, Problem, Problems};
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
    /// Print plans and problems as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan of each good file; all problems of all files are the error.
pub fn run(args: Args) -> anyhow::Result<()> {
    let (plans, mut problems) = match experiment::files(&args.paths) {
        Ok(files) => experiment::examine(&files, &args.results),
        Err(found) => (Vec::new(), found.0),
    };
    problems.extend(plans.iter().flat_map(|(experiment, _)| experiment.missing_files()));
    let mut out = std::io::stdout().lock();
    if args.json {
        let files: Vec<Value> = plans.iter().map(plan_json).collect();
        let problems: Vec<Value> = problems.iter().map(problem_json).collect();
        writeln!(out, "{:#}", json!({ "files": files, "problems": problems }))?;
    } else {
        for (experiment, plan) in &plans {
            write!(out, "{}", plan_text(experiment, plan))?;
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems).into())
    }
}

fn plan_text(experiment: &Experiment, plan: &Plan) -> String {
    let mut text = format!("{}: {}, {}\n", experiment.source.path.display(), plan.title, runs(plan.runs.len()));
    let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    text.push_str(&format!("  {}\n  results: {}\n", names.join("  "), plan.results_csv.display()));
    text
}

fn runs(count: usize) -> String {
    match count {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    }
}

fn plan_json((experiment, plan): &(Experiment, Plan)) -> Value {
    let runs = plan.runs.iter().map(|run| {
        json!({ "name": run.name, "mix": run.run.mix, "variant": run.run.variant, "seed": run.run.seed,
                "folder": run.folder, "config_hash": run.hash })
    });
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
