//! `attention.csv`, `train.csv` and `decode.csv` of the benchmarks: ours and PyTorch, measured in turn.

use super::cost::{is_backward, processor};
use super::{Row, Sheet, Tail};
use crate::report::error::Result;
use std::path::Path;

/// The form of PyTorch that `decode.csv` compares with.
pub const LOOP: &str = "loop";

/// Ours against one form of PyTorch.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    /// `stock`, `eager`, `fused`, `compile` or [`LOOP`].
    pub form: String,
    /// Its time over ours: above 1, ours is faster.
    pub ratio: f64,
    /// 10% and 90% quantile of the ratios of neighbours in time.
    pub spread: Option<(f64, f64)>,
    /// Most memory of ours, bytes; none where it is not measured.
    pub our_memory: Option<u64>,
    /// Most memory of PyTorch, bytes.
    pub peer_memory: Option<u64>,
}

/// A line of `attention.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionRow {
    /// The mix.
    pub mix: String,
    /// L.
    pub length: u64,
    /// B.
    pub batch: u64,
    /// Whether the backward pass is in it.
    pub backward: bool,
    /// The comparison.
    pub against: Against,
    /// Median of ours.
    pub our_seconds: f64,
    /// Our operations over our time, as a share of the machine's product rate.
    pub product_share: f64,
    /// Seconds at the least, by the machine's rates.
    pub least_seconds: f64,
}

/// A line of `train.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainRow {
    /// The experiment's title.
    pub experiment: String,
    /// The mix.
    pub mix: String,
    /// The comparison.
    pub against: Against,
    /// Tokens a second of ours.
    pub our_rate: f64,
    /// Tokens a second of PyTorch.
    pub peer_rate: f64,
    /// Our operations over our time, as a share of the machine's product rate.
    pub product_share: Option<f64>,
}

impl DecodeRow {
    /// The run's name, with a word on weights that were not trained.
    pub fn name(&self) -> String {
        format!("{}{}", self.run, if self.is_trained { "" } else { ", untrained" })
    }
}

/// A line of `decode.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeRow {
    /// The run's name.
    pub run: String,
    /// The mix.
    pub mix: String,
    /// Whether the weights were trained; such as were not write until they may no more.
    pub is_trained: bool,
    /// 1 is greedy search.
    pub beam: u64,
    /// Sentences a second of ours.
    pub sentence_rate: f64,
    /// Tokens a second of ours.
    pub token_rate: f64,
    /// The comparison, where one was made.
    pub against: Option<Against>,
    /// Sentences that PyTorch decodes to something else.
    pub differing: Option<u64>,
}

/// The lines of a file, and how they came about: sizes and machine, then commands.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheets<T> {
    /// Lines.
    pub rows: Vec<T>,
    /// Notes for people, each once.
    pub about: Vec<String>,
}

impl<T> Sheets<T> {
    /// Those of several files; the notes of each.
    ///
    /// # Errors
    /// The first error among them.
    pub fn joined(files: impl IntoIterator<Item = Result<Sheets<T>>>) -> Result<Sheets<T>> {
        let mut all = Sheets::default();
        for sheets in files {
            let Sheets { rows, about } = sheets?;
            all.rows.extend(rows);
            all.about.extend(about);
        }
        all.about = each_once(all.about);
        Ok(all)
    }
}

impl<T> Default for Sheets<T> {
    fn default() -> Sheets<T> {
        Sheets { rows: Vec::new(), about: Vec::new() }
    }
}

/// Reads the lines of a file, if it is there, of which `line` makes something. It may be still being written.
fn read<T>(path: &Path, required: &[&str], line: impl Fn(&Row) -> Result<Option<T>>) -> Result<Sheets<T>> {
    if !path.is_file() {
        return Ok(Sheets::default());
    }
    let sheet = Sheet::read(path, required, Tail::Growing)?;
    let mut found = Sheets::default();
    let (mut settings, mut commands) = (Vec::new(), Vec::new());
    for row in sheet.rows() {
        let Some(made) = line(&row)? else { continue };
        found.rows.push(made);
        settings.push(setting(&row));
        commands.push(row.text("command"));
    }
    found.about = each_once(settings);
    found.about.extend(measured_by(commands));
    Ok(found)
}

/// Notes on the commands that measured something, each once.
pub fn measured_by<'a>(commands: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let commands = commands.into_iter().filter(|command| !command.is_empty());
    each_once(commands.map(|command| format!("Measured by `{command}`.")))
}

fn each_once(notes: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for note in notes {
        if !once.contains(&note) {
            once.push(note);
        }
    }
    once
}

/// Sizes and machine of a line, as a sentence.
fn setting(row: &Row) -> String {
    let named = [
        ("d ", row.text("d_model"), ""),
        ("h ", row.text("heads"), ""),
        ("", processor(row), ""),
        ("", row.text("threads"), if row.text("threads") == "1" { " thread" } else { " threads" }),
        ("PyTorch ", row.text("torch"), ""),
        ("synthesizer ", row.text("version"), ""),
    ];
    let mut parts: Vec<String> = Vec::new();
    for (before, text, after) in named {
        if !text.is_empty() {
            parts.push(format!("{before}{text}{after}"));
        }
    }
    format!("Float32, {}.", parts.join(", "))
}

/// The comparison of a line of `bench compare`.
fn against(row: &Row) -> Result<Against> {
    let form = if row.text("allocator") == "stock" { "stock" } else { row.text("peer") };
    Ok(Against {
        form: form.to_string(),
        ratio: row.value("ratio")?,
        spread: row.optional("ratio_low")?.zip(row.optional("ratio_high")?),
        our_memory: row.optional("our_peak_memory_bytes")?,
        peer_memory: row.optional("peer_peak_memory_bytes")?,
    })
}

/// Reads the lines of `core` or `layer` in an `attention.csv`; nothing where there is none.
pub fn read_attention(path: &Path, part: &str) -> Result<Sheets<AttentionRow>> {
    let required = [
        "part",
        "mix",
        "length",
        "batch",
        "pass",
        "peer",
        "allocator",
        "our_seconds",
        "ratio",
        "product_share",
        "least_seconds",
    ];
    read(path, &required, |row| {
        if row.text("part") != part {
            return Ok(None);
        }
        Ok(Some(AttentionRow {
            mix: row.value("mix")?,
            length: row.value("length")?,
            batch: row.value("batch")?,
            backward: is_backward(row)?,
            against: against(row)?,
            our_seconds: row.value("our_seconds")?,
            product_share: row.value("product_share")?,
            least_seconds: row.value("least_seconds")?,
        }))
    })
}

/// Reads `train.csv`; nothing where there is none.
pub fn read_train(path: &Path) -> Result<Sheets<TrainRow>> {
    let required =
        ["experiment", "mix", "peer", "allocator", "our_tokens_per_second", "peer_tokens_per_second", "ratio"];
    read(path, &required, |row| {
        Ok(Some(TrainRow {
            experiment: row.value("experiment")?,
            mix: row.value("mix")?,
            against: against(row)?,
            our_rate: row.value("our_tokens_per_second")?,
            peer_rate: row.value("peer_tokens_per_second")?,
            product_share: row.optional("product_share")?,
        }))
    })
}

/// Reads `decode.csv`; nothing where there is none.
pub fn read_decode(path: &Path) -> Result<Sheets<DecodeRow>> {
    read(path, &["run", "mix", "beam", "sentences_per_second", "tokens_per_second"], |row| {
        let ratio: Option<f64> = row.optional("ratio")?;
        Ok(Some(DecodeRow {
            run: row.value("run")?,
            mix: row.value("mix")?,
            is_trained: row.optional("trained")?.unwrap_or(true),
            beam: row.value("beam")?,
            sentence_rate: row.value("sentences_per_second")?,
            token_rate: row.value("tokens_per_second")?,
            against: ratio.map(|ratio| Against {
                form: LOOP.into(),
                ratio,
                spread: None,
                our_memory: None,
                peer_memory: None,
            }),
            differing: row.optional("differing")?,
        }))
    })
}
