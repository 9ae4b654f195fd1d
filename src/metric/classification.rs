//! Metrics of labelled rows, as GLUE and SuperGLUE define them; equal to scikit-learn's on `tests/fixtures/classification`.
//!
//! Values are fractions (Matthews −1 to 1), not percent. An undefined value (a quotient of 0 and 0) is `None`; scikit-learn
//! warns and gives 0 for some of them.

use std::collections::{BTreeMap, BTreeSet};

/// What is measured of a labelled corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Share of rows with the right class.
    Accuracy,
    /// F1 of class 1 (MRPC, QQP).
    F1,
    /// Mean of the F1 of each class (CB).
    MacroF1,
    /// Matthews' correlation of classes (CoLA).
    Matthews,
    /// Pearson's correlation of scores (STS-B).
    Pearson,
    /// Spearman's correlation of scores (STS-B).
    Spearman,
    /// Share of groups in which the row likeliest to be of class 1 is of class 1 (COPA).
    GroupAccuracy,
    /// MultiRC's F1a: F1 of class 1 over the rows of all groups.
    GroupF1,
    /// MultiRC's exact match: share of groups of which every row has the right class.
    GroupExact,
    /// ReCoRD's F1: of the words of a group's likeliest candidate, against the nearest of its answers.
    RecordF1,
    /// ReCoRD's exact match: share of groups whose likeliest candidate is one of the answers.
    RecordExact,
}

impl MetricKind {
    /// The name of its column among the results, without the split.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Accuracy | MetricKind::GroupAccuracy => "accuracy",
            MetricKind::F1 | MetricKind::RecordF1 => "f1",
            MetricKind::MacroF1 => "f1_macro",
            MetricKind::Matthews => "matthews",
            MetricKind::Pearson => "pearson",
            MetricKind::Spearman => "spearman",
            MetricKind::GroupF1 => "f1a",
            MetricKind::GroupExact | MetricKind::RecordExact => "exact_match",
        }
    }
}

fn share(hits: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| hits as f64 / of as f64)
}

/// Share of rows whose class was predicted; `None` without rows.
pub fn accuracy(predicted: &[u32], wanted: &[u32]) -> Option<f64> {
    share(predicted.iter().zip(wanted).filter(|(predicted, wanted)| predicted == wanted).count(), wanted.len())
}

/// F1 of one class: 2·TP / (2·TP + FP + FN); `None` where the class is neither wanted nor predicted.
pub fn f1(predicted: &[u32], wanted: &[u32], class: u32) -> Option<f64> {
    let hits = predicted.iter().zip(wanted).filter(|&pair| pair == (&class, &class)).count();
    let count = |classes: &[u32]| classes.iter().filter(|&&other| other == class).count();
    share(2 * hits, count(predicted) + count(wanted))
}

/// Mean of [`f1`] over the classes that are wanted or predicted anywhere; `None` without rows.
pub fn macro_f1(predicted: &[u32], wanted: &[u32]) -> Option<f64> {
    let classes: BTreeSet<u32> = predicted.iter().chain(wanted).copied().collect();
    let sum: f64 = classes.iter().filter_map(|&class| f1(predicted, wanted, class)).sum();
    (!classes.is_empty()).then(|| sum / classes.len() as f64)
}

/// Matthews' correlation, for any number of classes (Gorodkin's R_K):
/// (c·s − Σ pₖtₖ) / √((s² − Σ pₖ²)(s² − Σ tₖ²)), s rows, c of them right, class k predicted pₖ and wanted tₖ times.
///
/// `None` where all rows are of one class or were given one.
pub fn matthews(predicted: &[u32], wanted: &[u32]) -> Option<f64> {
    let mut counts: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for (side, classes) in [predicted, wanted].into_iter().enumerate() {
        for &class in classes {
            counts.entry(class).or_default()[side] += 1.0;
        }
    }
    let right = predicted.iter().zip(wanted).filter(|(predicted, wanted)| predicted == wanted).count() as f64;
    let rows = wanted.len() as f64;
    let products = |a: usize, b: usize| counts.values().map(|count| count[a] * count[b]).sum::<f64>();
    let spread = (rows * rows - products(0, 0)) * (rows * rows - products(1, 1));
    (spread > 0.0).then(|| (right * rows - products(0, 1)) / spread.sqrt())
}

/// The rows of each group, groups in the order of their numbers.
fn rows_by_group(groups: &[u32]) -> BTreeMap<u32, Vec<usize>> {
    let mut rows: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (row, &group) in groups.iter().enumerate() {
        rows.entry(group).or_default().push(row);
    }
    rows
}

/// Each group and its row with the highest number, the first of equal ones.
pub fn likeliest(numbers: &[f64], groups: &[u32]) -> Vec<(u32, usize)> {
    let best = |rows: Vec<usize>| rows.into_iter().reduce(|a, b| if numbers[b] > numbers[a] { b } else { a });
    rows_by_group(groups).into_iter().filter_map(|(group, rows)| Some((group, best(rows)?))).collect()
}

/// Share of groups whose [`likeliest`] row is of class 1, `None` without groups; `numbers` says how likely each row is of it.
pub fn group_accuracy(numbers: &[f64], wanted: &[u32], groups: &[u32]) -> Option<f64> {
    let picked = likeliest(numbers, groups);
    share(picked.iter().filter(|(_, row)| wanted[*row] == 1).count(), picked.len())
}

/// Share of groups of which every row has the right class; `None` without groups.
pub fn group_exact(predicted: &[u32], wanted: &[u32], groups: &[u32]) -> Option<f64> {
    let groups = rows_by_group(groups);
    let whole = groups.values().filter(|rows| rows.iter().all(|&row| predicted[row] == wanted[row])).count();
    share(whole, groups.len())
}

/// The score of a suite by the paper's rule: the mean over its tasks, a task with several metrics being averaged first.
///
/// `None` without a task, or for a task without a metric.
pub fn suite_score(tasks: &[Vec<f64>]) -> Option<f64> {
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    mean(&tasks.iter().map(|metrics| mean(metrics)).collect::<Option<Vec<f64>>>()?)
}
