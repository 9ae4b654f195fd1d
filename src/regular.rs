//! Regular files: opened without waiting, and read whole up to a stated size.
//!
//! A named pipe would wait for a writer, and a device such as `/dev/zero` never ends. Whoever reads a whole file into memory
//! reads it by [`read`], which refuses both.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// What a file is, for messages, and the most bytes that are read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In the plural, such as `experiment files`.
    pub what: &'static str,
    /// Bytes.
    pub bytes: u64,
}

const MEBIBYTE: u64 = 1 << 20;

/// Experiment files and the `config.toml` of runs.
pub const EXPERIMENT: Limit = Limit { what: "experiment files", bytes: MEBIBYTE };
/// `metrics.json` and `labels.json` of runs.
pub const RECORD: Limit = Limit { what: "JSON records of runs", bytes: 16 * MEBIBYTE };
/// CSV files of results and of published numbers.
pub const TABLE: Limit = Limit { what: "CSV files", bytes: 512 * MEBIBYTE };
/// `tokenizer.json`.
pub const TOKENIZER: Limit = Limit { what: "tokenizers", bytes: 512 * MEBIBYTE };
/// Golden files of `parity`.
pub const GOLDEN: Limit = Limit { what: "golden files", bytes: 4096 * MEBIBYTE };
/// Files of a corpus that are held in memory.
pub const CORPUS: Limit = Limit { what: "corpus files of this kind", bytes: 4096 * MEBIBYTE };

/// Opens a regular file for reading.
///
/// # Errors
/// A folder, pipe, device or socket, named as such; those of the system.
pub fn open(path: &Path) -> io::Result<File> {
    // without O_NONBLOCK, opening a pipe waits for a writer
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(file),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a file")))
}

/// Reads a regular file.
///
/// # Errors
/// Those of [`open`]; a file that is larger than `limit`.
pub fn read(path: &Path, limit: Limit) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // files under /proc and growing files have another size than their metadata says
    open(path)?.take(limit.bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit.bytes {
        let size = limit.bytes / MEBIBYTE;
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {size} MiB; {} are read up to that size", limit.what),
        ));
    }
    Ok(bytes)
}

/// As [`read`], for UTF-8 text.
///
/// # Errors
/// Those of [`read`]; other text, with the line.
pub fn read_text(path: &Path, limit: Limit) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8 text"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    const SMALL: Limit = Limit { what: "notes", bytes: MEBIBYTE };

    #[test]
    fn only_files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        std::fs::write(&file, vec![b'a'; MEBIBYTE as usize]).unwrap();
        assert_eq!(read(&file, SMALL).unwrap().len(), MEBIBYTE as usize);
        std::fs::write(&file, vec![b'a'; MEBIBYTE as usize + 1]).unwrap();
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is a valid string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for (path, message) in [
            (file.as_path(), "it is larger than 1 MiB; notes are read up to that size"),
            (pipe.as_path(), "it is a pipe, not a file"),
            (folder.path(), "it is a folder, not a file"),
            (Path::new("/dev/zero"), "it is a device, not a file"),
        ] {
            assert_eq!(read(path, SMALL).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn text_that_is_not_utf_8_names_its_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"a\nb\xff\n").unwrap();
        assert_eq!(read_text(file.path(), SMALL).unwrap_err().to_string(), "line 2 is not UTF-8 text");
    }
}
