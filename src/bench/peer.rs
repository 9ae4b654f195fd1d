//! The peer: a PyTorch process that measures when it is asked, a JSON object a line each way.

use super::process::Process;
use crate::train::device::loaded_version;
use anyhow::{bail, Context, Result};
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// How to start it.
#[derive(Debug, Clone)]
pub struct Launch {
    /// A Python 3 that finds PyTorch; PYTHONPATH of the environment counts.
    pub python: PathBuf,
    /// `torch_peer.py`.
    pub script: PathBuf,
    /// Threads of one operation.
    pub threads: i32,
    /// Whether its allocator keeps large freed blocks, as ours does, or is as it comes.
    pub keeps_freed: bool,
}

/// A running peer.
pub struct Peer {
    process: Process,
    /// What it is.
    pub about: About,
}

/// What a peer says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct About {
    /// PyTorch's version.
    pub torch: String,
    /// Threads of one operation.
    pub threads: i32,
}

impl About {
    /// Whether it can be compared with: the version of our LibTorch, and so many threads.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self, threads: i32) -> Result<()> {
        let ours = loaded_version();
        if self.torch.split('+').next() != Some(&ours) {
            bail!(
                "the peer is PyTorch {}, and ours is LibTorch {ours}: compare the same version; {ADVICE}",
                self.torch
            );
        }
        if self.threads != threads {
            bail!("the peer runs with {} threads and not with {threads}", self.threads);
        }
        Ok(())
    }
}

/// A request that the peer can't take, such as a fused form of a function that PyTorch has none for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// Where a peer comes from.
pub(super) const ADVICE: &str = "`make bench` makes the peer and calls this command as it needs to be called";

impl Peer {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// No such Python, no PyTorch, another version than ours.
    pub fn start(launch: &Launch) -> Result<Peer> {
        let Launch { python, script, threads, keeps_freed } = launch;
        if !script.is_file() {
            bail!("there is no {}: run this in the repository's folder; {ADVICE}", script.display());
        }
        let mut command = Command::new(python);
        command.arg(script).arg("--threads").arg(threads.to_string());
        if !keeps_freed {
            command.arg("--stock-allocator");
        }
        // That of our own start would override what was asked for.
        command.arg("serve").env_remove("OMP_NUM_THREADS");
        let process = Process::start(&mut command, "the peer".to_string()).context(ADVICE)?;
        let mut peer = Peer { process, about: About { torch: String::new(), threads: 0 } };
        let about: About = peer.ask("hello", Value::Object(Default::default())).with_context(|| {
            format!("no peer to compare with: {} could not run PyTorch; {ADVICE}", python.display())
        })?;
        about.check(*threads)?;
        peer.about = about;
        Ok(peer)
    }

    /// Sends a request (`what` and its arguments, an object) and reads the answer.
    ///
    /// # Errors
    /// [`Unfit`]; what the peer says went wrong; a peer that ended; an answer of another shape.
    pub fn ask<T: DeserializeOwned>(&mut self, what: &str, arguments: Value) -> Result<T> {
        let mut request = arguments;
        request["do"] = what.into();
        let line = self.process.ask(&request.to_string()).with_context(|| format!("asked for `{what}`"))?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("the peer answered {line:?}"))?;
        if let Some(unfit) = answer["unfit"].as_str() {
            return Err(Unfit(unfit.to_string()).into());
        }
        if let Some(error) = answer["error"].as_str() {
            bail!("the peer answered `{what}` with: {error}");
        }
        serde_json::from_value(answer).with_context(|| format!("the peer answered `{what}` with {line:?}"))
    }
}
