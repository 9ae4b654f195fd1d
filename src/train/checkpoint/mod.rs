//! Checkpoints: safetensors files written whole or not at all, and checked whenever they are read.
//!
//! `last.safetensors` holds all that the next step depends on, the log's text among it; `previous.safetensors` is the one
//! before it, from which a run resumes if the last is damaged ([`recover`]). `best.safetensors`, `step-N.safetensors` and
//! `final.safetensors` hold weights only. LibTorch is seeded at every step from (run seed, step) and the data order is a
//! function of (seed, epoch), so there is no generator state to save.

mod file;
pub mod recover;

use super::adam::Adam;
use super::environment::Numerics;
use crate::experiment::Run;
use crate::files::write_atomically;
use anyhow::{bail, Context, Result};
pub use file::{Damaged, Texts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use tch::{nn, Kind, Tensor};

/// Where training stands after a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// Epoch of the next batch, from 0.
    pub epoch: u64,
    /// Number of the next batch in its epoch.
    pub batch: usize,
    /// Step and dev loss of the best evaluation.
    pub best: Option<(u64, Exact)>,
    /// Steps of evaluations whose weights are kept for averaging.
    pub kept: Vec<u64>,
    /// Summed loss since the last line of the log.
    pub log_loss: Exact,
    /// Predicted tokens since the last line of the log.
    pub log_tokens: u64,
    /// Predicted tokens in all.
    pub tokens: u64,
    /// Seconds spent training, over all sessions.
    pub seconds: f64,
    /// Of those, in steps: no evaluations, no checkpoints.
    #[serde(default)]
    pub step_seconds: f64,
    /// Hash of the resolved config.
    pub config_hash: String,
    /// Hash of the data.
    #[serde(default)]
    pub data_hash: String,
    /// What else decides the bits; none in a checkpoint of a version that did not record it.
    #[serde(default)]
    pub numerics: Option<Numerics>,
    /// SHA-256 (hex) of the files that a model needs beside its weights, by name.
    #[serde(default)]
    pub assets: BTreeMap<String, String>,
    /// Sentences for the run's row, such as that it was resumed with other threads.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl State {
    /// Why no training of `run` can stand here; none where it can. `batches` gives the number of batches of an epoch.
    pub fn impossible(&self, run: &Run, batches: &dyn Fn(u64) -> usize) -> Option<String> {
        let train = &run.train;
        let taken = self.step.saturating_mul(train.accumulate as u64);
        let finite = |number: f64| number.is_finite() && number >= 0.0;
        let ascending = self.kept.windows(2).all(|pair| pair[0] < pair[1]);
        let newest = self.kept.iter().copied().chain(self.best.map(|(step, _)| step)).max().unwrap_or(0);
        let wrong = if self.step > train.steps {
            format!("step {} of {}", self.step, train.steps)
        } else if newest > self.step {
            format!("an evaluation at step {newest}, after step {}", self.step)
        } else if !ascending {
            format!("evaluations in the order {:?}", self.kept)
        } else if self.best.is_some_and(|(_, loss)| !loss.0.is_finite()) || !self.log_loss.0.is_finite() {
            "a loss that is not finite".into()
        } else if !finite(self.seconds) || !finite(self.step_seconds) {
            format!("a training time of {} s", self.seconds)
        } else if self.log_tokens > self.tokens {
            format!("{} tokens since the last line of the log, and {} in all", self.log_tokens, self.tokens)
        } else if self.epoch > taken || (self.epoch == 0 && self.batch as u64 != taken) {
            format!("batch {} of epoch {} after {taken} batches", self.batch, self.epoch)
        } else if self.batch > batches(self.epoch) {
            format!("batch {} of epoch {}, which has {}", self.batch, self.epoch, batches(self.epoch))
        } else {
            return None;
        };
        Some(format!("it holds an impossible state ({wrong})"))
    }
}

/// A float that survives JSON to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Exact(pub f64);

impl From<u64> for Exact {
    fn from(bits: u64) -> Self {
        Self(f64::from_bits(bits))
    }
}

impl From<Exact> for u64 {
    fn from(value: Exact) -> Self {
        value.0.to_bits()
    }
}

const FIRST_MOMENT: &str = "adam.first_moment";
const SECOND_MOMENT: &str = "adam.second_moment";

/// The newest full checkpoint in a run's folder.
pub fn last_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/last.safetensors")
}

/// The full checkpoint before it.
pub fn previous_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/previous.safetensors")
}

/// A full checkpoint that is about to become the last.
fn next_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/next.safetensors")
}

/// Weights of the best evaluation.
pub fn best_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/best.safetensors")
}

/// Weights after `step`, kept for averaging.
pub fn step_file(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("checkpoint/step-{step}.safetensors"))
}

/// The weights that were tested: what `generate` loads.
pub fn final_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/final.safetensors")
}

/// Writes weights alone.
///
/// # Errors
/// A file that cannot be written.
pub fn save_weights(path: &Path, variables: &nn::VarStore, state: &State) -> Result<()> {
    save_tensors(path, &named_weights(variables), state)
}

fn save_tensors(path: &Path, weights: &BTreeMap<String, Tensor>, state: &State) -> Result<()> {
    let bytes = file::bytes(weights, &Texts::new(), state);
    bytes.and_then(|bytes| write_atomically(path, &bytes)).with_context(|| format!("weights of step {}", state.step))
}

/// Writes weights, the optimizer's moments and texts as the last checkpoint of a run's folder. What was the last becomes the
/// previous one, unless it is of the same step. At every instant one of the two is whole.
///
/// # Errors
/// A file that cannot be written; the checkpoints that were there are kept.
pub fn save(folder: &Path, variables: &nn::VarStore, adam: &Adam, texts: &Texts, state: &State) -> Result<()> {
    let (last, next) = (last_file(folder), next_file(folder));
    let mut tensors = named_weights(variables);
    tensors.insert(FIRST_MOMENT.into(), adam.first.shallow_clone());
    tensors.insert(SECOND_MOMENT.into(), adam.second.shallow_clone());
    let place = || format!("checkpoint at step {}", state.step);
    write_atomically(&next, &file::bytes(&tensors, texts, state).with_context(place)?).with_context(place)?;
    if file::read_state(&last).is_ok_and(|before| before.step != state.step) {
        put(&last, &previous_file(folder))?;
    }
    fs::rename(&next, &last).with_context(|| format!("{}: cannot write; what was there is kept", last.display()))?;
    make_durable(&last)
}

/// Makes `to` name the file that `from` names. Both name it where the file system has hard links; elsewhere only `to` does.
fn put(from: &Path, to: &Path) -> Result<()> {
    let link = to.with_extension("link");
    let _ = fs::remove_file(&link);
    let linked = fs::hard_link(from, &link).and_then(|()| {
        let renamed = fs::rename(&link, to);
        // between two names of one file, a rename does nothing and leaves both
        let _ = fs::remove_file(&link);
        renamed
    });
    linked
        .or_else(|_| fs::rename(from, to))
        .with_context(|| format!("{}: cannot be moved to {}", from.display(), to.display()))
}

/// Writes a copy of `from` over `to`, whole or not at all.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("{}: cannot read", from.display()))?;
    write_atomically(to, &bytes)
}

/// A rename is durable only once its folder is.
fn make_durable(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("{}: cannot be made durable", folder.display()))
}

/// Where a checkpoint stands, by its header alone.
///
/// # Errors
/// [`Damaged`].
pub fn load_state(path: &Path) -> Result<State> {
    file::read_state(path)
}

/// Where a run stands by the headers of its full checkpoints: the last, or if that cannot be used the previous one. `None`
/// where there is neither.
///
/// # Errors
/// Neither can be used.
pub fn standing(folder: &Path) -> Result<Option<State>> {
    let files = [last_file(folder), previous_file(folder)].into_iter().filter(|path| path.symlink_metadata().is_ok());
    let mut reasons = Vec::new();
    for path in files {
        match file::read_state(&path) {
            Ok(state) => return Ok(Some(state)),
            Err(error) => reasons.push(format!("{error:#}")),
        }
    }
    match reasons.as_slice() {
        [] => Ok(None),
        reasons => bail!("{}", recover::nothing_left(reasons)),
    }
}

/// Loads weights alone. Says on standard error if they are of a version that stored no checksum.
///
/// # Errors
/// [`Damaged`]; weights of another model.
pub fn load_weights(path: &Path, variables: &nn::VarStore) -> Result<State> {
    let contents = file::read(path)?;
    if !contents.checked {
        crate::terminal::tell(&recover::unchecked(path));
    }
    copy_weights(path, &contents.tensors, variables)?;
    Ok(contents.state)
}

/// Sets the variables to the mean of several files' weights.
///
/// # Errors
/// As [`load_weights`].
pub fn load_average(paths: &[PathBuf], variables: &nn::VarStore) -> Result<()> {
    let mut sums: BTreeMap<String, Tensor> = BTreeMap::new();
    for path in paths {
        for (name, tensor) in file::read(path)?.tensors {
            let tensor = tensor.to_kind(Kind::Double);
            match sums.get_mut(&name) {
                Some(sum) => *sum += tensor,
                None => drop(sums.insert(name, tensor)),
            }
        }
    }
    let scale = 1.0 / paths.len() as f64;
    let mean = sums.into_iter().map(|(name, sum)| (name, sum * scale)).collect();
    copy_weights(paths.first().map_or(Path::new(""), PathBuf::as_path), &mean, variables)
}

/// Every variable as files name it: `weight.NAME`.
pub fn named_weights(variables: &nn::VarStore) -> BTreeMap<String, Tensor> {
    variables.variables().into_iter().map(|(name, tensor)| (format!("weight.{name}"), tensor)).collect()
}

/// Writes a safetensors file of float and int64 tensors for another program, whole or not at all.
///
/// # Errors
/// A file that cannot be written.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>, metadata: HashMap<String, String>) -> Result<()> {
    write_atomically(path, &file::plain(tensors, metadata)?)
}

fn copy_weights(path: &Path, tensors: &BTreeMap<String, Tensor>, variables: &nn::VarStore) -> Result<()> {
    for (name, mut target) in named_weights(variables) {
        copy(path, tensors, &name, &mut target)?;
    }
    Ok(())
}

fn copy(path: &Path, tensors: &BTreeMap<String, Tensor>, name: &str, target: &mut Tensor) -> Result<()> {
    let Some(tensor) = tensors.get(name) else { bail!("{}: has no tensor {name:?}", path.display()) };
    if tensor.size() != target.size() {
        bail!("{}: {name} has shape {:?}, the model wants {:?}", path.display(), tensor.size(), target.size());
    }
    tch::no_grad(|| target.f_copy_(tensor))?;
    Ok(())
}
