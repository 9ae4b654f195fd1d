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
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
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
    /// Only the run of exactly this name (what `--jobs` starts its processes with)
    #[arg(long, value_name = "NAME", hide = true)]
    name: Option<String>,
    /// Runs at a time, each a process of its own with its share of the threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
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
    memory::keep_freed();
    if args.fresh && !args.dry_run {
        for planned in plans.iter().flat_map(|(_, plan)| &plan.runs) {
            clear(&planned.folder)?;
        }
    }
    let mut waiting = 0;
    for (_, plan) in &plans {
        waiting += print_plan(plan)?;
    }
    if args.dry_run {
        return Ok(());
    }
    eprintln!("{waiting} to train on {}, {} threads", device::name(device), tch::get_num_threads());
    if args.jobs > 1 && waiting > 1 {
        return side_by_side(&args, &plans);
    }
    let interrupt = Interrupt::after(args.stop_after.unwrap_or(u64::MAX)).listen()?;
    for (_, plan) in &plans {
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

/// The plan of each experiment file.
fn plans(args: &Args) -> Result<Vec<(PathBuf, Plan)>> {
    let mut plans = Vec::new();
    for (experiment, mut plan) in experiment::plan_all(&args.paths, &args.results)? {
        plan.runs.retain(|planned| {
            args.only.as_ref().is_none_or(|only| planned.name.contains(only.as_str()))
                && args.name.as_ref().is_none_or(|name| planned.name == *name)
        });
        plans.push((experiment.source.path, plan));
    }
    if plans.iter().all(|(_, plan)| plan.runs.is_empty()) {
        let wanted = args.only.as_deref().or(args.name.as_deref()).unwrap_or_default();
        bail!("no run's name contains {wanted:?}");
    }
    Ok(plans)
}

/// Trains every waiting run in a process of its own, `jobs` at a time.
fn side_by_side(args: &Args, plans: &[(PathBuf, Plan)]) -> Result<()> {
    let mut queue = Vec::new();
    for (file, plan) in plans {
        for planned in &plan.runs {
            if !matches!(standing(planned)?, Standing::Done) {
                queue.push((file, planned));
            }
        }
    }
    let jobs = usize::from(args.jobs).min(queue.len());
    let threads = (args.threads.unwrap_or_else(tch::get_num_threads) / jobs as i32).max(1);
    eprintln!("{jobs} at a time, {threads} threads each");
    let interrupt = Interrupt::default().listen()?;
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((file, planned)) = queue.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if interrupt.before_step() {
                        return;
                    }
                    if let Err(error) = child(&program, args, threads, file, planned) {
                        failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(error);
                    }
                }
            });
        }
    });
    for (_, plan) in plans {
        outcome::write_column(&plan.results_csv, &plan.runs)?;
        println!("{}", plan.results_csv.display());
    }
    let failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if interrupt.before_step() {
        return Err(Outcome::Interrupted("what was running is saved; the same command goes on".into()).into());
    }
    match failures.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// One run in a process of its own; its lines come out on our standard error.
fn child(program: &Path, args: &Args, threads: i32, file: &Path, planned: &PlannedRun) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("run").arg(file).args(["--name", &planned.name, "--threads", &threads.to_string()]);
    command.args(["--device", &args.device.to_string()]).arg("--results").arg(&args.results);
    if let Some(steps) = args.stop_after {
        command.args(["--stop-after", &steps.to_string()]);
    }
    // LibTorch's pool is made by then with as many threads as OpenMP says
    command.env("OMP_NUM_THREADS", threads.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("{}: cannot start", planned.name))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(130) => Err(Outcome::Interrupted(format!("{} is saved", planned.name)).into()),
        Some(2) => bail!("{}: see its message above", planned.name),
        _ => Err(Outcome::Failed(format!("{}: ended with {status}; see its message above", planned.name)).into()),
    }
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
        command: ["synthesizer".to_string()].into_iter().chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" "),
    };
    let row = outcome::row(planned, &trained, &circumstances);
    let metrics: Vec<String> =
        trained.metrics.iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", value.as_f64()?))).collect();
    let time = clock(Duration::from_secs_f64(trained.train_seconds + trained.score_seconds));
    eprintln!("{}: done in {time}: {}", planned.name, metrics.join(", "));
    Ok(row)
}
