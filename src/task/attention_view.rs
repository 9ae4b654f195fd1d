//! Histograms of attention weights, as in the paper's figures.

use crate::model::LayerView;
use tch::{Kind, Tensor};

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

/// `view.values` [B, h, L, L]; `queries` [B, L] true for real tokens; `visible` [B, L, L] true where a query may see a key.
pub fn histogram(view: &LayerView, queries: &Tensor, visible: &Tensor) -> Histogram {
    let weights = view.values.to_kind(Kind::Double);
    let (batch, heads, length) = (weights.size()[0], weights.size()[1], weights.size()[2]);
    let real = visible.logical_and(&queries.unsqueeze(-1)).unsqueeze(1).expand([batch, heads, length, length], true);
    let counted = unit_histogram(&weights.masked_select(&real)).to_device(tch::Device::Cpu);
    let entropy = -(weights.clamp_min(1e-30).log() * &weights).sum_dim_intlist(-1, false, Kind::Double);
    let rows = queries.unsqueeze(1).expand([batch, heads, length], true);
    let keys = visible.to_kind(Kind::Double).sum_dim_intlist(-1, false, Kind::Double).clamp_min(1.0).log();
    Histogram {
        stack: view.stack,
        layer: view.layer,
        counts: (0..BINS).map(|bin| counted.int64_value(&[bin]) as u64).collect(),
        entropy: entropy.masked_select(&rows).mean(Kind::Double).double_value(&[]),
        uniform_entropy: keys.masked_select(queries).mean(Kind::Double).double_value(&[]),
    }
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
        let view = LayerView { stack: "decoder", layer: 0, values };
        let got = histogram(&view, &queries, &visible);
        assert_eq!(got.counts.iter().sum::<u64>(), 4, "weights 1, 0.25, 0.75 and 1");
        assert_eq!((got.counts[12], got.counts[37], got.counts[49]), (1, 1, 2));
        let entropy = -(0.25f64 * 0.25f64.ln() + 0.75 * 0.75f64.ln()) / 3.0;
        assert!((got.entropy - entropy).abs() < 1e-12);
        assert!((got.uniform_entropy - 2f64.ln() / 3.0).abs() < 1e-12);
    }
}
