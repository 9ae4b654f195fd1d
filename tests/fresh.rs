//! `run --fresh`, and output that nobody reads.

mod common;

use common::workplace::{toy, Workplace};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

const MIXES: &str = r#"["V", "FR"]"#;

fn mixes(csv: &Path) -> Vec<String> {
    let mut reader = csv::Reader::from_path(csv).unwrap();
    reader.records().map(|record| record.unwrap()[2].to_string()).collect()
}

#[test]
fn fresh_takes_the_rows_of_thrown_away_runs_out_and_no_others() {
    let place = Workplace::new(MIXES, 4);
    let csv = place.path("results/custom/toy.csv");
    place.said(&["run", "toy.toml"], 0);
    assert_eq!(mixes(&csv), ["V", "FR"]);
    place.said(&["run", "toy.toml", "--fresh", "--only", "FR", "--stop-after", "1"], 130);
    assert_eq!(mixes(&csv), ["V"]);
    assert!(place.path("results/custom/toy/V-s1/metrics.json").exists());
    place.said(&["run", "toy.toml"], 0);
    assert_eq!(mixes(&csv), ["V", "FR"]);
    place.said(&["run", "toy.toml", "--fresh", "--stop-after", "1"], 130);
    assert!(!csv.exists(), "no run is finished any more");
}

#[test]
fn a_fresh_plan_shows_what_would_be_done_and_touches_nothing() {
    let place = Workplace::new(MIXES, 4);
    place.said(&["run", "toy.toml", "--only", "V"], 0);
    place.write(&toy(MIXES, 5));
    let refused = place.said(&["run", "toy.toml"], 2);
    assert!(refused.contains("there: steps = 4; here: steps = 5"), "{refused}");
    assert!(refused.contains("--fresh --only V-s1"), "{refused}");
    let plan = place.said(&["run", "toy.toml", "--fresh", "--dry-run"], 0);
    assert!(plan.contains("V-s1") && !plan.contains("done"), "{plan}");
    assert!(place.path("results/custom/toy/V-s1/metrics.json").exists());
}

#[test]
fn fresh_leaves_a_run_alone_that_another_process_trains() {
    let place = Workplace::new(MIXES, 4);
    place.said(&["run", "toy.toml", "--only", "V", "--stop-after", "2"], 130);
    let log = place.path("results/custom/toy/V-s1/log.csv");
    let before = std::fs::read(&log).unwrap();
    let lock = std::fs::File::create(place.path("results/custom/toy/V-s1/.lock")).unwrap();
    lock.lock().unwrap();
    let refused = place.said(&["run", "toy.toml", "--fresh"], 2);
    assert!(refused.contains("V-s1: another process trains this run"), "{refused}");
    assert_eq!(std::fs::read(&log).unwrap(), before);
}

#[test]
fn training_goes_on_when_nobody_reads_its_output() {
    let place = Workplace::new(MIXES, 4);
    let mut child = place.command(&["run", "toy.toml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    // both ends are closed here: the plan's first letter was all that anybody wanted to see
    drop(child.stderr.take());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(mixes(&place.path("results/custom/toy.csv")), ["V", "FR"]);
}

#[test]
fn runs_are_chosen_by_their_mix() {
    let place = Workplace::new(r#"["V", "FR", "R + V"]"#, 4);
    place.said(&["run", "toy.toml", "--mix", "V", "--mix", "R+V"], 0);
    assert_eq!(mixes(&place.path("results/custom/toy.csv")), ["V", "R+V"]);
    // a whole name is that run's alone, though others' names contain it
    place.said(&["run", "toy.toml", "--fresh", "--only", "V-s1", "--stop-after", "1"], 130);
    assert_eq!(mixes(&place.path("results/custom/toy.csv")), ["R+V"]);
    let said = place.said(&["run", "toy.toml", "--mix", "D"], 2);
    assert!(said.contains("no run has one of these mixes; there are V, FR, R+V"), "{said}");
    let said = place.said(&["run", "toy.toml", "--mix", "V", "--only", "FR"], 2);
    assert!(said.contains("no run of these mixes has a name that contains \"FR\""), "{said}");
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let place = Workplace::new(MIXES, 4);
    place.write(&toy(MIXES, 4).replace("heads = 2", "heads = 3"));
    let mut child =
        place.command(&["validate", "toy.toml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
