//! Ctrl-C: finish the step, save, leave. A second Ctrl-C leaves at once.

use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Becomes true when the user wants the run to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C and SIGTERM for the rest of the process.
    pub fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let seen = interrupt.clone();
        ctrlc::set_handler(move || {
            if seen.0.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            eprintln!("\nstopping after this step and saving; once more to leave at once");
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }

    /// Asks the run to stop, as Ctrl-C does.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether somebody asked.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
