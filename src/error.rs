//! How an error becomes an exit code.

use crate::interrupt::Interrupted;
use crate::terminal::tell;
use std::process::ExitCode;

/// Errors on which the exit code depends; every other error is the user's to mend (exit code 2).
#[derive(Debug, thiserror::Error)]
pub enum Outcome {
    /// Ctrl-C: what was running is saved. Exit code 130.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// A check that was asked for did not hold, or training failed on its own (NaN loss). Exit code 1.
    #[error("{0}")]
    Failed(String),
}

/// Where the user's Ctrl-C stopped the work, an [`Outcome::Interrupted`] that says what is there and what the next call does;
/// other errors as they are.
pub fn tell_interrupt(error: anyhow::Error, what: impl FnOnce() -> String) -> anyhow::Error {
    if error.chain().any(|cause| cause.is::<Interrupted>()) {
        Outcome::Interrupted(what()).into()
    } else {
        error
    }
}

/// 130 for an interrupt, 1 for a failed check or an error inside LibTorch, 2 for what the user can mend.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    for cause in error.chain() {
        match cause.downcast_ref::<Outcome>() {
            Some(Outcome::Interrupted(_)) => return ExitCode::from(130),
            Some(Outcome::Failed(_)) => return ExitCode::from(1),
            None => {}
        }
        if cause.is::<Interrupted>() {
            return ExitCode::from(130);
        }
        if cause.is::<tch::TchError>() {
            return ExitCode::from(1);
        }
    }
    ExitCode::from(2)
}

/// Turns a panic, which is a fault of ours or LibTorch out of memory, into one line and exit code 1.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload();
        let text = message.downcast_ref::<String>().cloned();
        let text = text.or_else(|| message.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default();
        // LibTorch adds a C++ backtrace to its first line; a Debug text has it escaped
        let first = text.split('\n').next().and_then(|line| line.split("\\n").next()).unwrap_or_default();
        if first.contains("failed printing to stdout") {
            // whoever read our output has seen enough
            std::process::exit(0);
        }
        if ["not enough memory", "out of memory"].iter().any(|text| first.contains(text)) {
            tell(&format!("error: out of memory: {first}"));
            tell("  try a smaller train.batch_tokens with a larger train.accumulate, or a smaller model");
        } else {
            let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
            tell(&format!("error: this should not happen: {first}{}", place.unwrap_or_default()));
        }
        tell("  results and checkpoints written so far are kept");
        std::process::exit(1);
    }));
}
