//! Plain data: what a user types (a TOML), and the runs that it resolves to.

pub mod config;
pub mod mix;

pub use config::{
    CorpusKind, DataConfig, DecodeConfig, ModelConfig, Run, Schedule, Select, TaskKind, TooLong, TrainConfig,
};
pub use mix::Mix;
