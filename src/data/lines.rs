//! The lines of a file that may be larger than memory.
//!
//! The place of every 16th line is kept (half a byte a line); a line is found by reading the sixteen lines around it. Nothing
//! is mapped: pages of a mapped file count as the process's memory, up to the whole file. A line ends at a line feed, with or
//! without a carriage return before it, and nowhere else: tabs, U+0085 and U+2028 are text. The last line needs no line
//! feed; a byte-order mark at the start is passed over. Gzip files are first decompressed into the cache (`text/`), by the
//! hash of their bytes and with a [seal](crate::sealed), so the second run finds them there and knows them to be whole.

use super::{cache_folder, fetch::sha256_file, rows::Hasher};
use crate::files::temporary;
use crate::interrupt;
use crate::sealed::{self, Found};
use anyhow::{bail, Context};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const EVERY: usize = 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
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
}

impl Lines {
    /// Opens a file and counts its lines. A name that ends in `.gz` is decompressed first.
    ///
    /// The file must not be changed while a run reads it.
    /// Errors name the file: missing, unreadable, a folder, a broken gzip file.
    pub fn open(path: &Path) -> anyhow::Result<Lines> {
        let opened = open(path)?;
        let (file, size) = if path.extension().is_some_and(|extension| extension == "gz") {
            decompressed(opened, path)?
        } else {
            let size = opened.metadata().with_context(|| format!("can't look at {}", path.display()))?.len();
            (opened, size)
        };
        let mut lines = Lines { path: path.to_path_buf(), file, size, starts: Vec::new(), lines: 0 };
        lines.find_lines()?;
        Ok(lines)
    }

    fn find_lines(&mut self) -> anyhow::Result<()> {
        let (mut starts, mut lines, mut start) = (Vec::new(), 0, 0);
        let mut line = |start: u64| {
            if lines % EVERY == 0 {
                starts.push(start);
            }
            lines += 1;
        };
        self.pass(|at, bytes| {
            if at == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
                start = BYTE_ORDER_MARK.len() as u64;
            }
            for end in memchr::memchr_iter(b'\n', bytes) {
                line(start);
                start = at + end as u64 + 1;
            }
        })?;
        // After the last line feed there is a line only if there is text.
        if start < self.size {
            line(start);
        }
        (self.starts, self.lines) = (starts, lines);
        Ok(())
    }

    /// Hands over the file from its start to its end, piece by piece, each with its place.
    fn pass(&self, mut take: impl FnMut(u64, &[u8])) -> anyhow::Result<()> {
        let mut buffer = vec![0; BUFFER.min(self.size as usize)];
        let mut at = 0;
        while at < self.size {
            interrupt::check()?;
            let length = buffer.len().min((self.size - at) as usize);
            self.read(&mut buffer[..length], at)?;
            take(at, &buffer[..length]);
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

    /// Adds size and bytes to a hash, as fast as the disk reads. Errors: unreadable, changed since it was opened.
    pub fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hasher.number(self.size);
        self.pass(|_, bytes| hasher.bytes(bytes))
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
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line)
            .map(String::from)
            .with_context(|| format!("{}, line {}: invalid UTF-8", self.path.display(), number + 1))
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!("there is no file {}", path.display()),
        _ => anyhow::anyhow!("can't open {}: {error}", path.display()),
    })?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        bail!("{} is a folder, not a file", path.display());
    }
    Ok(file)
}

/// The decompressed file in the cache and the size of its text, made where it is not there yet or is damaged.
fn decompressed(file: File, path: &Path) -> anyhow::Result<(File, u64)> {
    let folder = cache_folder()?.join("text");
    fs::create_dir_all(&folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    let plain = folder.join(format!("{}.text", sha256_file(path)?));
    match sealed::open(&plain)? {
        Found::Whole(file, size) => return Ok((file, size)),
        Found::Missing => {}
        Found::Damaged(why) => sealed::tell_rebuild(&plain, &why),
    }
    let temporary = temporary(&plain);
    let result =
        decompress(file, path, &temporary).and_then(|made| sealed::put_in_place(&temporary, &plain).map(|()| made));
    if result.is_err() {
        // A broken file is no use to anybody.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn decompress(file: File, path: &Path, to: &Path) -> anyhow::Result<(File, u64)> {
    let writing = || format!("can't write {}", to.display());
    let mut reader = flate2::bufread::MultiGzDecoder::new(BufReader::new(file));
    let made = File::options().read(true).write(true).create(true).truncate(true).open(to).with_context(writing)?;
    let (mut writer, mut size) = (BufWriter::new(made), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        interrupt::check()?;
        let count = std::io::Read::read(&mut reader, &mut buffer)
            .with_context(|| format!("{} is no gzip file, or is cut short", path.display()))?;
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
