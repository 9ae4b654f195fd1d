//! The loop: batches, loss, gradient, step; log, evaluate, save; resume to the bit.

use super::attention_log::{alpha_columns, alphas, AttentionLog};
use super::checkpoint::recover::{Resumed, Resuming};
use super::checkpoint::{self, Exact, State, Texts};
use super::environment::{self, Numerics};
use super::interrupt::Interrupt;
use super::log::{Line, Log};
use super::memory;
use super::parameters::Scalar;
use super::progress::Progress;
use super::step::{Diverged, Stepped, TrainingStep};
use super::tensorboard::Events;
use super::watch::{NonFinite, Watch};
use crate::data::rows::sha256_hex;
use crate::error::{tell_interrupt, Outcome};
use crate::experiment::{Run, Select, TaskKind};
use crate::interrupt;
use crate::native;
use crate::task::{DevScore, Metric, Scores, Task};
use anyhow::{bail, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tch::{Device, Tensor};

/// One run and what it works with.
pub struct Job<'a> {
    /// Row name, such as `R+V-s1`.
    pub name: &'a str,
    /// What to train.
    pub run: &'a Run,
    /// Hash of `run`.
    pub config_hash: &'a str,
    /// The run's folder.
    pub folder: &'a Path,
    /// Data and model.
    pub task: &'a dyn Task,
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// Where progress is told.
    pub progress: &'a Progress,
    /// Whether a run that was saved under other [`Numerics`] is resumed all the same.
    pub resume_anyway: bool,
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct Trained {
    /// Task metrics.
    pub metrics: Vec<Metric>,
    /// Remarks on the metrics, one sentence each; see [`Scores::notes`].
    pub notes: Vec<String>,
    /// Steps done.
    pub steps: u64,
    /// Predicted tokens seen in training.
    pub tokens: u64,
    /// Training and dev evaluations, over all sessions.
    pub train_seconds: f64,
    /// Of that, training steps alone: no evaluation, no checkpoint.
    pub step_seconds: f64,
    /// Scoring at the end.
    pub score_seconds: f64,
    /// Peak memory of training (gradients, optimizer and steps; not scoring): on the CPU by how much the process's resident
    /// memory rose above that of data and model, on CUDA all that tensors took, the model's among them. `None` where the system
    /// does not tell, and for a resumed run: earlier sessions may have had a higher peak.
    pub peak_memory_bytes: Option<u64>,
}

/// Names under which a checkpoint saves texts, those of their files.
const LOG: &str = "log.csv";
const ATTENTION: &str = "attention.csv";

/// The newest checkpoint that can be used, if the run has one.
fn find_checkpoint(job: &Job, assets: &BTreeMap<String, String>) -> Result<Option<Resumed>> {
    let training = job.task.training();
    let resumed = Resuming {
        folder: job.folder,
        run: job.run,
        config_hash: job.config_hash,
        data_hash: &training.hash,
        assets,
        batches: &|epoch| training.epoch(epoch).len(),
        say: &|line| job.progress.say(&format!("{}: {line}", job.name)),
    };
    resumed.find()
}

/// SHA-256 of the files that the run's model needs beside its weights, by name.
fn assets(job: &Job) -> Result<BTreeMap<String, String>> {
    let mut assets = job.task.assets()?;
    assets.push(("config.toml", job.run.to_toml().into_bytes()));
    Ok(assets.into_iter().map(|(name, bytes)| (name.to_string(), sha256_hex(&bytes))).collect())
}

struct Trainer<'a> {
    job: &'a Job<'a>,
    training: TrainingStep<'a>,
    log: Log,
    attention: AttentionLog,
    state: State,
    batches: Vec<Vec<u32>>,
    /// Seconds of earlier sessions; `state.seconds` adds this session's.
    earlier: f64,
    /// This session's last evaluation, and its step.
    evaluated: Option<(u64, DevScore)>,
    /// Step of the newest full checkpoint.
    saved: Option<u64>,
    started: Instant,
    interval: Interval,
    /// Losses of steps that the device was not waited for, added up there.
    unread: Option<Tensor>,
    /// Whether those steps were finite.
    watch: Watch,
}

/// The steps since the last log line of this session.
#[derive(Default)]
struct Interval {
    /// Time in steps: evaluations and saves between them don't count.
    spent: Duration,
    /// Of that, time in which batches were made.
    waited: Duration,
    tokens: u64,
}

/// Trains to the end, from the last checkpoint if there is one, and scores.
///
/// # Errors
/// [`Outcome::Interrupted`] after saving, [`Outcome::Failed`] on a loss that is not finite.
pub fn train(job: &Job) -> Result<Trained> {
    let assets = assets(job)?;
    let checkpoint = find_checkpoint(job, &assets)?;
    let resumed = checkpoint.is_some();
    let start = if resumed { None } else { Some(AttentionLog::start(job.folder, job.task)?) };
    native::device::forget_peak(job.task.variables().device());
    let (mut trainer, peak) = memory::peak_above(|| {
        let mut trainer = Trainer::new(job, assets, checkpoint, start)?;
        trainer.run()?;
        anyhow::Ok(trainer)
    })?;
    let device = job.task.variables().device();
    let peak = if device == Device::Cpu { peak } else { native::device::memory(device).map(|memory| memory.peak) };
    let (trained_in, stepped_in) = (trainer.state.seconds, trainer.state.step_seconds);
    let scoring = Instant::now();
    let Scores { metrics, notes } = trainer.score().map_err(|error| {
        tell_interrupt(error, || {
            format!("{} is trained and saved; the same command without --fresh scores it", job.name)
        })
    })?;
    trainer.write_side_files()?;
    checkpoint::save_weights(&checkpoint::final_file(job.folder), job.task.variables(), &trainer.state)?;
    let notes = notes.into_iter().chain(std::mem::take(&mut trainer.state.notes)).collect();
    job.progress.finish();
    Ok(Trained {
        metrics,
        notes,
        steps: trainer.state.step,
        tokens: trainer.state.tokens,
        train_seconds: trained_in,
        step_seconds: stepped_in,
        score_seconds: scoring.elapsed().as_secs_f64(),
        peak_memory_bytes: peak.filter(|_| !resumed),
    })
}

impl<'a> Trainer<'a> {
    /// At the checkpoint if there is one, else before the first step.
    fn new(
        job: &'a Job<'a>,
        assets: BTreeMap<String, String>,
        checkpoint: Option<Resumed>,
        start: Option<AttentionLog>,
    ) -> Result<Self> {
        let mut training = TrainingStep::new(job.run, job.task);
        let here = Numerics::here(job.task.variables().device(), tch::get_num_threads());
        let path = job.folder.join(LOG);
        let say = |line: &str| job.progress.say(&format!("{}: {line}", job.name));
        let saved = checkpoint.as_ref().map(|checkpoint| checkpoint.state.step);
        let (log, attention, mut state) = match checkpoint {
            None => {
                // before the first checkpoint a run has lines too
                if std::fs::read(&path).is_ok_and(|log| log.iter().filter(|byte| **byte == b'\n').count() > 1) {
                    say("there is a log and no checkpoint; starts from the beginning");
                }
                let data_hash = job.task.training().hash.clone();
                let state = State { config_hash: job.config_hash.to_string(), data_hash, ..State::default() };
                (Log::start(&path, &alpha_columns(job.task))?, start.unwrap_or_default(), state)
            }
            Some(checkpoint) => {
                checkpoint.load(job.task.variables(), &mut training.adam)?;
                let Resumed { mut state, mut texts, .. } = checkpoint;
                state.notes.extend(environment::check(job.name, &state, &here, job.resume_anyway)?);
                say(&format!("resumes after step {} (threads: {})", state.step, here.threads));
                let log = match texts.remove(LOG) {
                    None => Log::resume_unsaved(&path, &alpha_columns(job.task), state.step)?,
                    Some(text) => {
                        let (log, damage) = Log::resume(&path, text)?;
                        if let Some(damage) = damage {
                            say(&format!("{damage}; restored from the checkpoint"));
                        }
                        log
                    }
                };
                let (attention, told) = AttentionLog::resume(job.folder, texts.remove(ATTENTION));
                told.iter().for_each(|line| say(line));
                (log, attention, state)
            }
        };
        state.numerics = Some(here);
        state.assets = assets;
        Ok(Self {
            job,
            training,
            log,
            attention,
            batches: job.task.training().epoch(state.epoch),
            earlier: state.seconds,
            evaluated: None,
            saved,
            state,
            started: Instant::now(),
            interval: Interval::default(),
            unread: None,
            watch: Watch::default(),
        })
    }

    fn run(&mut self) -> Result<()> {
        let job = self.job;
        let settings = &job.run.train;
        let alpha_names = alpha_columns(job.task);
        let mut events = Events::create(job.folder, self.state.step);
        while self.state.step < settings.steps {
            if job.interrupt.before_step() {
                self.read()?;
                self.check_parameters()?;
                self.save()?;
                return Err(Outcome::Interrupted(format!(
                    "{} is saved after step {}; the same command without --fresh goes on from there",
                    job.name, self.state.step
                ))
                .into());
            }
            let gradient_norm = self.step()?;
            let at = self.state.step;
            let evaluate = at.is_multiple_of(settings.evaluate_every) || at == settings.steps;
            if !evaluate && !at.is_multiple_of(settings.log_every) {
                continue;
            }
            self.read()?;
            let gradient_norm = gradient_norm.value()?;
            let dev = if evaluate { Some(self.evaluate()?) } else { None };
            let line = self.line(at, gradient_norm, dev);
            self.log.write(&line)?;
            for (tag, value) in line.scalars(&alpha_names) {
                events.scalar(line.step, &tag, value);
            }
            if let Some(error) = events.take_error() {
                job.progress.say(&format!("{}: no more TensorBoard events are written: {error:#}", job.name));
            }
            self.tell(&line);
            if evaluate {
                self.save()?;
            }
        }
        Ok(())
    }

    /// The metrics of the weights that `select` asks for; loads them first.
    fn score(&self) -> Result<Scores> {
        let job = self.job;
        select_weights(job, &self.state)?;
        job.progress.say(&format!("{}: scoring", job.name));
        let dev = match self.evaluated {
            // the weights just evaluated are the ones to score
            Some((step, dev)) if step == self.state.step && self.keeps_last_weights() => dev,
            _ => job.task.dev()?,
        };
        interrupt::check()?;
        let mut metrics: Vec<Metric> = vec![("dev.loss".into(), dev.loss().into())];
        metrics.extend(perplexity(job, &dev).map(|value| ("dev.perplexity".into(), value.into())));
        let mut scores = job.task.score(&dev, job.folder)?;
        if perplexity(job, &dev).is_some_and(f64::is_infinite) {
            scores.notes.push(format!("dev.perplexity is blank: exp({:.1}) is above the largest number.", dev.loss()));
        }
        for metric in scores.metrics {
            if metrics.iter().all(|(name, _)| *name != metric.0) {
                metrics.push(metric);
            }
        }
        let seen = job.task.training().seen;
        metrics.push(("test.seen_in_training".into(), seen.share().into()));
        let notes: Vec<String> = scores.notes.into_iter().chain(seen.remark()).collect();
        for note in &notes {
            job.progress.say(&format!("{}: note: {note}", job.name));
        }
        Ok(Scores { metrics, notes })
    }

    /// Whether the weights to test are those of the last step.
    fn keeps_last_weights(&self) -> bool {
        match self.job.run.train.select {
            Select::Last => true,
            Select::Best => self.state.best.is_some_and(|(step, _)| step == self.state.step),
            Select::Average => self.state.kept == [self.state.step],
        }
    }

    /// One optimizer step on `accumulate` batches; the gradient's norm before clipping.
    fn step(&mut self) -> Result<Scalar> {
        let job = self.job;
        let begun = Instant::now();
        let mut batches = Vec::with_capacity(job.run.train.accumulate);
        for _ in 0..job.run.train.accumulate {
            if self.state.batch >= self.batches.len() {
                self.state.epoch += 1;
                self.state.batch = 0;
                self.batches = job.task.training().epoch(self.state.epoch);
            }
            batches.push((self.state.epoch, std::mem::take(&mut self.batches[self.state.batch])));
            self.state.batch += 1;
        }
        self.interval.waited += begun.elapsed();
        let arrived = self.watch.arrived()?;
        self.check_finite(arrived)?;
        let at = self.state.step + 1;
        let Stepped { loss, tokens, gradient_norm, phases } = match self.training.step(&batches, at) {
            Err(error) => match error.downcast::<Diverged>() {
                Ok(Diverged(what)) => return Err(self.diverged(at, &what)),
                Err(error) => return Err(error),
            },
            Ok(stepped) => stepped,
        };
        self.state.step = at;
        self.state.tokens += tokens;
        match loss {
            Scalar::Number(loss) => self.state.log_loss.0 += loss,
            Scalar::Tensor(loss) => {
                if let Scalar::Tensor(norm) = &gradient_norm {
                    self.watch.add(at, &loss, norm)?;
                }
                self.unread = Some(match self.unread.take() {
                    Some(before) => before.f_add(&loss)?,
                    None => loss,
                })
            }
        }
        self.state.log_tokens += tokens;
        self.interval.tokens += tokens;
        self.interval.waited += phases.data;
        let spent = begun.elapsed();
        self.interval.spent += spent;
        self.state.step_seconds += spent.as_secs_f64();
        job.progress.step(at);
        Ok(gradient_norm)
    }

    /// Waits for the device, and adds the losses that were left there.
    fn read(&mut self) -> Result<()> {
        let Some(unread) = self.unread.take() else { return Ok(()) };
        let begun = Instant::now();
        let bad = self.watch.all()?;
        let loss = unread.f_double_value(&[])?;
        let waited = begun.elapsed();
        self.interval.spent += waited;
        self.state.step_seconds += waited.as_secs_f64();
        self.check_finite(bad)?;
        self.state.log_loss.0 += loss;
        Ok(())
    }

    /// The error of a step whose loss or gradient is not finite.
    fn check_finite(&mut self, bad: Option<NonFinite>) -> Result<()> {
        match bad {
            Some(NonFinite { step, what }) => Err(self.diverged(step, &what)),
            None => Ok(()),
        }
    }

    /// The error of a run that diverged; writes the line by which the report tells it.
    fn diverged(&mut self, step: u64, what: &str) -> anyhow::Error {
        let line = self.line(step, f64::NAN, None).diverged();
        if let Err(error) = self.log.write(&line) {
            return error;
        }
        let kept = match self.saved {
            Some(step) => format!("the checkpoint of step {step} is kept"),
            None => "no checkpoint was written yet".to_string(),
        };
        let advice = "Try a lower train.learning_rate, a longer train.warmup, or train.clip_norm";
        Outcome::Failed(format!("{}: {what}; {kept}. {advice}", self.job.name)).into()
    }

    /// Weights that are no numbers are not put over good ones.
    fn check_parameters(&mut self) -> Result<()> {
        if self.training.parameters.all_finite() {
            return Ok(());
        }
        let step = self.state.step;
        Err(self.diverged(step, &format!("a parameter is no number after step {step}")))
    }

    /// Dev loss; keeps the weights if they are the best, or may be averaged.
    fn evaluate(&mut self) -> Result<DevScore> {
        let job = self.job;
        self.check_parameters()?;
        // stopped half-way, it would take the steps since the last checkpoint with it
        let dev = interrupt::deferred(|| job.task.dev())?;
        let (step, loss) = (self.state.step, dev.loss());
        if !loss.is_finite() {
            return Err(self.diverged(step, &format!("the dev loss is {loss} at step {step}")));
        }
        self.evaluated = Some((step, dev));
        if self.state.best.is_none_or(|(_, best)| loss < best.0) {
            self.state.best = Some((step, Exact(loss)));
            if job.run.train.select == Select::Best {
                checkpoint::save_weights(&checkpoint::best_file(job.folder), job.task.variables(), &self.state)?;
            }
        }
        if job.run.train.select == Select::Average {
            checkpoint::save_weights(&checkpoint::step_file(job.folder, step), job.task.variables(), &self.state)?;
            self.state.kept.push(step);
        }
        Ok(dev)
    }

    fn line(&mut self, step: u64, gradient_norm: f64, dev: Option<DevScore>) -> Line {
        let interval = std::mem::take(&mut self.interval);
        let seconds = interval.spent.as_secs_f64().max(1e-9);
        let line = Line {
            step,
            epoch: self.state.epoch,
            loss: self.state.log_loss.0 / self.state.log_tokens.max(1) as f64,
            learning_rate: self.training.learning_rate(step),
            gradient_norm,
            tokens: self.state.tokens,
            tokens_per_second: interval.tokens as f64 / seconds,
            data_wait: interval.waited.as_secs_f64() / seconds,
            dev_loss: dev.map(|dev| dev.loss()),
            dev_perplexity: dev.and_then(|dev| perplexity(self.job, &dev)),
            alphas: alphas(self.job.task),
        };
        self.state.log_loss = Exact(0.0);
        self.state.log_tokens = 0;
        line
    }

    fn tell(&self, line: &Line) {
        let (job, steps) = (self.job, self.job.run.train.steps);
        let unit = if job.run.task == TaskKind::Classification { "rows" } else { "tokens" };
        let mut status = format!("loss {:.3}, {:.0} {unit}/s", line.loss, line.tokens_per_second);
        match (line.dev_perplexity, line.dev_loss) {
            (Some(dev), _) => status.push_str(&format!(", dev perplexity {dev:.2}")),
            (None, Some(dev)) => status.push_str(&format!(", dev loss {dev:.3}")),
            (None, None) => {}
        }
        let left =
            (self.earlier + self.started.elapsed().as_secs_f64()) / line.step as f64 * (steps - line.step) as f64;
        job.progress.status(job.name, line.step, steps, &status, Duration::from_secs_f64(left));
    }

    /// Writes what nobody needs to know the scores: a fault there is told, and withholds nothing.
    ///
    /// # Errors
    /// Ctrl-C.
    fn write_side_files(&mut self) -> Result<()> {
        let job = self.job;
        for outcome in [self.log.restore(), self.attention.finish(job.folder, job.task)] {
            match outcome {
                Ok(None) => {}
                Ok(Some(damage)) => job.progress.say(&format!("{}: {damage}; written again", job.name)),
                Err(error) if error.chain().any(|cause| cause.is::<interrupt::Interrupted>()) => return Err(error),
                Err(error) => job.progress.say(&format!("{}: warning: {error:#}", job.name)),
            }
        }
        Ok(())
    }

    /// Writes the full checkpoint, of parameters that were checked.
    fn save(&mut self) -> Result<()> {
        self.log.sync()?;
        self.state.seconds = self.earlier + self.started.elapsed().as_secs_f64();
        let stale = stale(&mut self.state, self.job.run.train.average);
        let mut texts = Texts::from([(LOG.to_string(), self.log.text().to_string())]);
        texts.extend(self.attention.text().map(|text| (ATTENTION.to_string(), text.to_string())));
        checkpoint::save(self.job.folder, self.job.task.variables(), &self.training.adam, &texts, &self.state)?;
        self.saved = Some(self.state.step);
        for step in stale {
            // a file that stays costs disk and nothing else
            let _ = std::fs::remove_file(checkpoint::step_file(self.job.folder, step));
        }
        Ok(())
    }
}

/// exp(loss) where the loss is of tokens; that of a class or a score has none.
fn perplexity(job: &Job, dev: &DevScore) -> Option<f64> {
    (job.run.task != TaskKind::Classification).then(|| dev.loss().exp())
}

/// Evaluations that no average will use any more; they leave the state.
fn stale(state: &mut State, average: usize) -> Vec<u64> {
    let extra = state.kept.len().saturating_sub(average.max(1));
    state.kept.drain(..extra).collect()
}

/// Loads the weights that `select` asks for.
fn select_weights(job: &Job, state: &State) -> Result<()> {
    let load = || match job.run.train.select {
        Select::Last => Ok(()),
        Select::Best => {
            let path = checkpoint::best_file(job.folder);
            if let Some((step, _)) = state.best {
                check_step(&path, step)?;
            }
            checkpoint::load_weights(&path, job.task.variables()).map(drop)
        }
        Select::Average => {
            let files: Vec<_> = state.kept.iter().map(|&step| checkpoint::step_file(job.folder, step)).collect();
            files.iter().zip(&state.kept).try_for_each(|(path, &step)| check_step(path, step))?;
            checkpoint::load_average(&files, job.task.variables())
        }
    };
    load().map_err(|error| {
        let advice = "The same command makes these weights again from a checkpoint, if one from before them is whole";
        Outcome::Failed(format!("{}: {error:#}. {advice}", job.name)).into()
    })
}

/// An error if weights are not those of this step.
fn check_step(path: &Path, step: u64) -> Result<()> {
    let found = checkpoint::load_state(path)?.step;
    if found != step {
        bail!("{}: these weights are of step {found}, not {step}", path.display());
    }
    Ok(())
}
