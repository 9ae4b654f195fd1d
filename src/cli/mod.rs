//! The command line: one file a subcommand, all of one shape: `Args` and `run`.

pub mod bench;
mod columns;
pub mod cost;
pub mod data;
mod data_inspect;
pub mod doctor;
pub mod generate;
mod mixes;
pub mod parity;
mod preflight;
pub mod report;
pub mod run;
mod run_folder;
mod stdin_lines;
pub mod validate;
pub mod verify;

use crate::origin::{GIT_COMMIT, GIT_STATE, VERSION};
use crate::train::device::loaded_version;
use clap::{Parser, Subcommand};
use std::sync::OnceLock;

/// Can attention weights be synthesized instead of computed from QKᵀ? Trains, measures and draws the paper's tables.
#[derive(Debug, Parser)]
#[command(name = "synthesizer", version = version(), arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train what experiment files describe; finished runs are skipped, interrupted ones go on
    Run(run::Args),
    /// Check experiment files without training
    Validate(validate::Args),
    /// Make tables, figures and the page from the files under results/
    Report(report::Args),
    /// Check that rows, configurations, saved outputs, scores and tables under results/ agree
    Verify(verify::Args),
    /// Parameters and floating-point operations of any mix and shape
    Cost(cost::Args),
    /// Compare the attention layer with golden files
    Parity(parity::Args),
    /// Measure time and memory
    Bench(bench::Args),
    /// Read lines from stdin; a trained run translates, completes, summarizes, answers or labels them
    Generate(generate::Args),
    /// List, fetch and inspect corpora
    Data(data::Args),
    /// Say what this machine has, and what is wrong
    Doctor(doctor::Args),
}

/// Version, commit and LibTorch, such as `0.1.0 (commit 1a2b3c4d5e6f, clean), LibTorch 2.11.0`.
pub(crate) fn version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let commit = &GIT_COMMIT[..GIT_COMMIT.len().min(12)];
        format!("{VERSION} (commit {commit}, {GIT_STATE}), LibTorch {}", loaded_version())
    })
}

impl Cli {
    /// Runs the subcommand that was typed.
    pub fn run(self) -> anyhow::Result<()> {
        crate::native::wanted_instructions().map_err(anyhow::Error::msg)?;
        crate::native::wanted_kernels().map_err(anyhow::Error::msg)?;
        match self.command {
            Command::Run(args) => run::run(args),
            Command::Validate(args) => validate::run(args),
            Command::Report(args) => report::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Cost(args) => cost::run(args),
            Command::Parity(args) => parity::run(args),
            Command::Bench(args) => bench::run(args),
            Command::Generate(args) => generate::run(args),
            Command::Data(args) => data::run(args),
            Command::Doctor(args) => doctor::run(args),
        }
    }
}
