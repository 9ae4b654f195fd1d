//! Writing files so that a crash or a full disk leaves the old one whole.
//!
//! A file is written under a temporary name and renamed once it is complete. A process that is killed leaves its temporary
//! behind; the next process that writes into the same folder deletes it. A living process holds an advisory lock (`flock`) on
//! each of its temporaries, and only a temporary whose lock can be taken is deleted. The process number in the name takes no
//! part in that decision, because numbers are reused and hosts or containers that share a folder count on their own. Where the
//! file system has no locks, temporaries are never deleted.

use crate::interrupt;
use anyhow::{Context, Result};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Bytes that a name may have on the file systems in use.
const NAME_BYTES: usize = 255;

/// A file or folder that is renamed to its target once it is complete, and removed when dropped before that.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    /// Its lock tells other processes that this one is alive.
    handle: File,
    finished: bool,
}

impl Temporary {
    /// An empty file beside `target`. Deletes what killed processes left in that folder first.
    ///
    /// # Errors
    /// The folder is missing or read-only.
    pub fn file(target: &Path) -> Result<Temporary> {
        Self::create(target, |path| File::options().read(true).write(true).create_new(true).open(path))
    }

    /// An empty folder beside `target`. Deletes what killed processes left there first.
    ///
    /// # Errors
    /// The folder above is missing or read-only.
    pub fn folder(target: &Path) -> Result<Temporary> {
        Self::create(target, |path| fs::create_dir(path).and_then(|()| File::open(path)))
    }

    fn create(target: &Path, make: impl Fn(&Path) -> io::Result<File>) -> Result<Temporary> {
        remove_temporaries_once(folder_of(target));
        loop {
            let path = temporary_name(target);
            let handle = match make(&path) {
                Ok(handle) => handle,
                // another container may have a process of the same number
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                // a folder can vanish between the two calls of `make`
                Err(error) if error.kind() == ErrorKind::NotFound && folder_of(&path).is_dir() => continue,
                Err(error) => return Err(error).with_context(|| format!("{}: cannot make this file", path.display())),
            };
            // Without locks nobody deletes it either.
            let _ = handle.lock();
            // Before the lock was taken another process could take it, and delete the file.
            if is_at(&handle, &path) {
                return Ok(Temporary { path, handle, finished: false });
            }
        }
    }

    /// Where to write until it is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to `target`.
    ///
    /// # Errors
    /// The rename failed; the temporary is removed, and `target` is as it was.
    pub fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.finished {
            let _ = remove(&self.path, self.handle.metadata().is_ok_and(|found| found.is_dir()));
        }
    }
}

/// A name beside `target` that no other thread of this process uses: `TARGET.PROCESS-NUMBER.tmp`.
fn temporary_name(target: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let end = format!(".{}-{number}.tmp", std::process::id());
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut cut = name.len().min(NAME_BYTES - end.len());
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    target.with_file_name(name[..cut].to_string() + &end)
}

/// Whether a file's name says that it is no user's data: hidden files, among them AppleDouble files (`._name`, which macOS
/// puts into archives and onto foreign disks), backups of editors (`name~`, `#name#`), and the files of file managers.
pub fn is_clutter(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_backup = name.ends_with('~') || (name.starts_with('#') && name.ends_with('#'));
    let is_manager = ["thumbs.db", "desktop.ini"].iter().any(|known| name.eq_ignore_ascii_case(known));
    name.starts_with('.') || is_backup || is_manager
}

/// Whether a name ends as [`temporary_name`] makes it.
fn is_temporary(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_suffix(".tmp")
        .and_then(|name| name.rsplit_once('.'))
        .and_then(|(_, numbers)| numbers.split_once('-'))
        .is_some_and(|(process, count)| number(process) && number(count))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether this open file is the one that a path names.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn remove(path: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Deletes what killed processes left half-written in `folder`, not in folders beneath it. Temporaries of living processes,
/// those that cannot be deleted and all other files stay.
pub fn remove_temporaries(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() || !is_temporary(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        let opened = if kind.is_dir() { File::open(&path) } else { File::options().write(true).open(&path) };
        let Ok(file) = opened else { continue };
        // While the lock is held no other process deletes the file, so the name cannot come to mean a new one.
        if file.try_lock().is_ok() && is_at(&file, &path) {
            let _ = remove(&path, kind.is_dir());
        }
    }
}

/// [`remove_temporaries`], once for each folder in the life of this process.
pub fn remove_temporaries_once(folder: &Path) {
    static DONE: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let mut done = DONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if done.get_or_insert_default().insert(folder.to_path_buf()) {
        remove_temporaries(folder);
    }
}

/// Writes to a temporary file beside `path`, makes it durable, and renames it over `path`.
///
/// # Errors
/// The folder cannot be made, or the file cannot be written; what was there is kept.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = folder_of(path);
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot make this folder", folder.display()))?;
    let writing = || format!("{}: cannot write; what was there is kept", path.display());
    let _whole = interrupt::hold();
    let temporary = Temporary::file(path).with_context(writing)?;
    (&temporary.handle).write_all(bytes).and_then(|()| temporary.handle.sync_all()).with_context(writing)?;
    temporary.rename(path).with_context(writing)?;
    // the rename itself is durable only once the folder is
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("{}: cannot be made durable", folder.display()))
}

/// Makes a folder, and a file in it that is removed again.
///
/// # Errors
/// Files cannot be made there.
pub fn check_writable(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot make this folder", folder.display()))?;
    let probe = Temporary::file(&folder.join("probe"))?;
    (&probe.handle).write_all(b"x").with_context(|| format!("{}: cannot write into this folder", folder.display()))
}

/// A lock between processes, held until it is dropped. The file stays: whoever deleted it could delete one that another
/// process has just locked.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "dropping the file releases the lock")] File);

impl Lock {
    /// `None` if another process holds it. Makes the file.
    ///
    /// # Errors
    /// The file cannot be made, or the file system has no locks.
    pub fn try_take(path: &Path) -> Result<Option<Lock>> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("{}: cannot make this file", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("{}: cannot be locked", path.display()))
            }
        }
    }
}

/// `path` with `before` and `after` around its last part.
pub fn beside(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_temporaries_of_this_folder_go() {
        let folder = tempfile::tempdir().unwrap();
        remove_temporaries(&folder.path().join("not there"));
        let place = |name: &str| folder.path().join(name);
        fs::create_dir_all(place("checkpoint")).unwrap();
        let dead = ["metrics.json.4000000-0.tmp", "a.tokens.1-12.tmp", "tokenizer.json.1-2.tmp"];
        let others = [
            "log.csv",
            "notes.tmp",
            "notes.1-x.tmp",
            "notes.-1.tmp",
            "1-2.tmp",
            "notes.1-2.tmp.csv",
            "checkpoint/a.1-2.tmp",
        ];
        for name in dead.iter().chain(&others) {
            fs::write(place(name), "x").unwrap();
        }
        fs::create_dir_all(place("corpus.whl.7-7.tmp/backend")).unwrap();
        fs::write(place("corpus.whl.7-7.tmp/backend/half"), "x").unwrap();
        std::os::unix::fs::symlink(place("log.csv"), place("link.1-1.tmp")).unwrap();
        remove_temporaries(folder.path());
        for name in dead.into_iter().chain(["corpus.whl.7-7.tmp"]) {
            assert!(!place(name).exists(), "{name}");
        }
        for name in others.into_iter().chain(["link.1-1.tmp"]) {
            assert!(place(name).exists(), "{name}");
        }
    }

    #[test]
    fn a_write_deletes_what_a_killed_process_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("other.csv.4000000-0.tmp");
        fs::write(&dead, "x").unwrap();
        write_atomically(&folder.path().join("toy.csv"), b"mix\n").unwrap();
        assert!(!dead.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_temporary_goes_when_it_is_dropped_and_a_failed_rename_keeps_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        let error = format!("{:#}", write_atomically(&target, b"x").unwrap_err());
        assert!(error.contains("target: cannot write; what was there is kept"), "{error}");
        drop(Temporary::folder(&target).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the target");
    }

    #[test]
    fn the_longest_name_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x".repeat(255), "é".repeat(127)] {
            write_atomically(&folder.path().join(&name), b"x").unwrap();
            assert!(folder.path().join(name).exists());
        }
    }

    /// Not a test of its own: the process that another test starts, which holds temporaries until it is killed.
    #[test]
    fn holds_temporaries() {
        let Some(target) = std::env::var_os("SYNTHESIZER_TEST_TEMPORARY") else { return };
        let target = PathBuf::from(target);
        let held = (Temporary::file(&target).unwrap(), Temporary::folder(&target).unwrap());
        fs::write(beside(&target, "", ".ready"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(300));
        drop(held);
    }

    #[test]
    fn temporaries_of_a_living_process_stay_and_those_of_a_killed_one_go() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("toy.csv");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "files::tests::holds_temporaries"])
            .env("SYNTHESIZER_TEST_TEMPORARY", &target)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !beside(&target, "", ".ready").exists() {
            assert!(child.try_wait().unwrap().is_none(), "the other process ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let ours = Temporary::file(&target).unwrap();
        let there = || fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(there(), 4, "its file, its folder, the sign that it is ready, and our own");
        remove_temporaries(folder.path());
        assert_eq!(there(), 4);
        child.kill().unwrap();
        child.wait().unwrap();
        remove_temporaries(folder.path());
        assert_eq!(there(), 2);
        assert!(ours.path().exists());
    }

    #[test]
    fn writers_and_cleaners_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let cleaner = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    remove_temporaries(folder.path());
                }
            });
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let target = folder.path().join(format!("{writer}.csv"));
                    scope.spawn(move || {
                        for round in 0..200 {
                            write_atomically(&target, round.to_string().as_bytes()).unwrap();
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            cleaner.join().unwrap();
        });
        for writer in 0..3 {
            assert_eq!(fs::read_to_string(folder.path().join(format!("{writer}.csv"))).unwrap(), "199");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_lock_is_held_by_one_and_its_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = beside(&folder.path().join("toy.csv"), ".", ".lock");
        assert_eq!(path, folder.path().join(".toy.csv.lock"));
        let first = Lock::try_take(&path).unwrap();
        assert!(first.is_some() && Lock::try_take(&path).unwrap().is_none());
        drop(first);
        assert!(Lock::try_take(&path).unwrap().is_some() && path.exists());
    }
}
