//! `synthesizer verify`: results that agree, and every way in which they can disagree.

#[path = "common/toys.rs"]
mod toys;
#[path = "common/workplace.rs"]
mod workplace;

use serde_json::Value;
use sha2::Digest;
use std::path::Path;
use toys::toys;
use workplace::{text, toy, Workplace};

const RUN: &str = "results/custom/toy/V-s1";
const CSV: &str = "results/custom/toy.csv";

fn finished() -> Workplace {
    let place = Workplace::new(r#"["V", "FR"]"#, 4);
    place.said(&["run", "toy.toml"], 0);
    place.said(&["report"], 0);
    place
}

fn json(place: &Workplace, code: i32) -> Value {
    let output = place.run(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ok and wrong of a check, over all parts.
fn counts(found: &Value, check: &str) -> (u64, u64) {
    let of = |word: &str| {
        let parts = found["parts"].as_array().unwrap();
        parts.iter().filter_map(|part| part["checks"][check][word].as_u64()).sum()
    };
    (of("ok"), of("wrong"))
}

/// The scores of every task kind are computed again, all that stand in the CSV, and agree.
#[test]
fn results_of_every_task_kind_can_be_verified_without_checkpoints() {
    for toy in toys(4) {
        let place = Workplace::new(r#"["V"]"#, 4);
        toy.put(&place);
        let file = format!("{}.toml", toy.name);
        place.said(&["run", &file], 0);
        place.said(&["report"], 0);
        let folder = place.path(&format!("results/custom/{}", toy.name));
        for run in ["V-s1", "FR-s1"] {
            std::fs::remove_dir_all(folder.join(run).join("checkpoint")).unwrap();
            std::fs::remove_file(folder.join(run).join("tokenizer.json")).unwrap();
        }
        let found = json(&place, 0);
        let mut reader = csv::Reader::from_path(folder.with_extension("csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        // not of outputs: the loss on dev, its exponential, facts about the test set
        let facts = ["dev.loss", "dev.perplexity", "dev.word_perplexity", "dev.log_perplexity", "test.words"];
        let endings = ["scored_share", "seen_in_training", "word_perplexity.signature"];
        let is_fact = |name: &str| facts.contains(&name) || endings.iter().any(|ending| name.ends_with(ending));
        let scores = header
            .iter()
            .filter(|name| name.starts_with("test.") || name.starts_with("dev."))
            .filter(|name| !is_fact(name));
        assert_eq!(counts(&found, "scores"), (2 * scores.count() as u64, 0), "{}: {header:?} {found:#}", toy.name);
        assert_eq!(counts(&found, "config.toml"), (2, 0), "{}", toy.name);
        assert_eq!(counts(&found, "metrics.json"), (2, 0), "{}", toy.name);
        assert_eq!(counts(&found, "tables"), (3, 0), "{}", toy.name);
        assert!(counts(&found, "digests").0 >= 2 * 4, "{}: {found:#}", toy.name);
    }
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from:?} is not in {}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// The first record of the CSV with another value in a column; the change before and after.
fn change_cell(csv: &Path, column: &str, change: impl Fn(&str) -> String) {
    let mut reader = csv::Reader::from_path(csv).unwrap();
    let header = reader.headers().unwrap().clone();
    let at = header.iter().position(|name| name == column).unwrap();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header).unwrap();
    for (number, record) in reader.records().map(Result::unwrap).enumerate() {
        let cell = |(place, cell): (usize, &str)| match (number, place == at) {
            (0, true) => change(cell),
            _ => cell.to_string(),
        };
        writer.write_record(record.iter().enumerate().map(cell)).unwrap();
    }
    std::fs::write(csv, writer.into_inner().unwrap()).unwrap();
}

#[test]
fn every_disagreement_is_found_and_named() {
    let place = finished();
    let run = |name: &str| place.path(RUN).join(name);
    let flip_letter = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[0] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let last_digit = |cell: &str| {
        let (rest, digit) = cell.split_at(cell.len() - 1);
        format!("{rest}{}", (digit.parse::<u8>().unwrap() + 1) % 10)
    };
    type Change<'a> = Box<dyn Fn() + 'a>;
    let cases: Vec<(&str, &str, Change, Vec<&str>)> = vec![
        (
            "a letter of a reference",
            "test.references.txt",
            Box::new(|| flip_letter(&run("test.references.txt"))),
            vec!["row V-s1", "SHA-256"],
        ),
        (
            "a hypothesis",
            "test.hypotheses.txt",
            Box::new(|| std::fs::write(run("test.hypotheses.txt"), "1 2 3\n").unwrap()),
            vec!["row V-s1", "SHA-256", "1 hypotheses, but 200 references"],
        ),
        (
            "no references",
            "dev.references.txt",
            Box::new(|| std::fs::remove_file(run("dev.references.txt")).unwrap()),
            vec!["row V-s1", "missing"],
        ),
        ("an emptied log", "log.csv", Box::new(|| std::fs::write(run("log.csv"), "").unwrap()), vec!["SHA-256"]),
        (
            "other settings",
            "config.toml",
            Box::new(|| replace(&run("config.toml"), "warmup = 2", "warmup = 3")),
            vec!["row V-s1", "config_hash"],
        ),
        (
            "settings of another run",
            "config.toml",
            Box::new(|| drop(std::fs::copy(place.path("results/custom/toy/FR-s1/config.toml"), run("config.toml")))),
            vec!["row V-s1", "run FR-s1"],
        ),
        (
            "no settings of a run",
            "config.toml",
            Box::new(|| std::fs::write(run("config.toml"), "x = 1").unwrap()),
            vec!["row V-s1"],
        ),
        (
            "a record of another run",
            CSV,
            Box::new(|| drop(std::fs::copy(place.path("results/custom/toy/FR-s1/metrics.json"), run("metrics.json")))),
            vec!["row V-s1", "\"FR\"", "V-s1/metrics.json"],
        ),
        (
            "a cut record",
            "metrics.json",
            Box::new(|| std::fs::write(run("metrics.json"), "{").unwrap()),
            vec!["row V-s1"],
        ),
        (
            "the last digit of a loss",
            CSV,
            Box::new(|| change_cell(&place.path(CSV), "dev.loss", last_digit)),
            vec!["row V-s1", "dev.loss", "metrics.json"],
        ),
        (
            "a digit of a score",
            CSV,
            Box::new(|| change_cell(&place.path(CSV), "test.bleu", |_| "12.5".into())),
            vec!["row V-s1", "`test.bleu` is \"12.5\", but the saved outputs give", "custom.md", "custom.csv"],
        ),
        (
            "a hash that is none",
            CSV,
            Box::new(|| change_cell(&place.path(CSV), "data_hash", |hash| format!("x{}", &hash[1..]))),
            vec!["row V-s1", "`data_hash`"],
        ),
        (
            "a row twice",
            CSV,
            Box::new(|| {
                let text = std::fs::read_to_string(place.path(CSV)).unwrap();
                let row = text.lines().nth(1).unwrap();
                std::fs::write(place.path(CSV), format!("{text}{row}\n")).unwrap();
            }),
            vec!["row V-s1", "two rows"],
        ),
        (
            "a cut CSV",
            CSV,
            Box::new(|| {
                let text = std::fs::read_to_string(place.path(CSV)).unwrap();
                std::fs::write(place.path(CSV), &text[..text.len() - 30]).unwrap();
            }),
            vec![],
        ),
        (
            "a cell of a table",
            "custom.md",
            Box::new(|| replace(&place.path("results/custom/custom.md"), "9.95k", "9.94k")),
            vec!["line", "9.94k", "9.95k"],
        ),
        (
            "a table less",
            "custom.tex",
            Box::new(|| std::fs::remove_file(place.path("results/custom/custom.tex")).unwrap()),
            vec!["missing"],
        ),
    ];
    let names = ["custom.md", "custom.csv", "custom.tex", "toy.csv"];
    let mut files: Vec<_> = names.iter().map(|name| place.path(&format!("results/custom/{name}"))).collect();
    files.extend(std::fs::read_dir(run("")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    let saved: Vec<_> = files.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect();
    place.said(&["verify"], 0);
    for (what, file, change, parts) in cases {
        change();
        let said = place.said(&["verify"], 1);
        let problem = said.lines().find(|line| line.starts_with("problem: ") && line.contains(file));
        assert!(problem.is_some(), "{what}: no problem names {file}: {said}");
        for part in parts {
            assert!(said.contains(part), "{what}: no {part:?} in {said}");
        }
        let found = json(&place, 1);
        let named = |problem: &Value| problem["file"].as_str().unwrap().ends_with(file);
        assert!(found["problems"].as_array().unwrap().iter().any(named), "{what}: {found:#}");
        for (bytes, path) in &saved {
            std::fs::write(path, bytes).unwrap();
        }
    }
    place.said(&["verify"], 0);
}

/// Whoever changes an output and its digest is found by the score.
#[test]
fn scores_are_of_the_saved_outputs() {
    let place = finished();
    let run = place.path(RUN);
    let (references, hypotheses) = (run.join("test.references.txt"), run.join("test.hypotheses.txt"));
    let digest = |path: &Path| -> String {
        sha2::Sha256::digest(std::fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let before = digest(&hypotheses);
    std::fs::copy(&references, &hypotheses).unwrap();
    replace(&run.join("metrics.json"), &before, &digest(&hypotheses));
    let said = place.said(&["verify"], 1);
    assert!(said.contains("`test.bleu` is \"0.0\", but the saved outputs give \"100.00000000000004\""), "{said}");
    assert!(!said.contains("SHA-256"), "{said}");
}

#[test]
fn rows_of_older_versions_are_counted_and_fail_only_when_asked() {
    let place = finished();
    for run in ["V-s1", "FR-s1"] {
        std::fs::remove_dir_all(place.path(&format!("results/custom/toy/{run}"))).unwrap();
    }
    place.said(&["report"], 0);
    let said = place.said(&["verify", "results/custom"], 0);
    assert!(said.contains("2 rows; 0 problems"), "{said}");
    assert!(said.contains("config.toml 2 not recorded") && said.contains("metrics.json 2 not recorded"), "{said}");
    place.said(&["verify", "--strict"], 1);
    place.said(&["verify", "nowhere"], 2);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.said(&["verify", "empty"], 2);
    place.write(&toy(r#"["V"]"#, 4));
    place.said(&["verify", "toy.toml"], 2);
}

/// The results in this repository agree with each other.
#[test]
fn the_committed_results_agree() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_synthesizer"));
    let output = command.args(["verify", "results"]).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}
