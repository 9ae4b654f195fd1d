//! Disks that are full, read-only or gone.

use crate::place::{End, Place, Reference};
use crate::Verdict;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory; gone with the value.
struct Mount(PathBuf);

impl Mount {
    /// Error: why this machine cannot mount.
    fn new(path: &Path, options: &str) -> Result<Mount, String> {
        std::fs::create_dir_all(path).unwrap();
        mount(&["-t", "tmpfs", "-o", options, "tmpfs"], path)?;
        Ok(Mount(path.into()))
    }

    fn change(&self, options: &str) -> Result<(), String> {
        mount(&["-o", &format!("remount,{options}")], &self.0)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn mount(arguments: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).arg(path).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A disk too small for what is written to it, then one that is large enough.
pub fn full(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let folder = *["results", "cache"].choose(rng).unwrap();
    let size = 4 << rng.random_range(0..9);
    let what = format!("{}: {folder} on a disk of {size} KiB", place.toy.name);
    let mount = match Mount::new(&place.path(folder), &format!("size={size}k")) {
        Ok(mount) => mount,
        Err(why) => return Ok(Verdict::Skipped(why)),
    };
    for _ in 0..2 {
        let ended = place.ended(place.run(&[]))?.expect(&what, &[0, 1, 2], None)?;
        if ended.end != End::Code(0) && !ended.said.contains("No space left") {
            return Err(format!("{what}: the message does not say so:\n{}", ended.said));
        }
        if ended.end != End::Code(0) && !ended.said.contains(folder) {
            return Err(format!("{what}: the message names no file:\n{}", ended.said));
        }
    }
    mount.change("size=256m")?;
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// A limit on the size of a file, which sends SIGXFSZ, then none.
pub fn file_size(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let size = rng.random_range(1..1 << 17);
    let what = format!("{}: files of at most {size} bytes", place.toy.name);
    let mut command = place.run(&[]);
    // SAFETY: setrlimit is async-signal-safe, and nothing else is done between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: size, rlim_max: size };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            Ok(())
        });
    }
    let ended = place.ended(command)?.expect(&what, &[0, 1, 2], None)?;
    if ended.end != End::Code(0) && !["results", "cache"].iter().any(|folder| ended.said.contains(folder)) {
        return Err(format!("{what}: the message names no file:\n{}", ended.said));
    }
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// A folder of a started run that may not be written, then may.
pub fn read_only(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let steps = rng.random_range(1..20).to_string();
    let folder = *["results", "cache"].choose(rng).unwrap();
    let what = format!("{}: {folder} read-only after {steps} steps", place.toy.name);
    // SAFETY: no memory is involved.
    let is_root = unsafe { libc::geteuid() } == 0;
    let path = place.path(folder);
    let mount = match is_root {
        // root may write everywhere but on a file system that is read-only
        true => match Mount::new(&path, "size=256m") {
            Ok(mount) => Some(mount),
            Err(why) => return Ok(Verdict::Skipped(why)),
        },
        false => None,
    };
    let writable = |writable: bool| match &mount {
        Some(mount) => mount.change(if writable { "rw" } else { "ro" }),
        None => {
            let mode = if writable { 0o755 } else { 0o555 };
            let mut folders = vec![path.clone()];
            folders.extend(crate::place::files(&path).iter().filter_map(|file| file.parent().map(Path::to_path_buf)));
            for folder in folders {
                std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).map_err(|e| e.to_string())?;
            }
            Ok(())
        }
    };
    let ready = rng.random_bool(0.7);
    if ready {
        place.ended(place.run(&["--stop-after", &steps]))?.expect(&what, &[0, 130], None)?;
    }
    writable(false)?;
    let ended = place.ended(place.run(&[]))?.expect(&what, &[0, 1, 2], None);
    writable(true)?;
    let ended = ended?;
    if ended.end != End::Code(0) && !ended.said.contains(folder) {
        return Err(format!("{what}: the message names no file:\n{}", ended.said));
    }
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// A folder that somebody deletes while it is used.
pub fn vanished(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let duration = Reference::of(place.toy.name).duration;
    let column = place.column();
    let folders =
        [column.join("V-s1"), column.join("V-s1/checkpoint"), column, place.path("results"), place.path("cache")];
    let (folder, delay) = (folders.choose(rng).unwrap(), duration.mul_f64(rng.random_range(0.0..1.0)));
    let what = format!("{}: {} deleted after {} ms", place.toy.name, folder.display(), delay.as_millis());
    let running = place.start(if rng.random_bool(0.3) { &["--jobs", "2"] } else { &[] });
    std::thread::sleep(delay);
    let _ = std::fs::remove_dir_all(folder);
    running.wait().map_err(|why| format!("{what}: {why}"))?.expect(&what, &[0, 1, 2], None)?;
    place.finish(&what)?;
    Ok(Verdict::Ok)
}
