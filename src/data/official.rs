//! The paper's corpora, which users get themselves: whether the files lie where the experiments look for them, whole.

use super::fetch::sha256_file;
use super::lines::Lines;
use super::sgm;
use crate::experiment::pattern;
use anyhow::Context;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A corpus in its official files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Official {
    /// Name on the command line.
    pub name: &'static str,
    /// What it holds, and for which task.
    pub summary: &'static str,
    /// Release, or files, that are meant.
    pub version: &'static str,
    /// Where the experiment files look for it.
    pub folder: &'static str,
    /// Where to read about it and get it, and how.
    pub source: &'static str,
    /// Licence, as the source states it.
    pub licence: &'static str,
    /// How train, dev and test are told apart.
    pub split_rule: &'static str,
    /// Its files, in groups.
    pub groups: &'static [Group],
}

/// Files that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Paths under the corpus's folder; `*` and `?` stand for many files.
    pub files: &'static [&'static str],
    /// What they hold.
    pub holds: Holds,
    /// SHA-256 of the only file, where the official one is known to the byte.
    pub sha256: Option<&'static str>,
}

/// What the files of a group hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Nothing is known but that they are there.
    Anything,
    /// So many bytes.
    Bytes(u64),
    /// So many files.
    Files(u64),
    /// From the first to the second number of rows, one a line, after `headings` lines a file.
    Rows(u64, u64, u64),
    /// So many `<seg>` segments.
    Segments(u64),
}

/// State of a group of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There, and as large as it should be.
    Whole,
    /// As [`State::Whole`], but its bytes are not those of the file that is known: another release, or another source.
    OtherBytes,
    /// A file is not there.
    Missing,
    /// There, but not as large as it should be, or unreadable.
    Wrong,
}

/// What was found of a group of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The path or paths.
    pub files: String,
    /// Their state.
    pub state: State,
    /// What they hold, or what is wrong.
    pub text: String,
}

impl Official {
    /// Whether every file is there, of a pattern as many as there should be; nothing is read.
    pub fn is_there(&self) -> bool {
        self.groups.iter().all(|group| group.is_there(Path::new(self.folder)))
    }

    /// Looks at every file, under the folder where the program runs; counts rows by reading them.
    ///
    /// Error: Ctrl-C.
    pub fn check(&self) -> anyhow::Result<Vec<Finding>> {
        self.groups.iter().map(|group| group.check(Path::new(self.folder))).collect()
    }
}

/// The files of a path that may be a pattern; none where nothing is there. Error: a file or folder that can't be looked at.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(found) = pattern::found(path).map_err(anyhow::Error::msg)? {
        return Ok(found);
    }
    let there = path.try_exists().with_context(|| format!("can't look at {}", path.display()))?;
    Ok(if there { vec![path.to_path_buf()] } else { Vec::new() })
}

impl Group {
    fn is_there(&self, folder: &Path) -> bool {
        let mut count = 0;
        for file in self.files {
            match files(&folder.join(file)) {
                Ok(found) if !found.is_empty() => count += found.len() as u64,
                _ => return false,
            }
        }
        !matches!(self.holds, Holds::Files(wanted) if wanted != count)
    }

    fn check(&self, folder: &Path) -> anyhow::Result<Finding> {
        let paths: Vec<PathBuf> = self.files.iter().map(|file| folder.join(file)).collect();
        let names = |paths: &[PathBuf]| {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            names.join(", ")
        };
        let finding = |state, text: String| Finding { files: names(&paths), state, text };
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for path in &paths {
            match files(path) {
                Ok(none) if none.is_empty() => missing.push(path.clone()),
                Ok(some) => found.extend(some),
                Err(error) => return Ok(finding(State::Wrong, format!("{error:#}"))),
            }
        }
        if !missing.is_empty() {
            let which = if missing.len() < paths.len() { format!(": {}", names(&missing)) } else { String::new() };
            return Ok(finding(State::Missing, format!("missing{which}")));
        }
        match self.count(&found) {
            // Ctrl-C ends the check; anything else is what was found out.
            Err(error) if error.is::<crate::interrupt::Interrupted>() => Err(error),
            Err(error) => Ok(finding(State::Wrong, format!("{error:#}"))),
            Ok((state, text)) => Ok(finding(state, text)),
        }
    }

    /// Whether the files hold what they should, and in words what they hold.
    fn count(&self, files: &[PathBuf]) -> anyhow::Result<(State, String)> {
        let told = |count: u64, least: u64, most: u64, unit: &str| {
            let whole = (least..=most).contains(&count);
            let wanted = match (whole, least == most) {
                (true, _) => String::new(),
                (_, true) => format!("; there should be {least}"),
                _ => format!("; there should be {least} to {most}"),
            };
            (whole, format!("{count} {unit}{wanted}"))
        };
        let (whole, mut text) = match self.holds {
            Holds::Anything => (true, "there; how much it should hold is not known here".to_string()),
            Holds::Files(count) => told(files.len() as u64, count, count, "files"),
            Holds::Bytes(count) => {
                let mut bytes = 0;
                for file in files {
                    let found = file.metadata().with_context(|| format!("can't look at {}", file.display()))?;
                    bytes += found.len();
                }
                told(bytes, count, count, "bytes")
            }
            Holds::Rows(least, most, headings) => {
                let mut rows = 0;
                for file in files {
                    rows += (Lines::open(file)?.len() as u64).saturating_sub(headings);
                }
                told(rows, least, most, "rows")
            }
            Holds::Segments(count) => {
                let mut segments = 0;
                for file in files {
                    segments += sgm::count(&Lines::open(file)?.bytes()?, file)? as u64;
                }
                told(segments, count, count, "segments")
            }
        };
        let mut state = if whole { State::Whole } else { State::Wrong };
        if let (true, Some(known), [file]) = (whole, self.sha256, files) {
            if sha256_file(file)? == known {
                text.push_str(", SHA-256 as known");
            } else {
                state = State::OtherBytes;
                text.push_str(", but other bytes than the file known here");
            }
        }
        Ok((state, text))
    }
}
