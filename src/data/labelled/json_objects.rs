//! One JSON object a line.

use super::super::json::explained;
use super::super::lines::Lines;
use crate::interrupt;
use anyhow::{bail, Context};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Hands every line's object to `row`, and gives a note on byte-order marks. An empty last line is passed over.
///
/// # Errors
/// Those of [`Lines`]; a file without objects; with file, line and column: a line that is not such an object or is cut short;
/// what `row` says.
pub fn each<T: DeserializeOwned>(
    path: &Path,
    mut row: impl FnMut(T) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    let lines = Lines::open(path)?;
    if lines.is_empty() || (lines.len() == 1 && lines.line(0)?.is_empty()) {
        bail!("{} has no line to read; is it empty or cut short?", path.display());
    }
    for number in 0..lines.len() {
        interrupt::check()?;
        let line = lines.line(number)?;
        if line.is_empty() && number + 1 == lines.len() {
            break;
        }
        serde_json::from_str(&line)
            .map_err(|error| explained(error, &line))
            .and_then(&mut row)
            .with_context(|| format!("{}, line {}", path.display(), number + 1))?;
    }
    Ok(lines.note().into_iter().collect())
}
