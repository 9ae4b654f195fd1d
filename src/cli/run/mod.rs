//! `synthesizer run`.

mod folder;
mod fresh;
mod parallel;
mod plan;
mod train;

use crate::data;
use crate::error::Outcome;
use crate::experiment::Mix;
use crate::files;
use crate::interrupt;
use crate::terminal::{say, tell};
use crate::train::device::{self, DeviceChoice};
use crate::train::interrupt::Interrupt;
use crate::train::memory;
use crate::train::results_csv;
use crate::train::threads;
use anyhow::{Context, Result};
use plan::Wanted;
use std::path::{Path, PathBuf};
use train::Ended;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiment files, or folders of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Where to train
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Throw away what earlier calls left of these runs, and start again
    #[arg(long)]
    fresh: bool,
    /// Threads of one operation [default: one a physical core]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=4096))]
    threads: Option<i32>,
    /// Only the run of this name, or else those whose name contains it, such as `R+V` or `-s1`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only the runs of this mix, of every seed and variant; may be given many times
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// Only the run of exactly this name (what `--jobs` starts its processes with)
    #[arg(long, value_name = "NAME", hide = true)]
    name: Option<String>,
    /// Plain lines even on a terminal
    #[arg(long, hide = true)]
    lines: bool,
    /// Runs at a time, each a process of its own with its share of the threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Stop and save after so many steps of this call, as Ctrl-C does
    #[arg(long, value_name = "STEPS")]
    stop_after: Option<u64>,
    /// Resume runs that were saved with other threads, on another machine or by another version, whose bits may then differ from
    /// an uninterrupted run; their rows say so
    #[arg(long)]
    resume_anyway: bool,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Where results go
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    results: PathBuf,
}

/// Plans, trains what is not done, and writes each result the moment it exists.
pub fn run(args: Args) -> Result<()> {
    let device = device::resolve(args.device)?;
    let wanted = plan::all(&args, device)?;
    for wanted in &wanted {
        results_csv::check(&wanted.plan.results_csv)?;
    }
    for planned in wanted.iter().flat_map(Wanted::runs).filter(|_| !args.dry_run) {
        device::check_precision(device, planned.run.train.precision).with_context(|| planned.name.clone())?;
    }
    threads::choose(args.threads);
    memory::keep_freed();
    let mut waiting = 0;
    for wanted in &wanted {
        waiting += plan::print(wanted, &args)?;
    }
    if args.dry_run {
        return Ok(());
    }
    interrupt::listen();
    if args.fresh {
        fresh::start_again(&wanted)?;
    }
    // of several processes only the one that started them writes the CSV
    let is_child = args.name.is_some();
    if !is_child {
        remove_temporaries(&wanted);
    }
    for planned in wanted.iter().flat_map(Wanted::runs) {
        // A run that another process trains is not resumed here.
        if !folder::is_held(planned)? {
            plan::threads_of(planned, device, &args, tch::get_num_threads())?;
        }
    }
    if args.jobs > 1 && waiting > 1 {
        return parallel::run(&args, &wanted, device);
    }
    if !is_child {
        tell(&format!("{waiting} to train on {}, {} threads", device::name(device), tch::get_num_threads()));
    }
    let interrupt = Interrupt::after(args.stop_after.unwrap_or(u64::MAX));
    let mut failed = Vec::new();
    let mut held = Vec::new();
    // A run that another process holds is tried again as long as others were trained in the meantime.
    loop {
        let mut trained = 0;
        held.clear();
        for wanted in &wanted {
            for planned in wanted.runs() {
                let name = (wanted.file.as_path(), planned.name.as_str());
                if failed.contains(&name) {
                    continue;
                }
                match train::train_or_fail(planned, device, &args, &interrupt) {
                    Ok(Ended::Before) => {}
                    Ok(Ended::Held) => held.push(planned.name.as_str()),
                    Ok(Ended::Now) => {
                        trained += 1;
                        if !is_child {
                            wanted.write_csv(Some(planned))?;
                        }
                    }
                    // A run that diverges or runs out of memory does not end the others.
                    Err(error) if matches!(error.downcast_ref(), Some(Outcome::Failed(_))) && waiting > 1 => {
                        tell(&format!("error: {error}"));
                        failed.push(name);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if held.is_empty() || trained == 0 {
            break;
        }
    }
    if !is_child {
        close(&wanted, &held)?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = failed.into_iter().map(|(_, name)| name).collect();
    let others = if held.is_empty() { "; the other runs are done" } else { "" };
    Err(Outcome::Failed(format!("{} failed, see above{others}", names.join(", "))).into())
}

/// Writes each CSV a last time, and says what is in it and which runs another process trains.
fn close(wanted: &[Wanted], held: &[&str]) -> Result<()> {
    for wanted in wanted {
        wanted.write_csv(None)?;
        say(&wanted.closing_line());
    }
    match held {
        [] => {}
        [name] => tell(&format!("1 run is being trained by another process, which writes its row: {name}")),
        names => tell(&format!(
            "{} runs are being trained by another process, which writes their rows: {}",
            names.len(),
            names.join(", ")
        )),
    }
    Ok(())
}

/// Deletes what killed processes left where this call may find nothing to write. Every write does the same for its folder.
fn remove_temporaries(wanted: &[Wanted]) {
    for wanted in wanted {
        files::remove_temporaries_once(wanted.plan.results_csv.parent().unwrap_or(Path::new(".")));
        for planned in wanted.runs() {
            files::remove_temporaries_once(&planned.folder);
            files::remove_temporaries_once(&planned.folder.join("checkpoint"));
        }
    }
    for folder in ["tokens", "text", "corpora"] {
        // Without a cache folder the first corpus says so.
        if let Ok(cache) = data::cache_folder() {
            files::remove_temporaries_once(&cache.join(folder));
        }
    }
}
