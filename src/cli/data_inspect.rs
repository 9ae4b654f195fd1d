//! `synthesizer data inspect`: what an experiment's data are.

use super::columns::lay_out;
use crate::data::inspect::{self, ColumnReport, Labels, Shown, SplitReport};
use crate::data::labelled::tokens::{prepare, LabelledTokens, Limits};
use crate::data::labelled::{self, Label, LabelledRows, Target};
use crate::data::running_text::RunningText;
use crate::data::span_corruption::{corrupt, spans, Draw};
use crate::data::token_store::TokenStore;
use crate::data::tokenizer::{Tokenizer, BEGIN, END};
use crate::data::{self, Examples, Prepared};
use crate::error::tell_interrupt;
use crate::experiment::{self, DataConfig, Problems, Run, TaskKind};
use crate::interrupt;
use crate::report::number::thousands;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Options of `data inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An experiment file
    experiment: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed of one `[data]` section.
#[derive(Debug, Serialize)]
struct Inspection {
    corpus: String,
    /// SHA-256 of what the splits hold.
    hash: String,
    /// Entries of the vocabulary.
    vocabulary: usize,
    /// Tokens of a window of the running text; 0 = a row a line.
    window: usize,
    splits: Vec<SplitReport>,
    notes: Vec<String>,
}

/// Reads the data of an experiment, and prints what they are: once, or for each variant that has other data.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut inspections = Vec::new();
    interrupt::listen();
    for section in sections(&args.experiment)? {
        let inspection = section.inspect().map_err(|error| {
            tell_interrupt(error, || "splits that are ready are kept; the same command goes on from there".into())
        })?;
        inspections.push(inspection);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&inspections)?);
    } else {
        print!("{}", inspections.iter().map(text).collect::<Vec<_>>().join("\n"));
    }
    Ok(())
}

/// A `[data]` section, and all else that decides what a model sees of the data.
#[derive(PartialEq)]
struct Section {
    data: DataConfig,
    task: TaskKind,
    /// Longest input of a classifier.
    max_length: Option<usize>,
}

/// The different sections of an experiment's runs.
fn sections(path: &Path) -> anyhow::Result<Vec<Section>> {
    let mut sections = Vec::new();
    for (experiment, plan) in experiment::plan_all(&[path.to_path_buf()], Path::new("results"))? {
        let missing = experiment.missing_files();
        if !missing.is_empty() {
            return Err(Problems(missing).into());
        }
        for Run { data, task, model, .. } in plan.runs.into_iter().map(|planned| planned.run) {
            let max_length = (task == TaskKind::Classification).then_some(model.max_length as usize);
            let section = Section { data, task, max_length };
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
    }
    Ok(sections)
}

impl Section {
    fn inspect(&self) -> anyhow::Result<Inspection> {
        match self.max_length {
            Some(max_length) => labelled_texts(&self.data, max_length),
            None => plain_texts(&self.data, self.task),
        }
    }
}

fn plain_texts(config: &DataConfig, task: TaskKind) -> anyhow::Result<Inspection> {
    let corpus = data::load(config, task)?;
    let Prepared { tokenizer, train, dev, test } = data::prepare(&corpus, config, task)?;
    let texts = [corpus.train.as_ref(), corpus.dev.as_ref(), corpus.test.as_ref()];
    let names: &[&str] = if task.has_target() { &["source", "target"] } else { &["text"] };
    let limit = if config.window > 0 { usize::MAX } else { config.max_tokens };
    let limits: Vec<usize> = match task.has_target() {
        true => vec![data::source_limit(config, task).map_or(limit, |source| source.tokens), limit],
        false => vec![limit],
    };
    let overlaps = inspect::overlaps(texts[0], &texts[1..])?;
    let overlaps = [None].into_iter().chain(overlaps.into_iter().map(Some));
    let mut splits = Vec::new();
    for (((name, store), examples), overlap) in
        ["train", "dev", "test"].into_iter().zip([train, dev, test]).zip(texts).zip(overlaps)
    {
        let (counts, columns) = (store.counts, inspect::columns(&store, names));
        let shown = match config.window {
            0 => inspect::show(examples, &store, &tokenizer, &limits, |_| true, |row| sequences(&store, row, task))?,
            window => windows(RunningText::new(store, window), |number, ids| {
                window_sequences(config, task, &tokenizer, number, ids)
            })?,
        };
        splits.push(SplitReport { name: name.into(), counts, columns, overlap, cut_pairs: 0, labels: None, shown });
    }
    Ok(Inspection {
        corpus: corpus.name,
        hash: corpus.hash,
        vocabulary: tokenizer.size(),
        window: config.window,
        splits,
        notes: corpus.notes,
    })
}

fn labelled_texts(config: &DataConfig, max_length: usize) -> anyhow::Result<Inspection> {
    let corpus = labelled::load(config)?;
    let limits = Limits { max_tokens: config.max_tokens, max_length };
    let LabelledTokens { tokenizer, train, dev, tests } = prepare(&corpus, config.vocabulary, limits)?;
    let mut rows = vec![("train".to_string(), &corpus.train), ("dev".into(), &corpus.dev)];
    rows.extend(corpus.tests.iter().map(|test| (format!("test {}", test.name).trim_end().to_string(), test)));
    let others: Vec<&dyn Examples> = rows[1..].iter().map(|(_, rows)| *rows as &dyn Examples).collect();
    let overlaps = inspect::overlaps(&corpus.train, &others)?;
    let overlaps = [None].into_iter().chain(overlaps.into_iter().map(Some));
    let mut splits = Vec::new();
    for (((name, rows), store), overlap) in rows.into_iter().zip([train, dev].into_iter().chain(tests)).zip(overlaps) {
        let names: &[&str] = if rows.columns == 2 { &["first", "second"] } else { &["text"] };
        let fits = |row: usize| {
            let lengths: Vec<usize> = (0..rows.columns).map(|column| store.text_length(row, column)).collect();
            limits.taken(&lengths) == lengths
        };
        let input = |row: usize| -> anyhow::Result<Vec<Vec<u32>>> {
            let texts: Vec<Vec<u32>> =
                (0..rows.columns).map(|column| store.tokens(row, column)).collect::<anyhow::Result<_>>()?;
            Ok(vec![limits.input(&texts).into_iter().map(|id| id as u32).collect()])
        };
        let text_limits = vec![limits.single(); rows.columns];
        let mut shown = inspect::show(rows, &store, &tokenizer, &text_limits, fits, input)?;
        for shown in &mut shown {
            shown.label = Some(label(&corpus.target, rows.rows[shown.row as usize - 1].label));
        }
        splits.push(SplitReport {
            name,
            counts: store.counts,
            columns: inspect::columns(&store, names),
            overlap,
            cut_pairs: (0..store.len()).filter(|row| !fits(*row)).count() as u64,
            labels: Some(labels(&corpus.target, rows)),
            shown,
        });
    }
    Ok(Inspection {
        corpus: corpus.name,
        hash: corpus.hash,
        vocabulary: tokenizer.size(),
        window: 0,
        splits,
        notes: corpus.notes,
    })
}

fn label(target: &Target, label: Label) -> String {
    match (target, label) {
        (Target::Classes(names), Label::Class(class)) => names[class as usize].clone(),
        (_, Label::Class(class)) => class.to_string(),
        (_, Label::Score(score)) => score.to_string(),
    }
}

fn labels(target: &Target, rows: &LabelledRows) -> Labels {
    let labels = rows.rows.iter().map(|row| row.label);
    match target {
        Target::Classes(names) => {
            let mut counts: Vec<(String, u64)> = names.iter().map(|name| (name.clone(), 0)).collect();
            for label in labels {
                if let Label::Class(class) = label {
                    counts[class as usize].1 += 1;
                }
            }
            Labels::Classes(counts)
        }
        Target::Score => {
            let scores = labels.filter_map(|label| match label {
                Label::Score(score) => Some(f64::from(score)),
                Label::Class(_) => None,
            });
            let scores: Vec<f64> = scores.collect();
            let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
            let [lowest, highest] = [f64::min, f64::max].map(|pick| scores.iter().copied().reduce(pick).unwrap_or(0.0));
            Labels::Scores(lowest, mean, highest)
        }
    }
}

/// A row's sequences with their marks: the encoder's and the decoder's, or the language model's.
fn sequences(store: &TokenStore, row: usize, task: TaskKind) -> anyhow::Result<Vec<Vec<u32>>> {
    let ended = |column| -> anyhow::Result<Vec<u32>> { Ok([store.tokens(row, column)?, vec![END]].concat()) };
    Ok(match task.has_target() {
        true => vec![ended(0)?, [vec![BEGIN], ended(1)?].concat()],
        false => vec![[vec![BEGIN], ended(0)?].concat()],
    })
}

/// The first, the middle and the last window.
fn windows(text: RunningText, sequences: impl Fn(usize, Vec<u32>) -> Vec<String>) -> anyhow::Result<Vec<Shown>> {
    let mut rows = vec![0, text.len() / 2, text.len().saturating_sub(1)];
    rows.dedup();
    rows.retain(|row| *row < text.len());
    let show = |row: usize| {
        let sequences = sequences(row, text.tokens(row)?);
        Ok(Shown { row: row as u64 + 1, cut: false, label: None, sequences })
    };
    rows.into_iter().map(show).collect()
}

/// What a model gets of a window: all of it or, where spans are masked, source and target as dev and test have them, sentinel
/// i shown as `<i>`.
fn window_sequences(
    config: &DataConfig,
    task: TaskKind,
    tokenizer: &Tokenizer,
    number: usize,
    ids: Vec<u32>,
) -> Vec<String> {
    if task != TaskKind::MaskedLanguageModelling {
        return vec![tokenizer.visible(&[vec![BEGIN], ids].concat())];
    }
    let first = tokenizer.size() as u32;
    let spans = spans(config.spans_in(ids.len()), Draw::HeldOut, number as u64);
    let (source, target) = corrupt(&ids, &spans, first);
    let visible = |ids: Vec<u32>| {
        let token = |id: &u32| match id.checked_sub(first) {
            Some(sentinel) => format!("<{sentinel}>"),
            None => tokenizer.visible(&[*id]),
        };
        ids.iter().map(token).collect::<Vec<_>>().join(" ")
    };
    vec![visible([source, vec![END]].concat()), visible([vec![BEGIN], target, vec![END]].concat())]
}

fn text(inspection: &Inspection) -> String {
    let mut text = format!("{}, hash {}\n", inspection.corpus, inspection.hash);
    text.push_str(&format!("vocabulary of {} entries\n", thousands(inspection.vocabulary as u64)));
    inspection.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    for split in &inspection.splits {
        text.push_str(&format!("\n{}\n", split_text(split)));
        let rows: Vec<Vec<String>> = split.columns.iter().map(cells).collect();
        let headings = ["", "tokens", "words", "median", "95%", "longest"];
        text.push_str(&indented(&lay_out(&headings, &rows, 1)));
        match &split.labels {
            None => {}
            Some(Labels::Classes(classes)) => {
                let classes: Vec<String> =
                    classes.iter().map(|(name, count)| format!("{} {name}", thousands(*count))).collect();
                text.push_str(&format!("  classes: {}\n", classes.join(", ")));
            }
            Some(Labels::Scores(lowest, mean, highest)) => {
                text.push_str(&format!("  scores: {lowest} to {highest}, {mean:.3} on average\n"));
            }
        }
        let unit = if inspection.window > 0 { "window" } else { "row" };
        for shown in &split.shown {
            let cut = if shown.cut { ", cut" } else { "" };
            let label = shown.label.as_ref().map_or(String::new(), |label| format!(": {label}"));
            text.push_str(&format!("  {unit} {}{cut}{label}\n", thousands(shown.row)));
            shown.sequences.iter().for_each(|sequence| text.push_str(&format!("    {sequence}\n")));
        }
    }
    text
}

fn split_text(split: &SplitReport) -> String {
    let counts = &split.counts;
    let mut text = format!("{}: {} of {} rows", split.name, thousands(counts.kept), thousands(counts.rows));
    for (count, what) in [
        (counts.empty, "dropped because a text is empty"),
        (counts.skipped, "dropped because a text is too long"),
        (counts.cut, "kept, but cut because a text is too long"),
        (split.cut_pairs, "kept, but cut because the two texts are too long together"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {} {what}", thousands(count)));
        }
    }
    if let Some(overlap) = &split.overlap {
        let of_two = split.columns.len() > 1;
        let first = format!("{} first texts and ", thousands(overlap.first_texts));
        text.push_str(&format!(
            "\n  train has {}{} whole rows of these {} too",
            if of_two { first.as_str() } else { "" },
            thousands(overlap.whole_rows),
            thousands(overlap.rows)
        ));
    }
    text
}

fn cells(column: &ColumnReport) -> Vec<String> {
    let ColumnReport { name, tokens, words, median, percentile_95, longest } = column;
    let lengths = [median, percentile_95, longest].map(|length| thousands(u64::from(*length)));
    [name.clone(), thousands(*tokens), thousands(*words)].into_iter().chain(lengths).collect()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
