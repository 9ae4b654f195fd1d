//! How an error becomes an exit code, and how the process ends.

use crate::interrupt::{self, leave, Interrupted};
use crate::out_of_memory::{self, ADVICE, KEPT};
use crate::terminal::tell;
use std::io::Write;

/// Errors on which the exit code depends; every other error is the user's to mend (exit code 2).
#[derive(Debug, thiserror::Error)]
pub enum Outcome {
    /// Ctrl-C: what was running is saved. Exit code 130.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// A check that was asked for did not hold, or training failed on its own (NaN loss, no memory). Exit code 1.
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

/// 130 for an interrupt, 1 for a failed check, an error inside LibTorch, no memory or no more threads, 2 for what the user can mend.
pub fn exit_code(error: &anyhow::Error) -> i32 {
    for cause in error.chain() {
        match cause.downcast_ref::<Outcome>() {
            Some(Outcome::Interrupted(_)) => return interrupt::EXIT_CODE,
            Some(Outcome::Failed(_)) => return 1,
            None => {}
        }
        if cause.is::<Interrupted>() {
            return interrupt::EXIT_CODE;
        }
        let of_threads =
            cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.raw_os_error() == Some(libc::EAGAIN));
        if cause.is::<tch::TchError>() || of_threads || out_of_memory::is_in(&cause.to_string()) {
            return 1;
        }
    }
    2
}

/// The first cause that is LibTorch's or a kernel's word for no memory, one line of it.
pub fn memory_cause(error: &anyhow::Error) -> Option<String> {
    let texts = error.chain().map(|cause| out_of_memory::line(&cause.to_string()).to_string());
    texts.into_iter().find(|text| out_of_memory::is_in(text))
}

/// Whether the command ended because nobody reads its output any more (`… | head`), which is no fault.
pub fn is_unread(error: &anyhow::Error) -> bool {
    let is_closed = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.root_cause().downcast_ref().is_some_and(is_closed)
}

/// Prints `error: …` with its causes, and what to do about those that the system alone knows.
pub fn print(error: &anyhow::Error) {
    tell(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        tell(&format!("  caused by: {cause}"));
    }
    let system = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error());
    if let Some(advice) = system.and_then(advice) {
        tell(&format!("  {advice}"));
    }
}

/// What the user can do about an error number of the system.
fn advice(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::EFBIG => {
            "the file-size limit of this shell is reached (ulimit -f): raise it; the disk itself is not full"
        }
        libc::ENOSPC => "the disk is full: free some space, or put the folder on another disk",
        libc::EDQUOT => "the disk quota of this user is used up: free some space, or put the folder on another disk",
        libc::EAGAIN => {
            "the system gives no more threads: raise the limits of processes and memory (ulimit -u, ulimit -v)"
        }
        libc::EMFILE => "too many files are open (ulimit -n): raise that limit",
        _ => return None,
    })
}

/// Ends the process after everything was said. Destructors are left out (see [`leave`]).
pub fn finish(code: i32) -> ! {
    // Whoever read our output may have gone.
    let _ = std::io::stdout().flush();
    leave(code)
}

/// Turns a panic, which is a fault of ours or LibTorch out of memory, into one message and exit code 1.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload();
        let first = match text.downcast_ref::<String>() {
            Some(text) => text.as_str(),
            None => text.downcast_ref::<&str>().copied().unwrap_or_default(),
        };
        let first = out_of_memory::line(first);
        if out_of_memory::is_caught(first) {
            return;
        }
        if let Some(why) = first.split("failed printing to stdout: ").nth(1) {
            if why.starts_with("Broken pipe") {
                // Whoever read our output has seen enough.
                leave(0);
            }
            tell(&format!("error: cannot write to standard output: {why}"));
            leave(1);
        }
        if out_of_memory::is_in(first) {
            tell(&format!("error: out of memory: {first}"));
            tell(ADVICE);
        } else if out_of_memory::is_of_threads(first) {
            tell(&format!("error: the system gives no more threads: {first}"));
            tell("  raise the limits of processes and memory (ulimit -u, ulimit -v), or use fewer --threads");
        } else {
            let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
            tell(&format!("error: this should not happen: {first}{}", place.unwrap_or_default()));
        }
        tell(KEPT);
        leave(1);
    }));
}
