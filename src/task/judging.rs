//! A model's outputs for labelled rows, and the metrics of them.

use super::remarks::{blanks, Score};
use super::Scores;
use crate::data::labelled::{Label, LabelledRows};
use crate::metric::answers;
use crate::metric::classification::{
    accuracy, f1, group_accuracy, group_exact, macro_f1, matthews, suite_score, MetricKind,
};
use crate::metric::correlation::{pearson, spearman};
use anyhow::{bail, Context, Result};

/// What a model made of the rows of a split, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Predictions {
    /// The likeliest class of each row; empty where scores are predicted.
    pub classes: Vec<u32>,
    /// The score of each row; for classes, the logit of class 1 less that of class 0, by which rows of a group compete.
    pub numbers: Vec<f64>,
}

impl Predictions {
    /// Adds a row's logits: one is a score, more are classes.
    pub fn push(&mut self, logits: &[f32]) {
        match *logits {
            [score] => self.numbers.push(score.into()),
            [zero, one, ..] => {
                // the first of equal ones
                let best =
                    (1..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
                self.classes.push(best as u32);
                self.numbers.push(f64::from(one) - f64::from(zero));
            }
            [] => {}
        }
    }

    /// The predictions of rows that were put in another order: entry i here belongs to row `rows[i]`.
    pub fn in_order_of(self, rows: &[u32]) -> Predictions {
        let mut ordered = self.clone();
        for (&row, &class) in rows.iter().zip(&self.classes) {
            ordered.classes[row as usize] = class;
        }
        for (&row, &number) in rows.iter().zip(&self.numbers) {
            ordered.numbers[row as usize] = number;
        }
        ordered
    }
}

/// A corpus's metrics of one split, as fractions (correlations −1 to 1); `None` for one that is undefined there.
///
/// Errors: labels or answers that the metrics need and the split lacks.
pub fn judge(
    kinds: &[MetricKind],
    rows: &LabelledRows,
    predicted: &Predictions,
) -> Result<Vec<(MetricKind, Option<f64>)>> {
    if predicted.numbers.len() != rows.rows.len() {
        bail!("{} rows, but {} predictions", rows.rows.len(), predicted.numbers.len());
    }
    let groups: Vec<u32> = rows.rows.iter().map(|row| row.group).collect();
    let value = |kind: MetricKind| -> Result<Option<f64>> {
        let wanted = || classes(rows);
        Ok(match kind {
            MetricKind::Accuracy => accuracy(&predicted.classes, &wanted()?),
            MetricKind::F1 | MetricKind::GroupF1 => f1(&predicted.classes, &wanted()?, 1),
            MetricKind::MacroF1 => macro_f1(&predicted.classes, &wanted()?),
            MetricKind::Matthews => matthews(&predicted.classes, &wanted()?),
            MetricKind::Pearson => pearson(&predicted.numbers, &scores(rows)?),
            MetricKind::Spearman => spearman(&predicted.numbers, &scores(rows)?),
            MetricKind::GroupAccuracy => group_accuracy(&predicted.numbers, &wanted()?, &groups),
            MetricKind::GroupExact => group_exact(&predicted.classes, &wanted()?, &groups),
            MetricKind::RecordF1 => record(rows, predicted, &groups)?.0,
            MetricKind::RecordExact => record(rows, predicted, &groups)?.1,
        })
    };
    kinds.iter().map(|&kind| Ok((kind, value(kind)?))).collect()
}

/// Why a metric has no value, where it has none.
pub fn undefined(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::F1 | MetricKind::GroupF1 => "class 1 is neither among the labels nor predicted",
        MetricKind::Matthews => "all labels or all predictions are of one class",
        MetricKind::Pearson | MetricKind::Spearman => "the scores or the predictions do not vary",
        _ => "there are no rows",
    }
}

/// The metrics × 100 of dev and every test set, under names such as `test.accuracy`, and `test.score`, the mean of those of
/// the test sets.
///
/// # Errors
/// As [`judge`], with the split's name.
pub fn judge_splits<'a>(
    kinds: &[MetricKind],
    splits: impl IntoIterator<Item = (&'a str, &'a LabelledRows, &'a Predictions)>,
) -> Result<Scores> {
    let mut found = Scores::default();
    let mut of_tests = Vec::new();
    let mut add = |scores: &[Score]| {
        found.metrics.extend(scores.iter().map(Score::metric));
        found.notes.extend(blanks(scores));
    };
    for (name, rows, predicted) in splits {
        let judged = judge(kinds, rows, predicted).with_context(|| format!("in the {name} set"))?;
        let score = |(kind, value): (MetricKind, Option<f64>)| {
            Score::new(name, kind.name(), value.map(|value| 100.0 * value), undefined(kind))
        };
        let scores: Vec<Score> = judged.into_iter().map(score).collect();
        add(&scores);
        if name != "dev" {
            of_tests.extend(scores.iter().map(|score| score.value));
        }
    }
    let score = of_tests.into_iter().collect::<Option<Vec<f64>>>().and_then(|values| suite_score(&[values]));
    add(&[Score::new("test", "score", score, "a metric of a test set has no value")]);
    Ok(found)
}

fn record(rows: &LabelledRows, predicted: &Predictions, groups: &[u32]) -> Result<(Option<f64>, Option<f64>)> {
    let answers = rows.answers.as_ref().context("the rows have no answers to compare with")?;
    Ok(answers::record(&predicted.numbers, groups, &answers.candidates, &answers.gold))
}

/// The class of every row.
pub fn classes(rows: &LabelledRows) -> Result<Vec<u32>> {
    let class = |(at, row): (usize, &crate::data::labelled::LabelledRow)| match row.label {
        Label::Class(class) => Ok(class),
        Label::Score(score) => bail!("row {} has the score {score} where a class is wanted", at + 1),
    };
    rows.rows.iter().enumerate().map(class).collect()
}

/// The score of every row.
pub fn scores(rows: &LabelledRows) -> Result<Vec<f64>> {
    let score = |(at, row): (usize, &crate::data::labelled::LabelledRow)| match row.label {
        Label::Score(score) => Ok(score.into()),
        Label::Class(class) => bail!("row {} has the class {class} where a score is wanted", at + 1),
    };
    rows.rows.iter().enumerate().map(score).collect()
}
