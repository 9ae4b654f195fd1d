//! The files and folders that an experiment names.

use super::config::{CorpusKind, TaskKind};
use super::message::Problem;
use super::typed::{DataToml, Files};
use super::{defaults, pattern, Experiment};
use crate::regular;
use std::path::{Path, PathBuf};

/// The largest number of entries of `train`, `dev`, `test` or `stories`; a pattern is one.
pub const MOST_ENTRIES: usize = 1000;

/// Missing files that are looked for; each is a message.
const MOST_MISSING: usize = 50;

impl Experiment {
    /// Lists that are too long.
    pub(super) fn file_count_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (prefix, section) in self.data_sections() {
            let of_files = |files: &Option<Files>| {
                files.as_ref().map_or(0, |files| files.0.iter().map(|entry| entry.texts.len()).sum())
            };
            let stories = section.stories.as_ref().map_or(0, |stories| stories.texts.len());
            let fields = section.fields.as_ref().map_or(0, Vec::len);
            for (key, count) in [
                ("train", of_files(&section.train)),
                ("dev", of_files(&section.dev)),
                ("test", of_files(&section.test)),
                ("stories", stories),
                ("fields", fields),
            ] {
                if count > MOST_ENTRIES {
                    let text = format!("`{key}` has {count} names; a list may have up to {MOST_ENTRIES}");
                    let help = "name many files by a pattern, such as `shards/*.en`";
                    problems.push(self.source.of_value(&format!("{prefix}data.{key}"), text, help));
                }
            }
        }
        problems
    }

    /// The `[data]` sections with the prefix of their keys.
    fn data_sections(&self) -> impl Iterator<Item = (String, &DataToml)> {
        let variants = self.typed.variant.iter().flatten().enumerate();
        std::iter::once((String::new(), self.typed.data.as_ref()))
            .chain(variants.map(|(i, variant)| (format!("variant.{i}."), variant.data.as_ref())))
            .filter_map(|(prefix, data)| Some((prefix, data?)))
    }

    /// Files and folders that are named but can't be opened, patterns that no file matches, and parallel patterns whose files
    /// do not belong together.
    pub fn missing_files(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for (prefix, section) in self.data_sections() {
            let mut look = |key: String, typed: &str, is_folder: bool| {
                if problems.len() >= MOST_MISSING {
                    return;
                }
                let Err(text) = readable(&expand(typed), is_folder) else { return };
                // A list that was typed as one path has a shorter key.
                let keys = key
                    .match_indices('.')
                    .map(|(dot, _)| &key[..dot])
                    .chain([&key[..]])
                    .map(|key| prefix.clone() + key);
                let at = keys.rev().find(|key| self.source.has(key)).unwrap_or_default();
                let help = "relative paths are from the current folder, `~/` is the home folder";
                problems.push(self.source.of_value(&at, text, help));
            };
            for (key, files) in [("train", &section.train), ("dev", &section.dev), ("test", &section.test)] {
                for (i, entry) in files.iter().flat_map(|files| files.0.iter().enumerate()) {
                    for (j, typed) in entry.texts.iter().enumerate() {
                        look(format!("data.{key}.{i}.{j}"), typed, false);
                    }
                }
            }
            for (i, typed) in section.stories.iter().flat_map(|stories| stories.texts.iter().enumerate()) {
                look(format!("data.stories.{i}"), typed, true);
            }
            for (key, typed, is_folder) in [("folder", &section.folder, true), ("vectors", &section.vectors, false)] {
                if let Some(typed) = typed {
                    look(format!("data.{key}"), typed, is_folder);
                }
            }
            if let (Some(folder), Some(set)) = (&section.folder, &section.set) {
                look("data.set".into(), &Path::new(folder).join(set).to_string_lossy(), true);
            }
        }
        if problems.is_empty() {
            problems = self.unparallel_files();
        }
        problems
    }

    fn unparallel_files(&self) -> Vec<Problem> {
        let Some(task) = self.typed.task else { return Vec::new() };
        let base = self.typed.data.as_ref().and_then(|data| data.corpus);
        let mut problems = Vec::new();
        for (prefix, section) in self.data_sections() {
            let corpus = section.corpus.or(base).unwrap_or(defaults::data(task).corpus);
            for (key, files) in [("train", &section.train), ("dev", &section.dev), ("test", &section.test)] {
                for entry in files.iter().flat_map(|files| entries(files, corpus, task)) {
                    if let Err(text) = pattern::expand(&entry) {
                        let help = "name patterns whose wildcards stand for the same parts, or name the files";
                        problems.push(self.source.of_value(&format!("{prefix}data.{key}"), text, help));
                    }
                }
            }
        }
        problems
    }
}

/// The entries of a list. A flat list is one pair where text comes in pairs of files, and many files elsewhere.
pub(super) fn entries(files: &Files, corpus: CorpusKind, task: TaskKind) -> Vec<Vec<PathBuf>> {
    let pairs = corpus == CorpusKind::Text && task.has_target();
    let flat = !files.0.is_empty() && files.0.iter().all(|entry| !entry.is_list);
    if flat && pairs {
        return vec![files.0.iter().flat_map(|entry| entry.texts.iter().map(|path| expand(path))).collect()];
    }
    files.0.iter().map(|entry| entry.texts.iter().map(|path| expand(path)).collect()).collect()
}

/// Whether there is such a folder, or file; a pattern stands for the files that it matches.
fn readable(path: &Path, is_folder: bool) -> Result<(), String> {
    if !is_folder && pattern::matches(path)?.is_some() {
        return Ok(());
    }
    let found = match is_folder {
        true => {
            std::fs::metadata(path).and_then(|found| if found.is_dir() { path.read_dir().map(drop) } else { Ok(()) })
        }
        false => regular::open(path).map(drop),
    };
    match found {
        Ok(()) if is_folder && !path.is_dir() => Err(format!("{} can't be read: it is no folder", path.display())),
        Ok(()) => Ok(()),
        Err(error) => Err(format!("{} can't be read: {error}", path.display())),
    }
}

/// `~/` is the home folder; other relative paths are from the current folder.
pub(super) fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}
