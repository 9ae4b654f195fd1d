//! A sequence-to-sequence model that writes: sources to hypotheses, batch by batch.
//!
//! On the CPU in float32 encoder and decoder are [`CpuEncoder`] and [`CpuDecoder`], and every thread searches batches of its
//! own; elsewhere, and for mixes that these don't know, they are the model's plain ones, one batch after the other. What is written does not depend
//! on the number of threads.

use super::tokens::pad;
use super::{around_blanks, encode_line, shows_nothing, transformer_config, Answer, Generator};
use crate::data;
use crate::data::rows::is_blank;
use crate::data::token_store::{SourceLimit, TokenStore};
use crate::data::tokenizer::{Tokenizer, BEGIN, END};
use crate::decode::beam::{beam_search, search, BeamError, BeamOptions, Hypothesis};
use crate::decode::{Likeliest, Proposer, Stepper};
use crate::error::Outcome;
use crate::experiment::{DataConfig, DecodeConfig, Run, TaskKind};
use crate::interrupt;
use crate::model::cpu_decoder::{CpuDecoder, CpuState};
use crate::model::cpu_encoder::CpuEncoder;
use crate::model::decoder::DecoderState;
use crate::model::seq2seq::Seq2Seq;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tch::{nn, Device, Kind, Tensor};

/// The model with its tokenizer: lines in, lines out.
pub struct Writer {
    variables: nn::VarStore,
    model: Seq2Seq,
    tokenizer: Tokenizer,
    data: DataConfig,
    source: SourceLimit,
    limit: Limit,
    decode: DecodeConfig,
}

/// How long an output may grow, its end mark included.
enum Limit {
    /// Source length + this, but not over the second.
    Source(usize, usize),
    Fixed(usize),
}

/// Where the time of [`Writer::write_by`] went, summed over the threads, and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Effort {
    /// Reading the sources.
    pub encoder: Duration,
    /// Packing weights, and keys and values of the memory.
    pub start: Duration,
    /// The decoder's steps, with the choice of the likeliest tokens.
    pub steps: Duration,
    /// The rest of the search: which hypotheses live, and where their states are.
    pub search: Duration,
    /// Steps of a batch.
    pub step_count: u64,
    /// Hypotheses stepped, summed over steps.
    pub row_count: u64,
}

impl std::ops::AddAssign for Effort {
    fn add_assign(&mut self, other: Effort) {
        self.encoder += other.encoder;
        self.start += other.start;
        self.steps += other.steps;
        self.search += other.search;
        self.step_count += other.step_count;
        self.row_count += other.row_count;
    }
}

/// The model as the CPU's kernels read it.
struct Kernels {
    encoder: CpuEncoder,
    decoder: CpuDecoder,
}

/// Hypotheses of some rows of the sources.
type Found = (Vec<usize>, Vec<Hypothesis>);

impl Writer {
    /// A model with fresh weights from the run's seed, writing as its `[decode]` says.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let decode = run.decode.clone().context("a run that writes text has a [decode] section")?;
        Self::with(run, tokenizer, device, decode)
    }

    /// The same, writing as `decode` says.
    pub fn with(run: &Run, tokenizer: Tokenizer, device: Device, decode: DecodeConfig) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let model = Seq2Seq::new(&variables.root(), &transformer_config(run, tokenizer.size()))?;
        let limit = match run.task {
            TaskKind::Translation => Limit::Source(decode.max_extra, run.model.max_length as usize),
            TaskKind::MaskedLanguageModelling => Limit::Fixed(run.model.max_length as usize),
            _ => Limit::Fixed(run.data.max_tokens + 1),
        };
        let both = SourceLimit { tokens: run.data.max_tokens, keep_end: false };
        let source = data::source_limit(&run.data, run.task).unwrap_or(both);
        Ok(Self { variables, model, tokenizer, data: run.data.clone(), source, limit, decode })
    }

    /// Every variable.
    pub fn variables(&self) -> &nn::VarStore {
        &self.variables
    }

    /// The same, to load weights into.
    pub fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    /// Encoder and decoder.
    pub fn model(&self) -> &Seq2Seq {
        &self.model
    }

    /// What lines become tokens by.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The most tokens of a source that are read, marks not counted.
    pub fn source_tokens(&self) -> usize {
        self.source.tokens
    }

    /// How hypotheses are searched for.
    pub fn decode_config(&self) -> &DecodeConfig {
        &self.decode
    }

    /// The most tokens of an output, its end mark counted, for a source of so many tokens, its mark counted.
    pub fn longest_output(&self, source: usize) -> usize {
        self.limit.of(source)
    }

    /// Token ids of sources, without marks -> hypotheses without marks, in the same order.
    pub fn write(&self, sources: &[Vec<u32>]) -> Result<Vec<Vec<u32>>> {
        Ok(self.write_by(&self.decode, false, sources)?.0)
    }

    /// As [`Writer::write`], searching as `decode` says; `plain` makes every step the model's own, by LibTorch.
    pub fn write_by(
        &self,
        decode: &DecodeConfig,
        plain: bool,
        sources: &[Vec<u32>],
    ) -> Result<(Vec<Vec<u32>>, Effort)> {
        let _guard = tch::no_grad_guard();
        let started = Instant::now();
        let kernels = if plain { None } else { self.kernels()? };
        let mut effort = Effort { start: started.elapsed(), ..Effort::default() };
        let batches = batches(sources, decode.batch);
        let search = |rows: &[usize]| {
            interrupt::check()?;
            let batch: Vec<Vec<u32>> =
                rows.iter().map(|&row| sources[row].iter().copied().chain([END]).collect()).collect();
            let options = BeamOptions {
                beam: decode.beam,
                length_penalty: decode.length_penalty,
                max_length: batch.iter().map(|source| self.limit.of(source.len())).collect(),
                min_length: decode.min_length,
                no_repeat_ngram: decode.no_repeat_ngram,
                begin: BEGIN,
                end: END,
            };
            Ok::<_, anyhow::Error>((batch, options))
        };
        let found = match &kernels {
            Some(kernels) => {
                let batches = batches.iter().map(|rows| search(rows).map(|(batch, options)| (rows, batch, options)));
                let batches = batches.collect::<Result<Vec<_>>>()?;
                in_parallel(&batches, |(rows, batch, options)| {
                    let (found, spent) = kernels.search(batch, options)?;
                    Ok(((rows.to_vec(), found), spent))
                })?
            }
            None => {
                let found = batches.into_iter().map(|rows| {
                    let (batch, options) = search(&rows)?;
                    let (found, spent) = self.plain_search(&batch, &options)?;
                    Ok(((rows, found), spent))
                });
                found.collect::<Result<Vec<_>>>()?
            }
        };
        let mut hypotheses = vec![Vec::new(); sources.len()];
        for ((rows, found), spent) in found {
            effort += spent;
            for (row, hypothesis) in rows.into_iter().zip(found) {
                hypotheses[row] = hypothesis.tokens;
            }
        }
        Ok((hypotheses, effort))
    }

    /// None where the plain steps must do.
    fn kernels(&self) -> Result<Option<Kernels>> {
        let Some(decoder) = self.model.cpu_decoder()? else { return Ok(None) };
        Ok(self.model.cpu_encoder()?.map(|encoder| Kernels { encoder, decoder }))
    }

    fn plain_search(&self, batch: &[Vec<u32>], options: &BeamOptions) -> Result<(Vec<Hypothesis>, Effort)> {
        let device = self.variables.device();
        let batch: Vec<Vec<i64>> =
            batch.iter().map(|source| source.iter().map(|&token| i64::from(token)).collect()).collect();
        let started = Instant::now();
        let (source, padding) = pad(&batch, device);
        let memory = self.model.encode(&source, padding, false)?;
        let encoder = started.elapsed();
        let started = Instant::now();
        let state = self.model.start(&memory)?;
        let start = started.elapsed();
        let started = Instant::now();
        let mut stepper =
            DecoderStepper { model: &self.model, state, device, spent: Duration::ZERO, steps: 0, row_count: 0 };
        let found = beam_search(&mut stepper, batch.len(), options).map_err(failed)?;
        let DecoderStepper { spent: steps, steps: step_count, row_count, .. } = stepper;
        let search = started.elapsed().saturating_sub(steps);
        Ok((found, Effort { encoder, start, steps, search, step_count, row_count }))
    }

    pub(super) fn write_store(&self, store: &TokenStore) -> Result<Vec<String>> {
        let sources: Vec<Vec<u32>> = (0..store.len()).map(|row| store.tokens(row, 0)).collect::<Result<_>>()?;
        self.write_texts(sources)
    }

    /// As [`Writer::write`], decoded. A source that shows nothing has a blank output: training drops such rows.
    fn write_texts(&self, sources: Vec<Vec<u32>>) -> Result<Vec<String>> {
        let blank = |source: &Vec<u32>| shows_nothing(&self.tokenizer, source, source.len() >= self.source.tokens);
        let blank: Vec<bool> = sources.iter().map(blank).collect::<Result<_>>()?;
        let sources: Vec<Vec<u32>> =
            sources.into_iter().zip(&blank).filter(|(_, blank)| !**blank).map(|(source, _)| source).collect();
        let written = self.write(&sources)?;
        let texts = written.iter().map(|tokens| self.tokenizer.decode(tokens)).collect::<Result<_>>()?;
        Ok(around_blanks(&blank, texts))
    }
}

/// Rows of the sources that are decoded together: neighbours in length, the longest first, so that threads end together.
pub fn batches(sources: &[Vec<u32>], batch: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|&row| (sources[row].len(), row));
    let mut batches: Vec<Vec<usize>> = order.chunks(batch).map(<[usize]>::to_vec).collect();
    batches.reverse();
    batches
}

/// Does every piece of work, with as many threads as LibTorch takes; in any order. None of it is LibTorch's.
fn in_parallel<T: Sync>(
    pieces: &[T],
    work: impl Fn(&T) -> Result<(Found, Effort)> + Sync,
) -> Result<Vec<(Found, Effort)>> {
    let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1).clamp(1, pieces.len().max(1));
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            match work(piece) {
                Ok(found) => done.push(found),
                Err(error) => {
                    next.store(pieces.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(done)
    };
    let all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut all = vec![run()];
        all.extend(
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        );
        all
    });
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

impl Kernels {
    fn search(&self, batch: &[Vec<u32>], options: &BeamOptions) -> Result<(Vec<Hypothesis>, Effort)> {
        interrupt::check()?;
        let started = Instant::now();
        let memory = self.encoder.encode(&self.decoder, batch)?;
        let encoder = started.elapsed();
        let started = Instant::now();
        let state = self.decoder.start_from(&memory);
        let start = started.elapsed();
        let started = Instant::now();
        let mut proposer = CpuProposer { decoder: &self.decoder, state, spent: Duration::ZERO, steps: 0, row_count: 0 };
        let found = search(&mut proposer, batch.len(), options).map_err(failed)?;
        let CpuProposer { spent: steps, steps: step_count, row_count, .. } = proposer;
        let search = started.elapsed().saturating_sub(steps);
        Ok((found, Effort { encoder, start, steps, search, step_count, row_count }))
    }
}

/// Weights that are not finite are the run's failure, not the program's.
fn failed(error: BeamError) -> anyhow::Error {
    match error {
        BeamError::NotANumber { .. } => Outcome::Failed(error.to_string()).into(),
        error => error.into(),
    }
}

impl Limit {
    fn of(&self, source: usize) -> usize {
        match *self {
            Limit::Source(extra, most) => (source + extra).min(most),
            Limit::Fixed(most) => most,
        }
    }
}

impl Generator for Writer {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        let encode = |line: &String| {
            let source = data::source_of_line(&self.data, line)?;
            let (tokens, cut) = encode_line(&self.tokenizer, &source, self.source)?;
            Ok((tokens, cut.filter(|_| !is_blank(&source))))
        };
        let (sources, cuts): (Vec<_>, Vec<_>) =
            lines.iter().map(encode).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let texts = self.write_texts(sources)?.into_iter();
        Ok(texts.zip(cuts).map(|(text, cut)| Answer { text, cut }).collect())
    }
}

/// The model's plain steps.
struct DecoderStepper<'a> {
    model: &'a Seq2Seq,
    state: DecoderState,
    device: Device,
    spent: Duration,
    steps: u64,
    row_count: u64,
}

impl Stepper for DecoderStepper<'_> {
    fn step(&mut self, tokens: &Tensor) -> Result<Tensor> {
        let started = Instant::now();
        let scores = self.model.step(&tokens.to_device(self.device), &mut self.state)?.log_softmax(-1, Kind::Float);
        self.spent += started.elapsed();
        self.steps += 1;
        self.row_count += tokens.numel() as u64;
        Ok(scores)
    }

    fn reorder(&mut self, rows: &Tensor) {
        self.state.reorder(&rows.to_device(self.device));
    }
}

/// The same by the kernels of the CPU.
struct CpuProposer<'a> {
    decoder: &'a CpuDecoder,
    state: CpuState,
    spent: Duration,
    steps: u64,
    row_count: u64,
}

impl Proposer for CpuProposer<'_> {
    fn propose(
        &mut self,
        tokens: &[u32],
        bans: &[[u32; 2]],
        count: usize,
        position: usize,
    ) -> Result<Likeliest, BeamError> {
        let started = Instant::now();
        let stepped = self.decoder.step(tokens, &mut self.state);
        stepped.map_err(|error| BeamError::Model { position, source: error.into() })?;
        let (log_probabilities, found) = self.decoder.likeliest(&self.state, bans, count);
        self.spent += started.elapsed();
        self.steps += 1;
        self.row_count += tokens.len() as u64;
        Ok(Likeliest { count: found.len() / tokens.len().max(1), log_probabilities, tokens: found })
    }

    fn reorder(&mut self, rows: &[usize]) {
        self.state.reorder(rows);
    }

    fn reorders_cheaply(&self) -> bool {
        true
    }
}
