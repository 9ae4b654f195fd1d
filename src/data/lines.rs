//! The lines of a file that may be larger than memory.
//!
//! The place of every 16th line is kept (half a byte a line); a line is found by reading the sixteen lines around it. Nothing
//! is mapped: pages of a mapped file count as the process's memory, up to the whole file. A line ends at a line feed, with or
//! without a carriage return before it, and nowhere else: tabs, U+0085 and U+2028 are text. The last line needs no line
//! feed. A byte-order mark at the start of a line is not read ([`clean_line`]). Compressed files (see [`crate::input`]) are
//! first decompressed into the cache (`text/`), by the hash of their bytes and with a [seal](crate::sealed), so the second run
//! finds them there and knows them to be whole.

use super::{cache_folder, fetch::sha256_file, rows::Hasher};
use crate::files::Temporary;
pub use crate::input::clean_line;
use crate::input::{self, Content, Reader, MARK};
use crate::interrupt;
use crate::sealed::{self, Found};
use anyhow::Context;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const EVERY: usize = 16;
const BUFFER: usize = 1 << 20;

/// An open file and where its lines begin.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    /// Bytes.
    size: u64,
    /// Where every 16th line begins.
    starts: Vec<u64>,
    lines: usize,
    /// Lines after the first that begin with a byte-order mark.
    marks: usize,
}

impl Lines {
    /// Opens a file and counts its lines; a compressed one is decompressed first.
    ///
    /// The file must not be changed while a run reads it.
    ///
    /// # Errors
    /// Those of [`input::open`]; damaged compressed data; a NUL byte, with its line.
    pub fn open(path: &Path) -> anyhow::Result<Lines> {
        let (file, size) = match input::open(path)? {
            Content::Packed(reader) => decompressed(*reader, path)?,
            Content::Plain(file) => {
                let size = file.metadata().with_context(|| format!("can't look at {}", path.display()))?.len();
                (file, size)
            }
        };
        let mut lines = Lines { path: path.to_path_buf(), file, size, starts: Vec::new(), lines: 0, marks: 0 };
        lines.find_lines()?;
        Ok(lines)
    }

    fn find_lines(&mut self) -> anyhow::Result<()> {
        let (mut starts, mut lines, mut marks, mut start) = (Vec::new(), 0, 0, 0);
        let mut line = |start: u64| {
            if lines % EVERY == 0 {
                starts.push(start);
            }
            lines += 1;
        };
        let mut feeds = 0;
        self.pass(|at, bytes| {
            if let Some(nul) = memchr::memchr(0, bytes) {
                let before = memchr::memchr_iter(b'\n', &bytes[..nul]).count();
                return Err(input::nul(&self.path, feeds + before + 1, at + nul as u64));
            }
            for end in memchr::memchr_iter(b'\n', bytes) {
                line(start);
                start = at + end as u64 + 1;
                feeds += 1;
                let is_marked = match bytes.get(end + 1..end + 1 + MARK.len()) {
                    Some(next) => next == MARK,
                    // The mark, if there is one, crosses the end of the buffer.
                    None => self.begins_with_mark(start)?,
                };
                marks += usize::from(is_marked);
            }
            Ok(())
        })?;
        // After the last line feed there is a line only if there is text.
        let only_mark = self.size - start == MARK.len() as u64 && self.begins_with_mark(start)?;
        if start < self.size && !only_mark {
            line(start);
        }
        (self.starts, self.lines, self.marks) = (starts, lines, marks);
        Ok(())
    }

    fn begins_with_mark(&self, start: u64) -> anyhow::Result<bool> {
        let mut bytes = [0; MARK.len()];
        if start + bytes.len() as u64 > self.size {
            return Ok(false);
        }
        self.read(&mut bytes, start)?;
        Ok(bytes == MARK)
    }

    /// Hands over the file from its start to its end, piece by piece, each with its place.
    fn pass(&self, mut take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut buffer = vec![0; BUFFER.min(self.size as usize)];
        let mut at = 0;
        while at < self.size {
            interrupt::check()?;
            let length = buffer.len().min((self.size - at) as usize);
            self.read(&mut buffer[..length], at)?;
            take(at, &buffer[..length])?;
            at += length as u64;
        }
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> anyhow::Result<()> {
        self.file.read_exact_at(buffer, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.changed(),
            _ => anyhow::anyhow!("can't read {}: {error}", self.path.display()),
        })
    }

    fn changed(&self) -> anyhow::Error {
        anyhow::anyhow!("{} was changed while it was read; start again", self.path.display())
    }

    /// Lines.
    pub fn len(&self) -> usize {
        self.lines
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Bytes of the file, decompressed.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What the file holds, decompressed: for small files. Errors: unreadable, changed since it was opened.
    pub fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.size as usize];
        self.read(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// The file's first 64 KiB, or all of a shorter one. Errors: unreadable, changed since it was opened.
    pub fn head(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.size.min(1 << 16) as usize];
        self.read(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Says how many lines lost a byte-order mark; nothing where none did.
    pub fn note(&self) -> Option<String> {
        input::marks_note(&self.path, self.marks)
    }

    /// Adds size and bytes to a hash, as fast as the disk reads. Errors: unreadable, changed since it was opened.
    pub fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hasher.number(self.size);
        self.pass(|_, bytes| {
            hasher.bytes(bytes);
            Ok(())
        })?;
        // Earlier versions read these marks as text; their token files must not be taken for those of this text.
        if self.marks > 0 {
            hasher.number(self.marks as u64);
        }
        Ok(())
    }

    /// A line without its end. Errors: invalid UTF-8, with file and line; unreadable, changed since it was opened.
    pub fn line(&self, number: usize) -> anyhow::Result<String> {
        let block = number / EVERY;
        let start = self.starts[block];
        let end = self.starts.get(block + 1).copied().unwrap_or(self.size);
        let mut bytes = vec![0; (end - start) as usize];
        self.read(&mut bytes, start)?;
        let mut rest = &bytes[..];
        for _ in 0..number % EVERY {
            let end = memchr::memchr(b'\n', rest).ok_or_else(|| self.changed())?;
            rest = &rest[end + 1..];
        }
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        match std::str::from_utf8(line) {
            Ok(line) => Ok(clean_line(line).to_string()),
            Err(error) => Err(input::invalid_utf8(&self.path.display().to_string(), number + 1, &error)),
        }
    }
}

/// The decompressed file in the cache and the size of its text, made where it is not there yet or is damaged.
fn decompressed(reader: Reader, path: &Path) -> anyhow::Result<(File, u64)> {
    let folder = cache_folder()?.join("text");
    fs::create_dir_all(&folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    let plain = folder.join(format!("{}.text", sha256_file(path)?));
    match sealed::open(&plain)? {
        Found::Whole(file, size) => return Ok((file, size)),
        Found::Missing => {}
        Found::Damaged(why) => sealed::tell_rebuild(&plain, &why),
    }
    let temporary = Temporary::file(&plain)?;
    let made = decompress(reader, path, temporary.path())?;
    sealed::put_in_place(temporary, &plain)?;
    Ok(made)
}

fn decompress(mut reader: Reader, path: &Path, to: &Path) -> anyhow::Result<(File, u64)> {
    let writing = || format!("can't write {}, the decompressed {}", to.display(), path.display());
    let made = File::options().read(true).write(true).create(true).truncate(true).open(to).with_context(writing)?;
    let (mut writer, mut size) = (BufWriter::new(made), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        interrupt::check()?;
        let count = reader.read(&mut buffer).map_err(|error| input::damaged(path, &error))?;
        if count == 0 {
            break;
        }
        writer.write_all(&buffer[..count]).with_context(writing)?;
        size += count as u64;
    }
    let made = writer.into_inner().map_err(|error| error.into_error()).with_context(writing)?;
    sealed::seal(&made).with_context(writing)?;
    Ok((made, size))
}
