//! The option `--mix`, which chooses runs and may be given many times.

use crate::experiment::Mix;
use anyhow::anyhow;

/// Whether a run's mix is among those that were named; all are if none was.
pub(super) fn is_wanted(named: &[Mix], mix: &Mix) -> bool {
    named.is_empty() || named.contains(mix)
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
