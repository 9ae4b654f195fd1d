//! Ctrl-C, for work of any layer that takes longer than a second.
//!
//! Who starts long work from the command line calls [`listen`] once. From then on the first Ctrl-C (or SIGTERM) only raises a
//! flag; whatever takes long asks [`check`] every now and then and returns its error as it returns any other. What it had
//! finished by then is saved, half-written files are removed, and the command line turns the error into exit code 130.

use crate::terminal::tell;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static DEFERRED: AtomicBool = AtomicBool::new(false);

/// The user asked to stop, and the work at hand did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped by Ctrl-C")]
pub struct Interrupted;

/// Listens for Ctrl-C and SIGTERM for the rest of the process; a second one ends it at once, with exit code 130.
///
/// Error: somebody listens already, or the system refuses.
pub fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        tell("\nstopping, and saving what there is; once more to leave at once");
    })
}

/// Whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// An error once the user asked to stop: `interrupt::check()?` in every loop that may take long. It costs about a nanosecond.
pub fn check() -> Result<(), Interrupted> {
    if asked() && !DEFERRED.load(Ordering::Relaxed) {
        Err(Interrupted)
    } else {
        Ok(())
    }
}

/// Does `work` as if nobody had asked: it is short, or what it would lose by stopping half-way is dear. Whoever defers asks
/// again afterwards. Not to be nested.
pub fn deferred<T>(work: impl FnOnce() -> T) -> T {
    DEFERRED.store(true, Ordering::Relaxed);
    let result = work();
    DEFERRED.store(false, Ordering::Relaxed);
    result
}
