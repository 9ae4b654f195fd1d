//! Sentences a second of a model that writes, and where the time goes.

use super::decode_peer::Peer;
use super::sampling::{in_turn, Limits, Spread};
use crate::experiment::DecodeConfig;
use crate::task::writer::{Effort, Writer};
use anyhow::{Context, Result};
use serde::Serialize;
use std::time::Instant;

/// A model and what it is to read.
pub struct Subject {
    /// Of the run, such as `R+V-s1`.
    pub name: String,
    /// Its mix.
    pub mix: String,
    /// Whether its weights are those of a finished run; else those that training starts from.
    pub trained: bool,
    /// The model.
    pub writer: Writer,
    /// Token ids, without marks.
    pub sources: Vec<Vec<u32>>,
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Beams; 1 is greedy search.
    pub beams: Vec<usize>,
    /// Sentences decoded together; the run's own if none.
    pub batch: Option<usize>,
    /// Whether steps are LibTorch's operations one by one, also where the CPU has faster ones.
    pub plain: bool,
    /// How often each is run.
    pub limits: Limits,
    /// Where, for the records.
    pub device: String,
}

/// One model and beam; a line of the CSV file.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Of the run.
    pub run: String,
    /// Its mix.
    pub mix: String,
    /// Whether its weights are those of a finished run; those that training starts from write up to the limit.
    pub trained: bool,
    /// 1 is greedy search.
    pub beam: usize,
    /// Sentences read.
    pub sentences: usize,
    /// Tokens written, end marks counted.
    pub tokens: usize,
    /// Sentences decoded together.
    pub batch: usize,
    /// Median time of all sentences.
    pub median_seconds: f64,
    /// 10% quantile.
    pub low_seconds: f64,
    /// 90% quantile.
    pub high_seconds: f64,
    /// Measured runs.
    pub repeats: usize,
    /// By the median.
    pub sentences_per_second: f64,
    /// By the median.
    pub tokens_per_second: f64,
    /// Steps of a batch, summed over batches.
    pub steps: u64,
    /// Hypotheses that were stepped, summed over steps.
    pub stepped: u64,
    /// Seconds of the encoder, summed over threads, in the first measured run; the next three too.
    pub encoder_seconds: f64,
    /// Packing weights, and keys and values of the memory.
    pub start_seconds: f64,
    /// The decoder's steps.
    pub step_seconds: f64,
    /// The rest of the search.
    pub search_seconds: f64,
    /// The PyTorch peer's median, run in turn with ours.
    pub peer_median_seconds: Option<f64>,
    /// 10% quantile.
    pub peer_low_seconds: Option<f64>,
    /// 90% quantile.
    pub peer_high_seconds: Option<f64>,
    /// The peer's steps of a batch.
    pub peer_steps: Option<u64>,
    /// The peer's time over ours.
    pub ratio: Option<f64>,
    /// Sentences for which the peer wrote something else.
    pub differing: Option<usize>,
    /// Where.
    pub device: String,
    /// LibTorch's threads, and ours.
    pub threads: i32,
}

/// How the writer searches with a beam.
pub fn search_of(writer: &Writer, options: &Options, beam: usize) -> DecodeConfig {
    let own = writer.decode_config();
    DecodeConfig { beam, batch: options.batch.unwrap_or(own.batch), ..own.clone() }
}

/// Measures one model, beam by beam; with a peer the two run in turn, on the same sentences.
///
/// # Errors
/// Those of the model and of the peer.
pub fn measure(subject: &Subject, options: &Options, mut peer: Option<&mut Peer>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &beam in &options.beams {
        let decode = search_of(&subject.writer, options, beam);
        let mut ours: Vec<(Vec<Vec<u32>>, Effort)> = Vec::new();
        let mut theirs = Vec::new();
        let entries = 1 + usize::from(peer.is_some());
        let samples = in_turn(entries, options.limits, |entry| match (&mut peer, entry) {
            (Some(peer), 1) => {
                let run = peer.run(beam)?;
                let seconds = run.seconds;
                theirs.push(run);
                Ok(seconds)
            }
            _ => {
                let started = Instant::now();
                ours.push(subject.writer.write_by(&decode, options.plain, &subject.sources)?);
                Ok::<_, anyhow::Error>(started.elapsed().as_secs_f64())
            }
        })?;
        let spread = Spread::of(&samples[0]).context("no run was measured")?;
        let peer_spread = samples.get(1).and_then(|samples| Spread::of(samples));
        let (hypotheses, effort) = ours.get(options.limits.warm_up).context("no run was measured")?;
        let tokens = hypotheses.iter().map(|hypothesis| hypothesis.len() + 1).sum();
        let differing = theirs.last().map(|run| {
            let pairs = run.hypotheses.iter().zip(hypotheses);
            pairs.filter(|(theirs, ours)| theirs != ours).count() + hypotheses.len().abs_diff(run.hypotheses.len())
        });
        rows.push(Row {
            run: subject.name.clone(),
            mix: subject.mix.clone(),
            trained: subject.trained,
            beam,
            sentences: subject.sources.len(),
            tokens,
            batch: decode.batch,
            median_seconds: spread.median,
            low_seconds: spread.low,
            high_seconds: spread.high,
            repeats: samples[0].len(),
            sentences_per_second: subject.sources.len() as f64 / spread.median,
            tokens_per_second: tokens as f64 / spread.median,
            steps: effort.step_count,
            stepped: effort.row_count,
            encoder_seconds: effort.encoder.as_secs_f64(),
            start_seconds: effort.start.as_secs_f64(),
            step_seconds: effort.steps.as_secs_f64(),
            search_seconds: effort.search.as_secs_f64(),
            peer_median_seconds: peer_spread.map(|spread| spread.median),
            peer_low_seconds: peer_spread.map(|spread| spread.low),
            peer_high_seconds: peer_spread.map(|spread| spread.high),
            peer_steps: theirs.last().map(|run| run.steps),
            ratio: peer_spread.map(|theirs| theirs.median / spread.median),
            differing,
            device: options.device.clone(),
            threads: tch::get_num_threads(),
        });
    }
    Ok(rows)
}

/// `most` of the sources, taken evenly, in their order; all where there are no more.
pub fn evenly<T: Clone>(sources: &[T], most: usize) -> Vec<T> {
    if most >= sources.len() {
        return sources.to_vec();
    }
    (0..most).map(|index| sources[index * sources.len() / most].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_taken_evenly() {
        let all: Vec<usize> = (0..10).collect();
        assert_eq!(evenly(&all, 4), [0, 2, 5, 7]);
        assert_eq!(evenly(&all, 1), [0]);
        assert_eq!(evenly(&all, 10), all);
        assert_eq!(evenly(&all, 11), all);
    }
}
