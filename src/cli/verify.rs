//! `synthesizer verify`.

use crate::error::Outcome;
use crate::verify::{verify, Options, Part, Problem, Verified};
use anyhow::Result;
use serde_json::{json, Map, Value};
use std::path::PathBuf;

/// Options of `verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// All results, a profile such as results/mini, or one table such as results/mini/table2
    #[arg(default_value = "results", value_name = "RESULTS_DIR")]
    results: PathBuf,
    /// Folder of the paper's figures
    #[arg(long, value_name = "DIR", default_value = "experiments/published")]
    published: PathBuf,
    /// Fail also where something was not recorded, as in rows of older versions
    #[arg(long)]
    strict: bool,
    /// Print counts and problems as JSON
    #[arg(long)]
    json: bool,
}

/// Verifies and prints; what disagrees is an error with exit code 1.
pub fn run(args: Args) -> Result<()> {
    let verified = verify(&Options { results: args.results, published: args.published })?;
    let (problems, not_recorded) = (verified.problems().count(), verified.not_recorded());
    if args.json {
        println!("{:#}", as_json(&verified));
    } else {
        for part in &verified.parts {
            println!("{}", line(part));
        }
        for part in verified.parts.iter().filter(|part| !part.not_recorded.is_empty()) {
            println!("not recorded: {}: {}", part.path.display(), part.not_recorded.join("; "));
        }
        for problem in verified.problems() {
            println!("problem: {problem}");
        }
        let rows = verified.rows();
        println!("{rows} rows; {problems} problems; {not_recorded} checks could not be made, for want of a record");
    }
    match (problems, args.strict && not_recorded > 0) {
        (0, false) => Ok(()),
        (0, true) => Err(Outcome::Failed(format!("{not_recorded} checks could not be made (--strict)")).into()),
        (count, _) => Err(Outcome::Failed(format!("the results disagree in {count} places, listed above")).into()),
    }
}

/// `results/mini/table2/ende.csv: 10 rows; config hash 10 ok; …`
fn line(part: &Part) -> String {
    let mut text = format!("{}: ", part.path.display());
    if part.rows > 0 {
        text.push_str(&format!("{} rows; ", part.rows));
    }
    let mut counts = Vec::new();
    for (check, tally) in &part.tallies {
        let named = [(tally.ok, "ok"), (tally.failed, "wrong"), (tally.not_recorded, "not recorded")];
        let shown = named.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        counts.push(format!("{} {}", check.name(), shown.collect::<Vec<_>>().join(", ")));
    }
    text + &counts.join("; ")
}

fn as_json(verified: &Verified) -> Value {
    let part = |part: &Part| {
        let checks: Map<String, Value> = part
            .tallies
            .iter()
            .map(|(check, tally)| {
                let counts = json!({ "ok": tally.ok, "wrong": tally.failed, "not_recorded": tally.not_recorded });
                (check.name().to_string(), counts)
            })
            .collect();
        json!({ "path": part.path, "rows": part.rows, "checks": checks, "not_recorded": part.not_recorded })
    };
    let problem = |problem: &Problem| json!({ "check": problem.check.name(), "file": problem.file, "row": problem.row, "message": problem.message });
    json!({
        "parts": verified.parts.iter().map(part).collect::<Vec<_>>(),
        "problems": verified.problems().map(problem).collect::<Vec<_>>(),
    })
}
