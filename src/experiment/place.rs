//! Where the results of an experiment file go.

use super::message::{Problem, Problems};
use super::names;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Where an experiment's results go.
pub(super) struct Place {
    pub profile: String,
    pub table: String,
    pub column: String,
    pub folder: PathBuf,
    pub csv: PathBuf,
}

impl Place {
    pub fn of(file: &Path, results: &Path) -> Place {
        let whole = normalized(file);
        let text = |name: Option<&OsStr>| name.map_or("experiment".into(), |name| name.to_string_lossy().into_owned());
        // `file_stem` alone takes `.toml` for a name without an ending.
        let column = match text(whole.file_name()).strip_suffix(".toml") {
            Some(stem) => stem.to_owned(),
            None => text(whole.file_stem()),
        };
        let parts: Vec<_> = whole.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let (profile, table) = match parts.as_slice() {
            [.., root, profile, table, _] if root == "experiments" => (profile.to_string(), table.to_string()),
            _ => (CUSTOM.to_owned(), String::new()),
        };
        // An empty table must not become a trailing slash.
        let parent = if table.is_empty() { results.join(&profile) } else { results.join(&profile).join(&table) };
        Place { folder: parent.join(&column), csv: parent.join(format!("{column}.csv")), profile, table, column }
    }

    /// Why results cannot go there. The names come from the file's path.
    pub fn faults(&self, file: &Path) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |text: String, help: &str| problems.extend(Problems::of_file(file, text, help).0);
        let table = Some(&self.table).filter(|table| !table.is_empty());
        let names = [("folder", Some(&self.profile)), ("folder", table), ("file", Some(&self.column))];
        for (what, name) in names.into_iter().filter_map(|(what, name)| Some((what, name?))) {
            if let Some((text, help)) = names::fault(name, names::Kind::Path) {
                problem(text, &format!("rename the {what}: {help}"));
            }
        }
        if !self.table.is_empty() && [CUSTOM, "bench"].contains(&self.profile.as_str()) {
            let text = format!("results of a profile `{}` would mix with others in that folder", self.profile);
            problem(text, "rename the folder below `experiments`");
        }
        if ["cost", "time"].contains(&self.column.as_str()) {
            let text = format!("`{}.csv` beside the results is the file of measured costs", self.column);
            problem(text, "rename the file");
        }
        problems
    }
}

/// The profile of files that are not at `experiments/PROFILE/TABLE/COLUMN.toml`.
const CUSTOM: &str = "custom";

/// The whole path without `.` and `..`. Links are not followed: names are those that were typed.
pub(super) fn normalized(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut parts = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            // Above the root is the root.
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}
