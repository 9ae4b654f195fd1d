//! From which checkpoint a run resumes, when files of it may be damaged.
//!
//! Training is a function of its checkpoint to the bit, so an older checkpoint leads to the same result as the newest one, only
//! later. The last is used if it and the weights that it counts on are whole; weights that are damaged are written again from a
//! checkpoint of the same step, or computed again from one before it.

use super::file::Contents;
use super::{best_file, copy_file, file, last_file, next_file, previous_file, save_tensors, step_file};
use super::{copy, copy_weights, Adam, State, Texts, FIRST_MOMENT, SECOND_MOMENT};
use crate::experiment::{Run, Select};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tch::nn;

/// The run that is to be resumed.
pub struct Resuming<'a> {
    /// Its folder.
    pub folder: &'a Path,
    /// Its settings.
    pub run: &'a Run,
    /// Their hash.
    pub config_hash: &'a str,
    /// Hash of its data.
    pub data_hash: &'a str,
    /// SHA-256 of the files that its model needs beside the weights, by name.
    pub assets: &'a BTreeMap<String, String>,
    /// Number of batches of an epoch.
    pub batches: &'a dyn Fn(u64) -> usize,
    /// Takes messages to the user.
    pub say: &'a dyn Fn(&str),
}

/// A whole checkpoint to resume from.
pub struct Resumed {
    /// Where training stands.
    pub state: State,
    /// The log and whatever else was saved as text; empty in a checkpoint of a version that saved none.
    pub texts: Texts,
    path: PathBuf,
    contents: Contents,
}

impl Resumed {
    /// Sets variables and moments.
    ///
    /// # Errors
    /// Those of another model.
    pub fn load(&self, variables: &nn::VarStore, adam: &mut Adam) -> Result<()> {
        copy_weights(&self.path, &self.contents.tensors, variables)?;
        copy(&self.path, &self.contents.tensors, FIRST_MOMENT, &mut adam.first)?;
        copy(&self.path, &self.contents.tensors, SECOND_MOMENT, &mut adam.second)
    }
}

impl Resuming<'_> {
    /// The checkpoint to resume from; `None` for a run that has none yet. Afterwards that checkpoint is the last one.
    ///
    /// # Errors
    /// It is of other settings or data, or no checkpoint can be used.
    pub fn find(&self) -> Result<Option<Resumed>> {
        let (last, previous) = (last_file(self.folder), previous_file(self.folder));
        // found now, and not when there is training to lose
        let checkpoints = self.folder.join("checkpoint");
        std::fs::create_dir_all(&checkpoints)
            .with_context(|| format!("{}: cannot make this folder for checkpoints", checkpoints.display()))?;
        // what a process that was killed had not made the last one yet
        let _ = std::fs::remove_file(next_file(self.folder));
        let newest = file::read_state(&last).ok();
        let mut reasons = Vec::new();
        for path in [&last, &previous] {
            if path.symlink_metadata().is_err() {
                continue;
            }
            match self.usable(path, newest.as_ref())? {
                Err(reason) if reasons.contains(&reason) => {}
                Err(reason) => reasons.push(reason),
                Ok(contents) => {
                    if *path == previous {
                        let step = contents.state.step;
                        for reason in &reasons {
                            (self.say)(&format!("{reason}; the previous checkpoint, of step {step}, is used instead"));
                        }
                        // a copy and no second name of one file, so that damage to one of the two leaves the other
                        copy_file(&previous, &last)?;
                    }
                    let (state, texts) = (contents.state.clone(), contents.texts.clone());
                    return Ok(Some(Resumed { state, texts, path: path.clone(), contents }));
                }
            }
        }
        match reasons.as_slice() {
            [] => Ok(None),
            reasons => bail!("{}", nothing_left(reasons)),
        }
    }

    /// A checkpoint if training can resume from it, or why it cannot.
    fn usable(&self, path: &Path, newest: Option<&State>) -> Result<std::result::Result<Contents, String>> {
        let contents = match file::read(path) {
            Ok(contents) => contents,
            Err(error) => return Ok(Err(format!("{error:#}"))),
        };
        let state = &contents.state;
        self.check_origin(state)?;
        if let Some(why) = state.impossible(self.run, self.batches) {
            return Ok(Err(format!("{}: {why}", path.display())));
        }
        if !contents.checked {
            (self.say)(&unchecked(path));
        }
        for (file, step) in self.needed(state, newest) {
            let why = match file::read_bytes(&file) {
                // written after this checkpoint, the file is written again when training comes to that step again
                Ok((_, found, _)) if found.step == step || found.step > state.step => continue,
                Ok((_, found, _)) => format!("{}: it is of step {}, not {step}", file.display(), found.step),
                Err(error) => format!("{error:#}"),
            };
            if step != state.step {
                return Ok(Err(format!("{why} (weights of step {step})")));
            }
            save_weights_of(&contents, &file)?;
            (self.say)(&format!("{why}; it is written again from {}", path.display()));
        }
        Ok(Ok(contents))
    }

    /// Files of weights that the end of training will read and that training from `state` on will not write again, with their
    /// steps. `newest` knows of later evaluations that will replace some of them.
    fn needed(&self, state: &State, newest: Option<&State>) -> Vec<(PathBuf, u64)> {
        let newest = newest.filter(|newest| newest.step >= state.step).unwrap_or(state);
        match self.run.train.select {
            Select::Last => Vec::new(),
            Select::Best => {
                let best = newest.best.filter(|(step, _)| *step <= state.step).map(|(step, _)| step);
                best.map(|step| (best_file(self.folder), step)).into_iter().collect()
            }
            Select::Average => {
                let kept = state.kept.iter().filter(|step| newest.kept.contains(step));
                kept.map(|&step| (step_file(self.folder, step), step)).collect()
            }
        }
    }

    /// A checkpoint of other settings, data or tokens is refused, however whole it is.
    fn check_origin(&self, state: &State) -> Result<()> {
        let mut found =
            vec![("config", &*state.config_hash, self.config_hash), ("data", &*state.data_hash, self.data_hash)];
        let assets = self.assets.iter().filter(|(name, _)| *name != "config.toml");
        found.extend(assets.filter_map(|(name, here)| Some((&**name, &**state.assets.get(name)?, &**here))));
        for (what, there, here) in found {
            if !there.is_empty() && there != here {
                bail!(
                    "{}: its checkpoint is of other {what} (hash {there}, wanted {here}). Start again with --fresh",
                    self.folder.display()
                );
            }
        }
        Ok(())
    }
}

/// Writes the weights of a full checkpoint as a file of weights.
fn save_weights_of(contents: &Contents, path: &Path) -> Result<()> {
    let weights = contents.tensors.iter().filter(|(name, _)| name.starts_with("weight."));
    let weights = weights.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
    save_tensors(path, &weights, &contents.state)
}

/// The error of a run without a checkpoint that can be used.
pub(super) fn nothing_left(reasons: &[String]) -> String {
    format!(
        "{}. There is no other checkpoint to resume from: start this run again with --fresh, or put back a copy",
        reasons.join("; ")
    )
}

/// What is said of a file that a version without checksums wrote.
pub(super) fn unchecked(path: &Path) -> String {
    format!(
        "{}: an earlier version wrote this file without a checksum, so damage to it would go unseen",
        path.display()
    )
}
