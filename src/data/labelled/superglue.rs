//! The eight tasks of SuperGLUE, in their official files: `FOLDER/<set>/train.jsonl` and `val.jsonl`, JSON Lines.
//!
//! How each becomes texts for an encoder, in one column or two:
//!
//! | set | texts | rows |
//! | --- | --- | --- |
//! | BoolQ | question; passage | one a question |
//! | CB, RTE | premise; hypothesis | one a pair |
//! | COPA | premise and `What was the cause?` or `What happened as a result?`; choice | two a question, judged together: the likelier is chosen |
//! | MultiRC | passage; question and answer | one an answer; those of a question are judged together |
//! | ReCoRD | query with an entity put in for `@placeholder`; passage | one a distinct entity; those of a query are judged together: the likeliest is chosen |
//! | WiC | both sentences, `* around *` the word | one a pair |
//! | WSC | text, `# around #` the noun phrase and `* around *` the pronoun | one a text |
//!
//! Rows of one passage are never parted between train and dev in MultiRC and ReCoRD. In the other sets each row is held out
//! by itself, also in BoolQ, where questions may share a passage.

use super::json_objects::each;
use super::spans::{bytes_of, cut_note, cuts_a_word, marked, word_span};
use super::{classes, hold_out, passages, single_row, size_note, trimmed, whole_row, Label, Splits, HELD_OUT};
use super::{LabelledCorpus, LabelledFile, LabelledRow, LabelledRows, Target, UnlabelledRow, Wanted};
use crate::excerpt::excerpt;
use crate::metric::classification::MetricKind::{self, *};
use anyhow::{bail, Context};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// What a full file is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Rows,
    Groups,
}

/// One of the eight tasks.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// Official name, also that of its folder.
    pub name: &'static str,
    read: fn(&Path, Wanted) -> anyhow::Result<LabelledFile>,
    classes: &'static [&'static str],
    /// Index of the text that a unit of [`hold_out`] is; all texts of the row otherwise.
    passage: Option<usize>,
    /// Sizes of the whole train and val files, and what they count.
    full: ([usize; 2], Unit, &'static str),
    pub(super) metrics: &'static [MetricKind],
}

impl Set {
    /// What is predicted.
    pub fn target(&self) -> Target {
        classes(self.classes)
    }
}

const ENTAILMENT: &[&str] = &["entailment", "not_entailment"];
const COMMITMENT: &[&str] = &["entailment", "contradiction", "neutral"];

/// All of them, in the order of the paper's Table 5.
pub const SETS: [Set; 8] = [
    Set {
        name: "BoolQ",
        read: boolq,
        classes: &["no", "yes"],
        passage: None,
        full: ([9427, 3270], Unit::Rows, "rows"),
        metrics: &[Accuracy],
    },
    Set {
        name: "CB",
        read: |path, wanted| entailment(path, wanted, COMMITMENT),
        classes: COMMITMENT,
        passage: None,
        full: ([250, 56], Unit::Rows, "rows"),
        metrics: &[MacroF1, Accuracy],
    },
    Set {
        name: "COPA",
        read: copa,
        classes: &["wrong", "right"],
        passage: None,
        full: ([400, 100], Unit::Groups, "questions"),
        metrics: &[GroupAccuracy],
    },
    Set {
        name: "MultiRC",
        read: passages::multirc,
        classes: &["wrong", "right"],
        passage: Some(0),
        full: ([27_243, 4848], Unit::Rows, "answers"),
        metrics: &[GroupF1, GroupExact],
    },
    Set {
        name: "ReCoRD",
        read: passages::record,
        classes: &["wrong", "right"],
        passage: Some(1),
        full: ([100_730, 10_000], Unit::Groups, "queries"),
        metrics: &[RecordF1, RecordExact],
    },
    Set {
        name: "RTE",
        read: |path, wanted| entailment(path, wanted, ENTAILMENT),
        classes: ENTAILMENT,
        passage: None,
        full: ([2490, 277], Unit::Rows, "rows"),
        metrics: &[Accuracy],
    },
    Set {
        name: "WiC",
        read: wic,
        classes: &["different", "same"],
        passage: None,
        full: ([5428, 638], Unit::Rows, "rows"),
        metrics: &[Accuracy],
    },
    Set {
        name: "WSC",
        read: wsc,
        classes: &["not_coreferent", "coreferent"],
        passage: None,
        full: ([554, 104], Unit::Rows, "rows"),
        metrics: &[Accuracy],
    },
];

/// The set of that official name. Error: none, with those that there are.
pub fn set(name: &str) -> anyhow::Result<&'static Set> {
    let known = || SETS.map(|set| set.name).join(", ");
    SETS.iter()
        .find(|set| set.name == name)
        .with_context(|| format!("SuperGLUE has no set {name:?}; its sets: {}", known()))
}

/// Reads one set; `folder` holds a folder for each.
///
/// Errors: an unknown set, a missing file, those of [`read_file`], an empty split.
pub fn read(folder: &Path, name: &str) -> anyhow::Result<LabelledCorpus> {
    let set = set(name)?;
    let mut notes = Vec::new();
    let mut open = |file: &str, full: usize| -> anyhow::Result<LabelledRows> {
        let path = folder.join(name).join(file);
        let LabelledFile { rows, notes: said } = read_file(set, &path)
            .with_context(|| format!("SuperGLUE's {name} is read from its official files in data.folder"))?;
        let (_, unit, what) = set.full;
        let count = if unit == Unit::Rows { rows.rows.len() } else { rows.groups() };
        notes.extend(said);
        notes.extend(size_note(&path, what, count, full));
        Ok(rows)
    };
    let ([train, val], ..) = set.full;
    let (train, test) = (open("train.jsonl", train)?, open("val.jsonl", val)?);
    let (train, dev) = hold_out(train, |row| match set.passage {
        Some(column) => row.texts[column].to_string(),
        None => whole_row(row),
    });
    let whole = if set.passage.is_some() { "; here of its passage, so that no passage is in both" } else { "" };
    notes.push(format!("{HELD_OUT}{whole}; the official val file is the test set"));
    let (target, metrics, tests) = (set.target(), set.metrics.to_vec(), vec![test]);
    Splits { name: format!("SuperGLUE {name}"), target, metrics, train, dev, tests, notes }.join()
}

/// Reads one file of a set, whatever its name.
///
/// Errors, each with file and line: a line that is no JSON object or is cut short, a key that is missing or of another
/// type (a test file has no labels), a label that the set hasn't, an offset beyond the text.
pub fn read_file(set: &Set, path: &Path) -> anyhow::Result<LabelledFile> {
    (set.read)(path, Wanted::Labels)
}

/// Reads the texts of an official test file, whose labels the benchmark's server keeps: for who uses this crate as a library,
/// to `generate` what is sent there. No command reads them.
///
/// Errors: those of [`read_file`], but for labels.
pub fn read_texts(set: &Set, path: &Path) -> anyhow::Result<Vec<UnlabelledRow>> {
    Ok((set.read)(path, Wanted::Texts)?.without_labels())
}

/// Reads a file of which every line becomes one row.
fn rows<T: serde::de::DeserializeOwned>(
    path: &Path,
    columns: usize,
    mut row: impl FnMut(T) -> anyhow::Result<(Vec<Arc<str>>, u32)>,
) -> anyhow::Result<LabelledFile> {
    let mut rows = Vec::new();
    let notes = each(path, |line: T| {
        let (texts, class) = row(line)?;
        rows.push(single_row(texts, Label::Class(class), rows.len()));
        Ok(())
    })?;
    LabelledFile { rows: LabelledRows::new(columns, rows), notes }.not_empty(path)
}

/// A label where it is wanted, else some value. Error: it is not there.
pub(super) fn given<T: Default>(value: Option<T>, key: &str, wanted: Wanted) -> anyhow::Result<T> {
    match (value, wanted) {
        (Some(value), Wanted::Labels) => Ok(value),
        (None, Wanted::Labels) => bail!("key {key:?} is missing (a test file without labels can't be scored here)"),
        (_, Wanted::Texts) => Ok(T::default()),
    }
}

/// Class 0 or 1. Errors: another number, or none where one is wanted.
pub(super) fn binary(label: Option<u32>, wanted: Wanted) -> anyhow::Result<u32> {
    let label = given(label, "label", wanted)?;
    if label > 1 {
        bail!("key \"label\": {label} is neither 0 nor 1");
    }
    Ok(label)
}

#[derive(Deserialize)]
struct BoolQ {
    question: String,
    passage: String,
    label: Option<bool>,
}

fn boolq(path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    rows(path, 2, |line: BoolQ| {
        let label = given(line.label, "label", wanted)?;
        Ok((vec![trimmed(&line.question), trimmed(&line.passage)], label.into()))
    })
}

#[derive(Deserialize)]
struct Entailment {
    premise: String,
    hypothesis: String,
    label: Option<String>,
}

fn entailment(path: &Path, wanted: Wanted, classes: &[&str]) -> anyhow::Result<LabelledFile> {
    rows(path, 2, |line: Entailment| {
        let label = given(line.label, "label", wanted)?;
        let class = match wanted {
            Wanted::Texts => 0,
            Wanted::Labels => classes
                .iter()
                .position(|class| *class == label)
                .with_context(|| format!("key \"label\": {} is none of: {}", excerpt(&label), classes.join(", ")))?,
        };
        Ok((vec![trimmed(&line.premise), trimmed(&line.hypothesis)], class as u32))
    })
}

#[derive(Deserialize)]
struct Copa {
    premise: String,
    choice1: String,
    choice2: String,
    question: String,
    label: Option<u32>,
}

fn copa(path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    let mut rows = Vec::new();
    let mut group = 0;
    let notes = each(path, |line: Copa| {
        let question = match line.question.as_str() {
            "cause" => "What was the cause?",
            "effect" => "What happened as a result?",
            other => bail!("key \"question\": {} is neither \"cause\" nor \"effect\"", excerpt(other)),
        };
        let right = binary(line.label, wanted)?;
        let premise: Arc<str> = format!("{} {question}", line.premise.trim_matches(' ')).into();
        for (number, choice) in [line.choice1, line.choice2].iter().enumerate() {
            let label = Label::Class(u32::from(number as u32 == right));
            rows.push(LabelledRow { texts: vec![premise.clone(), trimmed(choice)], label, group });
        }
        group += 1;
        Ok(())
    })?;
    LabelledFile { rows: LabelledRows::new(2, rows), notes }.not_empty(path)
}

#[derive(Deserialize)]
struct Wic {
    sentence1: String,
    sentence2: String,
    start1: usize,
    end1: usize,
    start2: usize,
    end2: usize,
    label: Option<bool>,
}

fn wic(path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    let (mut cut, mut count) = (0, 0);
    let mut file = rows(path, 2, |line: Wic| {
        let mut mark = |number: u8, sentence: &str, start: usize, end: usize| -> anyhow::Result<Arc<str>> {
            let word = bytes_of(sentence, start, end).filter(|word| !word.is_empty()).with_context(|| {
                format!(
                    "keys \"start{number}\", \"end{number}\": there is no word from {start} to {end} in a sentence of {} characters",
                    sentence.chars().count()
                )
            })?;
            (cut, count) = (cut + usize::from(cuts_a_word(sentence, &word)), count + 1);
            Ok(trimmed(&marked(sentence, &[(word, '*')])))
        };
        let first = mark(1, &line.sentence1, line.start1, line.end1)?;
        let second = mark(2, &line.sentence2, line.start2, line.end2)?;
        Ok((vec![first, second], given(line.label, "label", wanted)?.into()))
    })?;
    file.notes.extend(cut_note(path, "marked words", cut, count));
    Ok(file)
}

#[derive(Deserialize)]
struct Wsc {
    text: String,
    target: WscTarget,
    label: Option<bool>,
}

#[derive(Deserialize)]
struct WscTarget {
    span1_index: usize,
    span1_text: String,
    span2_index: usize,
    span2_text: String,
}

fn wsc(path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    let mut elsewhere = 0;
    let mut file = rows(path, 1, |line: Wsc| {
        let target = line.target;
        let place = |number: u8, index: usize, span: &str| {
            word_span(&line.text, index, span).with_context(|| format!("key \"span{number}_index\""))
        };
        let (phrase, phrase_there) = place(1, target.span1_index, &target.span1_text)?;
        let (pronoun, pronoun_there) = place(2, target.span2_index, &target.span2_text)?;
        elsewhere += usize::from(!phrase_there) + usize::from(!pronoun_there);
        let text = trimmed(&marked(&line.text, &[(phrase, '#'), (pronoun, '*')]));
        Ok((vec![text], given(line.label, "label", wanted)?.into()))
    })?;
    if elsewhere > 0 {
        file.notes.push(format!("{elsewhere} spans of {} are not where their index says", path.display()));
    }
    Ok(file)
}
