//! One step: loss and gradients of some batches, clipping, Adam. The trainer drives it, and `bench train` measures it.

use super::adam::Adam;
use super::parameters::{FlatParameters, Scalar};
use super::schedule::learning_rate;
use crate::experiment::{Precision, Run};
use crate::native::device::{allow_tf32, choose_attention, only_deterministic, with_bfloat16};
use crate::task::Task;
use anyhow::{Context, Result};
use std::ops::AddAssign;
use std::time::{Duration, Instant};
use tch::Device;

/// What steps work on: a task, its parameters in flat buffers, and the optimizer.
pub struct TrainingStep<'a> {
    run: &'a Run,
    task: &'a dyn Task,
    /// Parameters and gradients.
    pub parameters: FlatParameters,
    /// The optimizer's moments.
    pub adam: Adam,
}

/// What came of a step.
#[derive(Debug)]
pub struct Stepped {
    /// Sum over the predictions of all batches.
    pub loss: Scalar,
    /// How many predictions.
    pub tokens: u64,
    /// The gradient's L2 norm before clipping.
    pub gradient_norm: Scalar,
    /// Where the time went.
    pub phases: Phases,
}

/// Time by what was done. Of a device that only queues what it is asked to do, the sum alone means something.
#[derive(Debug, Clone, Copy, Default)]
pub struct Phases {
    /// Making batches.
    pub data: Duration,
    /// From a batch to its loss.
    pub forward: Duration,
    /// From losses to gradients.
    pub backward: Duration,
    /// Clipping and the optimizer.
    pub optimizer: Duration,
}

impl Phases {
    /// All of them.
    pub fn total(&self) -> Duration {
        self.data + self.forward + self.backward + self.optimizer
    }
}

impl AddAssign for Phases {
    fn add_assign(&mut self, other: Phases) {
        self.data += other.data;
        self.forward += other.forward;
        self.backward += other.backward;
        self.optimizer += other.optimizer;
    }
}

/// A loss or a gradient that is not finite: what, and at which step.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Diverged(pub String);

impl<'a> TrainingStep<'a> {
    /// Moves the task's parameters into flat buffers; the moments are zero. Tells LibTorch how exact products are to be, and
    /// which kernels attention may take.
    pub fn new(run: &'a Run, task: &'a dyn Task) -> Self {
        allow_tf32(run.train.tf32);
        choose_attention(run.train.deterministic);
        let parameters = FlatParameters::new(task.variables());
        let adam = Adam::new(&parameters, &run.train);
        Self { run, task, parameters, adam }
    }

    /// Step number `at` (from 1) on batches of training rows, each with its epoch, as if they were one: a function of parameters
    /// and moments, the rows, the run's seed, `at` and the number of threads, to the bit; on CUDA to the bit only with
    /// `train.deterministic`.
    ///
    /// Where the CPU's kernels do not compute, nothing waits for the work that is handed out: loss and norm stay on the device
    /// until somebody reads them, and the next step's batches are made meanwhile.
    ///
    /// `train.precision` concerns the loss and its gradients here; everything else of a run is in float32.
    ///
    /// # Errors
    /// Where the CPU's kernels compute, [`Diverged`], with the parameters as they were; those of the task's data and model, and
    /// of LibTorch, among which is an operation without a deterministic form on CUDA.
    pub fn step(&mut self, batches: &[(u64, Vec<u32>)], at: u64) -> Result<Stepped> {
        let strictly = self.run.train.deterministic && self.task.variables().device().is_cuda();
        only_deterministic(strictly, || self.step_freely(batches, at))
    }

    fn step_freely(&mut self, batches: &[(u64, Vec<u32>)], at: u64) -> Result<Stepped> {
        let mut clock = Clock(Instant::now());
        let mut phases = Phases::default();
        let tokens: u64 = batches.iter().map(|(_, rows)| self.task.targets(rows)).sum();
        phases.data += clock.lap();
        let settings = &self.run.train;
        seed_step(self.run.seed, at, self.task.variables().device());
        self.parameters.zero_gradients();
        phases.optimizer += clock.lap();
        let mut total = Scalar::Number(0.0);
        for (epoch, rows) in batches {
            let loss = with_bfloat16(settings.precision == Precision::Bfloat16, || self.task.loss(*epoch, rows))?;
            phases.data += loss.waited;
            phases.forward += clock.lap().saturating_sub(loss.waited);
            loss.sum.f_div_scalar(tokens as f64)?.f_backward().context("the backward pass")?;
            total = total.plus(&loss.sum)?;
            phases.backward += clock.lap();
        }
        if let Some(loss) = total.known().filter(|loss| !loss.is_finite()) {
            return Err(Diverged(format!("the loss is {loss} at step {at}")).into());
        }
        let (gradient_norm, scale) = self.parameters.clip(settings.clip_norm)?;
        if let Some(norm) = gradient_norm.known().filter(|norm| !norm.is_finite()) {
            return Err(Diverged(format!("the gradient's norm is {norm} at step {at}")).into());
        }
        let rate = self.learning_rate(at);
        self.adam.step(&mut self.parameters, &scale, rate, at)?;
        phases.optimizer += clock.lap();
        Ok(Stepped { loss: total, tokens, gradient_norm, phases })
    }

    /// The learning rate of a step.
    pub fn learning_rate(&self, step: u64) -> f64 {
        learning_rate(&self.run.train, self.run.model.d_model, step)
    }
}

/// Time since it was last asked.
struct Clock(Instant);

impl Clock {
    fn lap(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.0, Instant::now());
        self.0 - before
    }
}

/// LibTorch's generators are a function of (run seed, step): a resumed run draws the same dropout.
fn seed_step(seed: u64, step: u64, device: Device) {
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(step).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    tch::manual_seed((mixed >> 1) as i64);
    if let Device::Cuda(_) = device {
        tch::Cuda::manual_seed_all(mixed >> 1);
    }
}
