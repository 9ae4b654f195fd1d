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

/// Whether a file's name says that it is no user's data: hidden files, among them AppleDouble files (`._name`, which macOS
/// puts into archives and onto foreign disks), backups of editors (`name~`, `#name#`), and the files of file managers.
pub fn is_clutter(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_backup = name.ends_with('~') || (name.starts_with('#') && name.ends_with('#'));
    let is_manager = ["thumbs.db", "desktop.ini"].iter().any(|known| name.eq_ignore_ascii_case(known));
    name.starts_with('.') || is_backup || is_manager
}

/// Deletes what a process that was killed left half-written in `folder` and the folders right in it: files with a name of
/// [`temporary`]. Only for who holds the folder's lock, since other processes' files go too.
///
/// # Errors
/// A folder that can't be read, or a file that can't be deleted; a folder that isn't there is fine.
pub fn remove_temporaries(folder: &Path) -> Result<()> {
    let entries = |folder: &Path| match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries
            .and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>())
            .with_context(|| format!("{}: cannot read this folder", folder.display())),
    };
    let here = entries(folder)?;
    let mut below = Vec::new();
    for entry in &here {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below.extend(entries(&entry.path())?);
        }
    }
    for entry in here.into_iter().chain(below) {
        let path = entry.path();
        if is_temporary(&path) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::remove_file(&path).with_context(|| format!("{}: cannot remove", path.display()))?;
        }
    }
    Ok(())
}

/// Whether a name ends as [`temporary`] makes it: `.PROCESS-NUMBER.tmp`.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_suffix(".tmp")
        .and_then(|name| name.rsplit_once('.'))
        .and_then(|(_, numbers)| numbers.split_once('-'))
        .is_some_and(|(process, count)| number(process) && number(count))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporaries_go_wherever_in_the_run_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        remove_temporaries(&folder.path().join("not there")).unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir_all(place("checkpoint/deeper")).unwrap();
        let half = [temporary(&place("metrics.json")), temporary(&place("checkpoint/last.safetensors"))];
        let others =
            ["log.csv", "notes.tmp", "notes.1-x.tmp", "checkpoint/last.safetensors", "checkpoint/deeper/a.1-2.tmp"];
        for path in half.iter().cloned().chain(others.map(place)) {
            fs::write(path, "x").unwrap();
        }
        remove_temporaries(folder.path()).unwrap();
        assert!(half.iter().all(|path| !path.exists()), "{half:?}");
        for name in others {
            assert!(place(name).exists(), "{name}");
        }
    }
}
