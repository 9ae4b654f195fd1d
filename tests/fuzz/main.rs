//! Fuzzing: mutated experiments, mixes, corpora, caches, checkpoints and results must be read or refused.
//!
//! Every target runs in a process of its own, which must neither panic nor hang, keeps its memory within bounds, and names
//! what it refuses in a message of bounded length. `make fuzz` tries FUZZ_CASES inputs per target (20,000) and writes a summary
//! to FUZZ_SUMMARY; `cargo test` tries fewer. A failed case leaves its input in the target folder and names its seed:
//! FUZZ_SEED and FUZZ_TARGET do it again.

mod mutate;
mod readers;
mod results;
mod stores;
#[path = "../common/summary.rs"]
mod summary;
mod texts;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use summary::{variable, Summary, Tally};

/// A case: makes an input from the generator in the folder, saves it under the folder's `input`, and reads it. An error is the
/// reader's; what the reader promises beyond that is asserted.
type Case = fn(&mut StdRng, &Path) -> anyhow::Result<()>;

/// Name, case, and how many of ten cases are tried: some take longer.
const TARGETS: [(&str, Case, u64); 17] = [
    ("mix grammar", texts::mix, 10),
    ("experiment TOML", texts::experiment, 10),
    ("text corpora", readers::text, 5),
    ("JSON Lines", readers::json_lines, 5),
    ("ParlAI", readers::parlai, 5),
    ("PersonaChat JSON", readers::persona_chat, 5),
    ("CNN stories", readers::stories, 5),
    ("GLUE", readers::glue, 10),
    ("SuperGLUE", readers::superglue, 10),
    ("AG News", readers::ag_news, 10),
    ("IMDb", readers::imdb, 10),
    ("word vectors", readers::vectors, 10),
    ("checkpoints", stores::checkpoint, 10),
    ("token caches", stores::tokens, 10),
    ("tokenizers", stores::tokenizer, 5),
    ("logs and rows", results::sheets, 10),
    ("tables and verify", results::tables, 3),
];

const TARGET: &str = "FUZZ_CHILD";
/// No case may take longer.
const LIMIT: Duration = Duration::from_secs(30);
/// Inputs are below 1 MiB; what is read from one may not take more than this, in bytes.
const MEMORY: u64 = 1 << 30;
/// A message may quote its input, but not all of it.
const MESSAGE: usize = 8000;

fn seed_of(seed: u64, number: u64) -> u64 {
    seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Runs every target in processes of its own.
#[test]
fn fuzz() {
    if std::env::var_os(TARGET).is_some() {
        return;
    }
    let cases: u64 = variable("FUZZ_CASES").unwrap_or(200);
    let seed = variable("FUZZ_SEED").unwrap_or_else(|| StdRng::from_os_rng().next_u64() >> 32);
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    println!("FUZZ_SEED={seed}");
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let tallies: Mutex<BTreeMap<&str, Tally>> = Mutex::default();
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some((name, _, share)) = TARGETS.get(next.fetch_add(1, Ordering::SeqCst)) {
            if !wanted.is_empty() && wanted != *name {
                continue;
            }
            let (tally, found) = target(name, seed, (cases * share / 10).max(1));
            println!("{name}: {} ok, {} failed", tally.ok, tally.failed);
            tallies.lock().unwrap().insert(name, tally);
            failures.lock().unwrap().extend(found);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    Summary { title: "Fuzzing", command: "make fuzz", seed, seconds: started.elapsed().as_secs() }
        .write("FUZZ_SUMMARY", &tallies.into_inner().unwrap());
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} cases failed, with FUZZ_SEED={seed}:\n{}", failures.len(), failures.join("\n\n"));
}

/// Runs a target's cases; a process that ends early is started again behind the case that ended it.
fn target(name: &'static str, seed: u64, cases: u64) -> (Tally, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    let mut first = 0;
    while first < cases && failures.len() < 20 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command.env(TARGET, name).env("FUZZ_FOLDER", folder.path()).env("FUZZ_SEED", seed.to_string());
        command.env("FUZZ_FIRST", first.to_string()).env("FUZZ_CASES", cases.to_string());
        command.env("SYNTHESIZER_CACHE", folder.path().join("cache")).env("OMP_NUM_THREADS", "1").stdin(Stdio::null());
        // SAFETY: setrlimit is async-signal-safe, and nothing else is done between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit { rlim_cur: 16 << 30, rlim_max: 16 << 30 };
                libc::setrlimit(libc::RLIMIT_AS, &limit);
                Ok(())
            });
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count() as u64;
        tally.ok += count("OK ");
        tally.failed += count("FAILED ");
        failures.extend(text.lines().filter(|line| line.starts_with("FAILED ")).map(|line| format!("{name}: {line}")));
        let done = text.lines().filter_map(|line| {
            line.split(' ').nth(1).filter(|_| line.starts_with("OK ") || line.starts_with("FAILED "))
        });
        let last: Option<u64> = done.filter_map(|number| number.parse().ok()).max();
        first = last.map_or(first, |last| last + 1);
        if !output.status.success() && first < cases && !text.contains("STOPPED") {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let end: Vec<&str> = errors.lines().rev().take(8).collect();
            let kept = keep(name, seed, first, folder.path());
            failures
                .push(format!("{name}: case {first} ended the process with {}: {end:?}; input: {kept}", output.status));
            tally.failed += 1;
            first += 1;
        } else if last.is_none() {
            failures.push(format!("{name}: no case was tried: {}{text}", String::from_utf8_lossy(&output.stderr)));
            tally.failed += 1;
            break;
        }
    }
    (tally, failures)
}

/// Copies a failed case's input to where it stays; its path.
fn keep(name: &str, seed: u64, number: u64, folder: &Path) -> String {
    let kept =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz").join(format!("{}-{seed}-{number}", name.replace(' ', "-")));
    let _ = std::fs::remove_dir_all(&kept);
    copy(&folder.join("input"), &kept);
    kept.display().to_string()
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::create_dir_all(to);
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name()))),
        }
    }
}

/// Most resident memory of this process so far, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The cases of one target, in this process. A line tells of each.
#[test]
fn child() {
    let Ok(name) = std::env::var(TARGET) else { return };
    let (_, case, _) = TARGETS.iter().find(|(target, ..)| *target == name).unwrap();
    let folder = PathBuf::from(std::env::var_os("FUZZ_FOLDER").unwrap());
    let [seed, first, cases] = ["FUZZ_SEED", "FUZZ_FIRST", "FUZZ_CASES"].map(|name| variable::<u64>(name).unwrap());
    let place = Arc::new(Mutex::new(String::new()));
    let seen = place.clone();
    std::panic::set_hook(Box::new(move |panic| {
        *seen.lock().unwrap() = panic.to_string().chars().take(600).collect::<String>().replace('\n', " ");
    }));
    // the number of the case at hand and when it began, in milliseconds
    let started = Instant::now();
    let (current, begun) = (Arc::new(AtomicU64::new(first)), Arc::new(AtomicU64::new(0)));
    let watched = (current.clone(), begun.clone(), folder.clone(), name.clone());
    std::thread::spawn(move || loop {
        std::thread::sleep(Duration::from_millis(200));
        let (current, begun, folder, name) = &watched;
        let spent = started.elapsed().saturating_sub(Duration::from_millis(begun.load(Ordering::SeqCst)));
        if spent > LIMIT {
            let number = current.load(Ordering::SeqCst);
            let kept = keep(name, seed, number, folder);
            println!("FAILED {number} takes over {} s; input: {kept}", LIMIT.as_secs());
            println!("STOPPED");
            std::process::exit(99);
        }
    });
    // libtest has begun a line
    println!();
    let mut before = peak();
    for number in first..cases {
        current.store(number, Ordering::SeqCst);
        begun.store(started.elapsed().as_millis() as u64, Ordering::SeqCst);
        let input = folder.join("input");
        let _ = std::fs::remove_dir_all(&input);
        std::fs::create_dir_all(&input).unwrap();
        let mut rng = StdRng::seed_from_u64(seed_of(seed, number));
        let ended = catch_unwind(AssertUnwindSafe(|| case(&mut rng, &input)));
        let grown = peak().saturating_sub(before);
        before = peak();
        let fault = match ended {
            Err(_) => Some(format!("panic: {}", place.lock().unwrap())),
            Ok(Err(error)) if format!("{error:#}").len() > MESSAGE => {
                Some(format!("a message of {} bytes: {:.300}", format!("{error:#}").len(), format!("{error:#}")))
            }
            Ok(Err(error)) if format!("{error:#}").trim().is_empty() => Some("an error without a message".into()),
            Ok(_) if grown > MEMORY => Some(format!("{} MiB of memory", grown >> 20)),
            Ok(_) => None,
        };
        match fault {
            None => println!("OK {number}"),
            Some(fault) => {
                let kept = keep(&name, seed, number, &folder);
                println!("FAILED {number} {}; input: {kept}", fault.replace('\n', " "));
            }
        }
    }
}
