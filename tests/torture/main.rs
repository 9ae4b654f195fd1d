//! Torture: the release binary is killed, starved of disk and fed damaged files at random, and must end as promised.
//!
//! Every case begins with an empty folder and a cold cache, is disturbed, and is then run to its end without a disturbance: its
//! weights, logs, outputs and rows must be those of a run that was never disturbed, to the bit. `make torture` goes on for
//! TORTURE_MINUTES (120) and writes a summary to TORTURE_SUMMARY; `cargo test` does a short form. A failed case names its
//! number: TORTURE_SEED and TORTURE_CASE do it again, with the same choices.

mod damage;
mod disk;
mod place;
mod signals;
#[path = "../common/summary.rs"]
mod summary;
#[path = "../common/toys.rs"]
mod toys;
#[path = "../common/workplace.rs"]
mod workplace;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use summary::{variable, Summary};

/// How a case ended, if not well: the reason is a text.
pub enum Verdict {
    /// As promised.
    Ok,
    /// The case needs what this machine does not have.
    Skipped(String),
}

type Case = fn(&mut StdRng) -> Result<Verdict, String>;

/// Those that stand more often are tried more often.
const KINDS: [(&str, Case); 16] = [
    ("signals", signals::random),
    ("damaged files, unfinished run", damage::unfinished),
    ("signals with --jobs 2", signals::random_jobs),
    ("full disk", disk::full),
    ("second Ctrl-C", signals::twice),
    ("damaged cache", damage::cache),
    ("early signal to --jobs 2", signals::early),
    ("damaged files, finished run", damage::finished),
    ("file size limit", disk::file_size),
    ("two processes at once", signals::two_processes),
    ("signals", signals::random),
    ("read-only folder", disk::read_only),
    ("killed report", signals::report),
    ("random input of generate", damage::input),
    ("vanished folder", disk::vanished),
    ("damaged files, unfinished run", damage::unfinished),
];

#[test]
fn torture() {
    let minutes: f64 = variable("TORTURE_MINUTES").unwrap_or(1.5);
    let seed = variable("TORTURE_SEED").unwrap_or_else(|| StdRng::from_os_rng().next_u64() >> 32);
    let only: Option<u64> = variable("TORTURE_CASE");
    println!("TORTURE_SEED={seed}");
    let started = Instant::now();
    let next = AtomicU64::new(only.unwrap_or(0));
    let tallies: Mutex<BTreeMap<&str, summary::Tally>> = Mutex::default();
    let failures = Mutex::new(Vec::new());
    let work = || loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let is_over = match only {
            Some(only) => number > only,
            // every kind has its turn
            None => number >= KINDS.len() as u64 && started.elapsed() > Duration::from_secs_f64(60.0 * minutes),
        };
        if is_over {
            return;
        }
        let (kind, case) = KINDS[(number % KINDS.len() as u64) as usize];
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9)));
        let ended = catch_unwind(AssertUnwindSafe(|| case(&mut rng)));
        let ended = ended.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
        });
        let mut tallies = tallies.lock().unwrap();
        let tally = tallies.entry(kind).or_default();
        match ended {
            Ok(Verdict::Ok) => tally.ok += 1,
            Ok(Verdict::Skipped(why)) => {
                println!("{kind}: skipped: {why}");
                tally.skipped += 1;
            }
            Err(why) => {
                tally.failed += 1;
                let again = format!("TORTURE_SEED={seed} TORTURE_CASE={number} cargo test --release --test torture");
                println!("{kind} FAILED ({again}): {why}\n");
                failures.lock().unwrap().push(format!("{kind}, case {number}: {why}"));
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let tallies = tallies.into_inner().unwrap();
    for (kind, tally) in &tallies {
        println!("{kind}: {} ok, {} failed, {} skipped", tally.ok, tally.failed, tally.skipped);
    }
    Summary { title: "Torture", command: "make torture", seed, seconds: started.elapsed().as_secs() }
        .write("TORTURE_SUMMARY", &tallies);
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} cases failed, with TORTURE_SEED={seed}:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}
