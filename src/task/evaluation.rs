//! The files that an evaluation saves beside its scores, so that the scores can be computed again without the model:
//! `synthesizer verify` does so.
//!
//! All lie in the run's folder and begin with the split's name:
//! - `test.hypotheses.txt` and `test.references.txt`: one line per row, in the order of the data. Within a line `\n` stands
//!   for a line feed, `\r` for a carriage return and `\\` for a backslash; nothing else is escaped.
//! - `test.predictions.csv`: gold and predicted label of every row of a classification. `number` is the predicted score, or
//!   the logit of class 1 less that of class 0, by which the rows of a `group` compete. ReCoRD has two more columns: the
//!   row's candidate and, in the first row of a group, the group's gold answers as a JSON list.
//! - `test.losses.csv`: summed negative log-likelihood (nats) and number of predicted tokens of every evaluation batch.

use super::judging::Predictions;
use super::tokens::BatchScore;
use super::DevScore;
use crate::data::labelled::{Label, LabelledRow, LabelledRows, RecordAnswers};
use crate::data::rows::sha256_hex;
use crate::excerpt::excerpt;
use crate::files::write_atomically;
use crate::regular;
use anyhow::{bail, Context, Result};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Endings of the files that an evaluation saves.
pub const ENDINGS: [&str; 4] = [".hypotheses.txt", ".references.txt", ".predictions.csv", ".losses.csv"];

/// Other files of a finished run that do not change any more, and whose digests are saved.
const FINAL: [&str; 4] = ["config.toml", "labels.json", "log.csv", "attention.csv"];

/// The key of metrics.json under which [`digests`] stand. It is no column of the CSV.
pub const DIGESTS: &str = "digests";

/// What the model wrote for a split.
pub fn hypotheses_file(folder: &Path, split: &str) -> PathBuf {
    folder.join(format!("{split}.hypotheses.txt"))
}

/// What it was compared with.
pub fn references_file(folder: &Path, split: &str) -> PathBuf {
    folder.join(format!("{split}.references.txt"))
}

/// Gold and predicted labels of a split.
pub fn predictions_file(folder: &Path, split: &str) -> PathBuf {
    folder.join(format!("{split}.predictions.csv"))
}

/// Losses of the evaluation batches of a split.
pub fn losses_file(folder: &Path, split: &str) -> PathBuf {
    folder.join(format!("{split}.losses.csv"))
}

/// The SHA-256 of every file of a finished run that `verify` reads: name → hex digest, sorted by name.
///
/// # Errors
/// The folder or a file in it can't be read.
pub fn digests(folder: &Path) -> Result<Map<String, Value>> {
    let reading = || format!("{}: cannot read this folder", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(reading)? {
        let name = entry.with_context(reading)?.file_name().to_string_lossy().into_owned();
        if FINAL.contains(&&*name) || ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            names.push(name);
        }
    }
    names.sort();
    let digest = |name: String| Ok((name.clone(), sha256_hex(&read(&folder.join(&name))?).into()));
    names.into_iter().map(digest).collect()
}

/// Writes one text per line.
///
/// # Errors
/// The file can't be written.
pub fn write_lines(path: &Path, texts: &[String]) -> Result<()> {
    let lines: String = texts.iter().map(|text| escaped(text) + "\n").collect();
    write_atomically(path, lines.as_bytes())
}

/// Reads what [`write_lines`] wrote.
///
/// # Errors
/// A file that can't be read, is not UTF-8, lacks its last line end, or holds an unknown escape; the line is named.
pub fn read_lines(path: &Path) -> Result<Vec<String>> {
    let text = String::from_utf8(read(path)?).with_context(|| format!("{}: not UTF-8 text", path.display()))?;
    if !text.is_empty() && !text.ends_with('\n') {
        bail!("{}: the last line has no end; was the file cut off?", path.display());
    }
    let line = |(at, line): (usize, &str)| {
        unescaped(line).with_context(|| format!("{}:{}: a backslash that escapes nothing", path.display(), at + 1))
    };
    text.split_terminator('\n').enumerate().map(line).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(line: &str) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(text)
}

const PREDICTIONS: [&str; 4] = ["group", "gold", "predicted", "number"];
const RECORD: [&str; 2] = ["candidate", "answers"];

/// Writes the labels of a split; `classes` names them, and is empty where scores are predicted.
///
/// # Errors
/// The file can't be written.
pub fn write_predictions(path: &Path, classes: &[String], rows: &LabelledRows, predicted: &Predictions) -> Result<()> {
    let name = |class: u32| classes.get(class as usize).cloned().unwrap_or_else(|| class.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(PREDICTIONS.iter().chain(rows.answers.iter().flat_map(|_| &RECORD)))?;
    let mut before = None;
    for (at, row) in rows.rows.iter().enumerate() {
        let gold = match row.label {
            Label::Class(class) => name(class),
            Label::Score(score) => score.to_string(),
        };
        let class = predicted.classes.get(at).map_or(String::new(), |&class| name(class));
        let number = predicted.numbers.get(at).map_or(String::new(), f64::to_string);
        let mut record = vec![row.group.to_string(), gold, class, number];
        if let Some(answers) = &rows.answers {
            record.push(answers.candidates[at].to_string());
            let first = before.replace(row.group) != Some(row.group);
            record.push(match first {
                true => {
                    serde_json::to_string(&answers.gold[row.group as usize].iter().map(|a| &**a).collect::<Vec<_>>())?
                }
                false => String::new(),
            });
        }
        writer.write_record(&record)?;
    }
    write_atomically(path, &writer.into_inner()?)
}

/// Reads what [`write_predictions`] wrote: the rows without their texts, and the predictions.
///
/// # Errors
/// A file that can't be read, a label that is not one of `classes`, or a cell that is no number; the line is named.
pub fn read_predictions(path: &Path, classes: &[String]) -> Result<(LabelledRows, Predictions)> {
    let bytes = read(path)?;
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let header = reader.headers().with_context(|| path.display().to_string())?.clone();
    let is_record = header.iter().eq(PREDICTIONS.iter().chain(&RECORD).copied());
    if !is_record && !header.iter().eq(PREDICTIONS) {
        bail!("{}:1: the columns are not those of predictions", path.display());
    }
    let mut rows = LabelledRows::new(0, Vec::new());
    let mut answers = RecordAnswers::default();
    let mut predicted = Predictions::default();
    for (at, record) in reader.records().enumerate() {
        let place = || format!("{}:{}", path.display(), at + 2);
        let record = record.with_context(place)?;
        let number = |column: usize| -> Result<f64> {
            record[column].parse().with_context(|| format!("{}: {} is not a number", place(), excerpt(&record[column])))
        };
        let class = |column: usize| -> Result<u32> {
            let found = classes.iter().position(|name| *name == record[column]);
            Ok(found.with_context(|| format!("{}: there is no class {}", place(), excerpt(&record[column])))? as u32)
        };
        let label = if classes.is_empty() {
            Label::Score(number(1)? as f32)
        } else {
            predicted.classes.push(class(2)?);
            Label::Class(class(1)?)
        };
        predicted.numbers.push(number(3)?);
        let group =
            record[0].parse().with_context(|| format!("{}: {} is not a group", place(), excerpt(&record[0])))?;
        rows.rows.push(LabelledRow { texts: Vec::new(), label, group });
        if is_record {
            answers.candidates.push(record[4].into());
            if !record[5].is_empty() {
                let gold: Vec<Arc<str>> = serde_json::from_str::<Vec<String>>(&record[5])
                    .with_context(place)?
                    .into_iter()
                    .map(Arc::from)
                    .collect();
                answers.gold.push(gold);
            }
        }
    }
    rows.answers = is_record.then_some(answers);
    Ok((rows, predicted))
}

/// Writes one line per evaluation batch.
///
/// # Errors
/// The file can't be written.
pub fn write_losses(path: &Path, batches: &[BatchScore]) -> Result<()> {
    let mut text = String::from("rows,tokens,nll\n");
    for BatchScore { rows, score } in batches {
        text.push_str(&format!("{rows},{},{}\n", score.tokens, score.nll));
    }
    write_atomically(path, text.as_bytes())
}

/// Reads what [`write_losses`] wrote and adds the batches up, in their order.
///
/// # Errors
/// A file that can't be read, or a cell that is no number; the line is named.
pub fn read_losses(path: &Path) -> Result<DevScore> {
    let text = String::from_utf8(read(path)?).with_context(|| format!("{}: not UTF-8 text", path.display()))?;
    let mut batches = Vec::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        let place = || format!("{}:{}: not the line of a batch: {}", path.display(), at + 1, excerpt(line));
        let cells: Vec<&str> = line.split(',').collect();
        let [rows, tokens, nll] = cells[..] else { bail!(place()) };
        let rows = rows.parse().with_context(place)?;
        let score = DevScore { tokens: tokens.parse().with_context(place)?, nll: nll.parse().with_context(place)? };
        batches.push(BatchScore { rows, score });
    }
    Ok(BatchScore::sum(&batches))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    regular::read(path, regular::TABLE).with_context(|| format!("{}: cannot read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives_its_line() {
        let texts =
            ["", " ", "a\\nb", "a\nb\r\n", "\\", "\\\\n", "tab\there\u{2028}\u{85}\0", "ends\n"].map(String::from);
        let folder = tempfile::tempdir().unwrap();
        let path = hypotheses_file(folder.path(), "test");
        write_lines(&path, &texts).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), texts.len());
        assert_eq!(read_lines(&path).unwrap(), texts);
        for (damaged, place) in [("a\nb\\x\n", ":2:"), ("a\\\n", ":1:"), ("cut", "cut off")] {
            std::fs::write(&path, damaged).unwrap();
            let error = read_lines(&path).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn predictions_survive_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = predictions_file(folder.path(), "test");
        let row = |label, group| LabelledRow { texts: Vec::new(), label, group };
        let classes = ["no, never", "\"yes\""].map(String::from);
        let mut rows =
            LabelledRows::new(0, vec![row(Label::Class(1), 0), row(Label::Class(0), 0), row(Label::Class(0), 1)]);
        let candidates = ["Ann", "a\nb", ""].map(Arc::from).to_vec();
        rows.answers = Some(RecordAnswers { candidates, gold: vec![vec!["Ann".into(), "B, C".into()], Vec::new()] });
        let predicted = Predictions { classes: vec![0, 1, 0], numbers: vec![0.1 + 0.2, -1e-30, f64::INFINITY] };
        write_predictions(&path, &classes, &rows, &predicted).unwrap();
        assert_eq!(read_predictions(&path, &classes).unwrap(), (rows, predicted));

        let scores = LabelledRows::new(0, vec![row(Label::Score(0.1), 0), row(Label::Score(5.0), 1)]);
        let predicted = Predictions { classes: Vec::new(), numbers: vec![f64::from(0.3f32), 2.0] };
        write_predictions(&path, &[], &scores, &predicted).unwrap();
        assert_eq!(read_predictions(&path, &[]).unwrap(), (scores, predicted));
        let error = read_predictions(&path, &classes).unwrap_err().to_string();
        assert!(error.contains(":2: there is no class"), "{error}");
    }

    #[test]
    fn losses_add_up_in_the_order_of_the_batches() {
        let folder = tempfile::tempdir().unwrap();
        let path = losses_file(folder.path(), "test");
        let batch = |rows, nll, tokens| BatchScore { rows, score: DevScore { nll, tokens } };
        let batches = [batch(3, 1e16, 5), batch(1, 1.0, 2), batch(2, 1.0, 1)];
        write_losses(&path, &batches).unwrap();
        let sum = read_losses(&path).unwrap();
        assert_eq!((sum.nll, sum.tokens), ((1e16 + 1.0) + 1.0, 8));
    }
}
