//! One JSON object a line.

use super::super::json::explained;
use super::super::lines::Lines;
use crate::interrupt;
use anyhow::Context;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Hands every line's object to `row`. An empty last line is passed over.
///
/// Errors: those of [`Lines`]; with file, line and column: a line that is no such object or is cut short; what `row` says.
pub fn each<T: DeserializeOwned>(path: &Path, mut row: impl FnMut(T) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let lines = Lines::open(path)?;
    for number in 0..lines.len() {
        interrupt::check()?;
        let line = lines.line(number)?;
        if line.is_empty() && number + 1 == lines.len() {
            break;
        }
        serde_json::from_str(&line)
            .map_err(explained)
            .and_then(&mut row)
            .with_context(|| format!("{}, line {}", path.display(), number + 1))?;
    }
    Ok(())
}
