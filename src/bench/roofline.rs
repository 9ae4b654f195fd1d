//! What the machine can do, measured in this process, and how long a piece of work takes at the least.

use super::sampling::Spread;
use crate::attention::cost::{CostError, Input, Layer};
use crate::model::TransformerConfig;
use serde::Serialize;
use std::time::Instant;
use tch::{no_grad, Cuda, Device, Kind, TchError, Tensor};

/// Rates of one machine with the threads at hand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Machine {
    /// Floating-point operations a second of a square float32 product, a multiply-add being 2.
    pub product_rate: f64,
    /// Bytes a second of a copy of a large tensor, bytes read and bytes written both counted.
    pub copy_rate: f64,
}

impl Machine {
    /// The larger of two bounds: all operations at the product rate, all bytes at the copy rate.
    pub fn least_seconds(&self, work: Work) -> f64 {
        (work.operations / self.product_rate).max(work.bytes / self.copy_rate)
    }
}

/// Rows and columns of the product that is timed: large enough that more gives no more.
const SIDE: i64 = 2048;
/// Elements of the tensor that is copied: 128 MiB, more than any cache holds.
const ELEMENTS: i64 = 32 << 20;
/// Of either, at one moment.
const REPEATS: usize = 3;

/// A product and a copy that are timed again and again. A machine that others use too is now faster, now slower: what is
/// measured is held against the rates of its own moments, those right before it and right after it.
pub struct Yardstick {
    square: Tensor,
    product: Tensor,
    source: Tensor,
    target: Tensor,
    /// Operations a second of a product, and bytes a second of a copy.
    samples: Vec<(f64, f64)>,
}

impl Yardstick {
    /// Sets up both, run once and not timed.
    ///
    /// # Errors
    /// LibTorch's, for want of memory.
    pub fn new(device: Device) -> Result<Yardstick, TchError> {
        Yardstick::of(device, SIDE, ELEMENTS)
    }

    fn of(device: Device, side: i64, elements: i64) -> Result<Yardstick, TchError> {
        no_grad(|| {
            let square = Tensor::f_randn([side, side], (Kind::Float, device))?;
            let source = Tensor::f_ones([elements], (Kind::Float, device))?;
            let (product, target) = (square.f_empty_like()?, source.f_zeros_like()?);
            let mut yardstick = Yardstick { square, product, source, target, samples: Vec::new() };
            yardstick.run()?;
            Ok(yardstick)
        })
    }

    fn run(&mut self) -> Result<(f64, f64), TchError> {
        let device = self.square.device();
        let product = seconds(device, || self.square.f_matmul_out(&self.product, &self.square).map(drop))?;
        let copy = seconds(device, || self.target.f_copy_(&self.source).map(drop))?;
        let (side, elements) = (self.square.size()[0] as f64, self.source.numel() as f64);
        Ok((2.0 * side.powi(3) / product, 2.0 * 4.0 * elements / copy))
    }

    /// Times both at this moment, 3 times.
    ///
    /// # Errors
    /// LibTorch's.
    pub fn take(&mut self) -> Result<Moment, TchError> {
        let moment = Moment(self.samples.len());
        no_grad(|| {
            for _ in 0..REPEATS {
                let sample = self.run()?;
                self.samples.push(sample);
            }
            Ok(moment)
        })
    }

    /// Medians of all that was timed from that moment on.
    pub fn since(&self, Moment(first): Moment) -> Machine {
        rates(&self.samples[first..])
    }
}

/// When a [`Yardstick`] was taken.
#[derive(Debug, Clone, Copy)]
pub struct Moment(usize);

fn rates(samples: &[(f64, f64)]) -> Machine {
    let median = |rates: Vec<f64>| Spread::of(&rates).map_or(f64::NAN, |spread| spread.median);
    let (products, copies) = samples.iter().copied().unzip();
    Machine { product_rate: median(products), copy_rate: median(copies) }
}

fn seconds(device: Device, run: impl FnOnce() -> Result<(), TchError>) -> Result<f64, TchError> {
    wait(device);
    let start = Instant::now();
    run()?;
    wait(device);
    Ok(start.elapsed().as_secs_f64())
}

/// CUDA only queues what it is asked to do.
pub fn wait(device: Device) {
    if let Device::Cuda(index) = device {
        Cuda::synchronize(index as i64);
    }
}

/// What a pass cannot do without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Floating-point operations.
    pub operations: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// What a pass over a piece of a layer cannot do without.
///
/// Operations are those of [`crate::attention::cost::FLOPS_DEFINITION`]; of a causal layer only those of logits that are seen,
/// (L + 1) / 2L of all (not of convolutions, which look at a few positions anyway); forward + backward counts three times the
/// forward pass, as each product has two in the backward pass, but a layer without weights (FFT) twice, and where logits are fixed
/// (Rfix) these once and their products with values twice.
/// Bytes: every input is read and the output written once (forward); with the backward pass the inputs are read again, the
/// output's gradient is read, and each input's gradient written; without weights the input is not needed again.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Whether only logits, softmax and weighted values count, not the projections.
    pub is_core: bool,
    /// Whether the pass is forward + backward.
    pub is_backward: bool,
    /// Whether later keys are hidden.
    pub is_causal: bool,
    /// Float32 elements of everything that goes in, weights among them.
    pub inputs: usize,
    /// Elements of the output.
    pub outputs: usize,
}

impl Piece {
    /// Of a layer on B sequences of length L.
    ///
    /// # Errors
    /// As [`Layer::flops`].
    pub fn work(&self, layer: &Layer, input: Input) -> Result<Work, CostError> {
        let flops = layer.flops(input)?;
        let length = input.length as f64;
        let seen = if self.is_causal && layer.grows_with_sight() { (length + 1.0) / (2.0 * length) } else { 1.0 };
        let logits = seen * (flops.logits + flops.mixing + flops.softmax) as f64;
        let weighted = seen * flops.weighted_values as f64;
        let projections = if self.is_core { 0 } else { flops.projections + flops.value + flops.output } as f64;
        let (inputs, outputs) = (self.inputs as f64, self.outputs as f64);
        let passes = if layer.parameters().trainable > 0 { 3.0 } else { 2.0 };
        let (operations, elements) = match (self.is_backward, layer.trains_logits()) {
            (false, _) => (logits + weighted + projections, inputs + outputs),
            (true, true) => (passes * (logits + weighted + projections), passes * inputs + 2.0 * outputs),
            (true, false) => (logits + 2.0 * weighted + 3.0 * projections, 3.0 * inputs + 2.0 * outputs),
        };
        Ok(Work { operations, bytes: 4.0 * elements })
    }
}

/// A batch of training rows, each side filled up to its longest.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// B.
    pub rows: i64,
    /// Length of the sources; none for a language model.
    pub source: Option<i64>,
    /// Length of the targets.
    pub target: i64,
    /// Targets without what fills them up.
    pub predictions: u64,
}

/// What a training step on a filled-up batch cannot do without, of a model with so many `trained` parameters.
///
/// Operations: three times those of the forward pass, of self-attention as [`Piece`] has it; logits are those of real targets.
/// Bytes: weights are read forward and backward, gradients written and read twice (norm, Adam), weights and both moments read and
/// written: 11 floats a parameter.
/// What goes from layer to layer may stay in caches and is not counted.
///
/// # Errors
/// As [`TransformerConfig::flops`].
pub fn training_step(
    config: &TransformerConfig,
    Batch { rows: batch, source, target, predictions }: Batch,
    trained: u64,
) -> Result<Work, CostError> {
    let layer = config.layer_cost()?;
    let layers = |count: i64, length: i64, is_causal: bool| {
        let piece = Piece { is_core: false, is_backward: true, is_causal, inputs: 0, outputs: 0 };
        Ok::<_, CostError>(count as f64 * piece.work(&layer, Input { batch, length })?.operations)
    };
    let forward = config.flops(batch, source, target)?;
    let real = predictions as f64 / (batch * target) as f64;
    let mut operations = 3.0 * (forward.rest as f64 + real * forward.logits as f64);
    operations += layers(config.decoder_layers, target, true)?;
    if let Some(source) = source {
        operations += layers(config.encoder_layers, source, false)?;
    }
    Ok(Work { operations, bytes: 4.0 * 11.0 * trained as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::registry::Shape;
    use crate::attention::{Mixing, Term};

    #[test]
    fn work_by_hand() {
        let shape = Shape { d_model: 8, heads: 2, max_length: 4 };
        let layer = Layer::new(&[Term::new("V")], shape, Mixing::Softmax).unwrap();
        let input = Input { batch: 3, length: 4 };
        // 3 · 2 · 4 · 4 = 96 logits: 2 · 4 for the product, 5 for the softmax, 2 · 4 for the values
        let core = 96.0 * (8.0 + 5.0 + 8.0);
        let piece = Piece { is_core: true, is_backward: false, is_causal: false, inputs: 100, outputs: 10 };
        assert_eq!(piece.work(&layer, input).unwrap(), Work { operations: core, bytes: 440.0 });
        // of 4 · 4 logits 10 are seen
        let causal = Piece { is_causal: true, is_backward: true, ..piece };
        let work = causal.work(&layer, input).unwrap();
        assert_eq!(work, Work { operations: 3.0 * core * 10.0 / 16.0, bytes: 4.0 * (300.0 + 20.0) });
        // fixed logits: their softmax once, counted once a layer; their products with values forward and for the values
        let fixed = Layer::new(&[Term::new("Rfix")], shape, Mixing::Softmax).unwrap();
        let work = Piece { is_backward: true, ..piece }.work(&fixed, input).unwrap();
        assert_eq!(work.operations, 32.0 * 5.0 + 2.0 * 96.0 * 8.0);
        // the transform of 4 · 8 points is its own gradient's
        let transform = Layer::new(&[Term::new("FFT")], shape, Mixing::Softmax).unwrap();
        let work = Piece { is_core: false, is_backward: true, ..piece }.work(&transform, input).unwrap();
        assert_eq!(work, Work { operations: 2.0 * 3.0 * 5.0 * 32.0 * 5.0, bytes: 4.0 * (200.0 + 20.0) });
        // a kernel of 3 looks at 3 positions, later ones hidden or not
        let term = Term { name: "LC".into(), parameters: vec![("kernel".into(), 3)] };
        let light = Layer::new(&[term], shape, Mixing::Softmax).unwrap();
        let [open, causal] = [false, true].map(|is_causal| Piece { is_causal, ..piece }.work(&light, input).unwrap());
        assert_eq!(open, causal);
        // 12 tokens, four maps of 8 · 8
        let whole = Piece { is_core: false, ..piece };
        assert_eq!(whole.work(&layer, input).unwrap().operations, core + 12.0 * 4.0 * 2.0 * 64.0);
    }

    #[test]
    fn a_training_step_by_hand() {
        let config = TransformerConfig {
            vocabulary: 11,
            d_model: 8,
            heads: 2,
            encoder_layers: 3,
            decoder_layers: 2,
            d_ff: 12,
            max_length: 7,
            dropout: 0.1,
            attention_dropout: 0.0,
            relu_dropout: 0.0,
            terms: vec![Term::new("V")],
            mixing: Mixing::Softmax,
        };
        // 15 tokens: four maps and 25 logits a head and row, of which a causal layer sees 15; feed-forward 8 x 12 twice
        let maps = |tokens: f64| tokens * 4.0 * 2.0 * 64.0;
        let core = |logits: f64| 3.0 * 2.0 * logits * (8.0 + 5.0 + 8.0);
        let feed_forward = |tokens: f64| tokens * 2.0 * 2.0 * 96.0;
        // of 15 targets 12 are real
        let decoder = 2.0 * (maps(15.0) + core(15.0) + feed_forward(15.0)) + 12.0 * 2.0 * 88.0;
        let batch = Batch { rows: 3, source: None, target: 5, predictions: 12 };
        let alone = training_step(&config, batch, 100).unwrap();
        assert_eq!(alone, Work { operations: 3.0 * decoder, bytes: 4400.0 });
        // queries and output of 15 tokens, keys and values of 21; all 35 logits of encoder-decoder attention, and all 49 of
        // the encoder's, are seen
        let cross = 15.0 * 2.0 * 2.0 * 64.0 + 21.0 * 2.0 * 2.0 * 64.0 + core(35.0);
        let encoder = 3.0 * (maps(21.0) + core(49.0) + feed_forward(21.0));
        let both = training_step(&config, Batch { source: Some(7), ..batch }, 100).unwrap();
        assert_eq!(both.operations, 3.0 * (decoder + 2.0 * cross + encoder));
    }

    #[test]
    fn rates_of_samples_written_out() {
        // of three products and copies the middle ones, whichever run they are of
        let machine = rates(&[(5.0, 80.0), (20.0, 2.5), (10.0, 40.0)]);
        assert_eq!(machine, Machine { product_rate: 10.0, copy_rate: 40.0 });
    }

    #[test]
    fn a_moment_leaves_out_what_was_timed_before_it() {
        let mut yardstick = Yardstick::of(Device::Cpu, 64, 1000).unwrap();
        let first = yardstick.take().unwrap();
        let second = yardstick.take().unwrap();
        assert_eq!(yardstick.samples.len(), 2 * REPEATS, "the first run is not timed");
        assert_eq!(yardstick.since(first), rates(&yardstick.samples));
        let start = Instant::now();
        let (product, copy) = yardstick.run().unwrap();
        let most = start.elapsed().as_secs_f64();
        assert!(product >= 2.0 * 262_144.0 / most && copy >= 8000.0 / most, "{product}, {copy}, {most} s");
        assert_eq!(yardstick.since(second), rates(&yardstick.samples[REPEATS..]));
        assert_eq!(yardstick.target, yardstick.source);
        let product = yardstick.square.matmul(&yardstick.square);
        assert_eq!(f64::try_from((product - &yardstick.product).abs().max()).unwrap(), 0.0);
    }

    #[test]
    fn the_slower_of_product_and_copy_is_the_limit() {
        let machine = Machine { product_rate: 100.0, copy_rate: 10.0 };
        assert_eq!(machine.least_seconds(Work { operations: 200.0, bytes: 5.0 }), 2.0);
        assert_eq!(machine.least_seconds(Work { operations: 200.0, bytes: 50.0 }), 5.0);
    }
}
