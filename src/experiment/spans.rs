//! How much of a window is masked by span corruption, as numbers: T5's rule (Raffel et al. 2020, section 3.1.4).

use super::config::{DataConfig, Run, TaskKind};

/// What is masked in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanCounts {
    /// Tokens of the window.
    pub length: usize,
    /// Tokens that are masked.
    pub noise: usize,
    /// Spans that they make.
    pub spans: usize,
}

impl SpanCounts {
    /// `density` of the tokens, to the nearest whole number (ties to the even one), but at least one is masked and, where
    /// there are two, at least one is not. Spans: the masked tokens / `mean_span`, to the nearest; at least one, and no more
    /// than there are tokens of either kind to part them.
    pub fn of(length: usize, density: f64, mean_span: f64) -> SpanCounts {
        let noise = (length as f64 * density).round_ties_even() as usize;
        let noise = noise.clamp(1, length.saturating_sub(1).max(1));
        let spans = (noise as f64 / mean_span).round_ties_even() as usize;
        let spans = spans.clamp(1, noise).min(length.saturating_sub(noise).max(1));
        SpanCounts { length, noise, spans }
    }

    /// Tokens of the source, end mark included: those that are not masked, and a sentinel for each span.
    pub fn source(&self) -> usize {
        self.length.saturating_sub(self.noise) + self.spans + 1
    }

    /// Tokens of the target, end mark included: the masked ones, a sentinel before each span and one after the last.
    pub fn target(&self) -> usize {
        self.noise + self.spans + 2
    }

    /// The longer of the two.
    pub fn longest(&self) -> usize {
        self.source().max(self.target())
    }
}

impl DataConfig {
    /// What is masked in a window of `length` tokens.
    pub fn spans_in(&self, length: usize) -> SpanCounts {
        SpanCounts::of(length, self.noise_density, self.mean_span)
    }
}

impl Run {
    /// Ids after the tokenizer's that stand for masked spans: one for each of the longest window, and one that ends the
    /// target. Other tasks have none.
    pub fn sentinels(&self) -> usize {
        match self.task {
            TaskKind::MaskedLanguageModelling => self.data.spans_in(self.data.window).spans + 1,
            _ => 0,
        }
    }
}
