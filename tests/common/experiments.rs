//! What tests of experiment files share.
#![allow(dead_code)] // each test file uses its part

use std::path::Path;
use synthesizer::experiment::{Experiment, Plan, Problems};

pub const MINI: &str = "experiments/mini/table2/ende.toml";

pub fn plan_at(path: &str, text: &str) -> Result<Plan, Problems> {
    Experiment::parse(Path::new(path), text)?.plan(Path::new("results"))
}

pub fn plan(text: &str) -> Plan {
    plan_at(MINI, text).unwrap_or_else(|problems| panic!("{problems}"))
}

pub const TASK: &str = "task = \"translation\"\n";
/// Language modelling, the shortest whole file; lines that follow start at 3.
pub const LM: &str = "task = \"language-modelling\"\nmix = [\"V\", \"R+V\"]\n";
/// The other tasks, ditto.
pub const MASKED: &str = "task = \"masked-language-modelling\"\nmix = [\"V\", \"R+V\"]\n";
pub const CLASS: &str = "task = \"classification\"\nmix = [\"V\", \"R+V\"]\n";
pub const TALK: &str = "task = \"dialogue\"\nmix = [\"V\", \"R+V\"]\n";
pub const MT: &str = "task = \"translation\"\nmix = [\"V\", \"R+V\"]\n";
