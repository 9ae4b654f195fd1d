//! `synthesizer run`.

use super::mixes::{is_wanted, none_wanted};
use super::side_by_side::side_by_side;
use crate::error::{tell_interrupt, Outcome};
use crate::experiment::{self, Mix, Plan, PlannedRun};
use crate::files::{self, write_atomically};
use crate::task::{self, evaluation};
use crate::terminal::{command_line, say, tell};
use crate::train::checkpoint;
use crate::train::device::{self, DeviceChoice};
use crate::train::environment::{self, Numerics};
use crate::train::interrupt::Interrupt;
use crate::train::memory;
use crate::train::outcome::{self, Circumstances};
use crate::train::progress::{clock, Progress};
use crate::train::threads;
use crate::train::trainer::{self, Job};
use anyhow::{bail, Context, Result};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tch::Device;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiment files, or folders of them
    #[arg(required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Where to train
    #[arg(long, value_enum, default_value_t)]
    pub(super) device: DeviceChoice,
    /// Throw away what earlier calls left of these runs, and start again
    #[arg(long)]
    pub(super) fresh: bool,
    /// Threads of one operation [default: one a physical core]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=4096))]
    pub(super) threads: Option<i32>,
    /// Only the run of this name, or else those whose name contains it, such as `R+V` or `-s1`
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Only the runs of this mix, of every seed and variant; may be given many times
    #[arg(long = "mix", value_name = "MIX")]
    pub(super) mixes: Vec<Mix>,
    /// Only the run of exactly this name (what `--jobs` starts its processes with)
    #[arg(long, value_name = "NAME", hide = true)]
    pub(super) name: Option<String>,
    /// Plain lines even on a terminal
    #[arg(long, hide = true)]
    pub(super) lines: bool,
    /// Runs at a time, each a process of its own with its share of the threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: u16,
    /// Stop and save after so many steps of this call, as Ctrl-C does
    #[arg(long, value_name = "STEPS")]
    pub(super) stop_after: Option<u64>,
    /// Resume runs that were saved with other threads, on another machine or by another version, whose bits may then differ from
    /// an uninterrupted run; their rows say so
    #[arg(long)]
    pub(super) resume_anyway: bool,
    /// Print the plan and stop
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Where results go
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    pub(super) results: PathBuf,
}

/// How far a run is.
pub(super) enum Standing {
    Done,
    Started(u64),
    New,
}

/// An experiment file, its whole plan, and which of its runs were asked for.
pub(super) struct Wanted {
    /// Where the experiment stands.
    pub(super) file: PathBuf,
    /// Every run, in the order of the CSV's rows.
    pub(super) plan: Plan,
    /// Whether each is wanted.
    chosen: Vec<bool>,
}

impl Wanted {
    /// The runs that were asked for.
    pub(super) fn runs(&self) -> impl Iterator<Item = &PlannedRun> {
        self.plan.runs.iter().zip(&self.chosen).filter_map(|(planned, chosen)| chosen.then_some(planned))
    }

    /// Rewrites the column's CSV from what is finished.
    pub(super) fn write_csv(&self) -> Result<()> {
        outcome::write_column(&self.plan.results_csv, &self.plan.runs)
    }
}

/// Plans, trains what is not done, and writes each result the moment it exists.
pub fn run(args: Args) -> Result<()> {
    let wanted = plans(&args)?;
    let device = device::resolve(args.device)?;
    for planned in wanted.iter().flat_map(Wanted::runs).filter(|_| !args.dry_run) {
        device::check_precision(device, planned.run.train.precision).with_context(|| planned.name.clone())?;
    }
    threads::choose(args.threads);
    memory::keep_freed();
    if args.fresh && !args.dry_run {
        start_again(&wanted)?;
    }
    let mut waiting = 0;
    for wanted in &wanted {
        waiting += print_plan(wanted, &args)?;
    }
    if args.dry_run {
        return Ok(());
    }
    for planned in wanted.iter().flat_map(Wanted::runs) {
        threads_of(planned, device, &args, tch::get_num_threads())?;
    }
    if args.jobs > 1 && waiting > 1 {
        return side_by_side(&args, &wanted, device);
    }
    if args.name.is_none() {
        tell(&format!("{waiting} to train on {}, {} threads", device::name(device), tch::get_num_threads()));
    }
    let interrupt = Interrupt::after(args.stop_after.unwrap_or(u64::MAX)).listen()?;
    let mut failed = Vec::new();
    for wanted in &wanted {
        for planned in wanted.runs() {
            if matches!(standing(planned)?, Standing::Done) {
                continue;
            }
            match train(planned, device, &args, &interrupt) {
                Ok(()) => {}
                // one run that diverges doesn't take the others with it
                Err(error) if matches!(error.downcast_ref(), Some(Outcome::Failed(_))) && waiting > 1 => {
                    tell(&format!("error: {error}"));
                    failed.push(planned.name.as_str());
                }
                Err(error) => return Err(error),
            }
            // of several processes only the one that started them writes the CSV
            if args.name.is_none() {
                wanted.write_csv()?;
            }
        }
        if args.name.is_none() {
            wanted.write_csv()?;
            say(&wanted.plan.results_csv.display().to_string());
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        names => {
            Err(Outcome::Failed(format!("{} failed, see above; the other runs are done", names.join(", "))).into())
        }
    }
}

/// Throws away what earlier calls left of the wanted runs, unless another process trains one of them.
fn start_again(wanted: &[Wanted]) -> Result<()> {
    let runs = || wanted.iter().flat_map(Wanted::runs);
    let _locks = runs().map(|planned| lock(&planned.folder)).collect::<Result<Vec<_>>>()?;
    runs().try_for_each(|planned| clear(&planned.folder))?;
    wanted.iter().try_for_each(|wanted| {
        outcome::forget(&wanted.plan.results_csv, &wanted.runs().map(|planned| &planned.run).collect::<Vec<_>>())
    })
}

fn plans(args: &Args) -> Result<Vec<Wanted>> {
    let mut all = Vec::new();
    for (experiment, plan) in experiment::plan_all(&args.paths, &args.results)? {
        let missing = experiment.missing_files();
        if !missing.is_empty() {
            return Err(experiment::Problems(missing).into());
        }
        let is_name = |text: &String| plan.runs.iter().any(|planned| planned.name == *text);
        let by_name = |only: &String, name: &String| if is_name(only) { name == only } else { name.contains(only) };
        let chosen = |planned: &PlannedRun| {
            is_wanted(&args.mixes, &planned.run.mix)
                && args.only.as_ref().is_none_or(|only| by_name(only, &planned.name))
                && args.name.as_ref().is_none_or(|name| planned.name == *name)
        };
        let chosen = plan.runs.iter().map(chosen).collect();
        all.push(Wanted { file: experiment.source.path, plan, chosen });
    }
    if all.iter().all(|wanted| wanted.runs().next().is_none()) {
        let mixes = || all.iter().flat_map(|wanted| &wanted.plan.runs).map(|planned| &planned.run.mix);
        if !mixes().any(|mix| is_wanted(&args.mixes, mix)) {
            return Err(none_wanted(mixes()));
        }
        let text = args.only.as_deref().or(args.name.as_deref()).unwrap_or_default();
        let of_these = if args.mixes.is_empty() { "" } else { " of these mixes" };
        bail!("no run{of_these} has a name that contains {text:?}");
    }
    Ok(all)
}

fn config_file(folder: &Path) -> PathBuf {
    folder.join("config.toml")
}

/// What is there of a run; an error if its folder holds a run of other settings.
pub(super) fn standing(planned: &PlannedRun) -> Result<Standing> {
    let file = config_file(&planned.folder);
    if !file.exists() {
        return Ok(Standing::New);
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("{}: cannot read", file.display()))?;
    let found = experiment::Run::from_toml(&text).with_context(|| {
        format!(
            "{}: not a resolved run. Remove this file, and the run resumes if its checkpoint is of these settings; \
             or start it again with --fresh --only {}",
            file.display(),
            planned.name
        )
    })?;
    if found.hash() != planned.hash {
        bail!(
            "{}: holds a run of other settings (config {}, wanted {}): {}. \
             Start it again with --fresh --only {}, or keep it under another experiment's name",
            planned.folder.display(),
            found.hash(),
            planned.hash,
            differences(&text, &planned.run.to_toml()),
            planned.name
        );
    }
    if outcome::load(&planned.folder)?.is_some() {
        return Ok(Standing::Done);
    }
    Ok(checkpoint::standing(&planned.folder)?.map_or(Standing::New, |state| Standing::Started(state.step)))
}

/// With how many threads a run trains: those of its checkpoint if it has one, unless the user asked for others; `new` if it has
/// none.
///
/// # Errors
/// The checkpoint was saved with others, or under other circumstances that change the bits, and `--resume-anyway` was not given.
pub(super) fn threads_of(planned: &PlannedRun, device: Device, args: &Args, new: i32) -> Result<i32> {
    let state = match standing(planned)? {
        Standing::Started(_) => checkpoint::standing(&planned.folder)?,
        Standing::Done | Standing::New => None,
    };
    let Some(state) = state else { return Ok(new) };
    // with --jobs, --threads are those of all runs together
    let asked = args.threads.filter(|_| args.jobs == 1);
    let saved = state.numerics.as_ref().map(|saved| saved.threads).filter(|threads| *threads > 0);
    let threads = asked.or(saved).unwrap_or(new);
    environment::check(&planned.name, &state, &Numerics::here(device, threads), args.resume_anyway)?;
    Ok(threads)
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

/// Prints a file's runs, unless one of several processes asks; how many are left to train.
fn print_plan(wanted: &Wanted, args: &Args) -> Result<usize> {
    let runs: Vec<&PlannedRun> = wanted.runs().collect();
    let mut waiting = 0;
    let mut lines =
        vec![format!("{}: {} runs -> {}", wanted.plan.title, runs.len(), wanted.plan.results_csv.display())];
    let widest = runs.iter().map(|planned| planned.name.chars().count()).max().unwrap_or(0);
    for planned in runs {
        let run = &planned.run;
        let standing = match if args.fresh { Standing::New } else { standing(planned)? } {
            Standing::Done => "done".to_string(),
            Standing::Started(step) => format!("resumes after step {step}"),
            Standing::New => "to do".to_string(),
        };
        waiting += usize::from(standing != "done");
        let (trainable, total) = task::count_parameters(run)?;
        lines.push(format!(
            "  {:<widest$}  {total:>11} parameters ({trainable:>11} trainable)  {} steps of at most {} tokens a side  {standing}",
            planned.name,
            run.train.steps,
            run.train.batch_tokens * run.train.accumulate,
        ));
    }
    if args.name.is_none() {
        say(&lines.join("\n"));
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
    // config.toml last: while it stands, what is left is known to be of its settings
    for name in ["metrics.json", "checkpoint", "log.csv", "attention.csv", "tokenizer.json", "labels.json"] {
        remove(&folder.join(name))?;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // `.labels.txt` is a file of version 0.1.0
        let mut endings = evaluation::ENDINGS.iter().chain(&[".labels.txt", ".tmp"]);
        if name.starts_with("events.out.tfevents.") || endings.any(|ending| name.ends_with(ending)) {
            remove(&entry.path())?;
        }
    }
    remove(&folder.join("config.toml"))
}

/// Held while a run trains: two processes in one folder would spoil each other's log and checkpoint.
fn lock(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot make this folder", folder.display()))?;
    let path = folder.join(".lock");
    let file = File::create(&path).with_context(|| format!("{}: cannot make this file", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("{}: another process trains this run", folder.display()),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("{}: cannot be locked", path.display())),
    }
}

fn train(planned: &PlannedRun, device: Device, args: &Args, interrupt: &Interrupt) -> Result<()> {
    let run = &planned.run;
    let _lock = lock(&planned.folder)?;
    files::remove_temporaries(&planned.folder)?;
    let standing = standing(planned)?;
    if matches!(standing, Standing::Done) {
        return Ok(()); // by another process, since the plan was made
    }
    let threads = threads_of(planned, device, args, tch::get_num_threads())?;
    let _threads = threads::Scoped::set(threads);
    let task = task::build(run, device).with_context(|| planned.name.clone()).map_err(|error| {
        tell_interrupt(error, || {
            format!(
                "{} was still reading its data; splits that are ready are kept, and the same command goes on from there",
                planned.name
            )
        })
    })?;
    write_atomically(&config_file(&planned.folder), run.to_toml().as_bytes())?;
    task.save_assets(&planned.folder)?;
    let done = if let Standing::Started(step) = standing { step } else { 0 };
    let progress = if args.lines { Progress::Lines } else { Progress::new(&planned.name, run.train.steps, done) };
    for note in &task.training().notes {
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
        resume_anyway: args.resume_anyway,
    };
    let trained = trainer::train(&job);
    progress.finish();
    let trained = trained?;
    let circumstances = Circumstances {
        trainable_parameters: trainable,
        total_parameters: total,
        forward_flops: task::forward_flops(run)?,
        data_hash: task.training().hash.clone(),
        device: device::name(device),
        threads,
        command: command_line(),
    };
    let row = outcome::row(planned, &trained, &circumstances);
    let metrics: Vec<String> =
        trained.metrics.iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", value.as_f64()?))).collect();
    let time = clock(Duration::from_secs_f64(trained.train_seconds + trained.score_seconds));
    outcome::save(&planned.folder, &row)?;
    tell(&format!("{}: done in {time}: {}", planned.name, metrics.join(", ")));
    Ok(())
}
