//! Time and memory of the self-attention layer, every mix in turn.

use super::sampling::{in_turn, Limits, Spread};
use crate::attention::cost::{CostError, Layer};
use crate::attention::registry::{self, Entry, Shape};
use crate::attention::{AttentionConfig, AttentionError, Mixing, SelfAttention};
use crate::experiment::Mix;
use crate::train::device;
use crate::train::memory;
use serde::Serialize;
use std::time::Instant;
use tch::{nn, Cuda, Device, Kind, TchError, Tensor};

/// What is measured: every mix at every length, in float32, causal (but for encoder-only operators), without dropout.
#[derive(Debug, Clone)]
pub struct Options {
    /// Mixes, at least one.
    pub mixes: Vec<Mix>,
    /// Lengths L; the layer's maximum N is the length itself.
    pub lengths: Vec<i64>,
    /// Sequences B.
    pub batch: i64,
    /// Width d.
    pub d_model: i64,
    /// Heads h; divides d.
    pub heads: i64,
    /// How often each is run.
    pub limits: Limits,
    /// Where.
    pub device: Device,
}

/// Why nothing, or no more, could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A shape that no layer can have.
    #[error("cannot measure {mix} at length {length}")]
    Shape {
        /// The mix.
        mix: String,
        /// The length.
        length: i64,
        /// What is wrong.
        source: Box<CostError>,
    },
    /// An option that makes no sense.
    #[error("{0}")]
    Option(String),
    /// The layer refused.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// LibTorch refused, most likely for want of memory.
    #[error("LibTorch: {0}")]
    Torch(#[from] TchError),
    /// The result could not be kept.
    #[error(transparent)]
    Keep(#[from] std::io::Error),
}

/// What is run and timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Pass {
    /// Input to output, nothing kept for gradients.
    #[serde(rename = "forward")]
    Forward,
    /// The same with gradients of the input and all weights.
    #[serde(rename = "forward+backward")]
    Backward,
}

/// One measurement; a line of time.csv.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The mix, as the grammar writes it.
    pub mix: String,
    /// L = N.
    pub length: i64,
    /// B.
    pub batch: i64,
    /// d.
    pub d_model: i64,
    /// h.
    pub heads: i64,
    /// True but for operators that can't be.
    pub causal: bool,
    /// What was run.
    pub pass: Pass,
    /// Median of the repeats.
    pub median_seconds: f64,
    /// Their 10% quantile.
    pub low_seconds: f64,
    /// Their 90% quantile.
    pub high_seconds: f64,
    /// How many.
    pub repeats: usize,
    /// Most memory during one pass, above weights and input; none where it is not measured (CUDA).
    pub peak_memory_bytes: Option<u64>,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// LibTorch's threads.
    pub threads: i32,
}

impl Row {
    /// B·L tokens over the median.
    pub fn tokens_per_second(&self) -> f64 {
        (self.batch * self.length) as f64 / self.median_seconds
    }
}

impl Options {
    /// Checks everything that can be known before the first run.
    ///
    /// # Errors
    /// Empty lists, sizes out of bounds, heads that do not divide the width, parameters that do not fit a length.
    pub fn check(&self) -> Result<(), BenchError> {
        let wrong = |text: &str| Err(BenchError::Option(text.into()));
        if self.mixes.is_empty() || self.lengths.is_empty() {
            return wrong("nothing to measure: name at least one mix and one length");
        }
        if self.batch < 1 {
            return wrong(&format!("batch is {}, and must be at least 1", self.batch));
        }
        if self.limits.most < 1 || !self.limits.seconds.is_finite() || self.limits.seconds < 0.0 {
            return wrong("repeats must be at least 1, and seconds not negative");
        }
        for &length in &self.lengths {
            for mix in &self.mixes {
                let shape = Shape { d_model: self.d_model, heads: self.heads, max_length: length };
                Layer::new(&mix.terms, shape, Mixing::Softmax).map_err(|source| BenchError::Shape {
                    mix: mix.to_string(),
                    length,
                    source: Box::new(source),
                })?;
            }
        }
        Ok(())
    }
}

/// A layer and its input, ready to run.
struct Subject {
    layer: SelfAttention,
    x: Tensor,
    output_gradient: Tensor,
    /// The input and every trainable weight.
    leaves: Vec<Tensor>,
    device: Device,
    // Owns the weights.
    _store: nn::VarStore,
}

impl Subject {
    fn new(options: &Options, mix: &Mix, length: i64) -> Result<Subject, BenchError> {
        let store = nn::VarStore::new(options.device);
        let config = AttentionConfig {
            d_model: options.d_model,
            heads: options.heads,
            max_length: length,
            terms: mix.terms.clone(),
            mixing: Mixing::Softmax,
            dropout: 0.0,
            causal: causal(mix),
        };
        let layer = SelfAttention::new(&store.root(), &config)?;
        let shape = [options.batch, length, options.d_model];
        let kind = (Kind::Float, options.device);
        let x = Tensor::f_randn(shape, kind)?.f_set_requires_grad(true)?;
        let output_gradient = Tensor::f_randn(shape, kind)?;
        let mut leaves = store.trainable_variables();
        leaves.push(x.shallow_clone());
        Ok(Subject { layer, x, output_gradient, leaves, device: options.device, _store: store })
    }

    fn run(&self, pass: Pass) -> Result<(), BenchError> {
        match pass {
            Pass::Forward => {
                drop(tch::no_grad(|| self.layer.forward(&self.x, None, false))?);
            }
            Pass::Backward => {
                let output = self.layer.forward(&self.x, None, true)?;
                let sum = output.f_mul(&self.output_gradient)?.f_sum(Kind::Float)?;
                // Gradients are returned, not added up: each run does the same work.
                drop(Tensor::f_run_backward(&[sum], &self.leaves, false, false)?);
            }
        }
        self.wait();
        Ok(())
    }

    fn seconds(&self, pass: Pass) -> Result<f64, BenchError> {
        self.wait();
        let start = Instant::now();
        self.run(pass)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// CUDA only queues what it is asked to do.
    fn wait(&self) {
        if let Device::Cuda(index) = self.device {
            Cuda::synchronize(index as i64);
        }
    }

    /// After a first run, which also sets up what LibTorch keeps for later.
    fn peak_memory(&self, pass: Pass) -> Result<Option<u64>, BenchError> {
        self.run(pass)?;
        match self.device {
            Device::Cpu => Ok(memory::peak_above(|| self.run(pass))?.1),
            _ => Ok(None),
        }
    }
}

/// Every mix is measured causal that can be.
fn causal(mix: &Mix) -> bool {
    mix.terms.iter().all(|term| registry::find(&term.name).is_some_and(Entry::can_be_causal))
}

/// Measures, length by length; `keep` gets the rows of a length and pass as soon as they are there.
///
/// # Errors
/// As [`Options::check`], before anything runs; whatever LibTorch refuses; those of `keep`.
pub fn measure(
    options: &Options,
    mut keep: impl FnMut(&[Row]) -> Result<(), std::io::Error>,
) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    tch::manual_seed(0);
    let mut rows = Vec::new();
    for &length in &options.lengths {
        let subjects = options.mixes.iter().map(|mix| Subject::new(options, mix, length));
        let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
        for pass in [Pass::Forward, Pass::Backward] {
            let peaks = subjects.iter().map(|subject| subject.peak_memory(pass)).collect::<Result<Vec<_>, _>>()?;
            let samples = in_turn(subjects.len(), options.limits, |entry| subjects[entry].seconds(pass))?;
            let first = rows.len();
            for ((mix, peak), samples) in options.mixes.iter().zip(peaks).zip(samples) {
                // Limits::most is at least 1, so that there is a sample.
                let Some(spread) = Spread::of(&samples) else { continue };
                rows.push(Row {
                    mix: mix.to_string(),
                    length,
                    batch: options.batch,
                    d_model: options.d_model,
                    heads: options.heads,
                    causal: causal(mix),
                    pass,
                    median_seconds: spread.median,
                    low_seconds: spread.low,
                    high_seconds: spread.high,
                    repeats: samples.len(),
                    peak_memory_bytes: peak,
                    device: device::name(options.device),
                    threads: tch::get_num_threads(),
                });
            }
            keep(&rows[first..])?;
        }
    }
    Ok(rows)
}
