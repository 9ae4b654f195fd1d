//! `synthesizer run` and `generate` as a user types them.

mod common;

use common::workplace::{text, Workplace};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use synthesizer::train::checkpoint;

#[track_caller]
fn ends_with_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    assert!(!text(output).contains("should not happen"), "{}", text(output));
}

fn rows(csv: &Path) -> Vec<csv::StringRecord> {
    csv::Reader::from_path(csv).unwrap().records().map(Result::unwrap).collect()
}

#[test]
fn plans_trains_skips_and_reruns() {
    let place = Workplace::new(r#"["V", "R"]"#, 4);
    let first = place.run(&["run", "toy.toml"]);
    ends_with_code(&first, 0);
    let said = text(&first);
    assert!(
        said.contains("V-s1") && said.contains("R-s1") && said.contains("parameters") && said.contains("to do"),
        "{said}"
    );
    let csv = place.path("results/custom/toy.csv");
    let header = csv::Reader::from_path(&csv).unwrap().headers().unwrap().clone();
    for column in
        ["mix", "seed", "test.bleu", "test.bleu.signature", "config_hash", "data_hash", "command", "peak_memory_bytes"]
    {
        assert!(header.iter().any(|name| name == column), "{column} is not in {header:?}");
    }
    assert_eq!(rows(&csv).iter().map(|row| row[2].to_string()).collect::<Vec<_>>(), ["V", "R"]);
    let metrics = std::fs::read(place.path("results/custom/toy/R-s1/metrics.json")).unwrap();

    let second = place.run(&["run", "toy.toml"]);
    ends_with_code(&second, 0);
    assert!(text(&second).contains("0 to train"), "{}", text(&second));
    assert_eq!(
        std::fs::read(place.path("results/custom/toy/R-s1/metrics.json")).unwrap(),
        metrics,
        "nothing done twice"
    );

    // a row more is trained alone; the others stay
    let more = std::fs::read_to_string(place.path("toy.toml")).unwrap().replace(r#""R"]"#, r#""R", "D"]"#);
    place.write(&more);
    let third = place.run(&["run", "toy.toml"]);
    assert!(text(&third).contains("1 to train"), "{}", text(&third));
    assert_eq!(rows(&csv).len(), 3);

    // other settings do not overwrite; --fresh does
    place.write(&more.replace("steps = 4", "steps = 6"));
    let clash = place.run(&["run", "toy.toml"]);
    ends_with_code(&clash, 2);
    let said = text(&clash);
    assert!(said.contains("steps = 4") && said.contains("steps = 6") && said.contains("--fresh"), "{said}");
    assert_eq!(std::fs::read(place.path("results/custom/toy/R-s1/metrics.json")).unwrap(), metrics, "nothing lost");
    let fresh = place.run(&["run", "toy.toml", "--fresh", "--only", "R-s1"]);
    ends_with_code(&fresh, 0);
    assert!(std::fs::read_to_string(place.path("results/custom/toy/R-s1/config.toml")).unwrap().contains("steps = 6"));
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let output = place.run(&["run", "toy.toml", "--dry-run"]);
    ends_with_code(&output, 0);
    assert!(!place.path("results").exists());
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_the_same_command_goes_on() {
    let place = Workplace::new(r#"["D"]"#, 100_000);
    let child = place.command(&["run", "toy.toml"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let log = place.path("results/custom/toy/D-s1/log.csv");
    let started = Instant::now();
    // under way once the log has lines
    while std::fs::read_to_string(&log).map_or(0, |text| text.lines().count()) < 3 {
        assert!(started.elapsed() < Duration::from_secs(120), "no step was taken");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: a signal to a child of ours that has not been waited for
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    ends_with_code(&output, 130);
    assert!(text(&output).contains("saved after step"), "{}", text(&output));
    let plan = place.run(&["run", "toy.toml", "--dry-run"]);
    assert!(text(&plan).contains("resumes after step"), "{}", text(&plan));
    let again = place.run(&["run", "toy.toml", "--stop-after", "3"]);
    ends_with_code(&again, 130);
    assert!(text(&again).contains("resumes after step"), "{}", text(&again));
}

/// Starts the run, sends SIGINT once `under_way`, and returns how long the process took to end after that.
#[cfg(unix)]
fn interrupted(place: &Workplace, under_way: impl Fn() -> bool) -> (Output, Duration) {
    let said = std::fs::File::create(place.path("said")).unwrap();
    let mut child = place.command(&["run", "toy.toml"]).stderr(said).stdout(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !under_way() {
        let ended = child.try_wait().unwrap().is_some() || started.elapsed() > Duration::from_secs(120);
        assert!(!ended, "{}", std::fs::read_to_string(place.path("said")).unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: a signal to a child of ours that has not been waited for
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let asked = Instant::now();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = std::fs::read(place.path("said")).unwrap();
    (output, asked.elapsed())
}

/// Files of the cache's token folder whose names end so.
#[cfg(unix)]
fn token_files(place: &Workplace, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.path("cache/tokens")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

#[cfg(unix)]
#[test]
fn ctrl_c_while_tokenizing_ends_at_once_and_the_same_command_goes_on() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let toml = std::fs::read_to_string(place.path("toy.toml")).unwrap();
    let toml = toml.replace("task = \"translation\"", "task = \"language-modelling\"");
    let toml = toml.replace("encoder_layers = 1\n", "");
    let corpus = "corpus = \"text\"\ntrain = [\"train.txt\"]\ndev = [\"held.txt\"]\ntest = [\"held.txt\"]";
    place.write(&toml.replace("corpus = \"reverse\"", corpus));
    let line = |number: u32| format!("{} and {}\n", number.wrapping_mul(2_654_435_761), number.wrapping_mul(40_503));
    std::fs::write(place.path("held.txt"), "1 and 2\n").unwrap();
    std::fs::write(place.path("train.txt"), (0..120_000).map(line).collect::<String>()).unwrap();

    // merges are being learned
    let (output, took) = interrupted(&place, || place.path("cache/tokens").exists());
    ends_with_code(&output, 130);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(text(&output).contains("V-s1 was still reading its data"), "{}", text(&output));
    assert_eq!(std::fs::read_dir(place.path("cache/tokens")).unwrap().count(), 0);

    // the tokenizer is trained, and a token file begun
    let (output, took) = interrupted(&place, || {
        !token_files(&place, ".tmp").is_empty() && !token_files(&place, ".tokenizer").is_empty()
    });
    ends_with_code(&output, 130);
    assert!(took < Duration::from_secs(3), "{took:?}");
    let said = text(&output);
    assert!(said.contains("V-s1 was still reading its data"), "{said}");
    // the tokenizer is kept, nothing half-done is
    assert_eq!((token_files(&place, ".tokenizer").len(), token_files(&place, ".tmp").len()), (1, 0));
    assert_eq!(token_files(&place, ".tokens").len(), 0);

    std::fs::write(place.path("train.txt"), (0..2000).map(line).collect::<String>()).unwrap();
    ends_with_code(&place.run(&["run", "toy.toml"]), 0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_while_scoring_ends_at_once_and_the_same_command_scores() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let toml = std::fs::read_to_string(place.path("toy.toml")).unwrap();
    place.write(&(toml + "[decode]\nbatch = 1\n"));
    let scoring = || std::fs::read_to_string(place.path("said")).unwrap().contains("scoring");
    let (output, took) = interrupted(&place, scoring);
    ends_with_code(&output, 130);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(text(&output).contains("V-s1 is trained and saved; the same command"), "{}", text(&output));
    assert!(!place.path("results/custom/toy/V-s1/metrics.json").exists());
    let log = std::fs::read(place.path("results/custom/toy/V-s1/log.csv")).unwrap();

    let again = place.run(&["run", "toy.toml"]);
    ends_with_code(&again, 0);
    assert!(text(&again).contains("resumes after step 4"), "{}", text(&again));
    assert_eq!(std::fs::read(place.path("results/custom/toy/V-s1/log.csv")).unwrap(), log, "no step twice");
    assert!(place.path("results/custom/toy/V-s1/metrics.json").exists());
}

#[cfg(unix)]
#[test]
fn a_killed_run_goes_on_to_the_same_weights() {
    let (killed, whole) = (Workplace::new(r#"["R+V"]"#, 120), Workplace::new(r#"["R+V"]"#, 120));
    let last = killed.path("results/custom/toy/R+V-s1/checkpoint/last.safetensors");
    let saved = || if last.exists() { checkpoint::load_state(&last).unwrap().step } else { 0 };
    for round in 0..3 {
        let (before, started) = (saved(), Instant::now());
        let mut child =
            killed.command(&["run", "toy.toml"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        // this session's first checkpoint is there; a little later the next is under way
        while saved() == before {
            assert!(started.elapsed() < Duration::from_secs(120), "no checkpoint was written");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(7 * round));
        assert!(child.try_wait().unwrap().is_none(), "ended before it was killed");
        // SIGKILL: nothing can be saved
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!((12..120).contains(&saved()), "killed after step {}", saved());
    let again = killed.run(&["run", "toy.toml"]);
    ends_with_code(&again, 0);
    assert!(text(&again).contains("resumes after step"), "{}", text(&again));
    ends_with_code(&whole.run(&["run", "toy.toml"]), 0);
    let weights = |place: &Workplace| {
        let bytes = std::fs::read(place.path("results/custom/toy/R+V-s1/checkpoint/final.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec()));
        tensors.collect::<std::collections::BTreeMap<_, _>>()
    };
    assert!(weights(&killed) == weights(&whole), "weights differ");
}

#[cfg(unix)]
#[test]
fn side_by_side_runs_stop_together_and_go_on() {
    let place = Workplace::new(r#"["V", "R"]"#, 100_000);
    let child = place
        .command(&["run", "toy.toml", "--jobs", "2"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = |name: &str| {
        std::fs::read_to_string(place.path(&format!("results/custom/toy/{name}/log.csv")))
            .map_or(0, |text| text.lines().count())
    };
    let started = Instant::now();
    while lines("V-s1") < 3 || lines("R-s1") < 3 {
        assert!(started.elapsed() < Duration::from_secs(120), "no step was taken");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SIGTERM to the one process that the user knows of
    // SAFETY: a signal to a child of ours that has not been waited for
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    ends_with_code(&child.wait_with_output().unwrap(), 130);
    for name in ["V-s1", "R-s1"] {
        assert!(
            place.path(&format!("results/custom/toy/{name}/checkpoint/last.safetensors")).exists(),
            "{name} is saved"
        );
    }
    let text = std::fs::read_to_string(place.path("toy.toml")).unwrap().replace("steps = 100000", "steps = 4");
    place.write(&text);
    let fresh = place.run(&["run", "toy.toml", "--jobs", "2", "--fresh"]);
    ends_with_code(&fresh, 0);
    assert_eq!(
        rows(&place.path("results/custom/toy.csv")).iter().map(|row| row[2].to_string()).collect::<Vec<_>>(),
        ["V", "R"]
    );
}

#[test]
fn generate_translates_stdin() {
    let place = Workplace::new(r#"["R+V"]"#, 4);
    ends_with_code(&place.run(&["run", "toy.toml"]), 0);
    let folder = "results/custom/toy/R+V-s1";
    let mut child =
        place.command(&["generate", folder, "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("1 2 3\n\n4 5\n".as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    ends_with_code(&output, 0);
    let lines: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["input"].as_str().unwrap()).collect::<Vec<_>>(), ["1 2 3", "", "4 5"]);

    std::fs::remove_dir_all(place.path(folder).join("checkpoint")).unwrap();
    let without = place.run(&["generate", folder]);
    ends_with_code(&without, 2);
    assert!(text(&without).contains("final.safetensors"), "{}", text(&without));
}

#[test]
fn faults_of_the_user_end_with_2_and_name_the_place() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let good = std::fs::read_to_string(place.path("toy.toml")).unwrap();
    for (wrong, expected) in [
        (good.replace("steps = 4", "stepz = 4"), vec!["toy.toml:16", "stepz", "steps"]),
        (good.replace("steps = 4", "steps = \"four\""), vec!["toy.toml:16"]),
        (good.replace(r#"["V"]"#, r#"["V+"]"#), vec!["toy.toml:3", "V+"]),
        (good.replace("heads = 2", "heads = 5"), vec!["toy.toml", "heads", "16", "5"]),
        (good.replace("corpus = \"reverse\"", "corpus = \"text\"\nsource = \"en\"\ntarget = \"de\"\ntrain = [\"no.en\", \"no.de\"]\ndev = [\"no.en\", \"no.de\"]\ntest = [\"no.en\", \"no.de\"]"), vec!["no.en"]),
    ] {
        place.write(&wrong);
        let output = place.run(&["run", "toy.toml"]);
        ends_with_code(&output, 2);
        for part in expected {
            assert!(text(&output).contains(part), "{part:?} is not in:\n{}", text(&output));
        }
    }
    ends_with_code(&place.run(&["run", "nowhere.toml"]), 2);
    ends_with_code(&place.run(&["generate", "nowhere"]), 2);
    ends_with_code(&place.run(&["run"]), 2);
    if tch::Cuda::device_count() == 0 {
        place.write(&good);
        let output = place.run(&["run", "toy.toml", "--device", "cuda"]);
        ends_with_code(&output, 2);
        assert!(text(&output).contains("cuda"), "{}", text(&output));
    }
}
