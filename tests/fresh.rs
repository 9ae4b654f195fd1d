//! `run --fresh`, and output that nobody reads.

#[path = "common/toys.rs"]
mod toys;
#[path = "common/workplace.rs"]
mod workplace;

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use toys::toys;
use workplace::{toy, Workplace};

const MIXES: &str = r#"["V", "FR"]"#;

fn mixes(csv: &Path) -> Vec<String> {
    let mut reader = csv::Reader::from_path(csv).unwrap();
    reader.records().map(|record| record.unwrap()[2].to_string()).collect()
}

#[test]
fn fresh_keeps_the_rows_of_thrown_away_runs_until_there_are_new_ones() {
    let place = Workplace::new(MIXES, 4);
    let csv = place.path("results/custom/toy.csv");
    place.said(&["run", "toy.toml"], 0);
    let before = std::fs::read_to_string(&csv).unwrap();
    place.said(&["run", "toy.toml", "--fresh", "--only", "FR", "--stop-after", "1"], 130);
    assert_eq!(std::fs::read_to_string(&csv).unwrap(), before);
    assert!(place.path("results/custom/toy/V-s1/metrics.json").exists());
    assert!(!place.path("results/custom/toy/FR-s1/metrics.json").exists());
    let said = place.said(&["run", "toy.toml"], 0);
    assert!(said.contains("1 to train"), "{said}");
    assert!(said.contains("toy.csv: 1 row written, 1 kept"), "{said}");
    assert_eq!(mixes(&csv), ["V", "FR"]);
}

#[test]
fn fresh_deletes_nothing_when_something_would_stop_the_runs() {
    let place = Workplace::new(MIXES, 4);
    let toml = std::fs::read_to_string(place.path("toy.toml")).unwrap();
    let pairs = "a b\tb a\n".repeat(40);
    std::fs::write(place.path("pairs.source"), pairs.replace("\tb a", "")).unwrap();
    std::fs::write(place.path("pairs.target"), pairs.replace("a b\t", "")).unwrap();
    std::fs::write(place.path("test.source"), "c d\n").unwrap();
    std::fs::write(place.path("test.target"), "d c\n").unwrap();
    let files = |name: &str| format!("[\"{name}.source\", \"{name}.target\"]");
    let (train, test) = (files("pairs"), files("test"));
    let corpus =
        format!("corpus = \"text\"\nsource = \"en\"\ntarget = \"de\"\ntrain = {train}\ndev = {train}\ntest = {test}");
    place.write(&toml.replace("corpus = \"reverse\"", &corpus));
    place.said(&["run", "toy.toml"], 0);
    let results = place.path("results");
    let before = contents(&results);
    assert!(before.iter().any(|(path, _)| path.ends_with("V-s1/metrics.json")));
    let csv = results.join("custom/toy.csv");
    let good = std::fs::read(&csv).unwrap();
    let refused = |what: &str, arguments: &[&str]| {
        let said = place.said(&[&["run", "toy.toml", "--fresh"], arguments].concat(), 2);
        assert!(said.contains(what), "{what} is not in: {said}");
    };
    for broken in ["name,age\nAnn,3\n", "", "mix,variant,seed,config_hash\nV,,1\n"] {
        std::fs::write(&csv, broken).unwrap();
        refused("toy.csv:", &[]);
        refused("toy.csv:", &["--jobs", "2"]);
        assert_eq!(std::fs::read_to_string(&csv).unwrap(), broken, "not overwritten");
    }
    std::fs::remove_file(&csv).unwrap();
    std::fs::create_dir(&csv).unwrap();
    refused("toy.csv: is a folder", &[]);
    std::fs::remove_dir(&csv).unwrap();
    std::fs::write(&csv, &good).unwrap();

    let text = std::fs::read(place.path("pairs.target")).unwrap();
    std::fs::write(place.path("pairs.target"), "one line\n").unwrap();
    refused("pairs.target", &[]);
    std::fs::write(place.path("pairs.target"), text).unwrap();
    if tch::Cuda::device_count() == 0 {
        refused("--device cuda", &["--device", "cuda"]);
    }
    let lock = std::fs::File::create(results.join("custom/toy/FR-s1/.lock")).unwrap();
    lock.lock().unwrap();
    refused("FR-s1: another process trains this run", &[]);
    drop(lock);
    assert!(contents(&results) == before, "everything is as it was");
    let said = place.said(&["run", "toy.toml", "--fresh"], 0);
    assert!(said.contains("2 to train") && said.contains("toy.csv: 2 rows written, 0 kept"), "{said}");
}

/// Every file under a folder.
fn contents(folder: &Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(contents(&entry));
        } else {
            found.insert(entry.clone(), std::fs::read(&entry).unwrap());
        }
    }
    found
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
    let is_done = |name: &str| place.path(&format!("results/custom/toy/{name}/metrics.json")).exists();
    assert!(!is_done("V-s1") && is_done("R+V-s1"));
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

#[test]
fn fresh_trains_runs_of_every_task_again() {
    for toy in toys(4) {
        let place = Workplace::new(MIXES, 4);
        toy.put(&place);
        let file = format!("{}.toml", toy.name);
        place.said(&["run", &file, "--only", "V", "--stop-after", "2"], 130);
        let said = place.said(&["run", &file, "--only", "V", "--fresh", "--stop-after", "1"], 130);
        assert!(said.contains("saved after step 1"), "{}: {said}", toy.name);
    }
}
