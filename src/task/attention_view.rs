//! Histograms of attention weights, as in the paper's figures.

use crate::model::LayerView;
use tch::{Device, Kind, Tensor};

/// Bins of equal width over [0, 1].
pub const BINS: i64 = 50;

/// Rows of the dev split on which attention is looked at.
pub const VIEWED_ROWS: usize = 64;

/// bool [B, L, L]: which keys each query may see, of real tokens [B, L] (bool), causal or not.
pub fn visible(real: &Tensor, causal: bool) -> Tensor {
    let length = real.size()[1];
    let keys = real.unsqueeze(1).expand([-1, length, -1], true);
    if causal {
        keys.logical_and(&Tensor::ones([length, length], (Kind::Bool, real.device())).tril(0))
    } else {
        keys
    }
}

/// How one layer spreads its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// `encoder` or `decoder`.
    pub stack: &'static str,
    /// From 0.
    pub layer: usize,
    /// Weights in each bin, over heads, queries that are no padding, and keys that they may see.
    pub counts: Vec<u64>,
    /// Mean entropy of a query's weights, in nats.
    pub entropy: f64,
    /// What it would be with equal weights: the mean of ln(visible keys).
    pub uniform_entropy: f64,
}

/// Histograms of all layers, gathered from a few rows at a time: of weights [B, h, L, L] only sums are kept.
#[derive(Debug, Default)]
pub struct Histograms {
    layers: Vec<Sums>,
}

/// One layer's sums; entropies in float64, so that the order of rows shows in no printed digit.
#[derive(Debug)]
struct Sums {
    stack: &'static str,
    layer: usize,
    counts: Vec<u64>,
    entropy: f64,
    uniform_entropy: f64,
    /// Real queries; the sum of entropies is over heads too.
    queries: u64,
    heads: u64,
}

impl Histograms {
    /// Adds rows of a layer: `view.values` [B, h, L, L]; `queries` [B, L] true for real tokens; `visible` [B, L, L] true
    /// where a query may see a key.
    pub fn add(&mut self, view: &LayerView, queries: &Tensor, visible: &Tensor) {
        let known = self.layers.iter().position(|sums| (sums.stack, sums.layer) == (view.stack, view.layer));
        let at = known.unwrap_or_else(|| {
            self.layers.push(Sums {
                stack: view.stack,
                layer: view.layer,
                counts: vec![0; BINS as usize],
                entropy: 0.0,
                uniform_entropy: 0.0,
                queries: 0,
                heads: view.values.size()[1] as u64,
            });
            self.layers.len() - 1
        });
        // row by row: in float64 a row is larger than what it is made of
        for row in 0..view.values.size()[0] {
            self.layers[at].add(&view.values.get(row), &queries.get(row), &visible.get(row));
        }
    }

    /// The histograms, in the order in which the layers came.
    pub fn finish(self) -> Vec<Histogram> {
        let finished = self.layers.into_iter().map(|sums| Histogram {
            stack: sums.stack,
            layer: sums.layer,
            counts: sums.counts,
            entropy: sums.entropy / (sums.queries * sums.heads) as f64,
            uniform_entropy: sums.uniform_entropy / sums.queries as f64,
        });
        finished.collect()
    }
}

impl Sums {
    /// One row: weights [h, L, L], queries `[L]`, visible [L, L].
    fn add(&mut self, weights: &Tensor, queries: &Tensor, visible: &Tensor) {
        let weights = weights.to_kind(Kind::Double);
        let (heads, length) = (weights.size()[0], weights.size()[1]);
        let real = visible.logical_and(&queries.unsqueeze(-1)).expand([heads, length, length], true);
        let counted = unit_histogram(&weights.masked_select(&real)).to_device(Device::Cpu);
        for (bin, count) in self.counts.iter_mut().enumerate() {
            *count += counted.int64_value(&[bin as i64]) as u64;
        }
        let mut terms = weights.clamp_min(1e-30).log_();
        terms *= &weights;
        let entropy = -terms.sum_dim_intlist(-1, false, Kind::Double);
        let keys = visible.to_kind(Kind::Double).sum_dim_intlist(-1, false, Kind::Double).clamp_min(1.0).log();
        let sum = |values: &Tensor, mask: &Tensor| values.masked_select(mask).sum(Kind::Double).double_value(&[]);
        self.entropy += sum(&entropy, &queries.expand([heads, length], true));
        self.uniform_entropy += sum(&keys, queries);
        self.queries += queries.sum(Kind::Int64).int64_value(&[]) as u64;
    }
}

/// The rows of a batch a few at a time, as first row and count: weights of all rows at once can take gigabytes.
pub fn chunks(rows: i64) -> impl Iterator<Item = (i64, i64)> {
    const ROWS_AT_ONCE: i64 = 4;
    (0..rows).step_by(ROWS_AT_ONCE as usize).map(move |first| (first, ROWS_AT_ONCE.min(rows - first)))
}

/// Counts over [0, 1], the last bin closed.
fn unit_histogram(values: &Tensor) -> Tensor {
    let index = (values * BINS as f64).floor().clamp(0.0, (BINS - 1) as f64).to_kind(Kind::Int64);
    index.bincount::<Tensor>(None, BINS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_what_a_real_query_may_see() {
        // one head, two positions, causal; then the second row of the batch has a padded second query
        let values = Tensor::from_slice(&[1.0, 0.0, 0.25, 0.75, 1.0, 0.0, 0.5, 0.5]).view([2, 1, 2, 2]);
        let queries = Tensor::from_slice(&[true, true, true, false]).view([2, 2]);
        let visible = Tensor::from_slice(&[true, false, true, true, true, false, true, true]).view([2, 2, 2]);
        let layer = |row: i64, rows: i64| LayerView { stack: "decoder", layer: 0, values: values.narrow(0, row, rows) };
        let mut whole = Histograms::default();
        whole.add(&layer(0, 2), &queries, &visible);
        let whole = whole.finish();
        let got = &whole[0];
        assert_eq!(got.counts.iter().sum::<u64>(), 4, "weights 1, 0.25, 0.75 and 1");
        assert_eq!((got.counts[12], got.counts[37], got.counts[49]), (1, 1, 2));
        let entropy = -(0.25f64 * 0.25f64.ln() + 0.75 * 0.75f64.ln()) / 3.0;
        assert!((got.entropy - entropy).abs() < 1e-12);
        assert!((got.uniform_entropy - 2f64.ln() / 3.0).abs() < 1e-12);

        // rows of unequal numbers of queries, one after the other
        let mut parts = Histograms::default();
        for row in 0..2 {
            parts.add(&layer(row, 1), &queries.narrow(0, row, 1), &visible.narrow(0, row, 1));
        }
        assert_eq!(parts.finish(), whole);
    }

    #[test]
    fn chunks_make_the_whole() {
        assert_eq!(chunks(9).collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 1)]);
        assert_eq!(chunks(0).count(), 0);
    }
}
