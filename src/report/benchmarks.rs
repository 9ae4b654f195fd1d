//! What lies under `results/bench`, and the tables and figures that it makes.

use super::error::Result;
use super::figure::ratios::{self, Ratios};
use super::figure::{growth, Figure};
use super::grown::Grown;
use super::read::bench::{read_attention, read_decode, read_train, AttentionRow, DecodeRow, Sheets, TrainRow};
use super::read::cost::read_time;
use super::read::Tail;
use super::table::quality::paper_order;
use super::table::{bench, Table};
use std::path::Path;

/// Lengths whose ratios are drawn, where they were measured.
const DRAWN: [u64; 2] = [256, 1024];
/// What of attention is compared.
const PARTS: [&str; 2] = ["core", "layer"];

/// All benchmarks; parts without a file are empty.
#[derive(Debug, Clone, Default)]
pub struct Benchmarks {
    /// By the names of [`PARTS`].
    attention: [Sheets<AttentionRow>; 2],
    train: Sheets<TrainRow>,
    decode: Sheets<DecodeRow>,
    growth: Grown,
    batch: Grown,
}

impl Benchmarks {
    /// Reads the CSVs of a folder.
    ///
    /// # Errors
    /// A file that does not hold what its name says.
    pub fn read(folder: &Path) -> Result<Benchmarks> {
        let grown = |name: &str| -> Result<Grown> {
            let path = folder.join(name);
            Ok(if path.is_file() { Grown::new(read_time(&path, Tail::Growing)?) } else { Grown::default() })
        };
        let attention = |part: &str| {
            let files = ["attention.csv", "compile.csv", "layer.csv"];
            Sheets::joined(files.map(|name| read_attention(&folder.join(name), part)))
        };
        Ok(Benchmarks {
            attention: [attention(PARTS[0])?, attention(PARTS[1])?],
            train: read_train(&folder.join("train.csv"))?,
            decode: read_decode(&folder.join("decode.csv"))?,
            growth: grown("growth.csv")?,
            batch: grown("batch.csv")?,
        })
    }

    /// Each table with its figures; none where nothing was measured.
    pub fn parts(&self) -> Vec<(Table, Vec<Figure>)> {
        let mut parts = Vec::new();
        for (part, sheet) in PARTS.iter().zip(&self.attention) {
            parts.extend(bench::attention(sheet, part).map(|table| (table, attention_figures(sheet, part))));
        }
        parts.extend(bench::train(&self.train).map(|table| (table, self.train_figures())));
        parts.extend(bench::decode(&self.decode).map(|table| (table, self.decode_figures())));
        parts.extend(bench::growth(&self.growth).map(|table| (table, growth::by_length(&self.growth))));
        parts.extend(
            bench::batch(&self.batch).map(|table| (table, growth::by_batch(&self.batch).into_iter().collect())),
        );
        parts
    }

    fn train_figures(&self) -> Vec<Figure> {
        let mut experiments: Vec<&str> = Vec::new();
        for row in &self.train.rows {
            if !experiments.contains(&row.experiment.as_str()) {
                experiments.push(&row.experiment);
            }
        }
        let panels: Vec<Ratios> = experiments
            .iter()
            .map(|experiment| {
                let rows = self.train.rows.iter().filter(|row| row.experiment == **experiment);
                panel(experiment.to_string(), rows.map(|row| (row.mix.clone(), &row.mix, &row.against)))
            })
            .collect();
        ratios::figure("train-ratio", "Training step: PyTorch's time over ours", &panels).into_iter().collect()
    }

    fn decode_figures(&self) -> Vec<Figure> {
        let mut beams: Vec<u64> = self.decode.rows.iter().map(|row| row.beam).collect();
        beams.sort_unstable();
        beams.dedup();
        let panels: Vec<Ratios> = beams
            .iter()
            .map(|beam| {
                let title = if *beam == 1 { "greedy search".to_string() } else { format!("beam {beam}") };
                let rows = self.decode.rows.iter().filter(|row| row.beam == *beam);
                // Several models may have one mix.
                let is_alone = |mix: &str| rows.clone().filter(|row| row.mix == mix).count() == 1;
                let label = |row: &DecodeRow| match is_alone(&row.mix) && row.is_trained {
                    true => row.mix.clone(),
                    false => row.name(),
                };
                panel(title, rows.clone().filter_map(|row| Some((label(row), &row.mix, row.against.as_ref()?))))
            })
            .collect();
        ratios::figure("decode-ratio", "Decoding: PyTorch's time over ours", &panels).into_iter().collect()
    }
}

fn attention_figures(sheet: &Sheets<AttentionRow>, part: &str) -> Vec<Figure> {
    let rows: Vec<&AttentionRow> = sheet.rows.iter().filter(|row| row.backward).collect();
    let mut lengths: Vec<u64> = rows.iter().map(|row| row.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    if lengths.iter().any(|length| DRAWN.contains(length)) {
        lengths.retain(|length| DRAWN.contains(length));
    }
    let panels: Vec<Ratios> = lengths
        .iter()
        .map(|length| {
            let rows = rows.iter().filter(|row| row.length == *length);
            let batch = rows.clone().next().map_or(0, |row| row.batch);
            panel(format!("length {length}, batch {batch}"), rows.map(|row| (row.mix.clone(), &row.mix, &row.against)))
        })
        .collect();
    let what = if part == "core" { "Attention core" } else { "Attention layer" };
    let title = format!("{what}, forward + backward: PyTorch's time over ours");
    ratios::figure(&format!("attention-{part}-ratio"), &title, &panels).into_iter().collect()
}

/// Comparisons by label, in the order of the paper's mixes.
fn panel<'a>(
    title: String,
    comparisons: impl Iterator<Item = (String, &'a String, &'a super::read::bench::Against)>,
) -> Ratios<'a> {
    let mut rows: Vec<(usize, (String, Vec<_>))> = Vec::new();
    for (label, mix, against) in comparisons {
        match rows.iter_mut().find(|row| row.1 .0 == label) {
            Some(row) => row.1 .1.push(against),
            None => rows.push((paper_order(mix), (label, vec![against]))),
        }
    }
    rows.sort_by_key(|row| row.0);
    Ratios { title, rows: rows.into_iter().map(|row| row.1).collect() }
}
