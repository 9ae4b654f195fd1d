//! What `run` does to results that are there: committed rows, rows of other settings, faulty files, and runs that other
//! processes train.

mod common;

use common::workplace::{text, toy, Workplace};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Rows of the column's CSV by mix and seed: column names and cells.
fn rows(place: &Workplace) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(place.path("results/custom/toy.csv")).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
    let row = |record: csv::StringRecord| {
        let row: BTreeMap<_, _> = header.iter().cloned().zip(record.iter().map(str::to_string)).collect();
        (format!("{}-s{}", row["mix"], row["seed"]), row)
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

/// As a clone of a repository that has committed the CSV and the logs alone.
fn clone(place: &Workplace) {
    for entry in std::fs::read_dir(place.path("results/custom/toy")).unwrap() {
        let folder = entry.unwrap().path();
        for name in ["metrics.json", "config.toml", "tokenizer.json", ".lock"] {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
        std::fs::remove_dir_all(folder.join("checkpoint")).unwrap();
    }
}

#[test]
fn a_mix_more_in_a_clean_clone_keeps_the_committed_rows() {
    let place = Workplace::new(r#"["V", "R"]"#, 4);
    let first = place.said(&["run", "toy.toml"], 0);
    assert!(first.contains("results/custom/toy.csv: 2 rows written, 0 kept"), "{first}");
    let committed = rows(&place);
    for row in committed.values() {
        assert_eq!(row["status"], "current");
        assert_eq!(row["libtorch"], "2.11.0");
        assert!(["clean", "modified", "unknown"].contains(&row["git_state"].as_str()), "{row:?}");
        assert!(!row["cpu"].is_empty() && !row["git_commit"].is_empty());
        assert!(row["finished"].starts_with("20") && row["finished"].ends_with('Z'), "{row:?}");
    }
    clone(&place);
    place.write(&toy(r#"["V", "R", "FR(k=16)+V"]"#, 4));
    let more = place.said(&["run", "toy.toml", "--mix", "FR(k=16)+V"], 0);
    assert!(more.contains("results/custom/toy.csv: 1 row written, 2 kept"), "{more}");
    let now = rows(&place);
    assert_eq!(now.len(), 3);
    for (name, row) in &committed {
        assert_eq!(&now[name], row, "{name}");
    }
    // a run whose folder holds nothing is not done, though its row is there; it replaces its own row alone
    let again = place.said(&["run", "toy.toml", "--only", "V-s1"], 0);
    assert!(again.contains("1 to train") && again.contains("1 row written, 2 kept"), "{again}");
    assert_eq!(rows(&place)["R-s1"], committed["R-s1"]);
    assert!(rows(&place)["V-s1"]["finished"] >= committed["V-s1"]["finished"]);
}

#[test]
fn rows_of_other_settings_stay_and_are_marked() {
    let place = Workplace::new(r#"["V", "R"]"#, 4);
    place.said(&["run", "toy.toml"], 0);
    let before = rows(&place);
    place.write(&toy(r#"["V", "D"]"#, 6));
    place.said(&["run", "toy.toml", "--mix", "D"], 0);
    let after = rows(&place);
    let status = |name: &str| after[name]["status"].as_str();
    assert_eq!((status("V-s1"), status("R-s1"), status("D-s1")), ("other settings", "other settings", "current"));
    for name in ["V-s1", "R-s1"] {
        let mut unmarked = after[name].clone();
        unmarked.insert("status".into(), "current".into());
        assert_eq!(unmarked, before[name], "{name}");
    }
    let report = place.said(&["report", "--published", "nowhere"], 0);
    assert!(report.contains("Toy, V, seed 1; R, seed 1: trained with other settings"), "{report}");
}

#[test]
fn a_file_of_something_else_is_never_overwritten() {
    let place = Workplace::new(r#"["V"]"#, 4);
    std::fs::create_dir_all(place.path("results/custom")).unwrap();
    let csv = place.path("results/custom/toy.csv");
    for foreign in ["name,age\nAnn,3\n", "\0\0\0", "mix,variant,seed,config_hash\nV,,1,\"a\n"] {
        std::fs::write(&csv, foreign).unwrap();
        for jobs in ["1", "2"] {
            let said = place.said(&["run", "toy.toml", "--jobs", jobs], 2);
            assert!(said.contains("toy.csv:") && said.contains("move it away"), "{said}");
        }
        assert_eq!(std::fs::read_to_string(&csv).unwrap(), foreign);
        assert!(!place.path("results/custom/toy").exists(), "refused before training");
    }
}

#[test]
fn metrics_that_are_not_a_result_are_told_and_the_run_is_scored_again() {
    let place = Workplace::new(r#"["V", "R"]"#, 4);
    place.said(&["run", "toy.toml"], 0);
    let metrics = place.path("results/custom/toy/V-s1/metrics.json");
    let good = std::fs::read_to_string(&metrics).unwrap();
    let before = rows(&place);
    let hash = before["V-s1"]["config_hash"].clone();
    let cases = ["{}".to_string(), good[..good.len() / 2].to_string(), good.replace(&hash, "0123456789abcdef")];
    for (at, bad) in cases.iter().enumerate() {
        std::fs::write(&metrics, bad).unwrap();
        let plan = place.said(&["run", "toy.toml", "--dry-run"], 0);
        assert!(plan.contains("V-s1/metrics.json: ") && plan.contains("scored again from its checkpoint"), "{plan}");
        let jobs = if at == 0 { "2" } else { "1" };
        let said = place.said(&["run", "toy.toml", "--jobs", jobs], 0);
        assert!(said.contains("1 to train") && said.contains("resumes after step 4"), "{said}");
        assert!(std::fs::read_to_string(&metrics).unwrap().contains(&hash));
        let now = rows(&place);
        assert_eq!(now["R-s1"], before["R-s1"]);
        assert_eq!(now["V-s1"]["test.bleu"], before["V-s1"]["test.bleu"]);
    }
    std::fs::remove_file(&metrics).unwrap();
    std::fs::create_dir(&metrics).unwrap();
    let said = place.said(&["run", "toy.toml"], 2);
    assert!(said.contains("V-s1/metrics.json: is a folder") && said.contains("remove it"), "{said}");
}

#[test]
fn runs_that_another_process_trains_are_left_to_it() {
    let place = Workplace::new(r#"["V", "R", "D"]"#, 4);
    std::fs::create_dir_all(place.path("results/custom/toy/R-s1")).unwrap();
    let lock = std::fs::File::create(place.path("results/custom/toy/R-s1/.lock")).unwrap();
    lock.lock().unwrap();
    let said = place.said(&["run", "toy.toml", "--only", "V-s1"], 0);
    assert!(!said.contains("another process"), "{said}");
    for arguments in [&["run", "toy.toml"][..], &["run", "toy.toml", "--jobs", "2"]] {
        let said = place.said(arguments, 0);
        assert!(said.contains("1 run is being trained by another process, which writes its row: R-s1"), "{said}");
        assert_eq!(rows(&place).keys().collect::<Vec<_>>(), ["D-s1", "V-s1"]);
        std::fs::remove_file(place.path("results/custom/toy/D-s1/metrics.json")).unwrap();
    }
    drop(lock);
    let said = place.said(&["run", "toy.toml", "--jobs", "2"], 0);
    assert!(!said.contains("another process"), "{said}");
    assert_eq!(rows(&place).len(), 3);
}

#[test]
fn two_processes_on_one_file_train_each_run_once() {
    let place = Workplace::new(r#"["V", "R", "D", "FR", "FD", "Rfix"]"#, 4);
    let start = || {
        let mut command = place.command(&["run", "toy.toml", "--jobs", "2"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let said = both.iter().map(text).collect::<String>();
    assert!(both.iter().all(|output| output.status.code() == Some(0)), "{said}");
    for name in ["V", "R", "D", "FR", "FD", "Rfix"] {
        assert_eq!(said.matches(&format!("\n{name}-s1: done in")).count(), 1, "{name}: {said}");
    }
    // whoever ended last has written all rows
    assert_eq!(rows(&place).len(), 6, "{said}");
}

#[test]
fn what_killed_processes_left_is_deleted_and_what_living_ones_write_stays() {
    let place = Workplace::new(r#"["V"]"#, 4);
    place.said(&["run", "toy.toml"], 0);
    place.said(&["report", "--published", "nowhere"], 0);
    let dead = [
        "results/custom/toy.csv.4000000-0.tmp",
        "results/custom/toy/V-s1/log.csv.4000000-0.tmp",
        "results/custom/toy/V-s1/checkpoint/last.safetensors.4000000-3.tmp",
        "cache/tokens/abc.tokens.4000000-0.tmp",
        "cache/text/abc.4000000-0.tmp",
        "cache/corpora/abc.whl.4000000-0.tmp",
        "plots/custom/index.html.4000000-0.tmp",
        "plots/custom/custom/toy-quality.svg.4000000-0.tmp",
    ];
    let living = ["results/custom/toy.csv.4000001-0.tmp", "cache/tokens/abc.tokens.4000001-0.tmp"];
    let make = |name: &str| {
        let path = place.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::File::create(path).unwrap()
    };
    dead.iter().for_each(|name| drop(make(name)));
    let held = living.map(make);
    held.iter().for_each(|file| file.lock().unwrap());
    // nothing is left to train
    place.said(&["run", "toy.toml"], 0);
    place.said(&["report", "--published", "nowhere"], 0);
    for name in dead {
        assert!(!place.path(name).exists(), "{name}");
    }
    for name in living {
        assert!(place.path(name).exists(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_killed_process_leaves_nothing_behind_for_long() {
    let place = Workplace::new(r#"["V"]"#, 100_000);
    let mut child = place.command(&["run", "toy.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !place.path("results/custom/toy/V-s1/checkpoint/last.safetensors").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "no checkpoint was written");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.said(&["run", "toy.toml", "--stop-after", "1"], 130);
    let folder = place.path("results/custom/toy/V-s1/checkpoint");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.ends_with(".tmp")));
}

#[test]
fn the_version_names_commit_and_libtorch() {
    let place = Workplace::new(r#"["V"]"#, 4);
    for option in ["--version", "-V"] {
        let said = place.said(&[option], 0);
        assert!(said.starts_with(&format!("synthesizer {} (commit ", env!("CARGO_PKG_VERSION"))), "{said}");
        assert!(said.trim_end().ends_with("LibTorch 2.11.0"), "{said}");
    }
}
