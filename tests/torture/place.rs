//! A folder in which a toy is run, disturbed, and compared with an undisturbed run.

use crate::toys::{toys, Toy};
use crate::workplace::Workplace;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Whoever takes longer hangs.
const LIMIT: Duration = Duration::from_secs(300);
pub const RUNS: [&str; 2] = ["V-s1", "FR-s1"];

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub end: End,
    /// Both streams.
    pub said: String,
}

impl Ended {
    /// That it neither panicked, crashed nor printed a backtrace, and ended with one of `codes`. `sent` is a signal that it
    /// may die of before its first word, while LibTorch is still being loaded.
    pub fn expect(self, what: &str, codes: &[i32], sent: Option<i32>) -> Result<Ended, String> {
        let Ended { end, said } = &self;
        for bad in [
            "should not happen",
            "panicked",
            "RUST_BACKTRACE",
            "Exception raised from",
            "terminate called",
            "double-linked",
        ] {
            if said.contains(bad) {
                return Err(format!("{what}: {bad:?} in:\n{said}"));
            }
        }
        let fine = match end {
            End::Code(code) => codes.contains(code),
            End::Signal(signal) => sent == Some(*signal) && (said.is_empty() || *signal == libc::SIGKILL),
        };
        match fine {
            true => Ok(self),
            false => Err(format!("{what}: ended with {end:?}, not with one of {codes:?}:\n{said}")),
        }
    }
}

/// A run that goes on.
pub struct Running {
    child: Child,
    started: Instant,
    readers: Vec<std::thread::JoinHandle<String>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = |mut text: Vec<u8>| String::from_utf8_lossy(&std::mem::take(&mut text)).into_owned();
        let readers = vec![
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = out.read_to_end(&mut text);
                read(text)
            }),
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = errors.read_to_end(&mut text);
                read(text)
            }),
        ];
        Running { child, started: Instant::now(), readers }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so its number is still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits for the process and for those that it started, which hold the other end of its streams.
    pub fn wait(mut self) -> Result<Ended, String> {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.started.elapsed() > LIMIT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!("no end within {} s", LIMIT.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let end = status.code().map_or(End::Signal(status.signal().unwrap_or(0)), End::Code);
        while self.readers.iter().any(|reader| !reader.is_finished()) {
            if self.started.elapsed() > LIMIT {
                return Err("a process that it started has no end".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = self.readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        Ok(Ended { end, said })
    }
}

/// A toy in a folder of its own.
pub struct Place {
    pub place: Workplace,
    pub toy: Toy,
}

impl Place {
    pub fn new(toy: Toy) -> Place {
        let place = Workplace::new(r#"["V"]"#, 1);
        toy.put(&place);
        Place { place, toy }
    }

    /// One of the toys.
    pub fn any(rng: &mut StdRng) -> Place {
        let names = [
            "translation",
            "language-modelling",
            "masked-language-modelling",
            "summarization",
            "dialogue",
            "classification",
        ];
        Place::of(names.choose(rng).unwrap())
    }

    pub fn of(name: &str) -> Place {
        Place::new(toys(24).into_iter().find(|toy| toy.name == name).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// `results/custom/NAME`
    pub fn column(&self) -> PathBuf {
        self.path("results/custom").join(self.toy.name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env("OMP_NUM_THREADS", "1");
        command
    }

    pub fn run(&self, more: &[&str]) -> Command {
        let file = format!("{}.toml", self.toy.name);
        self.command(&[&["run", &*file, "--threads", "1"], more].concat())
    }

    pub fn start(&self, more: &[&str]) -> Running {
        Running::start(self.run(more))
    }

    /// Runs a command to its end.
    pub fn ended(&self, command: Command) -> Result<Ended, String> {
        Running::start(command).wait()
    }

    /// Runs to the end without a disturbance; the results must be those of an undisturbed run, agree with each other, and no
    /// half-written file may be left.
    pub fn finish(&self, what: &str) -> Result<(), String> {
        self.ended(self.run(&[]))?.expect(&format!("{what}; the last run"), &[0], None)?;
        self.compare(&[]).map_err(|why| format!("{what}: {why}"))?;
        self.ended(self.command(&["verify"]))?.expect(&format!("{what}; verify"), &[0], None)?;
        self.no_temporaries().map_err(|why| format!("{what}: {why}"))
    }

    pub fn no_temporaries(&self) -> Result<(), String> {
        let left: Vec<PathBuf> = ["results", "cache", "plots"]
            .iter()
            .flat_map(|folder| files(&self.path(folder)))
            .filter(|path| path.extension().is_some_and(|ending| ending == "tmp"))
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("half-written files are left: {left:?}")),
        }
    }

    /// Whether everything that does not depend on time is as in the undisturbed run; but for `without`.
    pub fn compare(&self, without: &[&Path]) -> Result<(), String> {
        let reference = Reference::of(self.toy.name);
        let here = facts(&self.path("results"), without);
        for (name, wanted) in &reference.facts {
            let path = self.path("results").join(name);
            if without.iter().any(|without| path.starts_with(without)) {
                continue;
            }
            match here.get(name) {
                None => return Err(format!("{name} is missing")),
                Some(found) if found != wanted => {
                    return Err(format!(
                        "{name} differs from that of an undisturbed run: {}",
                        first_difference(found, wanted)
                    ))
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn first_difference(found: &[u8], wanted: &[u8]) -> String {
    let texts = [found, wanted].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (mut a, mut b) = (texts[0].lines(), texts[1].lines());
    for line in 1.. {
        let clip = |line: Option<&str>| line.map(|line| line.chars().take(200).collect::<String>());
        match (a.next(), b.next()) {
            (None, None) => break,
            (found, wanted) if found != wanted => {
                return format!("line {line}: {:?} and {:?}", clip(found), clip(wanted))
            }
            _ => {}
        }
    }
    format!("{} and {} bytes", found.len(), wanted.len())
}

/// An undisturbed run of a toy.
pub struct Reference {
    place: Place,
    facts: BTreeMap<String, Vec<u8>>,
    pub duration: Duration,
}

impl Reference {
    /// Made once for each toy.
    pub fn of(name: &str) -> Arc<Reference> {
        /// Empty until the first thread that needs it has made it.
        type Slot = Arc<Mutex<Option<Arc<Reference>>>>;
        static KNOWN: Mutex<Option<HashMap<String, Slot>>> = Mutex::new(None);
        let slot = KNOWN.lock().unwrap().get_or_insert_default().entry(name.to_string()).or_default().clone();
        let mut slot = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        slot.get_or_insert_with(|| {
            let place = Place::of(name);
            let started = Instant::now();
            let ended = place.ended(place.run(&[])).and_then(|ended| ended.expect("undisturbed", &[0], None));
            ended.unwrap_or_else(|why| panic!("{why}"));
            let duration = started.elapsed();
            let facts = facts(&place.path("results"), &[]);
            assert!(facts.len() > 8, "{:?}", facts.keys());
            Arc::new(Reference { place, facts, duration })
        })
        .clone()
    }

    /// A copy of its results and its cache.
    pub fn copy(&self) -> Place {
        let copy = Place::of(self.place.toy.name);
        for folder in ["results", "cache"] {
            let from = self.place.path(folder);
            for path in files(&from) {
                let to = copy.path(folder).join(path.strip_prefix(&from).unwrap());
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(&path, to).unwrap();
            }
        }
        copy
    }
}

/// All files under a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// What of the results does not depend on time: the path under `results`, and the content.
fn facts(results: &Path, without: &[&Path]) -> BTreeMap<String, Vec<u8>> {
    let mut facts = BTreeMap::new();
    for path in files(results).into_iter().filter(|path| !without.iter().any(|without| path.starts_with(without))) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let is_column = path.parent().is_some_and(|folder| folder.ends_with("custom"));
        let content = match &*name {
            // `last` and its predecessor hold seconds and moments; `final` is what was trained
            "final.safetensors" => weights(&bytes),
            "log.csv" => columns(&bytes, |name| {
                let timed = ["tokens_per_second", "data_wait", "checksum"];
                !timed.contains(&name)
            }),
            "config.toml" | "attention.csv" | "tokenizer.json" | "labels.json" => bytes,
            name if name.ends_with(".txt") || name.ends_with(".predictions.csv") || name.ends_with(".losses.csv") => {
                bytes
            }
            name if name.ends_with(".csv") && is_column => columns(&bytes, |name| {
                let kept =
                    ["mix", "variant", "seed", "steps", "tokens", "threads", "config_hash", "data_hash", "notes"];
                kept.contains(&name)
                    || name.starts_with("dev.")
                    || name.starts_with("test.")
                    || name.ends_with("_parameters")
            }),
            _ => continue,
        };
        facts.insert(path.strip_prefix(results).unwrap().to_string_lossy().into_owned(), content);
    }
    facts
}

/// Names, shapes and bytes of the tensors of a safetensors file, without its metadata.
fn weights(bytes: &[u8]) -> Vec<u8> {
    let parsed = || -> Option<Vec<u8>> {
        let length = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?) as usize;
        let mut header: Value = serde_json::from_slice(bytes.get(8..8 + length)?).ok()?;
        header.as_object_mut()?.remove("__metadata__");
        let sorted: BTreeMap<&String, &Value> = header.as_object()?.iter().collect();
        let mut text = format!("{sorted:?}\n").into_bytes();
        text.extend_from_slice(&bytes[8 + length..]);
        Some(text)
    };
    parsed().unwrap_or_else(|| b"not a safetensors file".to_vec())
}

/// Some columns of a CSV; rows sorted, since `--jobs` may finish them in another order.
fn columns(bytes: &[u8], keep: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let Ok(header) = reader.headers().cloned() else { return b"not a CSV".to_vec() };
    let mut kept: Vec<usize> = (0..header.len()).filter(|at| keep(&header[*at])).collect();
    kept.sort_by_key(|at| header[*at].to_string());
    let line = |record: &csv::StringRecord| {
        kept.iter().map(|at| record.get(*at).unwrap_or("(nothing)").to_string()).collect::<Vec<_>>().join(",")
    };
    let mut lines = vec![line(&header)];
    for record in reader.records() {
        lines.push(record.map_or("a damaged line".into(), |record| line(&record)));
    }
    let is_log = header.get(0) == Some("step");
    if !is_log {
        lines[1..].sort();
    }
    (lines.join("\n") + "\n").into_bytes()
}
