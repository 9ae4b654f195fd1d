//! AG News in its official files: `FOLDER/train.csv` and `test.csv`, without a header: class (1 to 4), title, description.
//!
//! Every cell is quoted, a quote within is doubled, and a backslash is text (it stands where a line break was). Title and
//! description are one text with a blank between them.

use super::{classes, hold_out, single_row, size_note, whole_row, Label, Splits, HELD_OUT};
use super::{LabelledCorpus, LabelledFile, LabelledRows};
use crate::excerpt::excerpt;
use crate::input;
use crate::interrupt;
use crate::metric::classification::MetricKind::Accuracy;
use anyhow::{bail, Context};
use std::path::Path;

/// Class names, as classes.txt gives them.
pub const CLASSES: [&str; 4] = ["World", "Sports", "Business", "Sci/Tech"];

/// Reads train.csv and test.csv in `folder`.
///
/// Errors: a missing file, those of [`read_file`], an empty split.
pub fn read(folder: &Path) -> anyhow::Result<LabelledCorpus> {
    let mut notes = Vec::new();
    let mut open = |file: &str, full: usize| -> anyhow::Result<LabelledRows> {
        let path = folder.join(file);
        let LabelledFile { rows, notes: said } =
            read_file(&path).context("AG News is read from its official files in data.folder")?;
        notes.extend(said);
        notes.extend(size_note(&path, "rows", rows.rows.len(), full));
        Ok(rows)
    };
    let (train, test) = (open("train.csv", 120_000)?, open("test.csv", 7600)?);
    let (train, dev) = hold_out(train, whole_row);
    notes.push(HELD_OUT.to_string());
    let (name, target, metrics) = ("AG News".to_string(), classes(&CLASSES), vec![Accuracy]);
    Splits { name, target, metrics, train, dev, tests: vec![test], notes }.join()
}

/// Reads one file.
///
/// # Errors
/// Those of [`input::read`]; a file without rows; with file and line: a quote that is never closed (a file cut short), a row
/// of another width, a class that is not 1 to 4, invalid UTF-8.
pub fn read_file(path: &Path) -> anyhow::Result<LabelledFile> {
    let (text, marks) = input::read_text(path)?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut rows = Vec::new();
    let mut record = csv::ByteRecord::new();
    let mut start = 1;
    while reader.read_byte_record(&mut record).with_context(|| format!("can't read {}", path.display()))? {
        interrupt::check()?;
        start = record.position().map_or(start, |place| place.line());
        let place = || format!("{}, line {start}", path.display());
        if record.len() != 3 {
            let cells = record.len();
            bail!("{}: {cells} cells, where AG News has 3 (class, title, description)", place());
        }
        let cell = |number: usize| {
            let text = std::str::from_utf8(&record[number]);
            text.with_context(|| format!("{}, cell {}: invalid UTF-8", place(), number + 1))
        };
        let class = cell(0)?;
        let known = class.parse().ok().filter(|class| (1..=CLASSES.len() as u32).contains(class));
        let class =
            known.with_context(|| format!("{}, cell 1: {} is no class from 1 to 4", place(), excerpt(class)))? - 1;
        let text = format!("{} {}", cell(1)?.trim_matches(' '), cell(2)?.trim_matches(' '));
        rows.push(single_row(vec![super::trimmed(&text)], Label::Class(class), rows.len()));
    }
    if memchr::memchr_iter(b'"', text.as_bytes()).count() % 2 == 1 {
        bail!(
            "{}: a quote is opened but never closed in the row at line {start}; is the file cut short?",
            path.display()
        );
    }
    let notes = input::marks_note(path, marks).into_iter().collect();
    LabelledFile { rows: LabelledRows::new(1, rows), notes }.not_empty(path)
}
