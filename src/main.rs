//! `synthesizer`: parse, dispatch, print `error: …` with its causes, exit code.

use clap::Parser;
use std::process::ExitCode;
use synthesizer::terminal::tell;

fn main() -> ExitCode {
    synthesizer::error::catch_panics();
    match synthesizer::cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("error: {error}"));
            for cause in error.chain().skip(1) {
                tell(&format!("  caused by: {cause}"));
            }
            synthesizer::error::exit_code(&error)
        }
    }
}
