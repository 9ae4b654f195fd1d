//! Which runs were asked for, and how far each is.

use super::Args;
use crate::attention::cost::Thousands;
use crate::cli::mixes::{is_wanted, none_wanted};
use crate::cli::preflight::{self, Checked};
use crate::experiment::{Plan, PlannedRun};
use crate::machine::{self, Memory};
use crate::task::size::Size;
use crate::terminal::{say, tell};
use crate::train::checkpoint;
use crate::train::environment::{self, Numerics};
use crate::train::results_csv::{self, Merged};
use crate::train::standing::{self, Standing};
use anyhow::{bail, Result};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use tch::Device;

/// An experiment file, its whole plan, and which of its runs were asked for.
pub(super) struct Wanted {
    /// Where the experiment stands.
    pub file: PathBuf,
    /// Every run, in the order of the CSV's rows.
    pub plan: Plan,
    /// Whether each run is wanted.
    chosen: Vec<bool>,
    /// The size of each run.
    sizes: Vec<Size>,
    done: Mutex<Done>,
}

/// What this call has done so far.
#[derive(Default)]
struct Done {
    /// Names of the runs that finished in this call.
    trained: BTreeSet<String>,
    merged: Merged,
}

impl Wanted {
    /// The runs that were asked for.
    pub fn runs(&self) -> impl Iterator<Item = &PlannedRun> {
        self.plan.runs.iter().zip(&self.chosen).filter_map(|(planned, chosen)| chosen.then_some(planned))
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Merges what is finished into the column's CSV. `trained` is a run that this call has finished.
    pub fn write_csv(&self, trained: Option<&PlannedRun>) -> Result<()> {
        let mut done = self.done();
        done.trained.extend(trained.map(|planned| planned.name.clone()));
        let merged = results_csv::merge(&self.plan, &done.trained)?;
        done.merged.and(merged);
        Ok(())
    }

    /// The CSV, and how many of its rows this call wrote.
    pub fn closing_line(&self) -> String {
        let done = self.done();
        let Merged { written, newer, rows } = &done.merged;
        let (new, rows) = (written.len(), rows.saturating_sub(written.len()));
        let count = |rows: usize| if rows == 1 { "1 row".to_string() } else { format!("{rows} rows") };
        let mut line = format!("{}: {} written, {rows} kept", self.plan.results_csv.display(), count(new));
        if !newer.is_empty() {
            let names: Vec<&str> = newer.iter().map(String::as_str).collect();
            line += &format!(
                " ({} kept because newer than the result in the run's folder: {})",
                newer.len(),
                names.join(", ")
            );
        }
        line
    }
}

/// Plans the files, and chooses the runs that the options name.
pub(super) fn all(args: &Args, device: Device) -> Result<Vec<Wanted>> {
    let mut all = Vec::new();
    // of several processes the one that started them has checked the files
    let is_first = args.name.is_none();
    // LibTorch does not say how much memory another device has
    let memory = if device == Device::Cpu { machine::memory() } else { Memory::default() };
    for checked in preflight::check_all(&args.paths, &args.results, memory, is_first)? {
        let Checked { experiment, plan, sizes, warnings, .. } = checked;
        for warning in warnings.iter().filter(|_| is_first) {
            tell(&format!("warning: {warning}"));
        }
        let is_name = |text: &String| plan.runs.iter().any(|planned| planned.name == *text);
        let by_name = |only: &String, name: &String| if is_name(only) { name == only } else { name.contains(only) };
        let chosen = |planned: &PlannedRun| {
            is_wanted(&args.mixes, &planned.run)
                && args.only.as_ref().is_none_or(|only| by_name(only, &planned.name))
                && args.name.as_ref().is_none_or(|name| planned.name == *name)
        };
        let chosen = plan.runs.iter().map(chosen).collect();
        all.push(Wanted { file: experiment.source.path, plan, chosen, sizes, done: Mutex::default() });
    }
    if all.iter().all(|wanted| wanted.runs().next().is_none()) {
        let runs = || all.iter().flat_map(|wanted| &wanted.plan.runs).map(|planned| &planned.run);
        if !runs().any(|run| is_wanted(&args.mixes, run)) {
            return Err(none_wanted(runs().map(|run| &run.mix)));
        }
        let text = args.only.as_deref().or(args.name.as_deref()).unwrap_or_default();
        let of_these = if args.mixes.is_empty() { "" } else { " of these mixes" };
        bail!("no run{of_these} has a name that contains {text:?}");
    }
    Ok(all)
}

/// How far a run is, where it can go on.
///
/// # Errors
/// Its folder holds a run of other settings, or is damaged.
pub(super) fn standing(planned: &PlannedRun) -> Result<standing::Found> {
    let found = standing::look(planned)?;
    if let Standing::OtherSettings { found, differences } = &found.standing {
        bail!(
            "{}: holds a run of other settings (config {found}, wanted {}): {differences}. \
             Start it again with --fresh --only {}, or keep it under another experiment's name",
            planned.folder.display(),
            planned.hash,
            planned.name
        );
    }
    Ok(found)
}

/// With how many threads a run trains: those of its checkpoint if it has one, unless the user asked for others; `new` if it has
/// none.
///
/// # Errors
/// The checkpoint was saved with others, or under other circumstances that change the bits, and `--resume-anyway` was not given.
pub(super) fn threads_of(planned: &PlannedRun, device: Device, args: &Args, new: i32) -> Result<i32> {
    let state = match standing(planned)?.standing {
        Standing::Started { .. } => checkpoint::standing(&planned.folder)?,
        _ => None,
    };
    let Some(state) = state else { return Ok(new) };
    // with --jobs, --threads are those of all runs together
    let asked = args.threads.filter(|_| args.jobs == 1);
    let saved = state.numerics.as_ref().map(|saved| saved.threads).filter(|threads| *threads > 0);
    let threads = asked.or(saved).unwrap_or(new);
    environment::check(&planned.name, &state, &Numerics::here(device, threads), args.resume_anyway)?;
    Ok(threads)
}

/// Prints a file's runs, unless one of several processes asks; how many are left to train.
pub(super) fn print(wanted: &Wanted, args: &Args) -> Result<usize> {
    let sizes = wanted.sizes.iter().zip(&wanted.chosen).filter_map(|(size, chosen)| chosen.then_some(size));
    let runs: Vec<(&PlannedRun, &Size)> = wanted.runs().zip(sizes).collect();
    let mut waiting = 0;
    let mut lines =
        vec![format!("{}: {} runs -> {}", wanted.plan.title, runs.len(), wanted.plan.results_csv.display())];
    let widest = runs.iter().map(|(planned, _)| planned.name.chars().count()).max().unwrap_or(0);
    for (planned, size) in runs {
        let run = &planned.run;
        let found = if args.fresh { None } else { Some(standing(planned)?) };
        if let Some(remark) = found.as_ref().and_then(|found| found.remark.as_ref()).filter(|_| args.name.is_none()) {
            tell(remark);
        }
        let standing = match found.map(|found| found.standing) {
            Some(Standing::Done(_)) => "done".to_string(),
            Some(Standing::Started { step }) => format!("resumes after step {step}"),
            _ => "to do".to_string(),
        };
        waiting += usize::from(standing != "done");
        lines.push(format!(
            "  {:<widest$}  {} ({} trainable)  {} steps of at most {} tokens a side  {standing}",
            planned.name,
            size.parameters(),
            Thousands(size.trainable),
            run.train.steps,
            run.train.batch_tokens.saturating_mul(run.train.accumulate),
        ));
    }
    if args.name.is_none() {
        say(&lines.join("\n"));
    }
    Ok(waiting)
}
