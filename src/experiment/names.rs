//! Titles, and names that become parts of paths: those of variants, and those of experiment files and their folders.

use super::config::Run;
use super::message::{is_printable, Problem};
use super::source::Source;
use std::path::Path;

/// Bytes that such a name may have. Suffixes such as `.csv.4194304-17.tmp`, and the other parts of a figure's or a run's name,
/// must fit within the 255 bytes of a file's name beside it.
pub const LONGEST: usize = 100;

/// Bytes that the name of a run's folder may have: mix, variant and seed.
pub const LONGEST_RUN: usize = 150;

/// Characters of a title.
pub const LONGEST_TITLE: usize = 120;

/// Bytes of the path of a run's folder. Linux takes 4,095 for a path; the rest is for the files in it.
const LONGEST_FOLDER: usize = 3800;

/// What a name is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of a variant: a part of a run's name, where `.` and `-s` separate the parts.
    Variant,
    /// Of an experiment file, or of the folders that name profile and table.
    Path,
}

/// Names of devices on Windows, where no file can have them, with or without an ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Why a name cannot be a part of a path, and what to do about it; `None` for a good name.
pub fn fault(name: &str, kind: Kind) -> Option<(String, &'static str)> {
    let plain = "use letters, digits, `-` and `_`";
    let fault = |why: &str| Some((format!("`{}` can't be part of a folder's name: {why}", shown(name)), plain));
    if name.is_empty() {
        return fault("it is empty");
    }
    if name.len() > LONGEST {
        let why = format!("it has {} bytes, and {LONGEST} are the most", name.len());
        return Some((format!("`{}` can't be part of a folder's name: {why}", shown(name)), "choose a shorter name"));
    }
    if kind == Kind::Variant && !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return fault("it has other characters than variants may have");
    }
    // Control and format characters are invisible, or change what a terminal shows. U+FFFD stands for bytes that are not UTF-8.
    let is_invisible = |c: char| c.is_control() || ('\u{200b}'..='\u{200f}').contains(&c) || is_line_or_direction(c);
    if name.chars().any(|c| is_invisible(c) || c == '\u{feff}' || c == '\u{ad}' || c == '\u{fffd}') {
        return fault("it has characters that cannot be seen");
    }
    if let Some(c) = name.chars().find(|c| "/\\:*?\"<>|".contains(*c)) {
        return fault(&format!("it has a `{c}`"));
    }
    let is_blank = |c: Option<char>| c.is_some_and(|c| c == '.' || c.is_whitespace());
    if is_blank(name.chars().next()) || is_blank(name.chars().next_back()) {
        return fault("it begins or ends with a dot or a blank");
    }
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = |device: &str| {
        let number = stem.strip_prefix(device).unwrap_or_default();
        number.len() == 1 && number.bytes().all(|digit| (b'1'..=b'9').contains(&digit))
    };
    if DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt") {
        return fault("Windows reserves it for a device");
    }
    None
}

/// Why a title cannot stand in a table, a figure and a web page.
pub(super) fn title_problem(source: &Source, title: &str) -> Option<Problem> {
    if !source.has("title") {
        return None; // it is the file's name, which `fault` judges
    }
    if let Some((at, c)) = title.chars().enumerate().find(|(_, c)| !is_printable(*c)) {
        let what = match c {
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => "a line break",
            c if c.is_control() => "a control character",
            _ => "an invisible formatting character",
        };
        let text = format!("`title` holds {what} (U+{:04X})", u32::from(c));
        let help = "a title is one line of visible characters; take it out";
        return Some(source.of_string("title", at, text, help));
    }
    if title.trim().is_empty() {
        return Some(source.of_value("title", "`title` is blank", "give one, or leave the key away"));
    }
    let letters = title.chars().count();
    (letters > LONGEST_TITLE).then(|| {
        source.of_value("title", format!("`title` has {letters} characters"), format!("use up to {LONGEST_TITLE}"))
    })
}

/// Why no folder can have the run's name.
pub(super) fn run_problem(source: &Source, run: &Run, mix_place: &str, folder: &Path) -> Option<Problem> {
    let name = run.name();
    if name.len() > LONGEST_RUN {
        let text = format!("a run's name would have {} bytes, {LONGEST_RUN} are the most", name.len());
        return Some(source.of_value(mix_place, text, "shorten the mix or the variant's name"));
    }
    let bytes = folder.join(&name).as_os_str().len();
    (bytes > LONGEST_FOLDER).then(|| {
        let text = format!("the path of the run's folder has {bytes} bytes, {LONGEST_FOLDER} are the most");
        source.of_value("mix", text, "give a shorter --results")
    })
}

fn is_line_or_direction(c: char) -> bool {
    ('\u{2028}'..='\u{202e}').contains(&c) || ('\u{2060}'..='\u{206f}').contains(&c)
}

/// A name as a message shows it: escaped, and not longer than a line.
fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.chars().nth(60).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_good() {
        for name in [
            "ende",
            "lm1b",
            "wmt14.en-de",
            "my experiment (2)",
            "R+V",
            "größe",
            "हिन्दी",
            "日本語",
            "a_b",
            "console",
            "com",
            "com10",
        ] {
            assert_eq!(fault(name, Kind::Path), None, "{name}");
        }
        assert_eq!(fault(&"x".repeat(LONGEST), Kind::Variant), None);
        assert_eq!(fault("control-s1", Kind::Variant), None);
    }

    #[test]
    fn names_that_lead_elsewhere_or_cannot_be_files_are_told() {
        let long = "x".repeat(LONGEST + 1);
        for name in [
            "",
            ".",
            "..",
            ".lock",
            ".hidden",
            "a.",
            "a ",
            " a",
            "a/b",
            "a\\b",
            "a:b",
            "a*",
            "a?b",
            "a\"b",
            "<b>",
            "a|b",
            "a\nb",
            "a\tb",
            "a\0b",
            "\u{1b}[31m",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{2028}b",
            "a\u{202e}b",
            "\u{feff}a",
            "a\u{fffd}",
            "con",
            "CON",
            "nul.x",
            "aux",
            "COM1",
            "lpt9.csv",
            "\u{a0}a",
            &long,
        ] {
            let (text, help) = fault(name, Kind::Path).unwrap_or_else(|| panic!("{name:?}"));
            assert!(text.contains("can't be part of a folder's name") && !help.is_empty(), "{text}");
            assert!(!text.chars().any(char::is_control) && text.len() < 300, "{text:?}");
            assert!(fault(name, Kind::Variant).is_some(), "{name:?}");
        }
        for name in ["a.b", "a b", "größe", "R+V"] {
            assert!(fault(name, Kind::Variant).is_some(), "{name}");
        }
    }
}
