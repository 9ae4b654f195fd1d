//! Time of real training steps: the trainer's own step on a task's own batches.

use super::roofline::{training_step, Batch, Machine, Work};
use super::sampling::Spread;
use crate::attention::Mixing;
use crate::data::tokenizer::PAD;
use crate::experiment::{Precision, Run};
use crate::model::count_parameters;
use crate::task::{transformer_config, Task};
use crate::train::checkpoint::{named_weights, write_tensors};
use crate::train::device;
use crate::train::memory;
use crate::train::step::{Phases, Stepped, TrainingStep};
use anyhow::{bail, Context, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use tch::Device;

/// A run's training, driven step by step. The same batches, the first of the first epoch, come again and again.
pub struct Subject<'a> {
    run: &'a Run,
    task: &'a dyn Task,
    training: TrainingStep<'a>,
    /// Those of one step, each with its epoch.
    batches: Vec<Vec<(u64, Vec<u32>)>>,
    /// What each of them cannot do without.
    work: Vec<Option<Work>>,
    done: u64,
}

/// One step.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Predicted tokens.
    pub tokens: u64,
    /// Loss a token.
    pub loss: f64,
    /// Where the time went.
    pub phases: Phases,
    /// What the step cannot do without; none where it is not known, for a classifier or rounded products.
    pub work: Option<Work>,
}

/// What was measured of a run; a line of `bench train --csv`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The experiment's title.
    pub experiment: String,
    /// The mix.
    pub mix: String,
    /// Of the model, fixed ones too.
    pub parameters: u64,
    /// Measured steps.
    pub steps: usize,
    /// Predicted tokens of all measured steps over their seconds.
    pub tokens_per_second: f64,
    /// Median of the steps' seconds.
    pub median_seconds: f64,
    /// Their 10% quantile. Batches differ in size, so steps do.
    pub low_seconds: f64,
    /// Their 90% quantile.
    pub high_seconds: f64,
    /// Share of the time in which batches were made.
    pub data_share: f64,
    /// From batch to loss.
    pub forward_share: f64,
    /// From loss to gradients.
    pub backward_share: f64,
    /// Clipping and Adam.
    pub optimizer_share: f64,
    /// Most memory during a step, above model, optimizer and data; none where it is not measured (CUDA).
    pub peak_memory_bytes: Option<u64>,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// LibTorch's threads.
    pub threads: i32,
    /// Of all measured steps, their operations over their time, as a share of the machine's product rate.
    pub product_share: Option<f64>,
    /// The least that the machine's rates allow a step, on average.
    pub least_seconds: Option<f64>,
    /// The machine's operations a second, of a large product, right before and after.
    pub product_rate: f64,
    /// The machine's bytes a second, of a large copy, right before and after.
    pub copy_rate: f64,
}

/// How much of what the machine can do steps make use of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utilization {
    /// As [`Row::product_share`].
    pub product_share: f64,
    /// As [`Row::least_seconds`].
    pub least_seconds: f64,
}

impl Utilization {
    /// Of measured steps; none without steps, or where their work is not known.
    pub fn of(samples: &[Sample], machine: &Machine) -> Option<Utilization> {
        let work: Vec<Work> = samples.iter().map(|sample| sample.work).collect::<Option<_>>()?;
        let seconds: f64 = samples.iter().map(|sample| sample.phases.total().as_secs_f64()).sum();
        let operations: f64 = work.iter().map(|work| work.operations).sum();
        let least: f64 = work.iter().map(|work| machine.least_seconds(*work)).sum();
        (!work.is_empty()).then(|| Utilization {
            product_share: operations / seconds / machine.product_rate,
            least_seconds: least / work.len() as f64,
        })
    }
}

/// What a step on some batches cannot do without, where the task has batches of tokens and products are float32's, as the
/// machine's rate is.
fn work(run: &Run, task: &dyn Task, batches: &[(u64, Vec<u32>)]) -> Result<Option<Work>> {
    let is_rounded = task.variables().device().is_cuda() && run.train.tf32;
    if is_rounded || run.train.precision == Precision::Bfloat16 {
        return Ok(None);
    }
    let config = transformer_config(run, task.training().tokenizer.size());
    let trained = count_parameters(task.variables()).0;
    let mut all: Option<Work> = None;
    for (epoch, rows) in batches {
        let Some(batch) = task.token_batch(*epoch, rows)? else { return Ok(None) };
        let (count, target) = batch.input.size2()?;
        let source = batch.source.map(|source| source.size2()).transpose()?.map(|(_, length)| length);
        let batch = Batch { rows: count, source, target, predictions: task.targets(rows) };
        let of_batch = training_step(&config, batch, trained)?;
        // weights are read anew for each batch, but Adam runs once: its bytes are the least
        all = Some(Work { operations: all.map_or(0.0, |all| all.operations) + of_batch.operations, ..of_batch });
    }
    Ok(all)
}

impl<'a> Subject<'a> {
    /// Before the first step; `distinct` is how many steps' batches there are, at most.
    ///
    /// # Errors
    /// A corpus without a whole step's batches.
    pub fn new(run: &'a Run, task: &'a dyn Task, distinct: usize) -> Result<Self> {
        let first: Vec<(u64, Vec<u32>)> = task.training().epoch(0).into_iter().map(|rows| (0, rows)).collect();
        let batches: Vec<Vec<(u64, Vec<u32>)>> =
            first.chunks_exact(run.train.accumulate).take(distinct).map(<[_]>::to_vec).collect();
        if batches.is_empty() {
            bail!("the corpus has {} batches, too few for a step of {}", first.len(), run.train.accumulate);
        }
        let training = TrainingStep::new(run, task);
        let work = batches.iter().map(|batches| work(run, task, batches)).collect::<Result<_>>()?;
        Ok(Self { run, task, training, batches, work, done: 0 })
    }

    /// The next step.
    ///
    /// # Errors
    /// As [`TrainingStep::step`].
    pub fn step(&mut self) -> Result<Sample> {
        let number = self.done as usize % self.batches.len();
        self.done += 1;
        let Stepped { loss, tokens, phases, .. } = self.training.step(&self.batches[number], self.done)?;
        let loss = loss.value()?;
        Ok(Sample { tokens, loss: loss / tokens as f64, phases, work: self.work[number] })
    }

    /// Most memory during a step, above what is there before it; none on CUDA.
    ///
    /// # Errors
    /// As [`Subject::step`].
    pub fn peak_memory(&mut self) -> Result<Option<u64>> {
        match self.task.variables().device() {
            Device::Cpu => Ok(memory::peak_above(|| self.step())?.1),
            _ => Ok(None),
        }
    }

    /// Writes weights, batches and settings for another program, which then can take the same steps; `steps` is how many at
    /// most. To be called before the first step.
    ///
    /// Tensors: `weight.NAME` and, of each step's batch, `batch.N.source` (where there is one), `batch.N.input` and
    /// `batch.N.target`. The metadata's `config` is JSON.
    ///
    /// # Errors
    /// A task without token batches; settings that the other program does not have; what the file system refuses.
    pub fn dump(&self, path: &Path, steps: u64) -> Result<()> {
        let train = &self.run.train;
        for (what, there) in [
            ("train.accumulate above 1", train.accumulate > 1),
            ("train.weight_decay", train.weight_decay > 0.0),
            ("a model.mixing other than softmax", self.run.model.mixing != Mixing::Softmax),
        ] {
            if there {
                bail!("the PyTorch peer has no {what}");
            }
        }
        let mut tensors = named_weights(self.task.variables());
        let mut kind = "language-model";
        for (number, batches) in self.batches.iter().enumerate() {
            let (epoch, rows) = &batches[0];
            let batch = self.task.token_batch(*epoch, rows)?;
            let batch = batch.context("the PyTorch peer has language models and encoder-decoders only")?;
            let name = |what: &str| format!("batch.{number}.{what}");
            tensors.extend([(name("input"), batch.input), (name("target"), batch.target)]);
            if let Some(source) = batch.source {
                kind = "encoder-decoder";
                tensors.insert(name("source"), source);
            }
        }
        let sizes = transformer_config(self.run, self.task.training().tokenizer.size());
        let config = serde_json::json!({
            "model": kind,
            "sizes": {
                "mix": self.run.mix.to_string(),
                "vocabulary": sizes.vocabulary,
                "d_model": sizes.d_model,
                "heads": sizes.heads,
                "encoder_layers": sizes.encoder_layers,
                "decoder_layers": sizes.decoder_layers,
                "d_ff": sizes.d_ff,
                "max_length": sizes.max_length,
                "dropout": sizes.dropout,
                "attention_dropout": sizes.attention_dropout,
                "relu_dropout": sizes.relu_dropout,
            },
            "pad": PAD,
            "label_smoothing": train.label_smoothing,
            "betas": [train.beta1, train.beta2],
            "epsilon": train.epsilon,
            "clip_norm": train.clip_norm,
            "learning_rates": (1..=steps).map(|step| self.training.learning_rate(step)).collect::<Vec<_>>(),
        });
        write_tensors(path, &tensors, HashMap::from([("config".to_string(), config.to_string())]))
    }

    /// What the measured steps come to; none if there are none.
    pub fn row(
        &self,
        experiment: &str,
        samples: &[Sample],
        peak_memory_bytes: Option<u64>,
        machine: &Machine,
    ) -> Option<Row> {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample.phases.total().as_secs_f64()).collect();
        let spread = Spread::of(&seconds)?;
        let mut phases = Phases::default();
        samples.iter().for_each(|sample| phases += sample.phases);
        let total = phases.total().as_secs_f64();
        let share = |phase: Duration| phase.as_secs_f64() / total;
        let variables = self.task.variables();
        let utilization = Utilization::of(samples, machine);
        Some(Row {
            experiment: experiment.to_string(),
            mix: self.run.mix.to_string(),
            parameters: count_parameters(variables).1,
            steps: samples.len(),
            tokens_per_second: samples.iter().map(|sample| sample.tokens).sum::<u64>() as f64 / total,
            median_seconds: spread.median,
            low_seconds: spread.low,
            high_seconds: spread.high,
            data_share: share(phases.data),
            forward_share: share(phases.forward),
            backward_share: share(phases.backward),
            optimizer_share: share(phases.optimizer),
            peak_memory_bytes,
            device: device::name(variables.device()),
            threads: tch::get_num_threads(),
            product_share: utilization.map(|utilization| utilization.product_share),
            least_seconds: utilization.map(|utilization| utilization.least_seconds),
            product_rate: machine.product_rate,
            copy_rate: machine.copy_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilization_of_steps_written_out() {
        let machine = Machine { product_rate: 100.0, copy_rate: 10.0 };
        let sample = |seconds: u64, work| {
            let phases = Phases { forward: Duration::from_secs(seconds), ..Phases::default() };
            Sample { tokens: 1, loss: 0.0, phases, work }
        };
        let [products, copies] =
            [(200.0, 10.0), (100.0, 60.0)].map(|(operations, bytes)| Some(Work { operations, bytes }));
        // 300 operations in 8 seconds; at the least 2 seconds of products and 6 of copies
        let near = Utilization::of(&[sample(3, products), sample(5, copies)], &machine).unwrap();
        assert_eq!((near.product_share, near.least_seconds), (300.0 / 8.0 / 100.0, 4.0));
        assert_eq!(Utilization::of(&[sample(3, products), sample(5, None)], &machine), None);
        assert_eq!(Utilization::of(&[], &machine), None);
    }
}
