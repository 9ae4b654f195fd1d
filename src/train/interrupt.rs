//! When training stops: at Ctrl-C, after the step at hand, or after a number of steps.

use crate::interrupt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Says when the user wants a run to stop.
#[derive(Debug, Clone)]
pub struct Interrupt {
    steps_left: Arc<AtomicU64>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::after(u64::MAX)
    }
}

impl Interrupt {
    /// Stops by itself after `steps` steps, as if the user had asked.
    pub fn after(steps: u64) -> Self {
        Self { steps_left: Arc::new(AtomicU64::new(steps)) }
    }

    /// Whether somebody asked.
    pub fn asked(&self) -> bool {
        interrupt::asked()
    }

    /// Whether the run is to stop before its next step. Asked once a step.
    pub fn before_step(&self) -> bool {
        let spent =
            self.steps_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err();
        spent || self.asked()
    }
}
