//! What `bench attention` measured over lengths or batches, by mix.

use super::read::bench::measured_by;
use super::read::cost::TimeRow;
use super::results::row_key;
use super::statistics::exponent;
use super::table::quality::paper_order;

/// The shortest length that exponents are fitted over: below it what does not grow takes most of the time.
pub const FIT_FROM: u64 = 256;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Median time of a pass.
    Milliseconds,
    /// Most memory of a pass, above weights and input.
    Megabytes,
}

impl Quantity {
    /// `ms` or `MB`.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Milliseconds => "ms",
            Quantity::Megabytes => "MB",
        }
    }

    /// In its unit; none where it was not measured.
    pub fn of(self, row: &TimeRow) -> Option<f64> {
        match self {
            Quantity::Milliseconds => Some(row.median_seconds * 1e3),
            Quantity::Megabytes => row.peak_memory_bytes.map(|bytes| bytes as f64 / 1e6),
        }
        .filter(|value| *value > 0.0)
    }
}

/// Measurements of one layer over lengths or batches.
#[derive(Debug, Clone, Default)]
pub struct Grown {
    rows: Vec<TimeRow>,
}

impl Grown {
    /// Of measurements of the layer; those of other sizes or another machine than the first one's are left out.
    pub fn new(mut rows: Vec<TimeRow>) -> Grown {
        rows.retain(|row| row.part != "core");
        let first = rows.first().map(|row| row.sizes.clone());
        rows.retain(|row| Some(&row.sizes) == first.as_ref());
        Grown { rows }
    }

    /// Mixes, the paper's first and in its order.
    pub fn mixes(&self) -> Vec<String> {
        let mut mixes: Vec<String> = Vec::new();
        for row in &self.rows {
            if !mixes.iter().any(|mix| row_key(mix, "") == row_key(&row.mix, "")) {
                mixes.push(row.mix.clone());
            }
        }
        mixes.sort_by_key(|mix| paper_order(mix));
        mixes
    }

    fn of<'a>(&'a self, mix: &str, backward: bool) -> impl Iterator<Item = &'a TimeRow> {
        let key = row_key(mix, "");
        self.rows.iter().filter(move |row| row_key(&row.mix, "") == key && row.backward == backward)
    }

    /// A quantity of a mix by length.
    pub fn by_length(&self, mix: &str, backward: bool, quantity: Quantity) -> Vec<(f64, f64)> {
        let points = self.of(mix, backward).filter_map(|row| Some((row.length as f64, quantity.of(row)?)));
        sorted(points.collect())
    }

    /// Tokens a second of a mix by batch.
    pub fn by_batch(&self, mix: &str, backward: bool) -> Vec<(f64, f64)> {
        let point = |row: &TimeRow| {
            let batch = row.batch? as f64;
            Some((batch, batch * row.length as f64 / row.median_seconds))
        };
        sorted(self.of(mix, backward).filter_map(point).collect())
    }

    /// The power of the length with which a quantity grows, over the lengths from [`FIT_FROM`].
    pub fn exponent(&self, mix: &str, backward: bool, quantity: Quantity) -> Option<f64> {
        let mut points = self.by_length(mix, backward, quantity);
        points.retain(|point| point.0 >= FIT_FROM as f64);
        exponent(&points)
    }

    /// All lengths, or all batches, that were measured.
    pub fn places(&self, by_length: bool) -> Vec<u64> {
        let place = |row: &TimeRow| if by_length { Some(row.length) } else { row.batch };
        let mut places: Vec<u64> = self.rows.iter().filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// What was typed, as sentences.
    pub fn commands(&self) -> Vec<String> {
        measured_by(self.rows.iter().map(|row| row.command.as_str()))
    }

    /// Sizes and machine, for people: the batch when it is the length that grows, else the length.
    pub fn setting(&self, by_length: bool) -> String {
        let Some(first) = self.rows.first() else { return String::new() };
        let fixed = match (by_length, first.batch) {
            (true, Some(batch)) => format!("batch {batch}, "),
            (true, None) => String::new(),
            (false, _) => format!("length {}, ", first.length),
        };
        let mut open: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.open) {
            if !open.contains(&row.mix.as_str()) {
                open.push(&row.mix);
            }
        }
        let mask = if open.is_empty() { "causal".into() } else { format!("causal but for {}", open.join(" and ")) };
        format!("{fixed}{}, {mask}", first.sizes)
    }
}

fn sorted(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
