//! What can go wrong in a report.

use crate::excerpt::clipped;
use std::path::{Path, PathBuf};

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A result file does not hold what its kind of file holds.
    #[error("{}:{line}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// A file or folder can't be read.
    #[error("can't read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A file or folder can't be written; the text says which.
    #[error(transparent)]
    Write(#[from] anyhow::Error),
    /// A figure can't be drawn.
    #[error("can't draw {}: {message}", path.display())]
    Draw {
        /// The picture.
        path: PathBuf,
        /// The drawing library's reason.
        message: String,
    },
    /// There is nothing to report; the text says which command makes it.
    #[error("{0}")]
    Nothing(String),
}

impl ReportError {
    /// A fault of a line; of a long message the beginning and the end.
    pub fn content(path: &Path, line: u64, message: &str) -> ReportError {
        ReportError::Content { path: path.into(), line, message: clipped(message) }
    }
}

/// Result of the report's functions.
pub type Result<T> = std::result::Result<T, ReportError>;
