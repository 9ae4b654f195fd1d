//! How large a run is before anything is allocated: its parameters, and the memory that training takes.

use super::transformer_config;
use crate::data::labelled;
use crate::experiment::check::{Finding, SMALLEST_VOCABULARY};
use crate::experiment::{Run, TaskKind};
use crate::machine::Memory;
use anyhow::Result;

/// Bytes of a number of the model.
const NUMBER: u128 = 4;

/// Without a limit that is known: more than any machine has.
const ANY_MACHINE: u64 = 1 << 50;

/// The size of a run's model and of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Entries of the vocabulary that were counted.
    pub vocabulary: usize,
    /// Whether the tokenizer has so many; otherwise it has at most so many.
    pub is_exact: bool,
    /// Parameters that training moves.
    pub trainable: u64,
    /// With fixed ones.
    pub total: u64,
    /// Bytes of weights, gradients and Adam's moments.
    pub state: u128,
    /// Bytes that the backward pass needs of a batch of `batch_tokens`, a low estimate: inputs of the matrix products,
    /// residual branches and feed-forward layers. Attention weights are not in it; the kernels make them again.
    pub activations: u128,
}

impl Size {
    /// The size of a run. `tokenizer` is the size of the real tokenizer, where it is known.
    ///
    /// # Errors
    /// A mix or shape that no layer can have.
    pub fn of(run: &Run, tokenizer: Option<usize>) -> Result<Size> {
        let vocabulary = tokenizer.unwrap_or(run.data.vocabulary);
        let (trainable, total) = parameters(run, vocabulary)?;
        let model = &run.model;
        let [d, ff, encoder, decoder] =
            [model.d_model, model.d_ff, model.encoder_layers, model.decoder_layers].map(|size| size.max(0) as u128);
        let cross = if run.task.has_encoder() { 8 * d } else { 0 };
        let a_token = encoder * (12 * d + 2 * ff) + decoder * (12 * d + 2 * ff + cross);
        Ok(Size {
            vocabulary,
            is_exact: tokenizer.is_some(),
            trainable,
            total,
            state: NUMBER * (u128::from(total) + 3 * u128::from(trainable)),
            activations: NUMBER * a_token * run.train.batch_tokens as u128,
        })
    }

    /// Such as `1,234 parameters`, or `at most 1,234 parameters (vocabulary 300)` before the tokenizer is known.
    pub fn parameters(&self) -> String {
        let total = thousands(self.total);
        match self.is_exact {
            true => format!("{total} parameters"),
            false => format!("at most {total} parameters (vocabulary {})", thousands(self.vocabulary as u64)),
        }
    }

    /// Whether the model cannot be trained on a machine with this memory: its state alone is larger than all of it.
    pub fn fault(&self, run: &Run, memory: Memory) -> Option<Finding> {
        let limit = memory.total.unwrap_or(ANY_MACHINE);
        (self.state > u128::from(limit)).then(|| Finding {
            keys: self.largest_keys(run),
            text: format!(
                "the model has {}, {} with gradients and Adam's moments; {} {}",
                self.parameters(),
                bytes(self.state),
                if memory.total.is_some() { "this machine has" } else { "no machine has more than" },
                bytes(limit.into())
            ),
            help: "make the model smaller, or train it on a larger machine".into(),
        })
    }

    /// Whether a training step is likely not to fit into the free memory.
    pub fn warning(&self, run: &Run, memory: Memory) -> Option<Finding> {
        let free = memory.available?;
        let needed = self.state + self.activations;
        (needed > u128::from(free)).then(|| Finding {
            keys: if self.activations > self.state { vec!["train.batch_tokens"] } else { self.largest_keys(run) },
            text: format!(
                "a training step needs about {}: {} for {} with gradients and Adam's moments, and {} for a batch of \
                 `batch_tokens = {}`; {} are free",
                bytes(needed),
                bytes(self.state),
                self.parameters(),
                bytes(self.activations),
                run.train.batch_tokens,
                bytes(free.into())
            ),
            help: "a smaller batch_tokens with a larger accumulate takes less memory".into(),
        })
    }

    /// The keys that make the model large, the largest share first.
    fn largest_keys(&self, run: &Run) -> Vec<&'static str> {
        let without = |change: fn(&mut Run)| {
            let mut smaller = run.clone();
            change(&mut smaller);
            let vocabulary = self.vocabulary.min(smaller.data.vocabulary);
            parameters(&smaller, vocabulary).map_or(u64::MAX, |(_, total)| total)
        };
        let attention = without(|run| run.mix.terms.iter_mut().for_each(|term| term.parameters.clear()));
        let mut keys = [
            (without(|run| run.data.vocabulary = SMALLEST_VOCABULARY), "data.vocabulary"),
            (without(|run| run.model.d_ff = 1), "model.d_ff"),
            (without(|run| run.model.encoder_layers = run.model.encoder_layers.min(1)), "model.encoder_layers"),
            (without(|run| run.model.decoder_layers = run.model.decoder_layers.min(1)), "model.decoder_layers"),
            (without(|run| run.model.max_length = 1), "model.max_length"),
            (if attention < self.total { attention } else { u64::MAX }, "mix"),
        ];
        keys.sort_by_key(|(left, _)| *left);
        keys.into_iter().filter(|(left, _)| *left < self.total).map(|(_, key)| key).chain(["model.d_model"]).collect()
    }
}

/// Trainable and total parameters of the run's model with a tokenizer of `vocabulary` entries.
pub fn parameters(run: &Run, vocabulary: usize) -> Result<(u64, u64)> {
    let config = transformer_config(run, vocabulary);
    if run.task == TaskKind::Classification {
        return Ok(config.classifier_parameters(labelled::outputs(&run.data)? as u64)?);
    }
    Ok(config.parameters(run.task.has_encoder() && run.task.has_decoder())?)
}

fn thousands(number: u64) -> String {
    crate::attention::cost::Thousands(number).to_string()
}

/// Such as `197 GB`, `3.2 GB` or `12 MB`.
fn bytes(count: u128) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 9.95 && unit > 0 {
        format!("{value:.1} {}", units[unit])
    } else {
        format!("{value:.0} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use std::path::Path;

    fn run(text: &str) -> Run {
        let experiment = Experiment::parse(Path::new("x.toml"), text).unwrap_or_else(|problems| panic!("{problems}"));
        experiment.plan(Path::new("results")).unwrap_or_else(|problems| panic!("{problems}")).runs.remove(0).run
    }

    fn memory(total: u64, available: u64) -> Memory {
        Memory { total: Some(total), available: Some(available) }
    }

    /// transformer_base by hand: 32,000 · 512 embeddings; 12 · (2 · 512 · 2048 + 2048 + 512) feed-forward; 18 · 4 · (512² + 512)
    /// attention; 32 norms of 2 · 512.
    #[test]
    fn the_state_is_four_numbers_a_parameter() {
        let size = Size::of(&run("task = \"translation\"\nmix = \"V\"\n"), None).unwrap();
        let expected = 32_000 * 512 + 12 * (2 * 512 * 2048 + 2048 + 512) + 18 * 4 * (512 * 512 + 512) + 32 * 2 * 512;
        assert_eq!((size.total, size.trainable), (expected, expected));
        assert_eq!(size.state, u128::from(16 * expected));
        let known = Size::of(&run("task = \"translation\"\nmix = \"V\"\n"), Some(1000)).unwrap();
        assert_eq!(known.total, expected - 31_000 * 512);
        assert_eq!(known.parameters(), format!("{} parameters", thousands(known.total)));
        assert_eq!(size.parameters(), format!("at most {} parameters (vocabulary 32,000)", thousands(expected)));
        // fixed weights have no gradient
        let fixed = Size::of(&run("task = \"language-modelling\"\nmix = \"Rfix\"\n"), None).unwrap();
        assert_eq!(fixed.state, u128::from(4 * fixed.total + 12 * fixed.trainable));
        assert!(fixed.trainable < fixed.total);
    }

    #[test]
    fn a_model_that_cannot_fit_is_a_fault_with_its_largest_key() {
        let lm = "task = \"language-modelling\"\n";
        for (text, key) in [
            (format!("{lm}mix = \"V(rank=1000000)\"\n"), "mix"),
            (format!("{lm}mix = \"FR(k=1000000)\"\n"), "mix"),
            (format!("{lm}mix = \"V\"\n[data]\nvocabulary = 1000000\n"), "data.vocabulary"),
            (format!("{lm}mix = \"V\"\n[model]\nd_ff = 1048576\n"), "model.d_ff"),
            (format!("{lm}mix = \"V\"\n[model]\ndecoder_layers = 1000\n"), "model.decoder_layers"),
            (format!("{lm}mix = \"R\"\n[model]\nmax_length = 65536\n"), "model.max_length"),
        ] {
            let run = run(&text);
            let size = Size::of(&run, None).unwrap();
            let fault = size.fault(&run, memory(6 << 30, 6 << 30)).unwrap_or_else(|| panic!("{text}: {size:?}"));
            assert_eq!(fault.keys[0], key, "{text}");
            assert!(
                fault.text.ends_with("with gradients and Adam's moments; this machine has 6.4 GB"),
                "{}",
                fault.text
            );
        }
        let small = run(&format!("{lm}mix = \"V\"\n"));
        let size = Size::of(&small, None).unwrap();
        assert_eq!(size.fault(&small, memory(6 << 30, 6 << 30)), None);
        assert_eq!(size.fault(&small, Memory::default()), None);
    }

    /// The largest sizes that a file may have, all at once.
    #[test]
    fn nothing_overflows() {
        for (task, mix) in [
            ("translation", "FD(hidden=1000000,a=2,b=524288)+R+FR(k=1000000)+V(rank=1000000)+D(hidden=1000000)"),
            ("language-modelling", "V(rank=1000000)+Rfix"),
        ] {
            let layers = if task == "translation" { "encoder_layers = 1000\n" } else { "" };
            let text = format!(
                "task = \"{task}\"\nmix = \"{mix}\"\n[data]\nvocabulary = 1000000\n[model]\nd_model = 1048576\nheads = 1048576\n\
                 d_ff = 1048576\nmax_length = 1048576\ndecoder_layers = 1000\n{layers}[train]\nbatch_tokens = 2147483647\n"
            );
            let run = run(&text);
            let size = Size::of(&run, None).unwrap();
            assert!(size.state > 1 << 60 && size.activations > 1 << 50, "{size:?}");
            assert!(size.fault(&run, Memory::default()).is_some());
        }
    }

    #[test]
    fn a_batch_that_is_too_large_is_a_warning() {
        let text = "task = \"language-modelling\"\nmix = \"V\"\n[train]\nbatch_tokens = 10000000\n";
        let run = run(text);
        let size = Size::of(&run, None).unwrap();
        // 6 layers of 12 · 512 + 2 · 2048 numbers a token
        assert_eq!(size.activations, 4 * 6 * (12 * 512 + 2 * 2048) * 10_000_000);
        let warning = size.warning(&run, memory(64 << 30, 32 << 30)).unwrap();
        assert_eq!(warning.keys, ["train.batch_tokens"]);
        assert!(
            warning.text.contains("2.5 TB for a batch of `batch_tokens = 10000000`; 34 GB are free"),
            "{}",
            warning.text
        );
        assert_eq!(size.warning(&run, memory(64 << 40, 32 << 40)), None);
        assert_eq!(size.fault(&run, memory(64 << 30, 32 << 30)), None);
    }

    #[test]
    fn bytes_have_two_or_three_digits() {
        let texts = [12, 999, 1000, 9_940_000, 12_000_000, 197_000_000_000, u128::from(u64::MAX)].map(bytes);
        assert_eq!(texts, ["12 bytes", "999 bytes", "1.0 kB", "9.9 MB", "12 MB", "197 GB", "18 EB"]);
    }
}
