//! Names that become parts of paths: those of variants, and those of experiment files and their folders.

/// Bytes that such a name may have. Suffixes such as `.csv.4194304-17.tmp`, and the other parts of a figure's or a run's name,
/// must fit within the 255 bytes of a file's name beside it.
pub const LONGEST: usize = 100;

/// Bytes that the name of a run's folder may have: mix, variant and seed.
pub const LONGEST_RUN: usize = 150;

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
