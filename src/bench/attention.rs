//! Time and memory of the self-attention layer and of its core, every mix in turn.

use super::roofline::{wait, Piece, Work, Yardstick};
use super::sampling::{in_turn, Limits, Spread};
use crate::attention::cost::{CostError, Input, Layer};
use crate::attention::registry::{self, Entry, Shape};
use crate::attention::{AttentionConfig, AttentionError, CoreAttention, Form, Mixing, SelfAttention};
use crate::experiment::Mix;
use crate::native::record;
use crate::train::device;
use crate::train::memory;
use serde::Serialize;
use std::time::Instant;
use tch::{nn, Device, Kind, TchError, Tensor};

/// What is measured: every mix at every length, in float32, causal (but for encoder-only operators), without dropout.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which parts, at least one.
    pub parts: Vec<Part>,
    /// In which form.
    pub form: Form,
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

/// What of a layer is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Logits, mixture, mask, softmax and weighted values, on what the projections give; an operator has none
    Core,
    /// The whole layer with its projections
    Layer,
}

impl Part {
    /// `core` or `layer`.
    pub fn name(self) -> &'static str {
        match self {
            Part::Core => "core",
            Part::Layer => "layer",
        }
    }
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

impl Pass {
    /// `forward` or `forward+backward`.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "forward+backward",
        }
    }
}

/// One measurement; a line of time.csv.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What of the layer.
    pub part: Part,
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
    /// Operations that the pass cannot do without over the median's seconds, as a share of the machine's product rate.
    pub product_share: f64,
    /// Seconds at the least, by the machine's rates.
    pub least_seconds: f64,
    /// The machine's operations a second, of a large product, right before and after.
    pub product_rate: f64,
    /// The machine's bytes a second, of a large copy, right before and after.
    pub copy_rate: f64,
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
        if self.parts.is_empty() || self.mixes.is_empty() || self.lengths.is_empty() {
            return wrong("nothing to measure: name at least one part, one mix and one length");
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

/// A layer or its core with its input, ready to run.
pub struct Subject {
    body: Body,
    output_gradient: Tensor,
    /// The input and every weight that take part.
    inputs: Vec<Tensor>,
    device: Device,
    // Owns the weights.
    _store: nn::VarStore,
}

enum Body {
    Core(CoreAttention),
    Layer(Box<SelfAttention>, Tensor),
}

impl Subject {
    /// Makes the layer and its input, both random; none for the core of an operator.
    ///
    /// # Errors
    /// What the layer or LibTorch refuses.
    pub fn new(options: &Options, part: Part, mix: &Mix, length: i64) -> Result<Option<Subject>, BenchError> {
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
        let layer = SelfAttention::new(&store.root(), &config)?.with_form(options.form);
        let shape = [options.batch, length, options.d_model];
        let kind = (Kind::Float, options.device);
        let x = Tensor::f_randn(shape, kind)?.f_set_requires_grad(true)?;
        let output_gradient = Tensor::f_randn(shape, kind)?;
        let (body, inputs) = match part {
            Part::Core => {
                let Some(core) = layer.core(&x)? else { return Ok(None) };
                let inputs = core.inputs();
                (Body::Core(core), inputs)
            }
            Part::Layer => {
                let weights = store.variables().into_values();
                let inputs = weights.chain([x.shallow_clone()]).collect();
                (Body::Layer(Box::new(layer), x), inputs)
            }
        };
        Ok(Some(Subject { body, output_gradient, inputs, device: options.device, _store: store }))
    }

    fn forward(&self) -> Result<Tensor, BenchError> {
        Ok(match &self.body {
            Body::Core(core) => core.forward()?,
            Body::Layer(layer, x) => layer.forward(x, None, true)?,
        })
    }

    /// A number whose gradient by the output is given: LibTorch's binding begins a backward pass at a number only, and a product
    /// and a sum that made one would take time that is not attention's.
    fn loss(&self, output: &Tensor) -> Result<Tensor, BenchError> {
        let loss = Tensor::f_zeros([], (Kind::Float, self.device))?;
        let gradient = self.output_gradient.shallow_clone();
        record(&[output], &[&loss], move |_, _| Ok(vec![Some(gradient.shallow_clone())]))?;
        Ok(loss)
    }

    /// Of all inputs that want one. They are returned, not added up: each run does the same work.
    fn gradients(&self, loss: &Tensor) -> Result<Vec<Tensor>, BenchError> {
        let leaves: Vec<&Tensor> = self.inputs.iter().filter(|tensor| tensor.requires_grad()).collect();
        Ok(Tensor::f_run_backward(&[loss], &leaves, false, false)?)
    }

    /// Runs a pass and drops what it gives.
    ///
    /// # Errors
    /// What the layer or LibTorch refuses.
    pub fn run(&self, pass: Pass) -> Result<(), BenchError> {
        match pass {
            Pass::Forward => drop(tch::no_grad(|| self.forward())?),
            Pass::Backward => drop(self.gradients(&self.loss(&self.forward()?)?)?),
        }
        wait(self.device);
        Ok(())
    }

    /// Seconds of one run.
    ///
    /// # Errors
    /// As [`Subject::run`].
    pub fn seconds(&self, pass: Pass) -> Result<f64, BenchError> {
        wait(self.device);
        let start = Instant::now();
        self.run(pass)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The most memory of a run above what is there before it, after a first run, which also sets up what LibTorch keeps for
    /// later; none on CUDA.
    ///
    /// # Errors
    /// As [`Subject::run`].
    pub fn peak_memory(&self, pass: Pass) -> Result<Option<u64>, BenchError> {
        self.run(pass)?;
        match self.device {
            Device::Cpu => Ok(memory::peak_above(|| self.run(pass))?.1),
            _ => Ok(None),
        }
    }

    /// What a pass cannot do without, for the roofline.
    ///
    /// # Errors
    /// Those of [`Layer::flops`].
    pub fn work(&self, options: &Options, mix: &Mix, length: i64, pass: Pass) -> Result<Work, BenchError> {
        let shape = Shape { d_model: options.d_model, heads: options.heads, max_length: length };
        let piece = Piece {
            is_core: matches!(self.body, Body::Core(_)),
            is_backward: pass == Pass::Backward,
            is_causal: causal(mix),
            inputs: self.inputs.iter().map(Tensor::numel).sum(),
            outputs: self.output_gradient.numel(),
        };
        let input = Input { batch: options.batch, length };
        Layer::new(&mix.terms, shape, Mixing::Softmax)
            .and_then(|layer| piece.work(&layer, input))
            .map_err(|source| BenchError::Shape { mix: mix.to_string(), length, source: Box::new(source) })
    }
}

/// Every mix is measured causal that can be.
pub(super) fn causal(mix: &Mix) -> bool {
    mix.terms.iter().all(|term| registry::find(&term.name).is_some_and(Entry::can_be_causal))
}

/// Measures what one or several options ask for, length by length; `keep` gets the rows of a length, part and pass as soon as
/// they are there. All are on the first one's device.
///
/// # Errors
/// As [`Options::check`], before anything runs; whatever LibTorch refuses; those of `keep`.
pub fn measure(
    all: &[Options],
    mut keep: impl FnMut(&[Row]) -> Result<(), std::io::Error>,
) -> Result<Vec<Row>, BenchError> {
    all.iter().try_for_each(Options::check)?;
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    tch::manual_seed(0);
    let mut yardstick = Yardstick::new(first.device)?;
    let mut rows = Vec::new();
    let each = |options: &'_ Options| {
        let parts = options.parts.clone();
        options
            .lengths
            .clone()
            .into_iter()
            .flat_map(move |length| parts.clone().into_iter().map(move |part| (length, part)))
    };
    for (options, (length, part)) in all.iter().flat_map(|options| each(options).map(move |at| (options, at))) {
        let mut subjects = Vec::new();
        for mix in &options.mixes {
            subjects.extend(Subject::new(options, part, mix, length)?.map(|subject| (mix, subject)));
        }
        for pass in [Pass::Forward, Pass::Backward] {
            let peaks = subjects.iter().map(|(_, subject)| subject.peak_memory(pass)).collect::<Result<Vec<_>, _>>()?;
            let before = yardstick.take()?;
            let samples = in_turn(subjects.len(), options.limits, |entry| subjects[entry].1.seconds(pass))?;
            yardstick.take()?;
            let machine = yardstick.since(before);
            let first = rows.len();
            for (((mix, subject), peak), samples) in subjects.iter().zip(peaks).zip(samples) {
                // Limits::most is at least 1, so that there is a sample.
                let Some(spread) = Spread::of(&samples) else { continue };
                let work = subject.work(options, mix, length, pass)?;
                rows.push(Row {
                    part,
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
                    product_share: work.operations / spread.median / machine.product_rate,
                    least_seconds: machine.least_seconds(work),
                    product_rate: machine.product_rate,
                    copy_rate: machine.copy_rate,
                });
            }
            keep(&rows[first..])?;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backward_pass_begins_at_the_given_gradient() {
        let mix: Mix = "R+V".parse().unwrap();
        let options = Options {
            parts: vec![Part::Core, Part::Layer],
            form: Form::default(),
            mixes: vec![mix.clone()],
            lengths: vec![5],
            batch: 2,
            d_model: 8,
            heads: 2,
            limits: Limits { warm_up: 0, least: 1, most: 1, seconds: 1.0 },
            device: Device::Cpu,
        };
        for (part, count) in [(Part::Core, 5), (Part::Layer, 11)] {
            let subject = Subject::new(&options, part, &mix, 5).unwrap().unwrap();
            let made = subject.gradients(&subject.loss(&subject.forward().unwrap()).unwrap()).unwrap();
            let sum = (subject.forward().unwrap() * &subject.output_gradient).sum(Kind::Float);
            let expected = subject.gradients(&sum).unwrap();
            // values, queries, keys, the table and alpha; x, four maps with biases, the table and alpha
            assert_eq!((made.len(), expected.len()), (count, count), "{part:?}");
            assert!(expected.iter().any(|gradient| gradient.abs().max().double_value(&[]) > 0.1), "{part:?}");
            for (made, expected) in made.iter().zip(&expected) {
                assert!(made.allclose(expected, 1e-6, 1e-7, false), "{part:?}");
            }
        }
    }
}
