//! Labelled text, for classification: a row is one text or two, and a class or a score.
//!
//! The official dev file of a benchmark is what papers report, so it is a test set here ([`LabelledCorpus::tests`]); the
//! dev set that chooses among checkpoints is held out of the training file, by the hash of the content ([`hold_out`]).

use super::rows::{percentile, Hasher};
use super::Examples;
use crate::metric::classification::MetricKind;
use anyhow::{bail, Context};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// What a row is to be told as.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Label {
    /// Index into the classes of [`Target::Classes`].
    Class(u32),
    /// A number (STS-B: 0 to 5).
    Score(f32),
}

/// One example.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRow {
    /// One text, or two that are judged together. Long passages are shared by their rows.
    pub texts: Vec<Arc<str>>,
    /// Class or score.
    pub label: Label,
    /// Rows with the same number are judged together (the answers of a MultiRC question, the candidates of a ReCoRD query,
    /// the choices of a COPA question); elsewhere the row's own number. Groups are numbered from 0 in the order of rows,
    /// and their rows follow one another.
    pub group: u32,
}

/// What ReCoRD's token F1 and exact match compare.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordAnswers {
    /// The candidate that was put into the query, one a row.
    pub candidates: Vec<Arc<str>>,
    /// The gold answers of a group, by its number.
    pub gold: Vec<Vec<Arc<str>>>,
}

/// A split.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LabelledRows {
    /// Empty, or what tells this split from others of its kind (`mismatched`).
    pub name: String,
    /// In the order of the file.
    pub rows: Vec<LabelledRow>,
    /// Texts in a row: 1 or 2.
    pub columns: usize,
    /// ReCoRD only.
    pub answers: Option<RecordAnswers>,
}

impl LabelledRows {
    /// Rows without a name. Every row is a group of its own where `group` says so.
    pub fn new(columns: usize, rows: Vec<LabelledRow>) -> LabelledRows {
        LabelledRows { name: String::new(), rows, columns, answers: None }
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.rows.last().map_or(0, |row| row.group as usize + 1)
    }
}

impl Examples for LabelledRows {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(&self.rows[row].texts[column]))
    }

    fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hasher.number(self.rows.len() as u64);
        hasher.number(self.columns as u64);
        for row in &self.rows {
            row.texts.iter().for_each(|text| hasher.text(text));
            match row.label {
                Label::Class(class) => hasher.number(class.into()),
                Label::Score(score) => hasher.number(score.to_bits().into()),
            }
            hasher.number(row.group.into());
        }
        if let Some(answers) = &self.answers {
            answers.candidates.iter().for_each(|text| hasher.text(text));
            for gold in &answers.gold {
                hasher.number(gold.len() as u64);
                gold.iter().for_each(|text| hasher.text(text));
            }
        }
        Ok(())
    }
}

/// What is predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Class names in a fixed order: [`Label::Class`] is an index into them.
    Classes(Vec<String>),
    /// A number: [`Label::Score`].
    Score,
}

/// A labelled corpus: its splits, and what they are measured by.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledCorpus {
    /// Such as `GLUE CoLA`.
    pub name: String,
    /// What is predicted.
    pub target: Target,
    /// Training rows.
    pub train: LabelledRows,
    /// Rows that choose among checkpoints.
    pub dev: LabelledRows,
    /// Rows that are reported: the main test set first; others have a name.
    pub tests: Vec<LabelledRows>,
    /// The task's own measures, in the order of the paper's tables.
    pub metrics: Vec<MetricKind>,
    /// SHA-256 (hex) over what the splits hold.
    pub hash: String,
    /// What a reader should know: rows dropped and why, the split rule.
    pub notes: Vec<String>,
}

/// A corpus before it is hashed.
pub(crate) struct Parts {
    pub name: String,
    pub target: Target,
    pub train: LabelledRows,
    pub dev: LabelledRows,
    pub tests: Vec<LabelledRows>,
    pub metrics: Vec<MetricKind>,
    pub notes: Vec<String>,
}

impl Parts {
    /// Error: a split without rows.
    pub fn join(self) -> anyhow::Result<LabelledCorpus> {
        let Parts { name, target, train, dev, tests, metrics, notes } = self;
        let mut hasher = Hasher::default();
        let splits = [("training", &train), ("dev", &dev)].into_iter().chain(tests.iter().map(|test| ("test", test)));
        for (split, rows) in splits {
            if rows.is_empty() {
                let why = if split == "dev" { "; 5 of 100 training rows are held out for it" } else { "" };
                bail!("the {split} set of {name} is empty: there is not one row to read{why}");
            }
            rows.hash_into(&mut hasher).with_context(|| format!("while reading the {split} set of {name}"))?;
        }
        Ok(LabelledCorpus { name, target, train, dev, tests, metrics, hash: hasher.finish(), notes })
    }
}

/// The rule of [`hold_out`], for notes.
pub(crate) const HELD_OUT: &str =
    "split: dev is held out of the training file by the SHA-256 of a row's texts (first 8 bytes, \
     big-endian, mod 100): 0-4; the official dev file is the test set";

/// Parts training rows into train and dev: a unit of rows whose [`percentile`] is 0 to 4 goes to dev.
///
/// `unit` gives the text that a row belongs to (its passage where several rows share one); rows of a group must have the
/// same unit. Groups are numbered anew in both parts.
pub(crate) fn hold_out(rows: LabelledRows, unit: impl Fn(&LabelledRow) -> String) -> (LabelledRows, LabelledRows) {
    let LabelledRows { name, rows, columns, answers } = rows;
    let empty = || LabelledRows {
        name: name.clone(),
        rows: Vec::new(),
        columns,
        answers: answers.is_some().then(RecordAnswers::default),
    };
    let mut parts = [empty(), empty()];
    let mut numbers: HashMap<u32, (usize, u32)> = HashMap::new();
    for (at, mut row) in rows.into_iter().enumerate() {
        let old = row.group;
        let (part, group) = match numbers.get(&old) {
            Some(&known) => known,
            None => {
                let part = usize::from(percentile(&unit(&row)) < 5);
                let group = parts[part].groups() as u32;
                numbers.insert(old, (part, group));
                if let (Some(to), Some(from)) = (&mut parts[part].answers, &answers) {
                    to.gold.push(from.gold[old as usize].clone());
                }
                (part, group)
            }
        };
        row.group = group;
        if let (Some(to), Some(from)) = (&mut parts[part].answers, &answers) {
            to.candidates.push(from.candidates[at].clone());
        }
        parts[part].rows.push(row);
    }
    let [train, dev] = parts;
    (train, dev)
}

/// All texts of a row with a tab between them: the usual unit of [`hold_out`].
pub(crate) fn whole_row(row: &LabelledRow) -> String {
    row.texts.join("\t")
}
