//! The mean of scores that come one by one.

/// A sum and how many were added.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// Adds one score.
    pub(super) fn add(&mut self, score: f64) {
        self.sum += score;
        self.count += 1;
    }

    /// The mean in percent; `None` where nothing was added.
    pub(super) fn percent(self) -> Option<f64> {
        (self.count > 0).then(|| 100.0 * self.sum / self.count as f64)
    }
}
