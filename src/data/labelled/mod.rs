//! Labelled text, for classification: a row is one text or two, and a class or a score.
//!
//! The official dev file of a benchmark is what papers report, so it is a test set here ([`LabelledCorpus::tests`]); the
//! dev set that chooses among checkpoints is held out of the training file, by the hash of the content (`hold_out`).

pub mod ag_news;
pub mod bbc_topics;
pub mod glue;
pub mod imdb;
mod json_objects;
pub mod movie_sentences;
mod passages;
mod spans;
pub mod superglue;
pub mod tokens;

use super::overlap::{self, Seen};
use super::rows::{percentile, split_at, Hasher};
use super::{catalog, fetch, token_folder, Examples};
use crate::experiment::config::{CorpusKind, DataConfig};
use crate::interrupt;
use crate::metric::classification::MetricKind;
use anyhow::{bail, Context};
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
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
    /// Rows of the file that are left out because they are malformed.
    pub skipped: usize,
}

impl LabelledRows {
    /// Rows without a name and without answers.
    pub fn new(columns: usize, rows: Vec<LabelledRow>) -> LabelledRows {
        LabelledRows { rows, columns, ..LabelledRows::default() }
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
        let mut before: &[Arc<str>] = &[];
        for row in &self.rows {
            interrupt::check()?;
            for (column, text) in row.texts.iter().enumerate() {
                // A passage stands in many rows that follow one another; hashing it once makes ReCoRD seconds faster.
                match before.get(column) {
                    Some(same) if Arc::ptr_eq(same, text) || same == text => hasher.number(u64::MAX),
                    _ => hasher.text(text),
                }
            }
            before = &row.texts;
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

impl Target {
    /// A logit for each class, or one score.
    pub fn outputs(&self) -> usize {
        match self {
            Target::Classes(names) => names.len(),
            Target::Score => 1,
        }
    }
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

/// What one official file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledFile {
    /// Its rows, in order.
    pub rows: LabelledRows,
    /// Rows skipped or odd, and why.
    pub notes: Vec<String>,
}

/// What is asked of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Labelled rows: a missing label is an error.
    Labels,
    /// Texts alone, as of the test files whose labels a benchmark's server keeps: labels may lack and are not looked at.
    Texts,
}

/// A row without its label, of an official test file: see [`glue::read_texts`] and [`superglue::read_texts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlabelledRow {
    /// As in [`LabelledRow`].
    pub texts: Vec<Arc<str>>,
    /// As in [`LabelledRow`].
    pub group: u32,
}

impl LabelledFile {
    /// The file itself, if it has rows. Error: it has none, with its name.
    pub(crate) fn not_empty(self, path: &Path) -> anyhow::Result<LabelledFile> {
        if self.rows.is_empty() {
            bail!("{} has no row to read; is the file empty or cut short?", path.display());
        }
        Ok(self)
    }

    pub(crate) fn without_labels(self) -> Vec<UnlabelledRow> {
        self.rows.rows.into_iter().map(|LabelledRow { texts, group, .. }| UnlabelledRow { texts, group }).collect()
    }
}

/// Reads the labelled corpus that a `[data]` section names; the small corpora are fetched when the cache lacks them.
///
/// Errors: a corpus without labels, an unknown set, what the reader of the format says (with file and line), an empty split.
pub fn load(config: &DataConfig) -> anyhow::Result<LabelledCorpus> {
    match config.corpus {
        CorpusKind::Glue => glue::read(&config.folder, &config.set),
        CorpusKind::Superglue => superglue::read(&config.folder, &config.set),
        CorpusKind::AgNews => ag_news::read(&config.folder),
        CorpusKind::Imdb => imdb::read(&config.folder),
        CorpusKind::BbcTopics => bbc_topics::read(&fetch::ensure(&catalog::BBC_TOPICS)?),
        CorpusKind::MovieSentences => movie_sentences::read(&fetch::ensure(&catalog::MOVIE_SENTENCES)?),
        _ => bail!(
            "this data.corpus has no labels; task = \"classification\" reads glue, superglue, ag-news, imdb, bbc-topics or \
             movie-sentences"
        ),
    }
}

/// Rows of all test sets of a corpus that its training split has too; from the cache where it has the counts.
pub fn seen_in_training(corpus: &LabelledCorpus) -> anyhow::Result<Seen> {
    let tests: Vec<&dyn Examples> = corpus.tests.iter().map(|test| test as &dyn Examples).collect();
    overlap::seen_or_load(&corpus.hash, &corpus.train, &tests, &token_folder()?)
        .with_context(|| format!("while comparing the test sets of {} with its training set", corpus.name))
}

/// Outputs of a model for the corpus that a `[data]` section names, known before it is read: a logit for each class, or one
/// score. Error: an unknown set.
pub fn outputs(config: &DataConfig) -> anyhow::Result<usize> {
    Ok(match config.corpus {
        CorpusKind::Glue => glue::set(&config.set)?.target().outputs(),
        CorpusKind::Superglue => superglue::set(&config.set)?.target().outputs(),
        CorpusKind::AgNews => ag_news::CLASSES.len(),
        CorpusKind::BbcTopics => 5,
        _ => 2,
    })
}

/// The measures of the corpus that a `[data]` section names, known before it is read. Error: an unknown set.
pub fn metrics(config: &DataConfig) -> anyhow::Result<Vec<MetricKind>> {
    Ok(match config.corpus {
        CorpusKind::Glue => glue::set(&config.set)?.metrics.to_vec(),
        CorpusKind::Superglue => superglue::set(&config.set)?.metrics.to_vec(),
        _ => vec![MetricKind::Accuracy],
    })
}

/// Splits in memory, before they are looked at and hashed.
pub(crate) struct Splits {
    pub name: String,
    pub target: Target,
    pub metrics: Vec<MetricKind>,
    pub train: LabelledRows,
    pub dev: LabelledRows,
    pub tests: Vec<LabelledRows>,
    pub notes: Vec<String>,
}

impl Splits {
    /// Hashes all splits, and notes how many test rows are in train too.
    ///
    /// Error: a split without rows.
    pub fn join(self) -> anyhow::Result<LabelledCorpus> {
        let Splits { name, target, train, dev, tests, metrics, mut notes } = self;
        let mut hasher = Hasher::default();
        match &target {
            Target::Classes(classes) => classes.iter().for_each(|class| hasher.text(class)),
            Target::Score => hasher.text("score"),
        }
        let splits = [("training", &train), ("dev", &dev)].into_iter().chain(tests.iter().map(|test| ("test", test)));
        for (split, rows) in splits {
            if rows.is_empty() {
                // Files without rows are refused where they are read, so it is a matter of the split.
                let [train, dev] = [train.len(), dev.len()];
                let why = match split {
                    "training" => format!("all of the {dev} rows were held out for dev"),
                    "dev" => format!("it is held out of the training rows, of which there are only {train}"),
                    _ => "there is not one row to read".to_string(),
                };
                bail!("the {split} set of {name} is empty: {why}");
            }
            rows.hash_into(&mut hasher)?;
        }
        let known: HashSet<&[Arc<str>]> = train.rows.iter().map(|row| &row.texts[..]).collect();
        for test in &tests {
            let overlap = test.rows.iter().filter(|row| known.contains(&row.texts[..])).count();
            let which = if test.name.is_empty() { String::new() } else { format!("{} ", test.name) };
            notes.push(format!("{overlap} of {} {which}test rows are in train too", test.len()));
        }
        Ok(LabelledCorpus { name, target, train, dev, tests, metrics, hash: hasher.finish(), notes })
    }
}

/// Class names as [`Target::Classes`] holds them.
pub(crate) fn classes(names: &[&str]) -> Target {
    Target::Classes(names.iter().map(|name| name.to_string()).collect())
}

/// A row that is judged alone, numbered by its place.
pub(crate) fn single_row(texts: Vec<Arc<str>>, label: Label, place: usize) -> LabelledRow {
    LabelledRow { texts, label, group: place as u32 }
}

/// Without blanks at the ends; other white space is text.
pub(crate) fn trimmed(text: &str) -> Arc<str> {
    text.trim_matches(' ').into()
}

/// A note where a file is not the full official one.
pub(crate) fn size_note(file: &Path, what: &str, count: usize, full: usize) -> Option<String> {
    (count != full).then(|| format!("{} has {count} {what}; the full set has {full}", file.display()))
}

/// Train (0), dev (1) or test (2) of a unit of a small corpus: [`percentile`] 0 to 9 is dev, 10 to 29 test, so that some
/// hundred rows are tested.
pub(crate) fn held_out_split(unit: &str) -> usize {
    split_at(unit, 10, 20) as usize
}

/// The rule of [`hold_out`], for notes.
pub(crate) const HELD_OUT: &str =
    "split: dev is held out of the training file by the SHA-256 of a row's texts with tabs between them (first 8 bytes, \
     big-endian, mod 100): 0-4";

/// Parts training rows into train and dev: a group whose unit has a [`percentile`] of 0 to 4 goes to dev.
///
/// `unit` gives the text that a group's first row stands for, such as its passage where many groups share one. Groups are
/// numbered anew in both parts.
pub(crate) fn hold_out(rows: LabelledRows, unit: impl Fn(&LabelledRow) -> String) -> (LabelledRows, LabelledRows) {
    let LabelledRows { name, rows, columns, answers, skipped: _ } = rows;
    let mut parts = [(); 2].map(|()| LabelledRows {
        name: name.clone(),
        rows: Vec::new(),
        columns,
        answers: answers.is_some().then(RecordAnswers::default),
        skipped: 0,
    });
    let mut place = None;
    for (at, mut row) in rows.into_iter().enumerate() {
        let (part, group) = match place {
            Some((old, part, group)) if old == row.group => (part, group),
            _ => {
                let part = usize::from(percentile(&unit(&row)) < 5);
                if let (Some(to), Some(from)) = (&mut parts[part].answers, &answers) {
                    to.gold.push(from.gold[row.group as usize].clone());
                }
                (part, parts[part].groups() as u32)
            }
        };
        place = Some((row.group, part, group));
        row.group = group;
        if let (Some(to), Some(from)) = (&mut parts[part].answers, &answers) {
            to.candidates.push(from.candidates[at].clone());
        }
        parts[part].rows.push(row);
    }
    let [train, dev] = parts;
    (train, dev)
}

/// All texts of a row with tabs between them: the usual unit of [`hold_out`].
pub(crate) fn whole_row(row: &LabelledRow) -> String {
    row.texts.join("\t")
}
