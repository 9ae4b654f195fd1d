//! Writing files so that a crash or a full disk leaves the old one whole.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A name beside `path` that no other thread or process uses, for a file that is renamed to `path` once it is whole.
pub fn temporary(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().map(|name| name.to_os_string()).unwrap_or_default();
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Writes to a temporary file beside `path`, makes it durable, and renames it over `path`.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot make this folder", folder.display()))?;
    let temporary = temporary(path);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        // the half-written file is of no use to anybody
        let _ = fs::remove_file(&temporary);
        return Err(error).with_context(|| format!("{}: cannot write; what was there is kept", path.display()));
    }
    // the rename itself is durable only once the folder is
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("{}: cannot be made durable", folder.display()))
}
