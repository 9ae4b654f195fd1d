//! The option `--mix`, which chooses runs and may be given many times.

use crate::experiment::{Mix, Run};
use anyhow::anyhow;

/// Whether a run's mix is among those that were named, in whatever order of terms; every mix is if none was named.
pub(super) fn is_wanted(named: &[Mix], run: &Run) -> bool {
    let shape = run.model.shape();
    named.is_empty() || named.iter().any(|mix| mix.meaning(&shape) == run.mix.meaning(&shape))
}

/// That no run has a mix that was named; `there` are those of all runs.
pub(super) fn none_wanted<'a>(there: impl IntoIterator<Item = &'a Mix>) -> anyhow::Error {
    let mut names: Vec<String> = Vec::new();
    for name in there.into_iter().map(Mix::to_string) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    anyhow!("no run has one of these mixes; there are {}", names.join(", "))
}
