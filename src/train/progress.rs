//! Telling a person how far it is: bars on a terminal, plain lines otherwise.

use crate::terminal::tell;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Where progress is told.
#[derive(Debug)]
pub enum Progress {
    /// A bar with an estimate of the time left.
    Bar(ProgressBar),
    /// A line now and then.
    Lines,
    /// Nothing (tests).
    Silent,
}

impl Progress {
    /// A bar if standard error is a terminal.
    pub fn new(name: &str, steps: u64, done: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::new(steps).with_position(done).with_prefix(name.to_string());
        let style = ProgressStyle::with_template("{prefix:>12} {bar:30} {pos}/{len} {msg} ETA {eta}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        bar.reset_eta();
        Self::Bar(bar)
    }

    /// Steps done.
    pub fn step(&self, step: u64) {
        if let Self::Bar(bar) = self {
            bar.set_position(step);
        }
    }

    /// How it goes, at log intervals.
    pub fn status(&self, name: &str, step: u64, steps: u64, status: &str, left: Duration) {
        match self {
            Self::Bar(bar) => bar.set_message(status.to_string()),
            Self::Lines => tell(&format!("{name}: step {step}/{steps}, {status}, {} left", clock(left))),
            Self::Silent => {}
        }
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| tell(line)),
            Self::Lines => tell(line),
            Self::Silent => {}
        }
    }

    /// The end.
    pub fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// `1:02:03` or `2:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}
