//! The lines of a file that may be larger than memory.
//!
//! The file is mapped, and the place of every 16th line is kept (half a byte a line). A line ends at a line feed, with or
//! without a carriage return before it, and nowhere else: tabs, U+0085 and U+2028 are text. The last line needs no line
//! feed; a byte-order mark at the start is passed over. Gzip files are first decompressed into the cache (`text/`), by the
//! hash of their bytes, so the second run finds them there.

use super::{cache_folder, fetch::sha256_file, temporary};
use anyhow::{bail, Context};
use memmap2::Mmap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

const EVERY: usize = 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A mapped file and where its lines begin.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    /// Nothing for an empty file.
    map: Option<Mmap>,
    starts: Vec<u64>,
    lines: usize,
}

impl Lines {
    /// Maps a file and counts its lines. A name that ends in `.gz` is decompressed first.
    ///
    /// The file must not be changed while a run reads it.
    /// Errors name the file: missing, unreadable, a folder, a broken gzip file.
    pub fn open(path: &Path) -> anyhow::Result<Lines> {
        let opened = open(path)?;
        let plain = if path.extension().is_some_and(|extension| extension == "gz") {
            let plain = decompressed(opened, path)?;
            File::open(&plain).with_context(|| format!("can't open {}", plain.display()))?
        } else {
            opened
        };
        let length = plain.metadata().with_context(|| format!("can't look at {}", path.display()))?.len();
        let map = if length == 0 {
            None
        } else {
            // SAFETY: read only; users are told not to change files that a run reads.
            Some(unsafe { Mmap::map(&plain) }.with_context(|| format!("can't map {} into memory", path.display()))?)
        };
        let mut lines = Lines { path: path.to_path_buf(), map, starts: Vec::new(), lines: 0 };
        lines.find_lines();
        Ok(lines)
    }

    fn find_lines(&mut self) {
        let bytes = self.map.as_deref().unwrap_or_default();
        let mut start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let (mut starts, mut lines) = (Vec::new(), 0);
        for end in memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]) {
            // After the last line feed there is a line only if there is text.
            if end == bytes.len() && start == end {
                break;
            }
            if lines % EVERY == 0 {
                starts.push(start as u64);
            }
            lines += 1;
            start = end + 1;
        }
        (self.starts, self.lines) = (starts, lines);
    }

    /// Lines.
    pub fn len(&self) -> usize {
        self.lines
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// What the file holds, decompressed.
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// A line without its end. Error: invalid UTF-8, with file and line.
    pub fn line(&self, number: usize) -> anyhow::Result<&str> {
        let mut rest = &self.bytes()[self.starts[number / EVERY] as usize..];
        for _ in 0..number % EVERY {
            // `number` is below `len`, so there is a line feed before it.
            rest = memchr::memchr(b'\n', rest).map_or(&[][..], |end| &rest[end + 1..]);
        }
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line)
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

/// The decompressed file in the cache, made where it isn't there yet.
fn decompressed(file: File, path: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache_folder()?.join("text");
    fs::create_dir_all(&folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    let plain = folder.join(sha256_file(path)?);
    if plain.exists() {
        return Ok(plain);
    }
    let temporary = temporary(&plain);
    let result = decompress(file, path, &temporary)
        .and_then(|()| fs::rename(&temporary, &plain).with_context(|| format!("can't write {}", plain.display())));
    if result.is_err() {
        // A broken file is no use to anybody.
        let _ = fs::remove_file(&temporary);
    }
    result.map(|()| plain)
}

fn decompress(file: File, path: &Path, to: &Path) -> anyhow::Result<()> {
    let writing = || format!("can't write {}", to.display());
    let mut reader = flate2::bufread::MultiGzDecoder::new(BufReader::new(file));
    let mut writer = BufWriter::new(File::create(to).with_context(writing)?);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = std::io::Read::read(&mut reader, &mut buffer)
            .with_context(|| format!("{} is no gzip file, or is cut short", path.display()))?;
        if count == 0 {
            break;
        }
        writer.write_all(&buffer[..count]).with_context(writing)?;
    }
    writer.into_inner().map_err(|error| error.into_error()).and_then(|file| file.sync_all()).with_context(writing)
}
