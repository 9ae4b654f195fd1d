//! Tasks: one file each, joining data, model, loss and metrics behind one trait that the trainer drives.

pub mod attention_view;
pub mod classification;
pub mod dialogue;
pub mod encoder_decoder;
pub mod evaluation;
pub mod judging;
pub mod language_modelling;
pub mod masked_language_modelling;
pub mod remarks;
pub mod sequence_to_sequence;
pub mod size;
pub mod summarization;
pub mod tokens;
pub mod translation;
pub mod writer;

use crate::attention::cost::CostError;
use crate::attention::SelfAttention;
use crate::data::rows::is_blank;
use crate::data::token_store::SourceLimit;
use crate::data::tokenizer::Tokenizer;
use crate::experiment::{ModelConfig, Run, TaskKind};
use crate::files::write_atomically;
use crate::model::TransformerConfig;
use anyhow::{Context, Result};
use classification::{Classification, Labeller, Labels};
use language_modelling::{Completer, LanguageModelling};
use masked_language_modelling::{GapFiller, MaskedLanguageModelling};
use sequence_to_sequence::SequenceToSequence;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tch::{nn, Device, Tensor};
use tokens::TrainingRows;
use writer::Writer;

/// A metric's name, such as `dev.bleu`, and its value: a number, or a text such as a signature.
pub type Metric = (String, serde_json::Value);

/// Everything that scoring a finished run gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    /// Metrics in the order of their columns.
    pub metrics: Vec<Metric>,
    /// Remarks that a reader of the metrics needs. Each is one sentence with a period at its end and no other `". "`, so that
    /// the CSV cell, in which spaces join them, can be split again.
    pub notes: Vec<String>,
}

/// Cross-entropy of held-out rows, without label smoothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DevScore {
    /// Sum over predicted tokens, in nats.
    pub nll: f64,
    /// Predicted tokens, end marks among them.
    pub tokens: u64,
}

impl DevScore {
    /// Nats a token.
    pub fn loss(&self) -> f64 {
        self.nll / self.tokens as f64
    }
}

/// What the trainer needs to know of a task, and no more.
pub trait Task {
    /// Every variable, under the names that checkpoints use.
    fn variables(&self) -> &nn::VarStore;

    /// Training rows, tokenizer, and what the data are.
    fn training(&self) -> &TrainingRows;

    /// Predictions that a batch makes, the loss's denominator: target tokens, or labelled examples.
    fn targets(&self, rows: &[u32]) -> u64;

    /// The loss of a batch of training rows, with gradients. What is made of a row may be another in each epoch.
    fn loss(&self, epoch: u64, rows: &[u32]) -> Result<BatchLoss>;

    /// Training rows as another program can take them; none for a task whose model is no language model or encoder-decoder.
    fn token_batch(&self, _epoch: u64, _rows: &[u32]) -> Result<Option<TokenBatch>> {
        Ok(None)
    }

    /// Cross-entropy of the dev split.
    fn dev(&self) -> Result<DevScore>;

    /// The task's metrics on dev and test at the end of training; `dev` is the cross-entropy of the current weights.
    /// May write generated text into `folder`.
    fn score(&self, dev: &DevScore, folder: &Path) -> Result<Scores>;

    /// Every self-attention layer: stack (`encoder`, `decoder`), number, layer.
    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)>;

    /// Histograms of the attention weights on a fixed piece of the dev split.
    fn view_attention(&self) -> Result<Vec<attention_view::Histogram>>;

    /// The files that `generate` needs beside the weights, names and contents: the tokenizer.
    ///
    /// # Errors
    /// Contents that cannot be written down.
    fn assets(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        Ok(vec![(TOKENIZER, self.training().tokenizer.json().into())])
    }

    /// Writes [`Task::assets`] into a run's folder.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn save_assets(&self, folder: &Path) -> Result<()> {
        self.assets()?.iter().try_for_each(|(name, bytes)| write_atomically(&folder.join(name), bytes))
    }
}

/// The tokenizer's file in a run's folder.
const TOKENIZER: &str = "tokenizer.json";

/// The loss of one batch.
#[derive(Debug)]
pub struct BatchLoss {
    /// Sum over the batch's predictions, with gradients.
    pub sum: Tensor,
    /// Time that making the batch took, before the model could begin.
    pub waited: Duration,
}

/// A batch of token ids, each [B, L] (int64), filled up with PAD.
#[derive(Debug)]
pub struct TokenBatch {
    /// What an encoder reads.
    pub source: Option<Tensor>,
    /// What a decoder reads.
    pub input: Tensor,
    /// What it is to predict at each position.
    pub target: Tensor,
}

/// What a model makes of a line; by default nothing, as of a line that shows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Its output.
    pub text: String,
    /// If the line was too long.
    pub cut: Option<Cut>,
}

/// What was taken of a line that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Tokens of the line.
    pub tokens: usize,
    /// How many of them the model takes.
    pub taken: usize,
    /// Whether those are the last and not the first.
    pub from_end: bool,
}

/// A trained model that turns lines into lines.
pub trait Generator {
    /// Every variable, to load weights into.
    fn variables_mut(&mut self) -> &mut nn::VarStore;

    /// One answer for each line in; to a [blank](is_blank) line, a blank one.
    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>>;
}

/// Reads the run's data and builds its model on `device`; initial values come from the run's seed.
pub fn build(run: &Run, device: Device) -> Result<Box<dyn Task>> {
    Ok(match run.task {
        TaskKind::LanguageModelling => Box::new(LanguageModelling::new(run, device)?),
        TaskKind::MaskedLanguageModelling => Box::new(MaskedLanguageModelling::new(run, device)?),
        TaskKind::Translation | TaskKind::Summarization | TaskKind::Dialogue => {
            Box::new(SequenceToSequence::new(run, device)?)
        }
        TaskKind::Classification => Box::new(Classification::new(run, device)?),
    })
}

/// The run's model with the tokenizer of its folder, its weights not loaded yet.
pub fn build_generator(run: &Run, folder: &Path, device: Device) -> Result<Box<dyn Generator>> {
    let tokenizer = Tokenizer::load(&tokenizer_file(folder))
        .with_context(|| format!("{}: not a run that can generate", folder.display()))?;
    Ok(match run.task {
        TaskKind::Translation | TaskKind::Summarization | TaskKind::Dialogue => {
            Box::new(Writer::new(run, tokenizer, device)?)
        }
        TaskKind::LanguageModelling => Box::new(Completer::new(run, tokenizer, device)?),
        TaskKind::MaskedLanguageModelling => Box::new(GapFiller::new(run, tokenizer, device)?),
        TaskKind::Classification => Box::new(Labeller::new(run, tokenizer, Labels::load(folder)?, device)?),
    })
}

/// Floating-point operations of a training step's forward pass with a tokenizer of `vocabulary` entries, where every step has the same: `None` for tasks whose rows
/// differ in length. As many rows as fill `batch_tokens`, `accumulate` times; counted as
/// [`MODEL_FLOPS_DEFINITION`](crate::experiment::MODEL_FLOPS_DEFINITION) says.
pub fn forward_flops(run: &Run, vocabulary: usize) -> Result<Option<u64>> {
    if run.task != TaskKind::MaskedLanguageModelling {
        return Ok(None);
    }
    let counts = run.data.spans_in(run.data.window);
    let rows = (run.train.batch_tokens / counts.longest()) as i64;
    let config = transformer_config(run, vocabulary);
    let batch = config.flops(rows, Some(counts.source() as i64), counts.target() as i64)?;
    let step = batch.total.checked_mul(run.train.accumulate as u64).ok_or(CostError::TooMany)?;
    Ok(Some(step))
}

/// Ids of a line, as many as the limit lets, and what was cut.
fn encode_line(tokenizer: &Tokenizer, line: &str, limit: SourceLimit) -> Result<(Vec<u32>, Option<Cut>)> {
    let mut tokens = tokenizer.encode(line)?;
    let whole = tokens.len();
    let cut = limit.cut(&mut tokens);
    Ok((tokens, cut.then_some(Cut { tokens: whole, taken: limit.tokens, from_end: limit.keep_end })))
}

/// Whether the tokens that a model gets of a text show nothing; `cut` says whether it is only a part, which may begin or end
/// within a character.
fn shows_nothing(tokenizer: &Tokenizer, tokens: &[u32], cut: bool) -> Result<bool> {
    let text = tokenizer.decode(tokens)?;
    Ok(is_blank(if cut { text.trim_matches(char::REPLACEMENT_CHARACTER) } else { &text }))
}

/// The outputs of what is not blank, with a blank one in the place of each blank input.
fn around_blanks<T: Default>(blank: &[bool], outputs: Vec<T>) -> Vec<T> {
    let mut outputs = outputs.into_iter();
    blank.iter().map(|blank| if *blank { T::default() } else { outputs.next().unwrap_or_default() }).collect()
}

/// Where a run's folder has its tokenizer.
pub fn tokenizer_file(folder: &Path) -> PathBuf {
    folder.join(TOKENIZER)
}

/// The sizes of a run's model, whose tokenizer has `vocabulary` entries: the sentinels' rows follow those.
pub fn transformer_config(run: &Run, vocabulary: usize) -> TransformerConfig {
    let model: &ModelConfig = &run.model;
    TransformerConfig {
        vocabulary: (vocabulary + run.sentinels()) as i64,
        d_model: model.d_model,
        heads: model.heads,
        encoder_layers: model.encoder_layers,
        decoder_layers: model.decoder_layers,
        d_ff: model.d_ff,
        max_length: model.max_length,
        dropout: model.dropout,
        attention_dropout: model.attention_dropout,
        relu_dropout: model.relu_dropout,
        terms: run.mix.terms.clone(),
        mixing: model.mixing,
    }
}
