//! Scores of a run, computed again from what its evaluation saved.

use crate::data::labelled;
use crate::experiment::{Run, TaskKind};
use crate::task::classification::Labels;
use crate::task::evaluation::{self, hypotheses_file, losses_file, predictions_file, references_file};
use crate::task::judging::judge_splits;
use crate::task::remarks::Score;
use crate::task::{language_modelling, masked_language_modelling, sequence_to_sequence, Metric};
use anyhow::{bail, Result};
use std::path::{Path, PathBuf};

/// What came out.
#[derive(Debug, Default)]
pub struct Recomputed {
    /// Scores, under the names of their columns.
    pub metrics: Vec<Metric>,
    /// What can't be computed again, because it was not saved or is not at hand.
    pub missing: Vec<String>,
    /// Files that can't be scored, and why.
    pub faults: Vec<(PathBuf, String)>,
}

impl Recomputed {
    fn add(&mut self, file: &Path, metrics: Result<Vec<Metric>>) {
        match metrics {
            Ok(metrics) => self.metrics.extend(metrics),
            Err(error) => self.faults.push((file.into(), super::rows::reason(&error, file))),
        }
    }
}

/// Computes every score again for which the run's folder has the files; `words` is the row's own count of test words.
pub fn recompute(run: &Run, folder: &Path, words: Option<u64>) -> Recomputed {
    let mut found = Recomputed::default();
    match run.task {
        TaskKind::Translation | TaskKind::Summarization | TaskKind::Dialogue => texts(run, folder, &mut found),
        TaskKind::Classification => labels(run, folder, &mut found),
        TaskKind::LanguageModelling | TaskKind::MaskedLanguageModelling => losses(run, folder, words, &mut found),
    }
    found
}

fn texts(run: &Run, folder: &Path, found: &mut Recomputed) {
    let mut run = run.clone();
    if !run.data.vectors.as_os_str().is_empty() && !run.data.vectors.is_file() {
        found.missing.push("the embedding average of runs whose word vectors are not at hand".into());
        run.data.vectors = PathBuf::new();
    }
    let Some(judge) = sequence_to_sequence::judge(&run) else { return };
    for split in ["dev", "test"] {
        let files = [hypotheses_file(folder, split), references_file(folder, split)];
        match files.each_ref().map(|file| file.exists()) {
            [false, false] => found.missing.push("outputs and references of older versions".into()),
            [true, true] => {
                let judged = || -> Result<Vec<Metric>> {
                    let [hypotheses, references] = files.each_ref().map(|file| evaluation::read_lines(file));
                    let (hypotheses, references) = (hypotheses?, references?);
                    if hypotheses.len() != references.len() {
                        bail!("{} hypotheses, but {} references", hypotheses.len(), references.len());
                    }
                    Ok(judge.judge(split, &hypotheses, &references)?.metrics)
                };
                found.add(&files[0], judged());
            }
            [there, _] => {
                let (missing, other) = if there { (&files[1], &files[0]) } else { (&files[0], &files[1]) };
                let other = other.file_name().unwrap_or_default().to_string_lossy();
                found.faults.push((missing.clone(), format!("missing, though {other} is there")));
            }
        }
    }
}

fn labels(run: &Run, folder: &Path, found: &mut Recomputed) {
    let ending = ".predictions.csv";
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_string_lossy().strip_suffix(ending).map(str::to_owned));
    let mut splits: Vec<String> = names.collect();
    splits.sort();
    if splits.is_empty() {
        return found.missing.push("labels of older versions".into());
    }
    let judged = || -> Result<Vec<Metric>> {
        let labels = Labels::load(folder)?;
        let mut read = Vec::new();
        for split in splits {
            let (rows, predicted) = evaluation::read_predictions(&predictions_file(folder, &split), &labels.classes)?;
            read.push((split, rows, predicted));
        }
        let kinds = labelled::metrics(&run.data)?;
        let splits = read.iter().map(|(split, rows, predicted)| (split.as_str(), rows, predicted));
        Ok(judge_splits(&kinds, splits)?.metrics)
    };
    found.add(folder, judged());
}

fn losses(run: &Run, folder: &Path, words: Option<u64>, found: &mut Recomputed) {
    let file = losses_file(folder, "test");
    if !file.exists() {
        return found.missing.push("losses of older versions".into());
    }
    let metrics = evaluation::read_losses(&file).map(|score| {
        let scores = match run.task {
            TaskKind::LanguageModelling => {
                language_modelling::perplexities("test", &score, words.ok_or("words are not counted".into()))
            }
            _ => masked_language_modelling::perplexities("test", &score),
        };
        scores.iter().map(Score::metric).collect()
    });
    found.add(&file, metrics);
}
