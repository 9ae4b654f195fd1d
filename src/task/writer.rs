//! A sequence-to-sequence model that writes: sources to hypotheses, batch by batch.
//!
//! On the CPU in float32 the decoder's steps are [`CpuDecoder`]'s, and every thread searches batches of its own; elsewhere, and
//! for mixes that it doesn't know, they are the model's plain steps, one batch after the other. What is written does not depend
//! on the number of threads.

use super::tokens::{marked, pad};
use super::{encode_line, transformer_config, Answer, Generator};
use crate::data;
use crate::data::token_store::{SourceLimit, TokenStore};
use crate::data::tokenizer::{Tokenizer, BEGIN, END};
use crate::decode::beam::{beam_search, search, BeamError, BeamOptions, Hypothesis};
use crate::decode::{Likeliest, Proposer, Stepper};
use crate::error::Outcome;
use crate::experiment::{DecodeConfig, Run, TaskKind};
use crate::interrupt;
use crate::model::cpu_decoder::{CpuDecoder, CpuState};
use crate::model::decoder::{DecoderState, Memory};
use crate::model::seq2seq::Seq2Seq;
use anyhow::{Context, Result};
use std::sync::mpsc::{sync_channel, TrySendError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tch::{nn, Device, Kind, Tensor};

/// The model with its tokenizer: lines in, lines out.
pub struct Writer {
    variables: nn::VarStore,
    model: Seq2Seq,
    tokenizer: Tokenizer,
    task: TaskKind,
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

/// Sources that are decoded together.
struct Job {
    rows: Vec<usize>,
    options: BeamOptions,
    memory: Memory,
}

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
        Ok(Self { variables, model, tokenizer, task: run.task, source, limit, decode })
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
        let decoder = if plain { None } else { self.model.cpu_decoder()? };
        let mut effort = Effort { start: started.elapsed(), ..Effort::default() };
        let batches = batches(sources, decode.batch);
        let mut hypotheses = vec![Vec::new(); sources.len()];
        let mut keep = |rows: Vec<usize>, found: Vec<Hypothesis>| {
            for (row, hypothesis) in rows.into_iter().zip(found) {
                hypotheses[row] = hypothesis.tokens;
            }
        };
        match &decoder {
            Some(decoder) => {
                let jobs = batches.iter().map(|rows| self.encode(decode, sources, rows));
                for (rows, found) in in_parallel(decoder, jobs, &mut effort)? {
                    keep(rows, found);
                }
            }
            None => {
                for rows in &batches {
                    let job = self.encode(decode, sources, rows)?;
                    let found = self.plain_search(&job.0, &mut effort)?;
                    effort.encoder += job.1;
                    keep(job.0.rows, found);
                }
            }
        }
        Ok((hypotheses, effort))
    }

    fn encode(&self, decode: &DecodeConfig, sources: &[Vec<u32>], rows: &[usize]) -> Result<(Job, Duration)> {
        interrupt::check()?;
        let started = Instant::now();
        let batch: Vec<Vec<i64>> = rows.iter().map(|&row| marked(sources[row].iter().copied())).collect();
        let (source, padding) = pad(&batch, self.variables.device());
        let memory = self.model.encode(&source, padding, false)?;
        let options = BeamOptions {
            beam: decode.beam,
            length_penalty: decode.length_penalty,
            max_length: batch.iter().map(|source| self.limit.of(source.len())).collect(),
            min_length: decode.min_length,
            no_repeat_ngram: decode.no_repeat_ngram,
            begin: BEGIN,
            end: END,
        };
        Ok((Job { rows: rows.to_vec(), options, memory }, started.elapsed()))
    }

    fn plain_search(&self, job: &Job, effort: &mut Effort) -> Result<Vec<Hypothesis>> {
        let started = Instant::now();
        let state = self.model.start(&job.memory)?;
        effort.start += started.elapsed();
        let started = Instant::now();
        let device = self.variables.device();
        let mut stepper =
            DecoderStepper { model: &self.model, state, device, spent: Duration::ZERO, steps: 0, row_count: 0 };
        let found = beam_search(&mut stepper, job.rows.len(), &job.options).map_err(failed)?;
        effort.steps += stepper.spent;
        effort.search += started.elapsed().saturating_sub(stepper.spent);
        effort.step_count += stepper.steps;
        effort.row_count += stepper.row_count;
        Ok(found)
    }

    pub(super) fn write_store(&self, store: &TokenStore) -> Result<Vec<String>> {
        let sources: Vec<Vec<u32>> = (0..store.len()).map(|row| store.tokens(row, 0)).collect::<Result<_>>()?;
        self.write(&sources)?.iter().map(|tokens| self.tokenizer.decode(tokens)).collect()
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

/// Searches with LibTorch's number of threads. The caller's own encodes ahead, and decodes too where the others have enough.
fn in_parallel(
    decoder: &CpuDecoder,
    jobs: impl Iterator<Item = Result<(Job, Duration)>>,
    effort: &mut Effort,
) -> Result<Vec<(Vec<usize>, Vec<Hypothesis>)>> {
    let one_thread = Threads::set(1);
    let helpers = one_thread.before.saturating_sub(1).max(0) as usize;
    let (sender, receiver) = sync_channel::<Job>(helpers);
    let receiver = Mutex::new(receiver);
    let done = Mutex::new((Vec::new(), Effort::default()));
    let failure = Mutex::new(None);
    let work = |job: Job| match fast_search(decoder, &job) {
        Ok((found, spent)) => {
            let mut done = lock(&done);
            done.0.push((job.rows, found));
            done.1 += spent;
        }
        Err(error) => drop(lock(&failure).get_or_insert(error)),
    };
    // One at a time waits for a job, the lock held, until there is one or will be none.
    let next = || lock(&receiver).recv();
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| {
                while let Ok(job) = next() {
                    work(job);
                }
            });
        }
        for job in jobs {
            match job {
                Ok((job, spent)) => {
                    effort.encoder += spent;
                    match sender.try_send(job) {
                        Ok(()) => {}
                        Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => work(job),
                    }
                }
                Err(error) => drop(lock(&failure).get_or_insert(error)),
            }
            if lock(&failure).is_some() {
                break;
            }
        }
        drop(sender);
        while let Ok(job) = next() {
            work(job);
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let (found, spent) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    *effort += spent;
    Ok(found)
}

/// Nothing is left half-done under these locks, so that a panic elsewhere, which ends the scope anyway, does them no harm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// LibTorch's number of threads, set back at the end.
struct Threads {
    before: i32,
}

impl Threads {
    fn set(threads: i32) -> Threads {
        let before = tch::get_num_threads();
        tch::set_num_threads(threads);
        Threads { before }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        tch::set_num_threads(self.before);
    }
}

fn fast_search(decoder: &CpuDecoder, job: &Job) -> Result<(Vec<Hypothesis>, Effort)> {
    interrupt::check()?;
    let started = Instant::now();
    let state = decoder.start(&job.memory)?;
    let start = started.elapsed();
    let started = Instant::now();
    let mut proposer = CpuProposer { decoder, state, spent: Duration::ZERO, steps: 0, row_count: 0 };
    let found = search(&mut proposer, job.rows.len(), &job.options).map_err(failed)?;
    let CpuProposer { spent: steps, steps: step_count, row_count, .. } = proposer;
    let search = started.elapsed().saturating_sub(steps);
    Ok((found, Effort { encoder: Duration::ZERO, start, steps, search, step_count, row_count }))
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
        let encoded = lines.iter().map(|line| match self.task {
            // what was said, the utterances parted by tabs
            TaskKind::Dialogue => encode_line(&self.tokenizer, &line.replace('\t', "\n"), self.source),
            _ => encode_line(&self.tokenizer, line, self.source),
        });
        let (sources, cuts): (Vec<_>, Vec<_>) = encoded.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let answers = self.write(&sources)?.into_iter().zip(cuts);
        answers.map(|(tokens, cut)| Ok(Answer { text: self.tokenizer.decode(&tokens)?, cut })).collect()
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
