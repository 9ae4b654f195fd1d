//! Files beside a training run that are written again from memory when they are damaged: the log, attention histograms.

use crate::files::write_atomically;
use crate::regular;
use anyhow::Result;
use std::io::ErrorKind;
use std::path::Path;

/// What is wrong with a file that should begin with `text`, such as `line 12 was changed`; `None` if it does.
pub fn damage(path: &Path, text: &str) -> Option<String> {
    let found = match regular::read(path, regular::TABLE) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(format!("{}: it is missing", path.display())),
        Err(error) => return Some(format!("{}: it cannot be read: {error}", path.display())),
    };
    let text = text.as_bytes();
    if found.starts_with(text) {
        return None;
    }
    let same = found.iter().zip(text).take_while(|(found, wanted)| found == wanted).count();
    let line = text[..same].iter().filter(|byte| **byte == b'\n').count() + 1;
    let what = if same == found.len() { "is cut off or missing" } else { "was changed" };
    Some(format!("{}: line {line} {what}", path.display()))
}

/// Writes the file again unless it holds `text` and nothing else; what was wrong.
///
/// # Errors
/// The file cannot be written.
pub fn restore(path: &Path, text: &str) -> Result<Option<String>> {
    let longer = || match std::fs::metadata(path) {
        Ok(found) if found.len() > text.len() as u64 => Some(format!("{}: it has lines too many", path.display())),
        _ => None,
    };
    let damage = damage(path, text).or_else(longer);
    if damage.is_some() {
        write_atomically(path, text.as_bytes())?;
    }
    Ok(damage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_named_by_line_and_restored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let text = "step,loss\n1,2.5\n2,2.25\n";
        for (found, what) in [
            (None, "it is missing"),
            (Some(""), "line 1 is cut off or missing"),
            (Some("step,loss\n1,2.5\n"), "line 3 is cut off or missing"),
            (Some("step,loss\n1,2.5\n2,2"), "line 3 is cut off or missing"),
            (Some("step,loss\n1,3.5\n2,2.25\n"), "line 2 was changed"),
            (Some("step,loss\n2,2.25\n"), "line 2 was changed"),
            (Some("step,loss\n1,2.5\n2,2.25\n3"), "it has lines too many"),
        ] {
            let _ = std::fs::remove_file(&path);
            if let Some(found) = found {
                std::fs::write(&path, found).unwrap();
            }
            assert_eq!(restore(&path, text).unwrap(), Some(format!("{}: {what}", path.display())));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(restore(&path, text).unwrap(), None);
        }
        std::fs::write(&path, [text, "3,2"].concat()).unwrap();
        assert_eq!(damage(&path, text), None, "longer is fine where later lines are dropped");
    }
}
