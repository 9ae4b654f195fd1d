//! `synthesizer run`.

use crate::bench::memory;
use crate::error::Outcome;
use crate::experiment::{self, Plan, PlannedRun};
use crate::files::write_atomically;
use crate::task;
use crate::train::device::{self, DeviceChoice};
use crate::train::interrupt::Interrupt;
use crate::train::outcome::{self, Circumstances};
use crate::train::progress::{clock, Progress};
use crate::train::trainer::{self, Job};
use crate::train::{checkpoint, trainer::Trained};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tch::Device;

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
    /// Threads of one operation [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=4096))]
    threads: Option<i32>,
    /// Only the runs whose name contains this, such as `R+V` or `-s1`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Stop and save after so many steps of this call, as Ctrl-C does
    #[arg(long, value_name = "STEPS")]
    stop_after: Option<u64>,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Where results go
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    results: PathBuf,
}

/// How far a run is.
enum Standing {
    Done,
    Started(u64),
    New,
}

/// Plans, trains what is not done, and writes each result the moment it exists.
pub fn run(args: Args) -> Result<()> {
    let plans = plans(&args)?;
    let device = device::resolve(args.device)?;
    if let Some(threads) = args.threads {
        tch::set_num_threads(threads);
    }
    if args.fresh && !args.dry_run {
        for planned in plans.iter().flat_map(|plan| &plan.runs) {
            clear(&planned.folder)?;
        }
    }
    let mut waiting = 0;
    for plan in &plans {
        waiting += print_plan(plan)?;
    }
    if args.dry_run {
        return Ok(());
    }
    eprintln!("{waiting} to train on {}, {} threads", device::name(device), tch::get_num_threads());
    let interrupt = Interrupt::after(args.stop_after.unwrap_or(u64::MAX)).listen()?;
    for plan in &plans {
        for planned in &plan.runs {
            if matches!(standing(planned)?, Standing::Done) {
                continue;
            }
            let row = train(planned, device, &interrupt)?;
            outcome::save(&planned.folder, &row)?;
            outcome::write_column(&plan.results_csv, &plan.runs)?;
        }
        outcome::write_column(&plan.results_csv, &plan.runs)?;
        println!("{}", plan.results_csv.display());
    }
    Ok(())
}

fn plans(args: &Args) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for file in experiment::files(&args.paths)? {
        let mut plan = experiment::load(&file)?.plan(&args.results)?;
        if let Some(only) = &args.only {
            plan.runs.retain(|planned| planned.name.contains(only.as_str()));
        }
        plans.push(plan);
    }
    if plans.iter().all(|plan| plan.runs.is_empty()) {
        bail!("no run's name contains {:?}", args.only.as_deref().unwrap_or_default());
    }
    Ok(plans)
}

fn config_file(folder: &Path) -> PathBuf {
    folder.join("config.toml")
}

/// What is there of a run; an error if its folder holds a run of other settings.
fn standing(planned: &PlannedRun) -> Result<Standing> {
    let file = config_file(&planned.folder);
    if !file.exists() {
        return Ok(Standing::New);
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("{}: cannot read", file.display()))?;
    let found = experiment::Run::from_toml(&text).with_context(|| format!("{}: not a resolved run", file.display()))?;
    if found.hash() != planned.hash {
        bail!(
            "{}: holds a run of other settings (config {}, wanted {}): {}. \
             Start again with --fresh, or keep it under another experiment's name",
            planned.folder.display(),
            found.hash(),
            planned.hash,
            differences(&text, &planned.run.to_toml())
        );
    }
    if outcome::load(&planned.folder)?.is_some() {
        return Ok(Standing::Done);
    }
    let last = checkpoint::last_file(&planned.folder);
    Ok(if last.exists() { Standing::Started(checkpoint::load_state(&last)?.step) } else { Standing::New })
}

/// The lines in which two config files differ, in words.
fn differences(found: &str, wanted: &str) -> String {
    let (found, wanted): (Vec<&str>, Vec<&str>) = (found.lines().collect(), wanted.lines().collect());
    let only = |these: &[&str], those: &[&str]| {
        let lines: Vec<String> =
            these.iter().filter(|line| !those.contains(line)).map(|line| line.to_string()).collect();
        if lines.is_empty() {
            "nothing".to_string()
        } else {
            lines.join(", ")
        }
    };
    format!("there: {}; here: {}", only(&found, &wanted), only(&wanted, &found))
}

/// Prints a file's runs; how many are left to train.
fn print_plan(plan: &Plan) -> Result<usize> {
    println!("{}: {} runs -> {}", plan.title, plan.runs.len(), plan.results_csv.display());
    let widest = plan.runs.iter().map(|planned| planned.name.chars().count()).max().unwrap_or(0);
    let mut waiting = 0;
    for planned in &plan.runs {
        let run = &planned.run;
        let standing = match standing(planned)? {
            Standing::Done => "done".to_string(),
            Standing::Started(step) => format!("goes on after step {step}"),
            Standing::New => "to do".to_string(),
        };
        waiting += usize::from(standing != "done");
        let (trainable, total) = task::count_parameters(run)?;
        println!(
            "  {:<widest$}  {:>10} parameters ({:>10} trainable)  {} steps of at most {} tokens a side  {}",
            planned.name,
            total,
            trainable,
            run.train.steps,
            run.train.batch_tokens * run.train.accumulate,
            standing
        );
    }
    Ok(waiting)
}

/// Removes the files of a run, and nothing else that may lie in its folder.
fn clear(folder: &Path) -> Result<()> {
    let remove = |path: &Path| {
        let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{}: cannot remove", path.display()))
            }
            _ => Ok(()),
        }
    };
    for name in ["metrics.json", "config.toml", "log.csv", "attention.csv", "checkpoint"] {
        remove(&folder.join(name))?;
    }
    Ok(())
}

fn train(
    planned: &PlannedRun,
    device: Device,
    interrupt: &Interrupt,
) -> Result<serde_json::Map<String, serde_json::Value>> {
    let run = &planned.run;
    let task = task::build(run, device).with_context(|| planned.name.clone())?;
    let standing = standing(planned)?;
    write_atomically(&config_file(&planned.folder), run.to_toml().as_bytes())?;
    task.save_assets(&planned.folder)?;
    let done = if let Standing::Started(step) = standing { step } else { 0 };
    let progress = Progress::new(&planned.name, run.train.steps, done);
    for note in task.notes() {
        progress.say(&format!("{}: {note}", planned.name));
    }
    let (trainable, total) = crate::model::count_parameters(task.variables());
    let job = Job {
        name: &planned.name,
        run,
        config_hash: &planned.hash,
        folder: &planned.folder,
        task: task.as_ref(),
        interrupt,
        progress: &progress,
    };
    let mut trained: Option<Trained> = None;
    let peak = memory::peak_above(|| {
        trained = Some(trainer::train(&job)?);
        anyhow::Ok(())
    });
    progress.finish();
    let (peak, Some(trained)) = (peak?, trained) else {
        return Err(Outcome::Failed(format!("{}: ended without a result", planned.name)).into());
    };
    let circumstances = Circumstances {
        trainable_parameters: trainable,
        total_parameters: total,
        data_hash: task.data_hash().to_string(),
        peak_memory_bytes: if device == Device::Cpu { peak } else { None },
        device: device::name(device),
        threads: tch::get_num_threads(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    let row = outcome::row(planned, &trained, &circumstances);
    let metrics: Vec<String> =
        trained.metrics.iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", value.as_f64()?))).collect();
    let time = clock(Duration::from_secs_f64(trained.train_seconds + trained.score_seconds));
    eprintln!("{}: done in {time}: {}", planned.name, metrics.join(", "));
    Ok(row)
}
