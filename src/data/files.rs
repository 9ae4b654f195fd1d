//! The files that `data.train`, `data.dev` and `data.test` name, patterns expanded; and zip archives.

use crate::experiment::config::DataConfig;
use crate::experiment::pattern;
use crate::input;
use anyhow::{bail, Context};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The file entries of the three splits; an entry is one file, or files that are parallel line by line.
#[derive(Debug, Clone, Copy)]
pub struct SplitFiles<'a> {
    /// `data.train`
    pub train: &'a [Vec<PathBuf>],
    /// `data.dev`
    pub dev: &'a [Vec<PathBuf>],
    /// `data.test`
    pub test: &'a [Vec<PathBuf>],
}

impl<'a> SplitFiles<'a> {
    /// Those of a `[data]` section.
    pub fn of(config: &'a DataConfig) -> SplitFiles<'a> {
        SplitFiles { train: &config.train, dev: &config.dev, test: &config.test }
    }

    /// Reads train, dev and test with the same reader, which gets the key (`train`) and the entries.
    pub fn map<T>(&self, mut read: impl FnMut(&str, &[Vec<PathBuf>]) -> anyhow::Result<T>) -> anyhow::Result<[T; 3]> {
        Ok([read("train", self.train)?, read("dev", self.dev)?, read("test", self.test)?])
    }

    /// The name of the first training file and an ellipsis, for the corpus's name.
    pub fn name(&self) -> String {
        let first = self.train.first().and_then(|files| files.first()).and_then(|path| path.file_name());
        format!("{} …", first.map(|name| name.to_string_lossy()).unwrap_or_default())
    }
}

/// The entries with every pattern replaced by the files that it matches, in the order of their names.
///
/// # Errors
/// They name `data.<key>`: no entry; those of [`pattern::expand`].
pub fn expand(key: &str, entries: &[Vec<PathBuf>]) -> anyhow::Result<Vec<Vec<PathBuf>>> {
    if entries.is_empty() {
        bail!("data.{key} names no file");
    }
    let mut expanded = Vec::new();
    for entry in entries {
        expanded.extend(pattern::expand(entry).map_err(|error| anyhow::anyhow!("data.{key}: {error}"))?);
    }
    Ok(expanded)
}

/// As [`expand`], for corpora of one file an entry; `what` says what the file holds (`a list of URLs`).
pub fn single(key: &str, entries: &[Vec<PathBuf>], what: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for mut entry in expand(key, entries)? {
        match (entry.pop(), entry.is_empty()) {
            (Some(file), true) => files.push(file),
            (last, _) => {
                let names: Vec<String> = entry.iter().chain(&last).map(|path| path.display().to_string()).collect();
                bail!("data.{key}: an entry has {} files ({}); it needs one, {what}", names.len(), names.join(", "));
            }
        }
    }
    Ok(files)
}

/// An open zip archive.
pub type Zip = zip::ZipArchive<BufReader<File>>;

/// Opens a zip archive, such as a wheel.
///
/// # Errors
/// They name the file: missing or unreadable, not a zip archive, or a damaged one.
pub fn open_zip(archive: &Path) -> anyhow::Result<Zip> {
    zip::ZipArchive::new(BufReader::new(input::file(archive)?))
        .with_context(|| format!("{} is not a zip archive, or is damaged", archive.display()))
}
