//! Problems of experiment files: the place, the line, a caret, and what to do.

use crate::excerpt::{clipped, MOST};
use std::fmt;
use std::path::{Path, PathBuf};

/// Characters of a long line that are shown before a place in it.
const BEFORE: usize = 40;

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
    /// The line, or of a long one the part around the place; control characters are replaced.
    pub excerpt: String,
    /// Characters of the line before the excerpt.
    pub skipped: usize,
    /// Characters that are marked, 1 or more.
    pub width: usize,
}

/// Problems that are shown; of more, only the count is.
const SHOWN: usize = 50;

/// Characters of typed text that a message repeats.
const REPEATED: usize = 60;

/// Text as a message repeats it: its first characters, on one line, control characters escaped.
pub fn clip(text: &str) -> String {
    let mut clipped = String::new();
    for c in text.chars().take(REPEATED) {
        if is_printable(c) {
            clipped.push(c);
        } else {
            clipped.extend(c.escape_unicode());
        }
    }
    if text.chars().nth(REPEATED).is_some() {
        clipped.push('…');
    }
    clipped
}

/// Whether a character can stand in a line of output without changing how the rest is shown: no control character, line or
/// paragraph separator, bidirectional control or noncharacter.
pub fn is_printable(c: char) -> bool {
    let is_bidirectional_control =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    let is_noncharacter = matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{feff}') || u32::from(c) & 0xfffe == 0xfffe;
    !(c.is_control() || is_separator || is_bidirectional_control || is_noncharacter)
}

impl Place {
    /// The place of the bytes `span` of `text`; a span of many lines is cut to its first.
    pub fn of(text: &str, span: std::ops::Range<usize>) -> Place {
        let start = (0..=span.start.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = (span.end.clamp(start, line_end)..=line_end).find(|&at| text.is_char_boundary(at));
        let column = text[line_start..start].chars().count() + 1;
        let line = text[line_start..line_end].trim_end();
        let skipped = if line.chars().nth(MOST).is_some() { (column - 1).saturating_sub(BEFORE) } else { 0 };
        // A terminal would obey control characters; a tab is one that the caret's line repeats.
        let shown = |c: char| if c == '\t' || is_printable(c) { c } else { char::REPLACEMENT_CHARACTER };
        let mut excerpt: String = line.chars().skip(skipped).take(MOST).map(shown).collect();
        if skipped > 0 {
            excerpt.replace_range(..excerpt.chars().next().map_or(0, char::len_utf8), "…");
        }
        if line.chars().nth(skipped + MOST).is_some() {
            excerpt.push('…');
        }
        let width = text[start..end.unwrap_or(line_end)].chars().count();
        let width = width.min((skipped + MOST + 1).saturating_sub(column)).max(1);
        Place { line: text[..start].matches('\n').count() + 1, column, excerpt, skipped, width }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let text = clipped(&self.text);
        match &self.place {
            None => write!(f, "{path}: {text}")?,
            Some(Place { line, column, excerpt, skipped, width }) => {
                let gutter = " ".repeat(line.to_string().len());
                // Tabs stay tabs, so that the caret stands below its character.
                let pad: String =
                    excerpt.chars().take(column - 1 - skipped).map(|c| if c == '\t' { c } else { ' ' }).collect();
                writeln!(f, "{path}:{line}:{column}: {text}")?;
                writeln!(f, "{gutter} |")?;
                writeln!(f, "{line} | {excerpt}")?;
                write!(f, "{gutter} | {pad}{}", "^".repeat(*width))?;
            }
        }
        if !self.help.is_empty() {
            write!(f, "\n  {}", clipped(&self.help))?;
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
        for (i, problem) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{problem}", if i > 0 { "\n\n" } else { "" })?;
        }
        match self.0.len() {
            0 | 1 => Ok(()),
            n if n > SHOWN => write!(f, "\n\n{n} problems, of which the first {SHOWN} are shown"),
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
    // Nothing that may be typed is as long, and the distance takes time for every letter.
    if letters > 100 {
        return None;
    }
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
    fn long_lines_are_shown_around_the_place() {
        let text = format!("{}wrong{}", "é".repeat(1_000_000), "x".repeat(1_000_000));
        let problem = |span: std::ops::Range<usize>| {
            let place = Some(Place::of(&text, span));
            Problem { path: "x.toml".into(), place, text: "no".repeat(1_000_000), help: String::new() }.to_string()
        };
        let message = problem(2_000_000..2_000_005);
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with("x.toml:1:1000001: nono") && lines[0].chars().count() < 2500, "{}", lines[0]);
        assert_eq!(lines[2], format!("1 | …{}wrong{}…", "é".repeat(39), "x".repeat(155)));
        assert_eq!(lines[3], format!("  | {}^^^^^", " ".repeat(40)));
        // A span beyond what is shown is marked as far as the line is.
        assert_eq!(problem(0..2_000_000).lines().last().unwrap(), format!("  | {}", "^".repeat(200)));
        assert_eq!(Place::of("a\u{1b}[31m = 1", 0..1).excerpt, "a\u{fffd}[31m = 1");
        assert_eq!(nearest(&"x".repeat(2_000_000), &["heads"]), None);
    }

    #[test]
    fn a_place_counts_characters_and_stays_on_its_line() {
        let text = "a = 1\n\té = \"x\ny\"";
        let place = Place::of(text, 12..16);
        assert_eq!((place.line, place.column, place.width), (2, 6, 2));
        assert_eq!(place.excerpt, "\té = \"x");
        assert_eq!(place.skipped, 0);
        let end = Place::of(text, text.len()..text.len() + 4);
        assert_eq!((end.line, end.column, end.width), (3, 3, 1));
    }

    #[test]
    fn repeated_text_is_short_and_printable() {
        assert_eq!(clip("a\n\u{202e}é"), "a\\u{a}\\u{202e}é");
        assert_eq!(clip(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
        for c in ['\0', '\u{85}', '\u{2028}', '\u{2029}', '\u{7f}', '\u{2066}', '\u{ffff}', '\u{feff}'] {
            assert!(!is_printable(c), "{c:?}");
        }
        assert!("a é 中 \u{200d} \u{a0} 😀".chars().all(is_printable));
    }
}
