//! SIGINT, SIGTERM and SIGKILL at random moments.

use crate::place::{End, Ended, Place, Reference};
use crate::Verdict;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;
use std::time::Duration;

const SIGNALS: [i32; 3] = [libc::SIGKILL, libc::SIGINT, libc::SIGTERM];

/// Some disturbances of one run after another, with an empty cache at first, then an undisturbed end.
pub fn random(rng: &mut StdRng) -> Result<Verdict, String> {
    disturbed(rng, false)
}

/// The same with two runs at a time.
pub fn random_jobs(rng: &mut StdRng) -> Result<Verdict, String> {
    disturbed(rng, true)
}

fn disturbed(rng: &mut StdRng, jobs: bool) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let duration = Reference::of(place.toy.name).duration;
    let mut what = place.toy.name.to_string();
    for _ in 0..rng.random_range(2..6) {
        let signal = *SIGNALS.choose(rng).unwrap();
        let delay = duration.mul_f64(rng.random_range(0.0..1.1));
        what += &format!(", signal {signal} after {} ms", delay.as_millis());
        let running = place.start(if jobs { &["--jobs", "2"] } else { &[] });
        std::thread::sleep(delay);
        running.signal(signal);
        let ended = running.wait().map_err(|why| format!("{what}: {why}"))?;
        let codes: &[i32] = if signal == libc::SIGKILL { &[0] } else { &[0, 130] };
        let ended = ended.expect(&what, codes, Some(signal))?;
        resumable(&what, &ended)?;
    }
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// An interrupt says what the next call does.
fn resumable(what: &str, ended: &Ended) -> Result<(), String> {
    match ended.said.contains("--fresh --only") {
        true => Err(format!("{what}: the run cannot be resumed:\n{}", ended.said)),
        false => Ok(()),
    }
}

/// Two interrupts within milliseconds.
pub fn twice(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::of("translation");
    let duration = Reference::of(place.toy.name).duration;
    let mut what = String::from("second Ctrl-C");
    for _ in 0..6 {
        let (delay, pause) = (duration.mul_f64(rng.random_range(0.0..1.0)), rng.random_range(0..4000));
        let jobs = rng.random_bool(0.3);
        what += &format!(", after {} ms and {pause} µs{}", delay.as_millis(), if jobs { " with --jobs 2" } else { "" });
        let running = place.start(if jobs { &["--jobs", "2"] } else { &[] });
        std::thread::sleep(delay);
        running.signal(libc::SIGINT);
        std::thread::sleep(Duration::from_micros(pause));
        let second = *[libc::SIGINT, libc::SIGTERM].choose(rng).unwrap();
        running.signal(second);
        let ended = running.wait().map_err(|why| format!("{what}: {why}"))?;
        // Before the program's first instruction either signal may be the one that ends it.
        let by = if matches!(ended.end, End::Signal(signal) if signal == second) { second } else { libc::SIGINT };
        ended.expect(&what, &[0, 130], Some(by))?;
    }
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// A signal while `--jobs` starts its processes.
pub fn early(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::of("language-modelling");
    let mut what = String::from("early");
    for _ in 0..6 {
        let signal = *SIGNALS[1..].choose(rng).unwrap();
        let delay = Duration::from_millis(rng.random_range(0..400));
        what += &format!(", signal {signal} after {} ms", delay.as_millis());
        let running = place.start(&["--jobs", "2"]);
        std::thread::sleep(delay);
        running.signal(signal);
        let ended = running.wait().map_err(|why| format!("{what}: {why}"))?;
        ended.expect(&what, &[0, 130], Some(signal))?;
    }
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// The same command twice at a time, of which one may be killed: neither spoils the other's runs.
pub fn two_processes(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let duration = Reference::of(place.toy.name).duration;
    let [pause, delay] = [(); 2].map(|()| duration.mul_f64(rng.random_range(0.0..0.5)));
    let signal = rng.random_bool(0.5).then(|| *SIGNALS.choose(rng).unwrap());
    let more: &[&str] = if rng.random_bool(0.3) { &["--jobs", "2"] } else { &[] };
    let (pauses, delays) = (pause.as_millis(), delay.as_millis());
    let what =
        format!("{}: a second {more:?} after {pauses} ms, {signal:?} to the first after {delays} ms", place.toy.name);
    let first = place.start(&[]);
    std::thread::sleep(pause);
    let second = place.start(more);
    std::thread::sleep(delay);
    if let Some(signal) = signal {
        first.signal(signal);
    }
    let [first, second] = [first, second].map(|running| running.wait());
    first.and_then(|ended| ended.expect(&what, &[0, 1, 2, 130], signal)).map_err(|why| format!("the first, {why}"))?;
    second.and_then(|ended| ended.expect(&what, &[0, 1, 2], None)).map_err(|why| format!("the second, {why}"))?;
    place.finish(&what)?;
    Ok(Verdict::Ok)
}

/// A report that is killed, then made again: tables equal those of a report that was not.
pub fn report(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Reference::of("translation").copy();
    let tables = |place: &Place| {
        ["md", "csv", "tex"].map(|ending| std::fs::read(place.path(&format!("results/custom/custom.{ending}"))).ok())
    };
    for _ in 0..4 {
        let running = crate::place::Running::start(place.command(&["report"]));
        std::thread::sleep(Duration::from_millis(rng.random_range(0..600)));
        let signal = *SIGNALS.choose(rng).unwrap();
        running.signal(signal);
        let ended = running.wait()?;
        // a report is short, and listens to no signal
        if !matches!(ended.end, crate::place::End::Signal(got) if got == signal) {
            ended.expect("a killed report", &[0, 130], Some(signal))?;
        }
    }
    place.ended(place.command(&["report"]))?.expect("the last report", &[0], None)?;
    let after = tables(&place);
    let undisturbed = Reference::of("translation").copy();
    undisturbed.ended(undisturbed.command(&["report"]))?.expect("an undisturbed report", &[0], None)?;
    if after != tables(&undisturbed) || after.contains(&None) {
        return Err("the tables differ from those of an undisturbed report".into());
    }
    place.ended(place.command(&["verify"]))?.expect("verify", &[0], None)?;
    place.finish("a killed report")?;
    Ok(Verdict::Ok)
}
