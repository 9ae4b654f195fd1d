//! `run --fresh`, and output that nobody reads.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TOY: &str = r#"title = "Toy"
task = "translation"
mix = ["V", "FR"]
[data]
corpus = "reverse"
vocabulary = 270
max_tokens = 24
[model]
d_model = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
d_ff = 32
max_length = 32
[train]
steps = 4
batch_tokens = 256
schedule = "linear"
learning_rate = 3e-3
warmup = 2
log_every = 2
evaluate_every = 4
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::write(place.path("toy.toml"), TOY).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synthesizer"));
        command.args(arguments).current_dir(self.0.path()).env("SYNTHESIZER_CACHE", self.path("cache"));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str], code: i32) -> String {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert_eq!(status.code(), Some(code), "{arguments:?}: {text}");
        text
    }
}

fn mixes(csv: &Path) -> Vec<String> {
    let mut reader = csv::Reader::from_path(csv).unwrap();
    reader.records().map(|record| record.unwrap()[2].to_string()).collect()
}

#[test]
fn fresh_takes_the_rows_of_thrown_away_runs_out_and_no_others() {
    let place = Place::new();
    let csv = place.path("results/custom/toy.csv");
    place.run(&["run", "toy.toml"], 0);
    assert_eq!(mixes(&csv), ["V", "FR"]);
    place.run(&["run", "toy.toml", "--fresh", "--only", "FR", "--stop-after", "1"], 130);
    assert_eq!(mixes(&csv), ["V"]);
    assert!(place.path("results/custom/toy/V-s1/metrics.json").exists());
    place.run(&["run", "toy.toml"], 0);
    assert_eq!(mixes(&csv), ["V", "FR"]);
    place.run(&["run", "toy.toml", "--fresh", "--stop-after", "1"], 130);
    assert!(!csv.exists(), "no run is finished any more");
}

#[test]
fn a_fresh_plan_shows_what_would_be_done_and_touches_nothing() {
    let place = Place::new();
    place.run(&["run", "toy.toml", "--only", "V"], 0);
    std::fs::write(place.path("toy.toml"), TOY.replace("steps = 4", "steps = 5")).unwrap();
    let refused = place.run(&["run", "toy.toml"], 2);
    assert!(refused.contains("there: steps = 4; here: steps = 5"), "{refused}");
    assert!(refused.contains("--fresh --only V-s1"), "{refused}");
    let plan = place.run(&["run", "toy.toml", "--fresh", "--dry-run"], 0);
    assert!(plan.contains("V-s1") && !plan.contains("done"), "{plan}");
    assert!(place.path("results/custom/toy/V-s1/metrics.json").exists());
}

#[test]
fn fresh_leaves_a_run_alone_that_another_process_trains() {
    let place = Place::new();
    place.run(&["run", "toy.toml", "--only", "V", "--stop-after", "2"], 130);
    let log = place.path("results/custom/toy/V-s1/log.csv");
    let before = std::fs::read(&log).unwrap();
    let lock = std::fs::File::create(place.path("results/custom/toy/V-s1/.lock")).unwrap();
    lock.lock().unwrap();
    let refused = place.run(&["run", "toy.toml", "--fresh"], 2);
    assert!(refused.contains("V-s1: another process trains this run"), "{refused}");
    assert_eq!(std::fs::read(&log).unwrap(), before);
}

#[test]
fn training_goes_on_when_nobody_reads_its_output() {
    let place = Place::new();
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
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let place = Place::new();
    std::fs::write(place.path("toy.toml"), TOY.replace("heads = 2", "heads = 3")).unwrap();
    let mut child =
        place.command(&["validate", "toy.toml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
