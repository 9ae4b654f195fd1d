//! `synthesizer data inspect`: what an experiment's data are.

use super::columns::lay_out;
use crate::data::inspect::{self, ColumnReport, Shown, SplitReport};
use crate::data::running_text::RunningText;
use crate::data::token_store::TokenStore;
use crate::data::tokenizer::{BEGIN, END};
use crate::data::{self, Corpus, Prepared};
use crate::error::tell_interrupt;
use crate::experiment::{self, DataConfig, Problems, TaskKind};
use crate::interrupt;
use crate::report::number::thousands;
use anyhow::Context;
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
    interrupt::listen().context("cannot listen for Ctrl-C")?;
    for (data, task) in sections(&args.experiment)? {
        let inspection = inspect(&data, task).map_err(|error| {
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

/// The different `[data]` sections of an experiment's runs.
fn sections(path: &Path) -> anyhow::Result<Vec<(DataConfig, TaskKind)>> {
    let mut sections = Vec::new();
    for (experiment, plan) in experiment::plan_all(&[path.to_path_buf()], Path::new("results"))? {
        let missing = experiment.missing_files();
        if !missing.is_empty() {
            return Err(Problems(missing).into());
        }
        for planned in plan.runs {
            let section = (planned.run.data, planned.run.task);
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
    }
    Ok(sections)
}

fn inspect(config: &DataConfig, task: TaskKind) -> anyhow::Result<Inspection> {
    let corpus = data::load(config, task)?;
    let Prepared { tokenizer, train, dev, test } = data::prepare(&corpus, config, task)?;
    let Corpus { name, hash, notes, .. } = &corpus;
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
            0 => inspect::show(examples, &store, &tokenizer, &limits, |row| sequences(&store, row, task))?,
            window => windows(RunningText::new(store, window), |ids| tokenizer.visible(ids))?,
        };
        splits.push(SplitReport { name: name.into(), counts, columns, overlap, classes: Vec::new(), shown });
    }
    Ok(Inspection {
        corpus: name.clone(),
        hash: hash.clone(),
        vocabulary: tokenizer.size(),
        window: config.window,
        splits,
        notes: notes.clone(),
    })
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
fn windows(text: RunningText, visible: impl Fn(&[u32]) -> String) -> anyhow::Result<Vec<Shown>> {
    let mut rows = vec![0, text.len() / 2, text.len().saturating_sub(1)];
    rows.dedup();
    rows.retain(|row| *row < text.len());
    let show = |row: usize| {
        let ids = [vec![BEGIN], text.tokens(row)?].concat();
        Ok(Shown { row: row as u64 + 1, cut: false, sequences: vec![visible(&ids)] })
    };
    rows.into_iter().map(show).collect()
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
        if !split.classes.is_empty() {
            let classes: Vec<String> =
                split.classes.iter().map(|(name, count)| format!("{} {name}", thousands(*count))).collect();
            text.push_str(&format!("  classes: {}\n", classes.join(", ")));
        }
        let unit = if inspection.window > 0 { "window" } else { "row" };
        for shown in &split.shown {
            let cut = if shown.cut { ", cut" } else { "" };
            text.push_str(&format!("  {unit} {}{cut}\n", thousands(shown.row)));
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
