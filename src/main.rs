//! `synthesizer`: parse, dispatch, print `error: …` with its causes, exit code.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    synthesizer::error::catch_panics();
    match synthesizer::cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  caused by: {cause}");
            }
            synthesizer::error::exit_code(&error)
        }
    }
}
