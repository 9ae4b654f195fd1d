//! Every default, on one screen. They are Tensor2Tensor's `transformer_base`, on which the paper's translation runs
//! stand; an experiment file holds only what differs.

use super::config::{
    CorpusKind, DataConfig, DecodeConfig, ModelConfig, Precision, Schedule, Select, TaskKind, TooLong, TrainConfig,
};
use crate::attention::Mixing;
use std::path::PathBuf;

/// `seeds`
pub const SEEDS: &[u64] = &[1];

/// `[data]`
pub fn data(task: TaskKind) -> DataConfig {
    let translation = task == TaskKind::Translation;
    let masked = task == TaskKind::MaskedLanguageModelling;
    DataConfig {
        corpus: match task {
            TaskKind::Translation => CorpusKind::HomeAssistant,
            TaskKind::LanguageModelling | TaskKind::MaskedLanguageModelling => CorpusKind::NewsArticles,
            TaskKind::Summarization => CorpusKind::NewsTitles,
            TaskKind::Dialogue => CorpusKind::Chatterbot,
            TaskKind::Classification => CorpusKind::BbcTopics,
        },
        source: if translation { "en".into() } else { String::new() }, // `reverse` has none; `text` must say
        target: if translation { "de".into() } else { String::new() },
        train: vec![], // a corpus of files must say
        dev: vec![],
        test: vec![],
        folder: PathBuf::new(),
        set: String::new(),
        stories: vec![],
        fields: vec![], // `json-lines`: see `fields`
        personas: true,
        history: 0,
        vectors: PathBuf::new(),
        window: if masked { 256 } else { 0 },
        noise_density: if masked { 0.15 } else { 0.0 }, // T5's
        mean_span: if masked { 3.0 } else { 0.0 },      // T5's
        vocabulary: 32_000,
        max_tokens: 255, // and the begin mark fill max_length
        max_source_tokens: 0,
        too_long: if task == TaskKind::Classification { TooLong::Cut } else { TooLong::Skip },
    }
}

/// `data.fields` of corpus `json-lines`: CNN/DailyMail's, or C4's where the task has no target.
pub fn fields(task: TaskKind) -> Vec<String> {
    let names: &[&str] = if task.has_target() { &["article", "highlights"] } else { &["text"] };
    names.iter().map(|name| name.to_string()).collect()
}

/// `[model]`
pub fn model(task: TaskKind) -> ModelConfig {
    ModelConfig {
        d_model: 512,
        heads: 8,
        encoder_layers: if task.has_encoder() { 6 } else { 0 },
        decoder_layers: if task.has_decoder() { 6 } else { 0 },
        d_ff: 2048,
        max_length: 256,
        dropout: 0.1,
        attention_dropout: 0.1,
        relu_dropout: 0.1,
        mixing: Mixing::Softmax,
    }
}

/// `[train]`
pub fn train(task: TaskKind, schedule: Schedule) -> TrainConfig {
    TrainConfig {
        steps: 100_000,
        batch_tokens: 4096,
        accumulate: 1,
        schedule,
        learning_rate: if schedule == Schedule::InverseSquareRoot { 2.0 } else { 1e-3 },
        warmup: 8000,
        beta1: 0.9,
        beta2: 0.997,
        epsilon: 1e-9,
        weight_decay: 0.0,
        label_smoothing: if task.has_target() { 0.1 } else { 0.0 }, // perplexity is of plain targets
        clip_norm: 0.0,                                             // off
        precision: Precision::Float32,
        tf32: false,
        deterministic: false,
        log_every: 100,
        evaluate_every: 1000,
        select: Select::Best,
        average: 5,
    }
}

/// `train.schedule`
pub const SCHEDULE: Schedule = Schedule::InverseSquareRoot;

/// `[decode]`
pub fn decode(task: TaskKind) -> Option<DecodeConfig> {
    let decode = DecodeConfig {
        beam: 4,
        length_penalty: 0.6,
        max_extra: 50,
        batch: 32,
        min_length: 0,
        no_repeat_ngram: 0, // off
    };
    task.has_target().then_some(decode)
}
