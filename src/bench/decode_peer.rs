//! The PyTorch peer of the decoding benchmark: what it is given, and a process of it that answers.

use super::decode::{search_of, Options, Subject};
use super::peer::{About, ADVICE};
use super::process::Process;
use crate::attention::Mixing;
use crate::data::tokenizer::{BEGIN, END, PAD};
use crate::experiment::Run;
use crate::task::writer::batches;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// Functions that `benches/torch_decode.py` has.
const KNOWN: [&str; 5] = ["V", "D", "R", "Rfix", "FR"];

/// All that the peer needs to do what we do.
#[derive(Debug, Serialize)]
pub struct Case {
    weights: String,
    model: Sizes,
    mix: Vec<String>,
    sources: Vec<Vec<u32>>,
    batches: Vec<Vec<usize>>,
    max_lengths: Vec<usize>,
    length_penalty: f64,
    begin: u32,
    end: u32,
    pad: u32,
    threads: i32,
}

#[derive(Debug, Serialize)]
struct Sizes {
    vocabulary: i64,
    d_model: i64,
    heads: i64,
    encoder_layers: i64,
    decoder_layers: i64,
    d_ff: i64,
    max_length: i64,
}

impl Case {
    /// Of a model whose weights lie in a safetensors file.
    ///
    /// # Errors
    /// A run that the peer has no model or no search for, which the message says.
    pub fn new(run: &Run, subject: &Subject, weights: &Path, options: &Options) -> Result<Case> {
        let decode = search_of(&subject.writer, options, 1);
        let mix: Vec<String> = run.mix.terms.iter().map(ToString::to_string).collect();
        if let Some(term) = mix.iter().find(|term| !KNOWN.contains(&term.as_str())) {
            bail!("the PyTorch peer has no {term}; it has {} and mixes of them", KNOWN.join(", "));
        }
        if mix.len() > 1 && run.model.mixing != Mixing::Softmax {
            bail!("the PyTorch peer mixes by softmax only; {} has another `mixing`", subject.name);
        }
        if decode.min_length > 0 || decode.no_repeat_ngram > 0 {
            bail!("the PyTorch peer has no min_length and no no_repeat_ngram; {} has one", subject.name);
        }
        let variables = subject.writer.variables().variables();
        let table = variables.get("embedding.table").context("the model has no embedding.table")?;
        let model = &run.model;
        Ok(Case {
            weights: std::path::absolute(weights)?.to_string_lossy().into_owned(),
            model: Sizes {
                vocabulary: table.size()[0],
                d_model: model.d_model,
                heads: model.heads,
                encoder_layers: model.encoder_layers,
                decoder_layers: model.decoder_layers,
                d_ff: model.d_ff,
                max_length: model.max_length,
            },
            mix,
            sources: subject.sources.clone(),
            batches: batches(&subject.sources, decode.batch),
            max_lengths: subject.sources.iter().map(|source| subject.writer.longest_output(source.len() + 1)).collect(),
            length_penalty: decode.length_penalty,
            begin: BEGIN,
            end: END,
            pad: PAD,
            threads: tch::get_num_threads(),
        })
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// The file's.
    pub fn write(&self, path: &Path) -> Result<()> {
        crate::files::write_atomically(path, &serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A running peer.
pub struct Peer(Process);

/// What the peer did.
#[derive(Debug, Deserialize)]
pub struct PeerRun {
    /// Of all sentences.
    pub seconds: f64,
    /// Steps of a batch.
    pub steps: u64,
    /// Token ids, without marks.
    pub hypotheses: Vec<Vec<u32>>,
}

impl Peer {
    /// Starts it on a case, and waits until it has its model.
    ///
    /// # Errors
    /// A Python that does not start, or has no PyTorch; another version or other threads than ours.
    pub fn start(python: &Path, script: &Path, case: &Path) -> Result<Peer> {
        let mut command = Command::new(python);
        let process = Process::start(command.arg(script).arg(case).arg("--serve"), script.display().to_string());
        let ready = process.and_then(|mut process| process.answer().map(|hello| (hello, Peer(process))));
        let (hello, peer) = ready.with_context(|| {
            format!("no PyTorch peer; {ADVICE}, or give a Python with torch and safetensors by --python")
        })?;
        let about: About = serde_json::from_str(&hello).with_context(|| format!("the peer began with {hello:?}"))?;
        about.check(tch::get_num_threads())?;
        Ok(peer)
    }

    /// Runs all sentences once.
    ///
    /// # Errors
    /// A peer that ended, or says what it should not.
    pub fn run(&mut self, beam: usize) -> Result<PeerRun> {
        let answer = self.0.ask(&beam.to_string())?;
        serde_json::from_str(&answer).with_context(|| format!("the peer gave no result but {answer:.200}"))
    }
}
