//! File names with wildcards, such as `news.en-0000[1-9]-of-00100`.

use crate::files::is_clutter;
use regex::Regex;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// How many files an error lists.
const LISTED: usize = 10;

/// The files that a name with `*`, `?` or `[…]` stands for, sorted; never none of them. `None` for a name that has no
/// wildcard, or that is a file's own name, wildcards and all.
///
/// As in a shell, a wildcard does not match the dot of a hidden file. Backups of editors and files of file managers do not
/// match either ([`is_clutter`]).
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
    let found = glob::glob(text).map_err(|error| format!("the pattern {text} can't be understood: {error}"))?;
    let mut files = Vec::new();
    for file in found {
        let file = file.map_err(|error| format!("can't look for files that match {text}: {error}"))?;
        if !file.is_dir() && hidden(&file) <= hidden(path) && (!is_clutter(&file) || is_clutter(path)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(Some(files))
}

/// How many parts of a path begin with a dot, as hidden files and folders do.
fn hidden(path: &Path) -> usize {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.filter(|part| part.as_os_str().to_string_lossy().starts_with('.')).count()
}

/// The files of an entry: itself, or one for each file that its pattern matches. Of parallel patterns those files belong
/// together for which the wildcards stand for the same text; they come in the order of the first pattern's files.
///
/// Errors: those of [`matches()`]; patterns with unequal numbers of wildcards or files; files whose wildcards stand for a text
/// that those of the other pattern do not stand for.
pub fn expand(entry: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, String> {
    let columns = entry
        .iter()
        .map(|path| Ok(Column { name: path, files: matches(path)? }))
        .collect::<Result<Vec<Column>, String>>()?;
    let Some((first, others)) = columns.split_first() else { return Ok(Vec::new()) };
    let mut entries: Vec<Vec<PathBuf>> = first.files().iter().map(|file| vec![file.clone()]).collect();
    for other in others {
        for (entry, file) in entries.iter_mut().zip(first.parallel(other)?) {
            entry.push(file);
        }
    }
    Ok(entries)
}

/// One name of an entry.
struct Column<'a> {
    name: &'a PathBuf,
    /// What it matches, if it is a pattern.
    files: Option<Vec<PathBuf>>,
}

impl Column<'_> {
    fn files(&self) -> &[PathBuf] {
        self.files.as_deref().unwrap_or(std::slice::from_ref(self.name))
    }

    /// The file of `other` for each of this one's.
    fn parallel(&self, other: &Column) -> Result<Vec<PathBuf>, String> {
        let [here, there] = [self.files(), other.files()];
        let [name, other_name] = [self.name.display(), other.name.display()];
        let (Some(_), Some(_)) = (&self.files, &other.files) else {
            if here.len() == there.len() {
                return Ok(there.to_vec());
            }
            return Err(format!(
                "{name} is {} files, but {other_name} is {}; parallel names must stand for as many files",
                here.len(),
                there.len()
            ));
        };
        let [wildcards, other_wildcards] = [self.name, other.name].map(|name| Wildcards::of(name));
        if wildcards.count != other_wildcards.count {
            return Err(format!(
                "{name} has {} wildcards, but {other_name} has {}, so it can't be told which files belong together; give \
                 both as many, or name the files",
                wildcards.count, other_wildcards.count
            ));
        }
        let mut rest: BTreeMap<Vec<String>, &PathBuf> =
            there.iter().map(|file| (other_wildcards.parts(file), file)).collect();
        let (mut paired, mut lacking) = (Vec::new(), Vec::new());
        for file in here {
            let parts = wildcards.parts(file);
            match rest.remove(&parts) {
                Some(other) => paired.push(other.clone()),
                None => lacking.push((parts, file)),
            }
        }
        if lacking.is_empty() && rest.is_empty() {
            return Ok(paired);
        }
        let lacking = told(lacking.iter().map(|(parts, file)| (parts, *file)), &other_name);
        let rest = told(rest.iter().map(|(parts, file)| (parts, *file)), &name);
        let unmatched = [lacking, rest].into_iter().flatten().collect::<Vec<_>>().join("; ");
        Err(format!(
            "{name} matches {} files and {other_name} {}, which do not belong together: {unmatched}. The wildcards of parallel \
             patterns must stand for the same text in both",
            here.len(),
            there.len()
        ))
    }
}

/// `p-*.de has no match for p-3.en (wildcards: 3), p-4.en (wildcards: 4) and 2 more`; nothing without files.
fn told<'a>(
    files: impl ExactSizeIterator<Item = (&'a Vec<String>, &'a PathBuf)>,
    pattern: &dyn std::fmt::Display,
) -> Option<String> {
    let count = files.len();
    let listed =
        files.take(LISTED).map(|(parts, file)| format!("{} (wildcards: {})", file.display(), parts.join(", ")));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = if count > LISTED { format!(" and {} more", count - LISTED) } else { String::new() };
    (count > 0).then(|| format!("{pattern} has no match for {listed}{more}"))
}

/// Tells what the wildcards of a pattern stand for.
struct Wildcards {
    count: usize,
    /// With a group for each wildcard; nothing where a pattern is no regular expression, which glob would have refused.
    regex: Option<Regex>,
}

impl Wildcards {
    fn of(pattern: &Path) -> Wildcards {
        let pattern = plain(pattern);
        let mut regex = String::from("(?s)^");
        let mut count = 0;
        let mut rest = &pattern[..];
        while let Some(sign) = rest.chars().next() {
            let set = rest.strip_prefix('[').and_then(|set| {
                // A `]` that comes first belongs to the set.
                let negated = usize::from(set.starts_with('!'));
                let first = set[negated..].chars().next()?;
                let end = negated + first.len_utf8() + set[negated + first.len_utf8()..].find(']')?;
                Some((&set[..end], &set[end + 1..]))
            });
            count += usize::from(matches!(sign, '*' | '?') || set.is_some());
            rest = match (sign, set) {
                ('*', _) if rest.starts_with("**/") => {
                    regex.push_str("(?:(.*)/)?");
                    &rest[3..]
                }
                ('*', _) if rest.starts_with("**") => {
                    regex.push_str("(.*)");
                    &rest[2..]
                }
                ('*', _) => {
                    regex.push_str("([^/]*)");
                    &rest[1..]
                }
                ('?', _) => {
                    regex.push_str("([^/])");
                    &rest[1..]
                }
                (_, Some((set, after))) => {
                    let (open, set) = set.strip_prefix('!').map_or(("([", set), |set| ("([^", set));
                    regex.push_str(open);
                    for sign in set.chars() {
                        // A hyphen makes a range in both.
                        if sign != '-' {
                            regex.push_str(&regex::escape(&sign.to_string()));
                        } else {
                            regex.push('-');
                        }
                    }
                    regex.push_str("])");
                    after
                }
                (sign, None) => {
                    regex.push_str(&regex::escape(&sign.to_string()));
                    &rest[sign.len_utf8()..]
                }
            };
        }
        regex.push('$');
        Wildcards { count, regex: Regex::new(&regex).ok() }
    }

    /// What each wildcard stands for in a file's name; the whole name where that can't be told.
    fn parts(&self, file: &Path) -> Vec<String> {
        let name = plain(file);
        let groups = self.regex.as_ref().and_then(|regex| regex.captures(&name));
        match groups {
            Some(groups) => {
                groups.iter().skip(1).map(|group| group.map_or(String::new(), |group| group.as_str().into())).collect()
            }
            None => vec![name],
        }
    }
}

/// A path with single slashes and without `.` folders, as glob gives those that it finds.
fn plain(path: &Path) -> String {
    let parts: Vec<String> = path
        .components()
        .filter(|part| !matches!(part, Component::CurDir | Component::RootDir))
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pattern: &str, file: &str) -> Vec<String> {
        Wildcards::of(Path::new(pattern)).parts(Path::new(file))
    }

    #[test]
    fn wildcards_stand_for_text() {
        assert_eq!(parts("./d//p-*.en", "d/p-1.2.en"), ["1.2"]);
        assert_eq!(parts("/a/*/p?[0-9].[!e]n", "/a/x y/pq7.dn"), ["x y", "q", "7", "d"]);
        assert_eq!(parts("**/p-*.en", "p-1.en"), ["", "1"]);
        assert_eq!(parts("a/**/p-*.en", "a/b/c/p-1.en"), ["b/c", "1"]);
        assert_eq!(parts("p[]x]*[*].en", "p]ä*.en"), ["]", "ä", "*"]);
        assert_eq!(parts("p-*(1).en", "p-+(1).en"), ["+"]);
    }
}
