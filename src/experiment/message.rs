//! Problems of experiment files: the place, the line, a caret, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// One problem, at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Where in it; none when the problem is the file itself.
    pub place: Option<Place>,
    /// What is wrong, with the values.
    pub text: String,
    /// What to do.
    pub help: String,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The line.
    pub excerpt: String,
    /// Characters that are marked, 1 or more.
    pub width: usize,
}

impl Place {
    /// The place of the bytes `span` of `text`; a span of many lines is cut to its first.
    pub fn of(text: &str, span: std::ops::Range<usize>) -> Place {
        let start = (0..=span.start.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = (span.end.clamp(start, line_end)..=line_end).find(|&at| text.is_char_boundary(at));
        Place {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            excerpt: text[line_start..line_end].trim_end().to_owned(),
            width: text[start..end.unwrap_or(line_end)].chars().count().max(1),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.place {
            None => write!(f, "{path}: {}", self.text)?,
            Some(Place { line, column, excerpt, width }) => {
                let gutter = " ".repeat(line.to_string().len());
                // Tabs stay tabs, so that the caret stands below its character.
                let pad: String = excerpt.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
                writeln!(f, "{path}:{line}:{column}: {}", self.text)?;
                writeln!(f, "{gutter} |")?;
                writeln!(f, "{line} | {excerpt}")?;
                write!(f, "{gutter} | {pad}{}", "^".repeat(*width))?;
            }
        }
        if !self.help.is_empty() {
            write!(f, "\n  {}", self.help)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with one or more experiment files; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(
    /// In the order of files, then of places.
    pub Vec<Problem>,
);

impl Problems {
    /// A problem of a file as a whole.
    pub fn of_file(path: &Path, text: impl Into<String>, help: impl Into<String>) -> Problems {
        Problems(vec![Problem { path: path.to_owned(), place: None, text: text.into(), help: help.into() }])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i > 0 { "\n\n" } else { "" })?;
        }
        match self.0.len() {
            0 | 1 => Ok(()),
            n => write!(f, "\n\n{n} problems"),
        }
    }
}

/// "did you mean `x`? allowed: …" for a word that isn't among `allowed`.
pub fn suggest(typed: &str, allowed: &[&str]) -> String {
    let list = allowed.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match nearest(typed, allowed) {
        Some(near) => format!("did you mean `{near}`? Allowed: {list}"),
        None => format!("allowed: {list}"),
    }
}

/// The allowed word that `typed` most likely stands for, if one is near.
pub fn nearest<'a>(typed: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace(['-', '_', ' '], "");
    let typed = plain(typed);
    let letters = typed.chars().count();
    let reach = letters.max(3) / 3;
    allowed
        .iter()
        .map(|word| (edit_distance(&typed, &plain(word)), word.chars().count().abs_diff(letters), *word))
        .filter(|(distance, ..)| *distance <= reach && *distance < letters.max(1))
        .min_by_key(|(distance, longer, _)| (*distance, *longer))
        .map(|(.., word)| word)
}

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut fewest = replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    fewest = fewest.min(table[i - 2][j - 2] + 1);
                }
                fewest
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_each_edit_once() {
        for (a, b, distance) in
            [("", "", 0), ("", "abc", 3), ("heads", "head", 1), ("haeds", "heads", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let keys = ["d_model", "heads", "decoder_layers", "encoder_layers"];
        assert_eq!(nearest("dmodel", &keys), Some("d_model"));
        assert_eq!(nearest("Heads", &keys), Some("heads"));
        assert_eq!(nearest("endoder_layers", &keys), Some("encoder_layers"));
        assert_eq!(nearest("colour", &keys), None);
        assert_eq!(nearest("DF", &["V", "D", "FD"]), Some("FD"));
        assert_eq!(nearest("Q", &["V", "D", "FD"]), None);
    }

    #[test]
    fn a_place_counts_characters_and_stays_on_its_line() {
        let text = "a = 1\n\té = \"x\ny\"";
        let place = Place::of(text, 12..16);
        assert_eq!((place.line, place.column, place.width), (2, 6, 2));
        assert_eq!(place.excerpt, "\té = \"x");
        let end = Place::of(text, text.len()..text.len() + 4);
        assert_eq!((end.line, end.column, end.width), (3, 3, 1));
    }
}
