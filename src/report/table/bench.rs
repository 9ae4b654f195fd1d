//! Tables of the benchmarks: ours against PyTorch, and how ours grows.

use super::quality::paper_order;
use super::{Cell, Column, Kind, Table};
use crate::report::figure::ratios::NAMES;
use crate::report::grown::{Grown, Quantity, FIT_FROM};
use crate::report::read::bench::{Against, AttentionRow, DecodeRow, Sheets, TrainRow};

/// A table whose columns are put one by one, each with a cell for every row.
struct Builder<'a, R> {
    rows: &'a [R],
    columns: Vec<Column>,
    cells: Vec<Vec<Cell>>,
}

impl<'a, R> Builder<'a, R> {
    fn new(rows: &'a [R]) -> Builder<'a, R> {
        Builder { rows, columns: Vec::new(), cells: vec![Vec::new(); rows.len()] }
    }

    fn name(&mut self, heading: &str, key: &str, text: impl Fn(&R) -> String) {
        self.put(Column::new("", heading, key, Kind::Text).kept(), |row| Cell::Text(text(row)));
    }

    fn number(&mut self, (group, heading, key): (&str, &str, &str), cell: impl Fn(&R) -> Option<Cell>) {
        self.put(Column::new(group, heading, key, Kind::Number), |row| cell(row).unwrap_or_default());
    }

    fn put(&mut self, column: Column, cell: impl Fn(&R) -> Cell) {
        self.columns.push(column);
        for (cells, row) in self.cells.iter_mut().zip(self.rows) {
            cells.push(cell(row));
        }
    }

    fn table(self, name: &str, caption: String, notes: Vec<String>) -> Table {
        Table { name: name.into(), caption, columns: self.columns, rows: self.cells, notes }.without_blank_columns()
    }
}

/// What stands for each form of PyTorch that is there.
fn legend<'a>(rows: impl Iterator<Item = &'a Against> + Clone) -> String {
    let is_there = |form: &str| rows.clone().any(|against| against.form == form);
    let there: Vec<String> =
        NAMES.iter().filter(|name| is_there(name.0)).map(|(form, what)| format!("{form}: {what}")).collect();
    format!("Ratios: PyTorch's time over ours, above 1 ours is faster. {}.", there.join("; "))
}

/// Lines that differ in nothing but the form of PyTorch, in the order in which they come.
fn grouped<'a, T, K: PartialEq>(rows: &'a [T], key: impl Fn(&'a T) -> K) -> Vec<Vec<&'a T>> {
    let mut groups: Vec<Vec<&'a T>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// The ratio to one form of PyTorch.
fn ratio<'a>(mut comparisons: impl Iterator<Item = &'a Against>, form: &str) -> Option<Cell> {
    Some(Cell::Number(comparisons.find(|against| against.form == form)?.ratio, 2))
}

/// Our most memory over that of PyTorch operation by operation.
fn memory<'a>(mut comparisons: impl Iterator<Item = &'a Against>) -> Option<Cell> {
    let against = comparisons.find(|against| against.form == "eager")?;
    let (ours, peer) = (against.our_memory?, against.peer_memory.filter(|bytes| *bytes > 0)?);
    Some(Cell::Number(ours as f64 / peer as f64, 2))
}

/// The core or the layer against PyTorch; none without such lines.
pub fn attention(sheet: &Sheets<AttentionRow>, part: &str) -> Option<Table> {
    sheet.rows.first()?;
    let mut groups = grouped(&sheet.rows, |row| (row.length, &row.mix));
    groups.sort_by_key(|group| (group[0].length, paper_order(&group[0].mix)));
    let mut builder = Builder::new(&groups);
    builder.name("Length", "length", |group| group[0].length.to_string());
    builder.name("Mix", "mix", |group| group[0].mix.clone());
    for (backward, pass, key) in [(true, "forward + backward", "backward"), (false, "forward", "forward")] {
        // Ours is measured anew against each form: what is said of ours alone is of the first.
        let of = |group: &[&AttentionRow]| group.iter().find(|row| row.backward == backward).map(|row| (*row).clone());
        builder.number((pass, "our ms", &format!("{key}.our_ms")), |group| {
            Some(Cell::Significant(of(group)?.our_seconds * 1e3, 3))
        });
        for (form, _) in NAMES {
            builder.number((pass, form, &format!("{key}.ratio_{form}")), |group| {
                ratio(group.iter().filter(|row| row.backward == backward).map(|row| &row.against), form)
            });
        }
        builder.number((pass, "% of product rate", &format!("{key}.product_percent")), |group| {
            Some(Cell::Number(100.0 * of(group)?.product_share, 0))
        });
        builder.number((pass, "% of roofline", &format!("{key}.roofline_percent")), |group| {
            let row = of(group)?;
            Some(Cell::Number(100.0 * row.least_seconds / row.our_seconds, 0))
        });
        builder.number((pass, "memory, ours / eager", &format!("{key}.memory_ratio")), |group| {
            memory(group.iter().filter(|row| row.backward == backward).map(|row| &row.against))
        });
    }
    let what = if part == "core" {
        "The core of attention (logits, mixture, mask, softmax and weighted values, without the projections)"
    } else {
        "The attention layer with its projections"
    };
    let batches = grouped(&sheet.rows, |row| row.length);
    let batches: Vec<String> =
        batches.iter().map(|group| format!("{} at length {}", group[0].batch, group[0].length)).collect();
    let mut notes = vec![
        legend(sheet.rows.iter().map(|row| &row.against)),
        "Ours has a run of its own against each form; its time and shares are those of the first. \
         % of product rate: the operations that cannot be left out over our time, as a share of the machine's rate of matrix products, \
         median of some right before and right after; \
         % of roofline: the least time that the machine's rates of products and copies allow, as a share of ours. Memory: most of a pass \
         above weights and input."
            .to_string(),
        format!("Batch {}.", batches.join(", ")),
    ];
    notes.extend(sheet.about.iter().cloned());
    Some(builder.table(&format!("attention-{part}"), format!("{what} against PyTorch, causal where it can be."), notes))
}

/// Training steps against PyTorch; none without lines.
pub fn train(sheet: &Sheets<TrainRow>) -> Option<Table> {
    let groups = grouped(&sheet.rows, |row| (&row.experiment, &row.mix));
    groups.first()?;
    let mut builder = Builder::new(&groups);
    builder.name("Experiment", "experiment", |group| group[0].experiment.clone());
    builder.name("Mix", "mix", |group| group[0].mix.clone());
    builder.number(("ours", "tokens/s", "our_tokens_per_second"), |group| {
        let rates: Vec<f64> = group.iter().map(|row| row.our_rate).collect();
        // Measured once against each form.
        Some(Cell::Number(rates.iter().sum::<f64>() / rates.len() as f64, 0))
    });
    for (form, _) in NAMES {
        builder.number(("ratio of tokens/s", form, &format!("ratio_{form}")), |group| {
            ratio(group.iter().map(|row| &row.against), form)
        });
    }
    builder.number(("ours", "% of product rate", "product_percent"), |group| {
        let shares: Vec<f64> = group.iter().map(|row| row.product_share).collect::<Option<_>>()?;
        Some(Cell::Number(100.0 * shares.iter().sum::<f64>() / shares.len() as f64, 0))
    });
    builder.number(("", "memory, ours / eager", "memory_ratio"), |group| memory(group.iter().map(|row| &row.against)));
    let mut notes = vec![legend(sheet.rows.iter().map(|row| &row.against))];
    notes.push(
        "Tokens/s and % of product rate: means over the comparisons. % of product rate: the operations that the model's products and \
         attention need over our time, as a share of the machine's rate of matrix products, median of some between the turns. Memory: most of a step above model, \
         optimizer and data."
            .to_string(),
    );
    notes.extend(sheet.about.iter().cloned());
    let caption = "Training steps against PyTorch: the same model, weights and batches, steps in turn.";
    Some(builder.table("train", caption.into(), notes))
}

/// Decoding against PyTorch; none without lines.
pub fn decode(sheet: &Sheets<DecodeRow>) -> Option<Table> {
    sheet.rows.first()?;
    let mut builder = Builder::new(&sheet.rows);
    builder.name("Run", "run", |row| row.name());
    builder.name("Mix", "mix", |row| row.mix.clone());
    builder.name("Beam", "beam", |row| row.beam.to_string());
    builder.number(("", "sentences/s", "sentences_per_second"), |row| Some(Cell::Number(row.sentence_rate, 1)));
    builder.number(("", "tokens/s", "tokens_per_second"), |row| Some(Cell::Number(row.token_rate, 0)));
    builder.number(("", "ratio", "ratio"), |row| Some(Cell::Number(row.against.as_ref()?.ratio, 2)));
    builder.number(("", "differing sentences", "differing"), |row| Some(Cell::Count(row.differing?)));
    let mut notes = Vec::new();
    if sheet.rows.iter().any(|row| row.against.is_some()) {
        notes.push(legend(sheet.rows.iter().filter_map(|row| row.against.as_ref())));
    }
    notes.extend(sheet.about.iter().cloned());
    Some(builder.table(
        "decode",
        "Decoding of sentences of the test set, greedy (beam 1) and by beam search.".into(),
        notes,
    ))
}

/// Time, memory and their exponents by mix; none without measurements.
pub fn growth(grown: &Grown) -> Option<Table> {
    let mixes = grown.mixes();
    mixes.first()?;
    let mut builder = Builder::new(&mixes);
    builder.name("Mix", "mix", String::clone);
    let passes = [(false, "forward", "forward"), (true, "forward + backward", "backward")];
    for (quantity, group, key) in [
        (Quantity::Milliseconds, "time: exponent of L", "time"),
        (Quantity::Megabytes, "memory: exponent of L", "memory"),
    ] {
        for (backward, heading, pass) in passes {
            builder.number((group, heading, &format!("{key}_exponent.{pass}")), |mix| {
                Some(Cell::Number(grown.exponent(mix, backward, quantity)?, 2))
            });
        }
    }
    for length in grown.places(true) {
        builder.number(("forward + backward, ms", &format!("L {length}"), &format!("ms.{length}")), |mix| {
            let points = grown.by_length(mix, true, Quantity::Milliseconds);
            Some(Cell::Significant(points.iter().find(|point| point.0 == length as f64)?.1, 3))
        });
    }
    let fitted: Vec<String> =
        grown.places(true).into_iter().filter(|length| *length >= FIT_FROM).map(|length| length.to_string()).collect();
    let mut notes = vec![
        format!("Exponents: the slope of the logarithm of the median time, or of the peak memory, on that of the length, by least squares over lengths {}.", fitted.join(", ")),
        format!("{}.", grown.setting(true)),
    ];
    notes.extend(grown.commands());
    Some(builder.table("growth", "How time and memory of the attention layer grow with the length L.".into(), notes))
}

/// Tokens a second by batch; none without measurements.
pub fn batch(grown: &Grown) -> Option<Table> {
    let mixes = grown.mixes();
    mixes.first()?;
    let mut builder = Builder::new(&mixes);
    builder.name("Mix", "mix", String::clone);
    for (backward, group, key) in [(false, "forward", "forward"), (true, "forward + backward", "backward")] {
        for batch in grown.places(false) {
            builder.number((group, &format!("B {batch}"), &format!("{key}.{batch}")), |mix| {
                let points = grown.by_batch(mix, backward);
                Some(Cell::Compact(points.iter().find(|point| point.0 == batch as f64)?.1))
            });
        }
    }
    let caption = "Tokens a second of the attention layer by sequences in a batch B.";
    let notes = [vec![format!("{}.", grown.setting(false))], grown.commands()].concat();
    Some(builder.table("batch", caption.into(), notes))
}
