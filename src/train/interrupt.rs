//! Ctrl-C: finish the step, save, leave. A second Ctrl-C leaves at once.

use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Says when the user wants a run to stop.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    steps_left: Arc<AtomicU64>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::after(u64::MAX)
    }
}

impl Interrupt {
    /// Listens for Ctrl-C and SIGTERM for the rest of the process.
    pub fn listen(self) -> Result<Self> {
        let seen = self.asked.clone();
        ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            eprintln!("\nstopping after this step and saving; once more to leave at once");
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(self)
    }

    /// Stops by itself after `steps` steps, as if somebody had asked.
    pub fn after(steps: u64) -> Self {
        Self { asked: Arc::default(), steps_left: Arc::new(AtomicU64::new(steps)) }
    }

    /// Whether somebody asked.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Whether the run is to stop before its next step. Asked once a step.
    pub fn before_step(&self) -> bool {
        let spent =
            self.steps_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err();
        spent || self.asked()
    }
}
