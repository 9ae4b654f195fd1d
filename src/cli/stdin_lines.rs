//! The lines of standard input, by the rules of [`crate::data::lines`].

use crate::input::kind::{Encoding, Kind, Other};
use crate::input::{clean_line, invalid_utf8};
use anyhow::{bail, Context, Result};
use std::io::{BufRead, Read};

/// A longer line is refused, so that input without a line feed does not fill the memory.
const LONGEST: usize = 64 << 20;

/// An iterator over lines, without their ends and without byte-order marks at their starts.
///
/// # Errors
/// Each names the line: invalid UTF-8, a NUL byte, a line of over 64 MiB, input that cannot be read; in the place of the first
/// line: compressed input, UTF-16. Nothing is read after an error.
pub struct StdinLines<R> {
    input: R,
    longest: usize,
    /// Lines that were read.
    lines: usize,
    failed: bool,
}

impl<R: BufRead> StdinLines<R> {
    /// Of some input.
    pub fn new(input: R) -> Self {
        StdinLines { input, longest: LONGEST, lines: 0, failed: false }
    }

    fn read(&mut self) -> Result<Option<String>> {
        let number = self.lines + 1;
        if number == 1 {
            let head = self.input.fill_buf().context("stdin cannot be read")?;
            if let Some(refusal) = refusal(head) {
                bail!(refusal);
            }
        }
        let mut bytes = Vec::new();
        let mut part = (&mut self.input).take(self.longest as u64 + 1);
        part.read_until(b'\n', &mut bytes).with_context(|| format!("stdin, line {number}: cannot be read"))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() > self.longest {
            bail!(
                "stdin, line {number}: over {} MiB without a line feed; is it text, with a line feed after each line?",
                self.longest >> 20
            );
        }
        self.lines = number;
        let line = String::from_utf8(bytes).map_err(|error| invalid_utf8("stdin", number, &error.utf8_error()))?;
        if line.contains('\0') {
            bail!("stdin, line {number}: a NUL byte; this is binary data, damaged, or not UTF-8");
        }
        Ok(Some(clean_line(&line).to_string()))
    }
}

/// Why input that begins with these bytes is not read; nothing where it is text.
fn refusal(head: &[u8]) -> Option<String> {
    let (what, remedy) = match Kind::of(head) {
        Kind::Text => return None,
        Kind::Packed(packing) => {
            (format!("{} data", packing.name()), format!("; put `{} -dc |` before this command", packing.command()))
        }
        Kind::Other(Other::Text(Encoding(name))) => {
            (format!("text in {name}"), format!("; put `iconv -f {name} -t UTF-8 |` before this command"))
        }
        Kind::Other(Other::Format(name, _)) => (name.to_string(), String::new()),
    };
    Some(format!("stdin is {what}, but lines of text in UTF-8 are read{remedy}"))
}

impl<R: BufRead> Iterator for StdinLines<R> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        if self.failed {
            return None;
        }
        let line = self.read().transpose();
        self.failed = matches!(line, None | Some(Err(_)));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that come before an error or the end, and the error.
    fn lines(bytes: &[u8]) -> (Vec<String>, Option<String>) {
        let mut lines = Vec::new();
        for line in (StdinLines { longest: 1 << 20, ..StdinLines::new(bytes) }) {
            match line {
                Ok(line) => lines.push(line),
                Err(error) => return (lines, Some(format!("{error:#}"))),
            }
        }
        (lines, None)
    }

    #[test]
    fn a_line_ends_at_a_line_feed_and_nowhere_else() {
        let found = lines("\u{feff}a\r\n\n\u{feff}b\u{feff}\rc\u{2028}d\u{85}e\r\r\n \u{a0}".as_bytes());
        assert_eq!(found, (["a", "", "b\u{feff}\rc\u{2028}d\u{85}e\r", " \u{a0}"].map(String::from).to_vec(), None));
        assert_eq!(lines(b"a\n\n"), (vec!["a".into(), "".into()], None));
        assert_eq!(lines(b""), (vec![], None));
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line_after_the_lines_before() {
        for (bytes, before, expected) in [
            (&b"a\nb\xff\nc"[..], 1, "stdin, line 2: invalid UTF-8"),
            (b"a\n\nb\0c\n", 2, "stdin, line 3: a NUL byte"),
            (b"\x1f\x8b\x08\0\n", 0, "stdin is gzip"),
            (b"BZh91AY&SY\x01\x02", 0, "stdin is bzip2"),
            (b"\x28\xb5\x2f\xfd\n", 0, "stdin is zstd"),
            (b"\xff\xfea\0\n\0", 0, "`iconv -f UTF-16 -t UTF-8 |`"),
            (b"h\0a\0l\0l\0o\0\n\0", 0, "stdin is text in UTF-16LE"),
            (b"PK\x03\x04\n", 0, "stdin is a zip archive"),
        ] {
            let (lines, error) = lines(bytes);
            let error = error.unwrap_or_default();
            assert!(lines.len() == before && error.contains(expected), "{lines:?} {error}");
        }
        let (read, error) = lines(format!("a\n{}", "x".repeat((1 << 20) + 1)).as_bytes());
        assert_eq!(read, ["a"]);
        assert!(error.unwrap_or_default().starts_with("stdin, line 2: over 1 MiB"));
    }
}
