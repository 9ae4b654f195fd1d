//! What a user is told when saved state is damaged, or when it is resumed under other circumstances.

mod common;

use common::workplace::{toy, Workplace};
use std::path::{Path, PathBuf};
use synthesizer::native::Instructions;
use synthesizer::train::checkpoint;

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn run_folder(place: &Workplace, name: &str) -> PathBuf {
    place.path(&format!("results/custom/toy/{name}"))
}

fn metrics(place: &Workplace, name: &str) -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_slice(&std::fs::read(run_folder(place, name).join("metrics.json")).unwrap()).unwrap()
}

/// Tensors of the tested weights.
fn weights(place: &Workplace, name: &str) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(checkpoint::final_file(&run_folder(place, name))).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<_> = file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect();
    tensors.sort();
    tensors
}

#[test]
fn a_run_of_two_at_a_time_keeps_its_threads_when_it_is_resumed_alone() {
    let mixes = r#"["V", "R"]"#;
    let (whole, parts) = (Workplace::new(mixes, 8), Workplace::new(mixes, 8));
    let both = ["run", "toy.toml", "--jobs", "2", "--threads", "2"];
    whole.said(&both, 0);
    parts.said(&[&both[..], &["--stop-after", "3"]].concat(), 130);
    let threads = |name| {
        let state = checkpoint::load_state(&checkpoint::last_file(&run_folder(&parts, name))).unwrap();
        state.numerics.unwrap().threads
    };
    assert_eq!([threads("V-s1"), threads("R-s1")], [1, 1]);
    // the same command when one run is left: --threads are those of both
    parts.said(&[&both[..], &["--only", "V-s1"]].concat(), 0);
    assert_eq!(metrics(&parts, "V-s1")["threads"], 1);
    // without the option: those of the run, not those of the machine
    let log = std::fs::read(run_folder(&parts, "R-s1").join("log.csv")).unwrap();
    let refused = parts.said(&["run", "toy.toml", "--threads", "2"], 2);
    for part in ["R-s1 was saved after step 3", "threads 1, now 2", "--resume-anyway", "--fresh", "Without --threads"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(std::fs::read(run_folder(&parts, "R-s1").join("log.csv")).unwrap(), log, "nothing was trained");
    parts.said(&["run", "toy.toml"], 0);
    assert_eq!(metrics(&parts, "R-s1")["threads"], 1);
    for name in ["V-s1", "R-s1"] {
        assert!(weights(&parts, name) == weights(&whole, name), "{name}");
        let notes = |place| metrics(place, name)["notes"].clone();
        assert_eq!((notes(&parts), notes(&whole)), ("".into(), "".into()), "nothing to remark");
    }
}

#[test]
fn other_circumstances_are_refused_unless_they_are_wanted_and_then_noted() {
    let place = Workplace::new(r#"["V"]"#, 8);
    let run = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = place.command(&[&["run", "toy.toml"], arguments].concat());
        if let Some((name, value)) = variable {
            command.env(name, value);
        }
        let output = command.output().unwrap();
        (output.status.code(), common::workplace::text(&output))
    };
    assert_eq!(run(&["--threads", "1", "--stop-after", "3"], None).0, Some(130));
    let mut variables = vec![("MKL_CBWR", "COMPATIBLE", "environment no such variable, now MKL_CBWR=COMPATIBLE")];
    if let [.., second, best] = Instructions::available()[..] {
        let differs = format!("instructions {}, now {}", best.name(), second.name());
        variables.push(("SYNTHESIZER_INSTRUCTIONS", second.name(), differs.leak()));
    }
    for (name, value, differs) in variables {
        for jobs in [&[][..], &["--jobs", "2"]] {
            let (code, said) = run(jobs, Some((name, value)));
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(differs) && said.contains("--resume-anyway"), "{said}");
        }
    }
    let (code, said) = run(&["--threads", "2", "--resume-anyway", "--stop-after", "2"], None);
    assert_eq!(code, Some(130), "{said}");
    // the note stays when the run is stopped and resumed once more
    let (code, said) = run(&[], None);
    assert_eq!(code, Some(0), "{said}");
    let row = metrics(&place, "V-s1");
    assert_eq!(row["threads"], 2);
    let note = "Resumed after step 3 under other circumstances (threads 1, now 2), so bits may differ from an \
                uninterrupted run.";
    assert_eq!(row["notes"], note);
    assert!(std::fs::read_to_string(place.path("results/custom/toy.csv")).unwrap().contains(note));
}

#[test]
fn damage_to_the_state_of_a_stopped_run_is_told_and_repaired() {
    let place = Workplace::new(r#"["V"]"#, 12);
    place.said(&["run", "toy.toml", "--stop-after", "6"], 130);
    let folder = run_folder(&place, "V-s1");
    let last = checkpoint::last_file(&folder);
    flip(&last, std::fs::metadata(&last).unwrap().len() as usize - 1);
    std::fs::write(folder.join("log.csv"), "step,loss\n").unwrap();
    std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    let said = place.said(&["run", "toy.toml"], 0);
    for part in [
        "last.safetensors: it is damaged (checksum ",
        "the previous checkpoint, of step 4, is used instead",
        "V-s1: resumes after step 4",
        "log.csv: line 1 was changed; restored from the checkpoint",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut log = csv::Reader::from_path(folder.join("log.csv")).unwrap();
    let steps: Vec<String> = log.records().map(|record| record.unwrap()[0].to_string()).collect();
    assert_eq!(steps, ["2", "4", "6", "8", "10", "12"]);
    place.said(&["generate", "results/custom/toy/V-s1"], 0);
}

#[test]
fn a_damaged_config_is_written_again_where_the_checkpoint_knows_the_settings() {
    let place = Workplace::new(r#"["V"]"#, 16);
    place.said(&["run", "toy.toml", "--stop-after", "3"], 130);
    let folder = run_folder(&place, "V-s1");
    let config = folder.join("config.toml");
    let whole = std::fs::read_to_string(&config).unwrap();
    let changed = whole.replace("steps = 16", "steps = 17");
    assert_ne!(whole, changed);
    for damage in ["", "task = ", "\0\0\0\0", &changed] {
        std::fs::write(&config, damage).unwrap();
        let said = place.said(&["run", "toy.toml", "--stop-after", "1"], 130);
        assert!(said.contains("config.toml: damaged or changed"), "{said}");
        assert_eq!(std::fs::read_to_string(&config).unwrap(), whole);
    }
    // other settings in the experiment are no damage
    place.write(&toy(r#"["V"]"#, 20));
    let said = place.said(&["run", "toy.toml"], 2);
    assert!(said.contains("holds a run of other settings") && said.contains("steps = 16"), "{said}");
    place.write(&toy(r#"["V"]"#, 16));
    // without a checkpoint that knows better, the file is named with the remedy
    let checkpoints = folder.join("checkpoint");
    std::fs::rename(&checkpoints, place.path("kept")).unwrap();
    std::fs::write(&config, "task = ").unwrap();
    let said = place.said(&["run", "toy.toml"], 2);
    assert!(said.contains("config.toml: not a resolved run. Remove this file") && said.contains("--fresh"), "{said}");
    std::fs::rename(place.path("kept"), &checkpoints).unwrap();
    std::fs::remove_file(&config).unwrap();
    let said = place.said(&["run", "toy.toml"], 0);
    assert!(said.contains("resumes after step 7"), "{said}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), whole);
}

#[test]
fn damaged_files_of_a_finished_run_are_named_and_made_again_without_training() {
    let place = Workplace::new(r#"["V"]"#, 4);
    place.said(&["run", "toy.toml"], 0);
    let folder = run_folder(&place, "V-s1");
    let generate = ["generate", "results/custom/toy/V-s1"];
    place.said(&generate, 0);
    for name in ["checkpoint/final.safetensors", "tokenizer.json", "config.toml"] {
        let path = folder.join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 6) {
            flip(&path, at);
            let said = place.said(&generate, 2);
            assert!(said.contains(name) && said.contains("metrics.json"), "{name}, byte {at}: {said}");
            std::fs::write(&path, &whole).unwrap();
        }
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let said = place.said(&generate, 2);
        assert!(said.contains(name), "{name}, cut: {said}");
        // the remedy that the message names
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(folder.join("metrics.json")).unwrap();
        let said = place.said(&["run", "toy.toml"], 0);
        assert!(said.contains("resumes after step 4"), "{said}");
        place.said(&generate, 0);
    }
}

#[test]
fn weights_of_another_run_are_named() {
    let place = Workplace::new(r#"["V"]"#, 4);
    place.write(&(String::from("seeds = [1, 2]\n") + &toy(r#"["V"]"#, 4)));
    place.said(&["run", "toy.toml"], 0);
    let [first, second] = ["V-s1", "V-s2"].map(|run| run_folder(&place, run).join("checkpoint/final.safetensors"));
    std::fs::copy(second, first).unwrap();
    let said = place.said(&["generate", "results/custom/toy/V-s1"], 2);
    assert!(
        said.contains("config.toml: damaged, or of another run than") && said.contains("final.safetensors"),
        "{said}"
    );
}

#[test]
fn labels_of_another_run_are_named() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let toml = toy(r#"["V"]"#, 4).replace("task = \"translation\"", "task = \"classification\"");
    let toml = toml.replace("decoder_layers = 1\n", "");
    let rows = |rows: std::ops::Range<u32>| -> String {
        rows.map(|row| format!("{},\"title {row}\",\"text of {row}\"\n", row % 4 + 1)).collect()
    };
    std::fs::write(place.path("train.csv"), rows(0..200)).unwrap();
    std::fs::write(place.path("test.csv"), rows(200..240)).unwrap();
    place.write(&toml.replace("corpus = \"reverse\"", "corpus = \"ag-news\"\nfolder = \".\""));
    place.said(&["run", "toy.toml"], 0);
    let labels = run_folder(&place, "V-s1").join("labels.json");
    let text = std::fs::read_to_string(&labels).unwrap();
    assert!(text.contains("Sports"), "{text}");
    std::fs::write(&labels, text.replace("Sports", "Sparta")).unwrap();
    let said = place.said(&["generate", "results/custom/toy/V-s1"], 2);
    assert!(said.contains("labels.json: damaged, or of another run"), "{said}");
}

#[test]
fn a_full_or_missing_events_file_stops_no_training() {
    let place = Workplace::new(r#"["V"]"#, 4);
    place.said(&["run", "toy.toml", "--stop-after", "1"], 130);
    let folder = run_folder(&place, "V-s1");
    for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("events.") {
            std::fs::write(entry.path(), "damaged").unwrap();
        }
    }
    place.said(&["run", "toy.toml"], 0);
}
