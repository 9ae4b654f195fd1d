//! Beam search over a batch of rows, with the length penalty of Wu et al. 2016 (arXiv 1609.08144, equation 14) as
//! Tensor2Tensor uses it.
//!
//! **Score.** A hypothesis of `n` tokens, its end mark counted, scores `Σ log p / ((5 + n)/6)^α`.
//!
//! **A step.** From the alive hypotheses of a row the best 2·beam continuations are looked at: those that end are
//! finished, the best `beam` of the others stay alive. Beam 1 is greedy search: the likeliest token alone is looked at.
//!
//! **When a row stops.** Log-probabilities only fall, so an alive hypothesis can at best reach
//! `Σ log p / max_n ((5 + n)/6)^α` over the lengths n still open to it. One whose bound is not above the best finished
//! score of its row is dropped, and a row without alive hypotheses is done. Only the best hypothesis is returned, so
//! this loses nothing against going on until the worst of `beam` finished ones is safe. At `max_length` tokens a row
//! stops in any case; a hypothesis cut there counts only where none has finished.
//!
//! **Limits.** Before `min_length` tokens no end mark comes; where `min_length` is not below a row's `max_length` none can,
//! and the row is cut at its maximum. With `no_repeat_ngram` n a token that would make the last n tokens an n-gram which
//! the hypothesis has already is not looked at (Paulus et al. 2017, arXiv 1705.04304, section 2.5); the end mark is
//! free, the begin mark is no part of an n-gram. A hypothesis that the limits leave no token is dropped; where that was the
//! row's last and none has finished, the best of those dropped in that step is returned as it stands, not ended.
//!
//! **Ties.** Of equal scores the hypothesis that was better before wins, then the smaller token id; of equal finished
//! ones the earlier.
//!
//! **Cost.** One transfer from the device a step. The state is reordered only when a hypothesis branches, or when a
//! quarter of its rows are dead (any, where the model reorders cheaply); until then dead rows are stepped along with any token.

use super::by_tensor::ByTensor;
use super::constraints::Constraints;
use super::{Likeliest, Proposer, Stepper};
use std::cmp::Ordering;

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct BeamOptions {
    /// Hypotheses kept alive for a row; at least 1, which is greedy search.
    pub beam: usize,
    /// α of the length penalty ((5 + n)/6)^α; 0 for none.
    pub length_penalty: f64,
    /// For each row the most tokens, end mark counted: at most that many steps are taken for it.
    pub max_length: Vec<usize>,
    /// Tokens that must stand before the end mark; 0 for no limit.
    pub min_length: usize,
    /// No hypothesis has the same n-gram of so many tokens twice; 0 for no limit.
    pub no_repeat_ngram: usize,
    /// The token that starts every row.
    pub begin: u32,
    /// The token that ends a hypothesis.
    pub end: u32,
}

/// A sequence that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, without begin and end marks.
    pub tokens: Vec<u32>,
    /// Σ log p / ((5 + n)/6)^α.
    pub score: f64,
    /// Whether it ended by its end mark; false for one cut at the maximum length, or where the limits left no token.
    pub ended: bool,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum BeamError {
    /// `beam` is 0.
    #[error("beam is 0; the smallest beam is 1 (greedy search)")]
    ZeroBeam,
    /// `max_length` has another number of rows.
    #[error("beam search over {rows} rows was given {lengths} maximum lengths")]
    Lengths {
        /// Rows to search.
        rows: usize,
        /// Lengths given.
        lengths: usize,
    },
    /// The model's log-probabilities have another shape.
    #[error("the model returned log-probabilities of shape {got:?} for {rows} rows")]
    Shape {
        /// Rows of the state.
        rows: usize,
        /// Shape returned.
        got: Vec<i64>,
    },
    /// The model gave a log-probability that is not a number.
    #[error(
        "the model's log-probabilities are not numbers (NaN) at output position {position}; are its weights finite?"
    )]
    NotANumber {
        /// Counted from 1.
        position: usize,
    },
    /// The model left no token possible, where no limit applied.
    #[error("the model gave every token probability 0 at output position {position}")]
    NothingPossible {
        /// Counted from 1.
        position: usize,
    },
    /// The model failed.
    #[error("the model failed at output position {position}")]
    Model {
        /// Counted from 1.
        position: usize,
        /// Its error.
        source: anyhow::Error,
    },
    /// LibTorch failed.
    #[error("LibTorch failed in the search")]
    Torch(#[from] tch::TchError),
}

impl BeamOptions {
    fn constraints(&self) -> Constraints {
        Constraints { min_length: self.min_length, no_repeat_ngram: self.no_repeat_ngram, end: self.end }
    }
}

/// A hypothesis that may still grow.
#[derive(Debug, Clone)]
struct Alive {
    /// The row of the stepper's state that holds it.
    slot: usize,
    tokens: Vec<u32>,
    log_probability: f64,
}

/// One row of the batch.
struct Row {
    alive: Vec<Alive>,
    best: Option<Hypothesis>,
    max_length: usize,
}

/// A continuation of an alive hypothesis.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    parent: usize,
    token: u32,
    log_probability: f64,
}

/// The best sequence for each of `rows` rows, in their order. The state of `stepper` has `rows` rows at first; its size
/// changes while searching, and what it holds at the end is of no use.
///
/// A row whose `max_length` is 0 gets no tokens, score 0.
///
/// # Errors
/// A beam of 0, lengths that don't match the rows, NaN from the model, or a failure of the model or of LibTorch.
pub fn beam_search(
    stepper: &mut dyn Stepper,
    rows: usize,
    options: &BeamOptions,
) -> Result<Vec<Hypothesis>, BeamError> {
    search(&mut ByTensor(stepper), rows, options)
}

/// As [`beam_search`], with a model that gives the likeliest tokens alone.
///
/// # Errors
/// Those of [`beam_search`].
pub fn search(proposer: &mut dyn Proposer, rows: usize, options: &BeamOptions) -> Result<Vec<Hypothesis>, BeamError> {
    if options.beam == 0 {
        return Err(BeamError::ZeroBeam);
    }
    if options.max_length.len() != rows {
        return Err(BeamError::Lengths { rows, lengths: options.max_length.len() });
    }
    let _no_grad = tch::no_grad_guard();
    let mut batch: Vec<Row> = (options.max_length.iter().enumerate())
        .map(|(slot, &max_length)| Row {
            alive: if max_length == 0 { vec![] } else { vec![Alive { slot, tokens: vec![], log_probability: 0.0 }] },
            best: None,
            max_length,
        })
        .collect();
    let mut slots = rows;
    let mut position = 0;
    while batch.iter().any(|row| !row.alive.is_empty()) {
        slots = arrange(proposer, &mut batch, slots);
        position += 1;
        let likeliest = step(proposer, &batch, slots, position, options)?;
        for row in &mut batch {
            if !row.alive.is_empty() {
                advance(row, &likeliest, position, options)?;
            }
        }
    }
    Ok(batch
        .into_iter()
        .map(|row| row.best.unwrap_or(Hypothesis { tokens: vec![], score: 0.0, ended: false }))
        .collect())
}

/// ((5 + n)/6)^α.
fn length_penalty(length: usize, alpha: f64) -> f64 {
    ((5.0 + length as f64) / 6.0).powf(alpha)
}

/// Gives each alive hypothesis a state row of its own, and returns how many state rows there are.
fn arrange(proposer: &mut dyn Proposer, batch: &mut [Row], slots: usize) -> usize {
    let parents: Vec<usize> = batch.iter().flat_map(|row| &row.alive).map(|alive| alive.slot).collect();
    let mut used = vec![false; slots];
    let branched = parents.iter().any(|&slot| std::mem::replace(&mut used[slot], true));
    let worth_dropping =
        if proposer.reorders_cheaply() { parents.len() < slots } else { 4 * parents.len() <= 3 * slots };
    if !branched && !worth_dropping {
        return slots;
    }
    for (slot, alive) in batch.iter_mut().flat_map(|row| &mut row.alive).enumerate() {
        alive.slot = slot;
    }
    proposer.reorder(&parents);
    parents.len()
}

/// Appends the last token of each alive hypothesis to its state row, and reads what may come next.
fn step(
    proposer: &mut dyn Proposer,
    batch: &[Row],
    slots: usize,
    position: usize,
    options: &BeamOptions,
) -> Result<Likeliest, BeamError> {
    let mut last = vec![options.begin; slots];
    for alive in batch.iter().flat_map(|row| &row.alive) {
        last[alive.slot] = *alive.tokens.last().unwrap_or(&options.begin);
    }
    let hypotheses = batch.iter().flat_map(|row| &row.alive).map(|alive| (alive.slot, &alive.tokens[..]));
    let bans = options.constraints().bans(hypotheses, position);
    proposer.propose(&last, &bans, candidates(options.beam), position)
}

/// How many continuations of a row are looked at.
fn candidates(beam: usize) -> usize {
    if beam == 1 {
        1
    } else {
        2 * beam
    }
}

/// Better first: higher score, then the better parent, then the smaller token.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    (b.log_probability.total_cmp(&a.log_probability)).then(a.parent.cmp(&b.parent)).then(a.token.cmp(&b.token))
}

/// Grows a row's alive hypotheses by the token at `position` (counted from 1).
fn advance(row: &mut Row, likeliest: &Likeliest, position: usize, options: &BeamOptions) -> Result<(), BeamError> {
    let mut continuations = Vec::with_capacity(row.alive.len() * likeliest.count);
    for (parent, alive) in row.alive.iter().enumerate() {
        for i in alive.slot * likeliest.count..(alive.slot + 1) * likeliest.count {
            let log_probability = alive.log_probability + likeliest.log_probabilities[i];
            if log_probability.is_nan() {
                return Err(BeamError::NotANumber { position });
            }
            if log_probability > f64::NEG_INFINITY {
                continuations.push(Candidate { parent, token: likeliest.tokens[i], log_probability });
            }
        }
    }
    continuations.sort_by(rank);
    continuations.truncate(candidates(options.beam));

    let penalty = length_penalty(position, options.length_penalty);
    let mut next = Vec::with_capacity(options.beam);
    for candidate in &continuations {
        let tokens = &row.alive[candidate.parent].tokens;
        if candidate.token == options.end {
            let score = candidate.log_probability / penalty;
            if row.best.as_ref().is_none_or(|best| score > best.score) {
                row.best = Some(Hypothesis { tokens: tokens.clone(), score, ended: true });
            }
        } else if next.len() < options.beam {
            next.push(*candidate);
        }
    }
    if position >= row.max_length || (next.is_empty() && row.best.is_none()) {
        // Cut: at the maximum, or where no token is possible.
        if row.best.is_none() {
            row.best = Some(match next.first() {
                Some(best) => {
                    Hypothesis { tokens: grown(&row.alive, best), score: best.log_probability / penalty, ended: false }
                }
                None if options.constraints().free(position) => return Err(BeamError::NothingPossible { position }),
                None => stuck(&row.alive[0], position, options),
            });
        }
        next.clear();
    }
    let open = length_penalty(position + 1, options.length_penalty)
        .max(length_penalty(row.max_length, options.length_penalty));
    if let Some(best) = &row.best {
        next.retain(|candidate| candidate.log_probability / open > best.score);
    }
    row.alive = next
        .iter()
        .map(|candidate| Alive {
            slot: row.alive[candidate.parent].slot,
            tokens: grown(&row.alive, candidate),
            log_probability: candidate.log_probability,
        })
        .collect();
    Ok(())
}

/// The better hypothesis comes first among the alive ones, so of those without a token at `position` this is the best.
fn stuck(alive: &Alive, position: usize, options: &BeamOptions) -> Hypothesis {
    let score = alive.log_probability / length_penalty(position - 1, options.length_penalty);
    Hypothesis { tokens: alive.tokens.clone(), score, ended: false }
}

/// The tokens of a continuation.
fn grown(alive: &[Alive], candidate: &Candidate) -> Vec<u32> {
    let parent = &alive[candidate.parent].tokens;
    let mut tokens = Vec::with_capacity(parent.len() + 1);
    tokens.extend_from_slice(parent);
    tokens.push(candidate.token);
    tokens
}
