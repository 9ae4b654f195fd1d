//! What was typed: every key optional, every unknown key an error. [`super::defaults`] fills the rest.

use super::config::{
    CorpusKind, DataConfig, DecodeConfig, ModelConfig, Precision, Schedule, Select, TaskKind, TooLong, TrainConfig,
};
use crate::attention::Mixing;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;

/// A section of which each key may be left out, and how it is laid over the resolved section.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident over $resolved:ident { $($key:ident: $kind:ty,)* } $(also { $($extra:ident: $other:ty,)* })?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)] // each key is documented where it is resolved, in config.rs
        pub struct $name {
            $(pub $key: Option<$kind>,)*
            $($(pub $extra: Option<$other>,)*)?
        }
        impl $name {
            /// Replaces what was typed.
            pub fn lay_over(&self, resolved: &mut $resolved) {
                $(if let Some(value) = &self.$key { resolved.$key = value.clone(); })*
            }
        }
    };
}

section! {
    /// `[data]`
    DataToml over DataConfig {
        corpus: CorpusKind, source: String, target: String, set: String, fields: Vec<String>, personas: bool,
        history: usize, window: usize, noise_density: f64, mean_span: f64, vocabulary: usize, max_tokens: usize, max_source_tokens: usize, too_long: TooLong,
    }
    also { train: Files, dev: Files, test: Files, folder: String, stories: Texts, vectors: String, }
}
section! {
    /// `[model]`
    ModelToml over ModelConfig {
        d_model: i64, heads: i64, encoder_layers: i64, decoder_layers: i64, d_ff: i64, max_length: i64,
        dropout: f64, attention_dropout: f64, relu_dropout: f64, mixing: Mixing,
    }
}
section! {
    /// `[train]`
    TrainToml over TrainConfig {
        steps: u64, batch_tokens: usize, accumulate: usize, schedule: Schedule, learning_rate: f64, warmup: u64,
        beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64, label_smoothing: f64, clip_norm: f64, precision: Precision,
        tf32: bool, deterministic: bool, log_every: u64, evaluate_every: u64, select: Select, average: usize,
    }
}
section! {
    /// `[decode]`
    DecodeToml over DecodeConfig {
        beam: usize, length_penalty: f64, max_extra: usize, batch: usize, min_length: usize, no_repeat_ngram: usize,
    }
}

/// A whole experiment file.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentToml {
    /// The column's heading; the file's stem when left out.
    pub title: Option<String>,
    /// Needed.
    pub task: Option<TaskKind>,
    /// Needed.
    pub mix: Option<Texts>,
    /// `[1]` when left out.
    pub seeds: Option<Vec<u64>>,
    /// `[data]`
    pub data: Option<DataToml>,
    /// `[model]`
    pub model: Option<ModelToml>,
    /// `[train]`
    pub train: Option<TrainToml>,
    /// `[decode]`
    pub decode: Option<DecodeToml>,
    /// `[[variant]]`: more rows, under other settings.
    pub variant: Option<Vec<VariantToml>>,
}

/// One `[[variant]]`: mixes that run once more under settings laid over the experiment's.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantToml {
    /// Needed; part of the rows' and folders' names.
    pub name: Option<String>,
    /// Needed.
    pub mix: Option<Texts>,
    /// `[variant.data]`
    pub data: Option<DataToml>,
    /// `[variant.model]`
    pub model: Option<ModelToml>,
    /// `[variant.train]`
    pub train: Option<TrainToml>,
    /// `[variant.decode]`
    pub decode: Option<DecodeToml>,
}

/// One string, or a list of strings. (serde's untagged enum would lose the place of an error.)
#[derive(Debug, Clone, PartialEq)]
pub struct Texts {
    /// The strings.
    pub texts: Vec<String>,
    /// Whether brackets were typed.
    pub is_list: bool,
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Texts;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts { texts: vec![text.to_owned()], is_list: false })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = seq.next_element()? {
                    texts.push(text);
                }
                Ok(Texts { texts, is_list: true })
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

/// Text files: one path, a list of paths, or a list of pairs of paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Files(
    /// A path typed alone is one entry of one path.
    pub Vec<Texts>,
);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Paths;
        impl<'de> Visitor<'de> for Paths {
            type Value = Files;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a path, a list of paths or a list of pairs of paths")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Files, E> {
                Ok(Files(vec![Texts { texts: vec![text.to_owned()], is_list: false }]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Files, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    entries.push(entry);
                }
                Ok(Files(entries))
            }
        }
        deserializer.deserialize_any(Paths)
    }
}
