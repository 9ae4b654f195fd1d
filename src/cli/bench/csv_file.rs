//! The CSV file of a benchmark.

use crate::origin;
use crate::terminal::command_line;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::path::Path;

/// A file whose every line ends with where and how it was measured; or no file, which takes lines too.
pub(super) struct CsvFile {
    file: Option<csv::Writer<File>>,
    origin: Origin,
}

/// The last columns.
#[derive(Serialize)]
struct Origin {
    /// The processor's name.
    cpu: String,
    /// Ours.
    version: &'static str,
    /// What was typed.
    command: String,
}

impl CsvFile {
    /// Makes the file, and its folder: before anything is measured.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn create(path: Option<&Path>) -> Result<CsvFile> {
        let make = |path: &Path| {
            let made = match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                Some(folder) => std::fs::create_dir_all(folder),
                None => Ok(()),
            };
            let file = made.and_then(|()| File::create(path));
            file.map(csv::Writer::from_writer).with_context(|| format!("cannot write {}", path.display()))
        };
        let origin = Origin { cpu: origin::cpu(), version: origin::VERSION, command: command_line() };
        Ok(CsvFile { file: path.map(make).transpose()?, origin })
    }

    /// Writes lines, so that they stay if the next are never measured.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn keep(&mut self, rows: &[impl Serialize]) -> std::io::Result<()> {
        let Some(writer) = &mut self.file else { return Ok(()) };
        for row in rows {
            writer.serialize((row, &self.origin)).map_err(std::io::Error::from)?;
        }
        writer.flush()
    }
}
