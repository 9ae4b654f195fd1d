//! `.sgm` files of WMT test sets.
//!
//! They look like XML and aren't: `&`, `<` and `"` stand raw, so nothing is unescaped. One segment a line,
//! `<seg id="7">text</seg>`; every other line (`<doc …>`, `<hl>`, `<p>`) is passed over.

use anyhow::{bail, Context};
use std::path::Path;

const CLOSE: &str = "</seg>";

/// The segments' texts in order, without the blanks around them. `path` is for errors.
///
/// Errors, each with file and line: invalid UTF-8, a segment that doesn't end on its line, no segment at all.
pub fn segments(bytes: &[u8], path: &Path) -> anyhow::Result<Vec<String>> {
    let mut segments = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let place = || format!("{}, line {}", path.display(), number + 1);
        let mut rest = std::str::from_utf8(line).with_context(|| format!("{}: invalid UTF-8", place()))?;
        while let Some(start) = find(rest, "<seg") {
            let tag = &rest[start..];
            let Some(from) = tag.find('>') else { bail!("{}: the <seg tag has no >", place()) };
            let Some(length) = find(&tag[from + 1..], CLOSE) else {
                bail!("{}: the segment has no {CLOSE} on its line", place())
            };
            let text = &tag[from + 1..][..length];
            segments.push(text.trim().to_string());
            rest = &tag[from + 1 + length + CLOSE.len()..];
        }
    }
    if segments.is_empty() {
        bail!("{} has no <seg id=\"…\">…</seg> line", path.display());
    }
    Ok(segments)
}

/// Where the ASCII `word` begins, upper or lower case.
fn find(text: &str, word: &str) -> Option<usize> {
    text.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<String>, String> {
        segments(text, Path::new("x.sgm")).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn text_is_taken_as_it_stands() {
        let text = "<srcset setid=\"a\">\r\n<doc>\n<hl>\n<seg id=\"1\"> AT&T \"x\" &amp; 1 < 2 > 0 </seg>\r\n</hl>\n<SEG id=2>\u{a0}Wort\tzwei</SEG>";
        assert_eq!(read(text.as_bytes()).unwrap(), ["AT&T \"x\" &amp; 1 < 2 > 0", "Wort\tzwei"]);
        assert_eq!(read(b"<seg id=\"1\"></seg><seg id=\"2\">b</seg>").unwrap(), ["", "b"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        assert_eq!(
            read(b"\n<seg id=\"1\">a\nb</seg>").unwrap_err(),
            "x.sgm, line 2: the segment has no </seg> on its line"
        );
        assert_eq!(read(b"<seg id=\"1\"").unwrap_err(), "x.sgm, line 1: the <seg tag has no >");
        assert_eq!(read(b"plain text\n").unwrap_err(), "x.sgm has no <seg id=\"…\">…</seg> line");
        assert!(read(b"\n\n<seg id=\"1\">\xff</seg>").unwrap_err().starts_with("x.sgm, line 3: invalid UTF-8"));
    }
}
