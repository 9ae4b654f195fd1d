//! Opening the files that users name: what a file is, its content says and not its name.
//!
//! Text is read as it stands, or decompressed (gzip, bzip2, xz, zstd). Everything else ([`kind`]) is refused with the name of
//! its format and a command that turns it into text.

pub mod kind;
mod source;
pub mod unpack;

use crate::interrupt;
use anyhow::{bail, Context};
use kind::Kind;
use source::Source;
use std::fs::File;
use std::io::{BufRead, ErrorKind, Read};
use std::path::Path;
use unpack::Unpacked;

/// How much of a file is looked at to tell what it is.
const HEAD: usize = 1 << 16;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A byte-order mark in UTF-8.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// A line as every reader hands it out: without its line feed, the carriage return before that, and byte-order marks at its
/// start.
///
/// A file begins with a byte-order mark where some editor put one there; concatenated files have it at the start of a later
/// line. U+FEFF within a line is a zero-width no-break space, and stays.
pub fn clean_line(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line).trim_start_matches(BYTE_ORDER_MARK)
}

/// How many lines of a text begin with a byte-order mark, but for the first line, and the text without these marks and that of
/// the first line.
pub fn without_marks(text: String) -> (String, usize) {
    if !text.contains(BYTE_ORDER_MARK) {
        return (text, 0);
    }
    let mut clean = String::with_capacity(text.len());
    let mut marks = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.trim_start_matches(BYTE_ORDER_MARK);
        marks += usize::from(number > 0 && rest.len() < line.len());
        clean.push_str(rest);
    }
    (clean, marks)
}

/// Says how many lines of a file lost a byte-order mark; nothing where none did.
pub fn marks_note(path: &Path, marks: usize) -> Option<String> {
    let lines = if marks == 1 { "1 line".to_string() } else { format!("{marks} lines") };
    (marks > 0).then(|| {
        format!(
            "{}: {lines} after the first began with a byte-order mark (concatenated files have them); it is not read",
            path.display()
        )
    })
}

/// A file that holds text.
pub enum Content {
    /// As it stands.
    Plain(File),
    /// Compressed. Reading it gives the text.
    Packed(Box<Reader>),
}

/// Decompresses while it is read.
pub type Reader = Source<Unpacked>;

/// Opens a regular file.
///
/// # Errors
/// They name the file: missing, a link to nothing, a folder, a pipe or device, no permission.
pub fn file(path: &Path) -> anyhow::Result<File> {
    // Opening a pipe would wait for its writer.
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => match path.read_link() {
            Ok(target) => bail!("{} is a link to {}, which is not there", path.display(), target.display()),
            Err(_) => bail!("there is no file {}", path.display()),
        },
        Err(error) => bail!("can't open {}: {error}", path.display()),
    };
    if found.is_dir() {
        bail!("{} is a folder, not a file", path.display());
    }
    if !found.is_file() {
        bail!("{} is a pipe or a device; write what it gives to a file and name that", path.display());
    }
    File::open(path).with_context(|| format!("can't open {}", path.display()))
}

/// Opens a file of text.
///
/// # Errors
/// Those of [`file()`]; a file that is not text, with the name of its format and how to get text from it.
pub fn open(path: &Path) -> anyhow::Result<Content> {
    let reading = || format!("can't read {}", path.display());
    let file = file(path)?;
    let mut head = vec![0; HEAD];
    let length = read_at_start(&file, &mut head).with_context(reading)?;
    match Kind::of(&head[..length]) {
        Kind::Text => Ok(Content::Plain(file)),
        Kind::Packed(packing) => {
            let mut reader = Source::new(Unpacked::new(Source::new(Box::new(file)), packing));
            // The errors of `Unpacked` say all but the file's name.
            let head = reader.peek(HEAD).map_err(|error| damaged(path, &error))?;
            match Kind::of(head) {
                Kind::Text => Ok(Content::Packed(Box::new(reader))),
                Kind::Packed(inner) => bail!(
                    "{}: {} inside {}; only one layer of compression is read: unpack it with `{} -dc {0} > FILE`",
                    path.display(),
                    inner.name(),
                    packing.name(),
                    packing.command()
                ),
                Kind::Other(other) => bail!(other.refusal(path, Some(packing))),
            }
        }
        Kind::Other(other) => bail!(other.refusal(path, None)),
    }
}

fn read_at_start(file: &File, buffer: &mut [u8]) -> std::io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// An error of reading compressed data, with the file's name.
pub fn damaged(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", path.display())
}

/// Opens a file of text to be read once from start to end, without a byte-order mark at its start.
///
/// # Errors
/// Those of [`open`].
pub fn stream(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    fn unmarked<R: Read + 'static>(path: &Path, mut source: Source<R>) -> anyhow::Result<Box<dyn BufRead>> {
        while source.peek(MARK.len()).map_err(|error| damaged(path, &error))? == MARK {
            source.consume(MARK.len());
        }
        Ok(Box::new(source))
    }
    match open(path)? {
        Content::Plain(file) => unmarked(path, Source::new(file)),
        Content::Packed(reader) => unmarked(path, *reader),
    }
}

/// The bytes of a small file of text, decompressed.
///
/// # Errors
/// Those of [`open`]; a NUL byte, with its line; a file that can't be read.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut source: Box<dyn Read> = match open(path)? {
        Content::Plain(file) => Box::new(file),
        Content::Packed(reader) => reader,
    };
    let mut bytes = Vec::new();
    let mut buffer = vec![0; HEAD];
    loop {
        interrupt::check()?;
        match source.read(&mut buffer).with_context(|| format!("can't read {}", path.display()))? {
            0 => break,
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    if let Some(at) = memchr::memchr(0, &bytes) {
        bail!(nul(path, memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1, at as u64));
    }
    Ok(bytes)
}

/// A small file as text, and of how many lines after the first a byte-order mark was left out (see [`without_marks`]).
///
/// # Errors
/// Those of [`read`]; invalid UTF-8, with its line.
pub fn read_text(path: &Path) -> anyhow::Result<(String, usize)> {
    Ok(without_marks(text_of(read(path)?, &path.display().to_string())?))
}

/// Bytes as text.
///
/// # Errors
/// Invalid UTF-8, with `place` and line.
pub fn text_of(bytes: Vec<u8>, place: &str) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        invalid_utf8(place, memchr::memchr_iter(b'\n', valid).count() + 1, &error.utf8_error())
    })
}

/// The error of a line that is not UTF-8.
pub fn invalid_utf8(place: &str, line: usize, error: &std::str::Utf8Error) -> anyhow::Error {
    anyhow::anyhow!("{place}, line {line}: invalid UTF-8 ({error}); `iconv` converts other encodings to UTF-8")
}

/// The error of a NUL byte at `offset` (from 0).
pub fn nul(path: &Path, line: usize, offset: u64) -> anyhow::Error {
    anyhow::anyhow!(
        "{}, line {line}: a NUL byte (byte {offset} of the text, from 0); this is binary data, damaged, or not UTF-8",
        path.display()
    )
}
