//! The nine tasks of GLUE, in their official files: `FOLDER/<set>/train.tsv` and `dev.tsv` (MNLI: `dev_matched.tsv` and
//! `dev_mismatched.tsv`).
//!
//! Cells are parted by tabs and never quoted. Columns are found by their names in the header, so MNLI's files of 12 and 16
//! columns read alike; CoLA has no header. Blanks at the ends of a text are dropped, all else stays. QQP's rows with missing
//! columns or an empty cell are skipped and counted; in the other sets a row of the wrong width is an error.

use super::super::lines::Lines;
use super::{classes, hold_out, single_row, size_note, trimmed, whole_row, Label, Splits, Target, HELD_OUT};
use super::{LabelledCorpus, LabelledFile, LabelledRow, LabelledRows, UnlabelledRow, Wanted};
use crate::excerpt::{excerpt, excerpts};
use crate::interrupt;
use crate::metric::classification::MetricKind::{self, Accuracy, Matthews, Pearson, Spearman, F1};
use anyhow::{bail, Context};
use std::path::{Path, PathBuf};

/// How labels are spelled, and what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Labels {
    /// Spelling and name of each class.
    Classes(&'static [(&'static str, &'static str)]),
    /// A number from 0 to 5.
    Score,
}

const ENTAILMENT: Labels = Labels::Classes(&[("entailment", "entailment"), ("not_entailment", "not_entailment")]);

/// One of the nine tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    /// Official name, also that of its folder.
    pub name: &'static str,
    /// Names of the text columns.
    texts: &'static [&'static str],
    /// Name of the label column.
    label: &'static str,
    labels: Labels,
    /// The columns of a file without a header.
    headless: Option<&'static [&'static str]>,
    /// Whether rows with missing or empty cells are left out.
    skips: bool,
    /// Name of the test set, file, and rows of the whole file.
    dev: &'static [(&'static str, &'static str, usize)],
    /// Rows of the whole training file.
    train: usize,
    pub(super) metrics: &'static [MetricKind],
}

impl Set {
    /// What is predicted.
    pub fn target(&self) -> Target {
        match self.labels {
            Labels::Score => Target::Score,
            Labels::Classes(known) => classes(&known.iter().map(|(_, name)| *name).collect::<Vec<_>>()),
        }
    }
}

const SENTENCES: &[&str] = &["sentence1", "sentence2"];
const PLAIN: Set = Set {
    name: "",
    texts: SENTENCES,
    label: "label",
    labels: ENTAILMENT,
    headless: None,
    skips: false,
    dev: &[],
    train: 0,
    metrics: &[Accuracy],
};

/// All of them, in the order of the paper's Table 4, and WNLI.
pub const SETS: [Set; 9] = [
    Set {
        name: "CoLA",
        texts: &["sentence"],
        labels: Labels::Classes(&[("0", "unacceptable"), ("1", "acceptable")]),
        headless: Some(&["source", "label", "mark", "sentence"]),
        dev: &[("", "dev.tsv", 1043)],
        train: 8551,
        metrics: &[Matthews],
        ..PLAIN
    },
    Set {
        name: "SST-2",
        texts: &["sentence"],
        labels: Labels::Classes(&[("0", "negative"), ("1", "positive")]),
        dev: &[("", "dev.tsv", 872)],
        train: 67_349,
        ..PLAIN
    },
    Set {
        name: "MRPC",
        texts: &["#1 String", "#2 String"],
        label: "Quality",
        labels: Labels::Classes(&[("0", "not_equivalent"), ("1", "equivalent")]),
        dev: &[("", "dev.tsv", 408)],
        train: 3668,
        metrics: &[F1, Accuracy],
        ..PLAIN
    },
    Set {
        name: "STS-B",
        label: "score",
        labels: Labels::Score,
        dev: &[("", "dev.tsv", 1500)],
        train: 5749,
        metrics: &[Pearson, Spearman],
        ..PLAIN
    },
    Set {
        name: "QQP",
        texts: &["question1", "question2"],
        label: "is_duplicate",
        labels: Labels::Classes(&[("0", "not_duplicate"), ("1", "duplicate")]),
        skips: true,
        dev: &[("", "dev.tsv", 40_430)],
        train: 363_846,
        metrics: &[F1, Accuracy],
        ..PLAIN
    },
    Set {
        name: "MNLI",
        label: "gold_label",
        labels: Labels::Classes(&[
            ("entailment", "entailment"),
            ("neutral", "neutral"),
            ("contradiction", "contradiction"),
        ]),
        dev: &[("", "dev_matched.tsv", 9815), ("mismatched", "dev_mismatched.tsv", 9832)],
        train: 392_702,
        ..PLAIN
    },
    Set { name: "QNLI", texts: &["question", "sentence"], dev: &[("", "dev.tsv", 5463)], train: 104_743, ..PLAIN },
    Set { name: "RTE", dev: &[("", "dev.tsv", 277)], train: 2490, ..PLAIN },
    Set {
        name: "WNLI",
        labels: Labels::Classes(&[("0", "not_entailment"), ("1", "entailment")]),
        dev: &[("", "dev.tsv", 71)],
        train: 635,
        ..PLAIN
    },
];

/// The set of that official name. Error: none, with those that there are.
pub fn set(name: &str) -> anyhow::Result<&'static Set> {
    let known = || SETS.map(|set| set.name).join(", ");
    SETS.iter().find(|set| set.name == name).with_context(|| format!("GLUE has no set {name:?}; its sets: {}", known()))
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
            .with_context(|| format!("GLUE's {name} is read from its official files in data.folder"))?;
        notes.extend(said);
        notes.extend(size_note(&path, "rows", rows.rows.len(), full));
        Ok(rows)
    };
    let train = open("train.tsv", set.train)?;
    let mut tests = Vec::new();
    for (part, file, full) in set.dev {
        tests.push(LabelledRows { name: part.to_string(), ..open(file, *full)? });
    }
    let (train, dev) = hold_out(train, whole_row);
    notes.push(format!("{HELD_OUT}; the official dev file is the test set"));
    Splits {
        name: format!("GLUE {name}"),
        target: set.target(),
        metrics: set.metrics.to_vec(),
        train,
        dev,
        tests,
        notes,
    }
    .join()
}

/// Reads one file of a set, whatever its name.
///
/// Errors, each with file and line: a column that the header lacks (a test file has no labels), a row of the wrong width,
/// a label that the set hasn't, invalid UTF-8.
pub fn read_file(set: &Set, path: &Path) -> anyhow::Result<LabelledFile> {
    read_rows(set, path, Wanted::Labels)
}

/// Reads the texts of an official test file, whose labels the benchmark's server keeps: for who uses this crate as a library,
/// to `generate` what is sent there. No command reads them. CoLA's test file has a header, unlike its other files.
///
/// Errors: those of [`read_file`], but for labels.
pub fn read_texts(set: &Set, path: &Path) -> anyhow::Result<Vec<UnlabelledRow>> {
    Ok(read_rows(set, path, Wanted::Texts)?.without_labels())
}

fn read_rows(set: &Set, path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    let lines = Lines::open(path)?;
    let headless = set.headless.filter(|_| wanted == Wanted::Labels);
    let mut table = Table { set, path: path.to_path_buf(), width: 0, texts: Vec::new(), label: None };
    match headless {
        Some(columns) => table.find(columns, wanted)?,
        None if lines.is_empty() => bail!("{} is empty; its first line must name the columns", path.display()),
        None => table.find(&lines.line(0)?.split('\t').collect::<Vec<_>>(), wanted)?,
    }
    let first = usize::from(headless.is_none());
    let (mut rows, mut skipped, mut empty) = (Vec::with_capacity(lines.len()), 0, 0);
    for number in first..lines.len() {
        interrupt::check()?;
        let line = lines.line(number)?;
        if line.is_empty() && number + 1 == lines.len() {
            break;
        }
        match table
            .row(&line, number, rows.len())
            .with_context(|| format!("{}, line {}", path.display(), number + 1))?
        {
            Some(row) => {
                empty += usize::from(row.texts.iter().any(|text| text.is_empty()));
                rows.push(row);
            }
            None => skipped += 1,
        }
    }
    let mut notes: Vec<String> = lines.note().into_iter().collect();
    if skipped > 0 {
        notes.push(format!("{skipped} rows of {} skipped: they lack columns or have an empty one", path.display()));
    }
    if empty > 0 {
        notes.push(format!("{empty} rows of {} have an empty text", path.display()));
    }
    if rows.is_empty() && headless.is_none() {
        bail!("{}: the first line names the columns, but no row to read follows", path.display());
    }
    LabelledFile { rows: LabelledRows { skipped, ..LabelledRows::new(set.texts.len(), rows) }, notes }.not_empty(path)
}

/// Where the cells of a file are.
struct Table<'a> {
    set: &'a Set,
    path: PathBuf,
    width: usize,
    texts: Vec<usize>,
    /// Nothing where labels are not wanted.
    label: Option<usize>,
}

impl Table<'_> {
    fn find(&mut self, columns: &[&str], wanted: Wanted) -> anyhow::Result<()> {
        let place = |wanted: &str| columns.iter().position(|column| *column == wanted);
        let missing = |wanted: &str| {
            let hint = if wanted == self.set.label { " (a test file without labels can't be scored here)" } else { "" };
            format!(
                "{}, line 1: {} needs a column {wanted:?}{hint}; the columns are: {}",
                self.path.display(),
                self.set.name,
                excerpts(columns)
            )
        };
        let texts: Vec<usize> = self
            .set
            .texts
            .iter()
            .map(|text| place(text).with_context(|| missing(text)))
            .collect::<anyhow::Result<_>>()?;
        let label = match wanted {
            Wanted::Labels => Some(place(self.set.label).with_context(|| missing(self.set.label))?),
            Wanted::Texts => None,
        };
        (self.width, self.texts, self.label) = (columns.len(), texts, label);
        Ok(())
    }

    /// Line `number` of the file (from 0) as row `place`; nothing for a row that is to be skipped.
    fn row(&self, line: &str, number: usize, place: usize) -> anyhow::Result<Option<LabelledRow>> {
        let cells: Vec<&str> = line.split('\t').collect();
        if self.set.skips {
            let short = cells.len() < self.width;
            if short || cells.iter().any(|cell| cell.trim().is_empty()) {
                return Ok(None);
            }
        }
        if cells.len() != self.width {
            let needed = self.width;
            // Where no header is looked for, it is the header of a test file that shows first.
            let hint = if number == 0 { " (a test file without labels can't be scored here)" } else { "" };
            bail!("{} columns, where {} has {needed}{hint}", cells.len(), self.set.name);
        }
        let label = match self.label {
            Some(column) => self.set.label(cells[column].trim())?,
            None => Label::Class(0),
        };
        let texts = self.texts.iter().map(|&column| trimmed(cells[column])).collect();
        Ok(Some(single_row(texts, label, place)))
    }
}

impl Set {
    fn label(&self, spelled: &str) -> anyhow::Result<Label> {
        let column = self.label;
        match self.labels {
            Labels::Score => {
                let score: Option<f32> = spelled.parse().ok();
                let score = score.filter(|score| (0.0..=5.0).contains(score));
                let score = score
                    .with_context(|| format!("column {column:?}: {} is not a score from 0 to 5", excerpt(spelled)))?;
                Ok(Label::Score(score))
            }
            Labels::Classes(known) => {
                let class = known.iter().position(|(label, _)| *label == spelled).with_context(|| {
                    let known: Vec<&str> = known.iter().map(|(label, _)| *label).collect();
                    let name = self.name;
                    format!(
                        "column {column:?}: {} is not a label of {name}; labels: {}",
                        excerpt(spelled),
                        known.join(", ")
                    )
                })?;
                Ok(Label::Class(class as u32))
            }
        }
    }
}
