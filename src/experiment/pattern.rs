//! File names with wildcards, such as `news.en-0000[1-9]-of-00100`.

use std::path::{Path, PathBuf};

/// The files that a name with `*`, `?` or `[…]` stands for, sorted; never none of them. `None` for a name that has no
/// wildcard, or that is a file's own name, wildcards and all.
///
/// Errors: no file matches, and those of [`found`].
pub fn matches(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    match found(path)? {
        Some(none) if none.is_empty() => Err(format!("no file matches the pattern {}", path.display())),
        found => Ok(found),
    }
}

/// As [`matches()`], but no file may match.
///
/// Errors: a pattern that can't be understood, a folder that can't be read.
pub fn found(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    let Some(text) = path.to_str().filter(|text| text.contains(['*', '?', '['])) else { return Ok(None) };
    if path.exists() {
        return Ok(None);
    }
    let found = glob::glob(text).map_err(|error| format!("{text} is no pattern that can be understood: {error}"))?;
    let mut files = Vec::new();
    for file in found {
        let file = file.map_err(|error| format!("can't look for files that match {text}: {error}"))?;
        if !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(Some(files))
}
