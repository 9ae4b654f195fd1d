//! One run, from data to result.

use super::{folder, plan, Args};
use crate::attention::cost::Thousands;
use crate::error::{memory_cause, tell_interrupt, Outcome};
use crate::experiment::PlannedRun;
use crate::files::write_atomically;
use crate::native;
use crate::out_of_memory;
use crate::task;
use crate::terminal::{command_line, tell};
use crate::train::device;
use crate::train::interrupt::Interrupt;
use crate::train::memory;
use crate::train::outcome::{self, Circumstances};
use crate::train::progress::{clock, Progress};
use crate::train::standing::{self, Standing};
use crate::train::threads;
use crate::train::trainer::{self, Job};
use anyhow::{Context, Result};
use std::time::Duration;
use tch::Device;

/// How a call of [`train`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The run was done before.
    Before,
    /// The run is done now.
    Now,
    /// Another process trains it.
    Held,
}

/// [`train`], where lack of memory is a failure of this run alone: the next run may need less.
pub(super) fn train_or_fail(planned: &PlannedRun, device: Device, args: &Args, interrupt: &Interrupt) -> Result<Ended> {
    let trained = out_of_memory::caught(|| train(planned, device, args, interrupt));
    let why = match trained {
        Ok(Ok(ended)) => return Ok(ended),
        Ok(Err(error)) => match memory_cause(&error) {
            Some(why) => why,
            None => return Err(error),
        },
        Err(why) => why,
    };
    // Now that everything of the run is freed: the next one starts with all of the device.
    native::device::forget_peak(device);
    Err(Outcome::Failed(no_memory(planned, device, &why)).into())
}

/// The message of a run that ran out of memory: sizes, and what to change.
fn no_memory(planned: &PlannedRun, device: Device, why: &str) -> String {
    let settings = &planned.run.train;
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let model = task::size::Size::of(&planned.run, None).map_or(String::new(), |size| {
        let state = u64::try_from(size.state).unwrap_or(u64::MAX);
        format!("; the model has {} ({} with gradients and Adam's moments)", size.parameters(), gigabytes(state))
    });
    let there = memory::available(device)
        .map_or(String::new(), |bytes| format!("; {} has {}", device::name(device), gigabytes(bytes)));
    format!(
        "{}: out of memory ({why}). A step takes train.batch_tokens = {} tokens per side at a time, train.accumulate = {} times{model}{there}. \
         Halve train.batch_tokens and double train.accumulate, which leaves the steps' size as it is, or take a smaller model",
        planned.name, settings.batch_tokens, settings.accumulate
    )
}

/// Trains a run that is not done, and writes its `metrics.json`.
fn train(planned: &PlannedRun, device: Device, args: &Args, interrupt: &Interrupt) -> Result<Ended> {
    let run = &planned.run;
    if matches!(plan::standing(planned)?.standing, Standing::Done(_)) {
        return Ok(Ended::Before);
    }
    if interrupt.asked() {
        let what = format!("{} is not started yet; the same command starts it", planned.name);
        return Err(Outcome::Interrupted(what).into());
    }
    let Some(_lock) = folder::lock(planned)? else {
        tell(&format!("{}: another process trains this run", planned.name));
        return Ok(Ended::Held);
    };
    // Another process may have finished it before the lock was taken.
    let standing = plan::standing(planned)?.standing;
    if matches!(standing, Standing::Done(_)) {
        return Ok(Ended::Before);
    }
    let threads = plan::threads_of(planned, device, args, tch::get_num_threads())?;
    let _threads = threads::Scoped::set(threads);
    let task = task::build(run, device).with_context(|| planned.name.clone()).map_err(|error| {
        tell_interrupt(error, || {
            format!(
                "{} was still reading its data; splits that are ready are kept, and the same command goes on from there",
                planned.name
            )
        })
    })?;
    write_atomically(&standing::config_file(&planned.folder), run.to_toml().as_bytes())?;
    task.save_assets(&planned.folder)?;
    let done = if let Standing::Started { step } = standing { step } else { 0 };
    let progress = if args.lines { Progress::Lines } else { Progress::new(&planned.name, run.train.steps, done) };
    for note in &task.training().notes {
        progress.say(&format!("{}: {note}", planned.name));
    }
    let (trainable, total) = crate::model::count_parameters(task.variables());
    let vocabulary = task.training().tokenizer.size();
    progress.say(&format!(
        "{}: {} parameters ({} trainable), vocabulary {}",
        planned.name,
        Thousands(total),
        Thousands(trainable),
        Thousands(vocabulary as u64)
    ));
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
        forward_flops: task::forward_flops(run, vocabulary)?,
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
    if !folder::lock_file(&planned.folder).exists() {
        // What was written before is gone, and `metrics.json` would say that the run is complete.
        let _ = std::fs::remove_file(outcome::metrics_file(&planned.folder));
        let what = "was deleted while the run was trained; the same command makes the missing files again";
        return Err(Outcome::Failed(format!("{}: {what}", planned.folder.display())).into());
    }
    tell(&format!("{}: done in {time}: {}", planned.name, metrics.join(", ")));
    Ok(Ended::Now)
}
