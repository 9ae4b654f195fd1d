//! `synthesizer report` on made-up results (tests/fixtures/report/make.py): three seeds, a missing row, an unfinished run, a diverged one.

mod bench;
mod figures;
mod tables;
mod tasks;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use synthesizer::report::figure::{figures, Figure};
use synthesizer::report::published::Published;
use synthesizer::report::results;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report")
}

fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/published")
}

/// A copy of the made-up results that a test may change.
struct Work(tempfile::TempDir);

impl Work {
    /// Tables 1 and 2.
    fn new() -> Work {
        Work::of(&["table1", "table2"])
    }

    fn of(tables: &[&str]) -> Work {
        let work = Work(tempfile::tempdir().unwrap());
        for table in tables {
            let path = format!("results/mini/{table}");
            copy(&fixtures().join(&path), &work.path(&path));
        }
        work
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn report(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synthesizer"));
        command.current_dir(self.0.path()).arg("report").arg("--published").arg(published());
        command.args(arguments).output().unwrap()
    }

    /// Standard output of a report that must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.report(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The message of a report that must fail as the user's fault.
    fn error(&self, arguments: &[&str]) -> String {
        let output = self.report(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            std::fs::copy(&entry, &target).unwrap();
        }
    }
}

/// Rows of a CSV by the text of their first cell, each by column.
fn sheet(text: &str) -> Vec<(String, HashMap<String, String>)> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let row = |record: csv::StringRecord| {
        let cells = header.iter().map(str::to_string).zip(record.iter().map(str::to_string)).collect();
        (record[0].to_string(), cells)
    };
    reader.records().map(|r| row(r.unwrap())).collect()
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn made_figures(table: &str) -> Vec<Figure> {
    let results = results::read(&fixtures().join("results/mini").join(table), "mini").unwrap();
    figures(&results, &Published::read(&published(), table).unwrap())
}
