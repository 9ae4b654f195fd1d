//! `synthesizer validate` as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

fn validate(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synthesizer"));
    command.current_dir(folder).arg("validate").args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

const GOOD: &str = "task = \"translation\"\nmix = [\"V\", \"R+V\"]\nseeds = [1, 2]\n";

#[test]
fn a_good_file_prints_its_plan_and_exits_0() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("my.toml"), GOOD).expect("written");
    let output = validate(folder.path(), &["my.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "my.toml: my, 4 runs\n  V-s1  V-s2  R+V-s1  R+V-s2\n  results: results/custom/my.csv\n"
    );
    assert_eq!(text(&output.stderr), "");
    assert_eq!(folder.path().read_dir().expect("readable").count(), 1, "validate writes nothing");
}

/// All problems of all files in one go, each with its place, and exit code 2.
#[test]
fn a_folder_with_bad_files_tells_all_and_exits_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("experiments/mini/table2");
    std::fs::create_dir_all(&deep).expect("made");
    std::fs::write(deep.join("a.toml"), format!("{GOOD}[model]\nheads = 7\n[decode]\nbeam = 0\n")).expect("written");
    std::fs::write(deep.join("b.toml"), GOOD).expect("written");
    std::fs::write(deep.join("c.toml"), b"title = \"\xff\"\n").expect("written");
    std::fs::write(deep.join("notes.txt"), "not an experiment").expect("written");
    let output = validate(folder.path(), &["experiments"]);
    assert_eq!(output.status.code(), Some(2));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.starts_with("experiments/mini/table2/b.toml: b, 4 runs\n"), "{out}");
    assert!(err.starts_with("error: experiments/mini/table2/a.toml:5:9: `heads = 7` does not divide"), "{err}");
    assert!(err.contains("experiments/mini/table2/a.toml:7:8: `beam = 0` is below 1"), "{err}");
    assert!(err.contains("experiments/mini/table2/c.toml: line 1 is not UTF-8 text"), "{err}");
    assert!(err.trim_end().ends_with("3 problems"), "{err}");
    assert!(!err.contains("notes"), "{err}");
}

#[test]
fn files_that_are_not_there_are_problems() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = validate(folder.path(), &["none.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("error: none.toml: can't be read: No such file"), "{output:?}");
    std::fs::create_dir(folder.path().join("empty")).expect("made");
    let output = validate(folder.path(), &["empty"]);
    assert!(text(&output.stderr).starts_with("error: empty: no *.toml beneath this folder"), "{output:?}");

    let data =
        "[data]\ncorpus = \"text\"\nsource = \"en\"\ntarget = \"de\"\ntrain = [[\"a\", \"b\"], [\"c\", \"a\"]]\n\
                dev = [\"a\", \"a\"]\ntest = [\"a\", \"empty\"]\n";
    std::fs::write(folder.path().join("my.toml"), format!("{GOOD}{data}")).expect("written");
    std::fs::write(folder.path().join("a"), "one\n").expect("written");
    let output = validate(folder.path(), &["my.toml"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(err.contains("my.toml:8:16: b can't be read: No such file"), "{err}");
    assert!(err.contains("my.toml:8:23: c can't be read: No such file"), "{err}");
    assert!(err.contains("my.toml:10:14: empty can't be read: it is a folder"), "{err}");
    assert!(err.trim_end().ends_with("3 problems"), "{err}");
}

/// Two files that would overwrite each other's results.
#[test]
fn two_files_of_one_name_are_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["x", "y"] {
        std::fs::create_dir(folder.path().join(name)).expect("made");
        std::fs::write(folder.path().join(name).join("my.toml"), GOOD).expect("written");
    }
    let output = validate(folder.path(), &["x", "y/my.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let err = text(&output.stderr);
    assert!(err.contains("y/my.toml: its results would go where those of x/my.toml go"), "{err}");
    let output = validate(folder.path(), &["x", "x/my.toml"]);
    assert_eq!(output.status.code(), Some(0), "the same file named twice is one file");
}

#[test]
fn json_has_plans_and_problems() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.toml"), GOOD).expect("written");
    std::fs::write(folder.path().join("b.toml"), format!("{GOOD}seed = 1\n")).expect("written");
    let output = validate(folder.path(), &["--json", "--results", "elsewhere", "."]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let run = &json["files"][0]["runs"][3];
    assert_eq!(run["name"], "R+V-s2");
    assert_eq!(run["mix"], "R+V");
    assert_eq!(run["seed"], 2);
    assert_eq!(run["folder"], "elsewhere/custom/a/R+V-s2");
    assert_eq!(run["config_hash"].as_str().map(str::len), Some(16));
    let problem = &json["problems"][0];
    assert_eq!((problem["line"].as_u64(), problem["column"].as_u64()), (Some(4), Some(1)));
    assert_eq!(problem["message"], "unknown key `seed`");
    assert!(problem["help"].as_str().is_some_and(|help| help.starts_with("did you mean `seeds`?")), "{problem}");
}
