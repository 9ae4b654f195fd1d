//! What is written about attention: α in the log, histograms in attention.csv.

use crate::attention::SelfAttention;
use crate::task::attention_view::{Histogram, BINS};
use crate::task::Task;

/// Names of the α columns of the log: `alpha.STACK.LAYER.HEAD.TERM`.
pub fn alpha_columns(task: &dyn Task) -> Vec<String> {
    mixtures(task)
        .flat_map(|(stack, layer, attention)| {
            let heads = attention.mixing_weights().map_or(0, |weights| weights.size()[1]);
            let terms = attention.term_names();
            (0..heads).flat_map(move |head| {
                terms.clone().into_iter().map(move |term| format!("alpha.{stack}.{layer}.{head}.{term}"))
            })
        })
        .collect()
}

/// The weights of the mixtures, in the order of [`alpha_columns`].
pub fn alphas(task: &dyn Task) -> Vec<f64> {
    mixtures(task)
        .filter_map(|(_, _, attention)| attention.mixing_weights())
        .flat_map(|weights| {
            let weights = weights.to_device(tch::Device::Cpu).to_kind(tch::Kind::Double);
            let (terms, heads) = (weights.size()[0], weights.size()[1]);
            (0..heads)
                .flat_map(|head| (0..terms).map(move |term| [term, head]))
                .map(|at| weights.double_value(&at))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn mixtures(task: &dyn Task) -> impl Iterator<Item = (&'static str, usize, &SelfAttention)> {
    task.attentions().into_iter().filter(|(_, _, attention)| attention.mixing_weights().is_some())
}

/// Rows of attention.csv for one moment, `start` or `end`.
pub fn histogram_rows(when: &str, histograms: &[Histogram]) -> Vec<Vec<String>> {
    let edge = |bin: i64| format!("{:.2}", bin as f64 / BINS as f64);
    histograms
        .iter()
        .flat_map(|histogram| {
            histogram.counts.iter().enumerate().map(move |(bin, count)| {
                vec![
                    when.to_string(),
                    histogram.stack.to_string(),
                    histogram.layer.to_string(),
                    edge(bin as i64),
                    edge(bin as i64 + 1),
                    count.to_string(),
                    format!("{:.6}", histogram.entropy),
                    format!("{:.6}", histogram.uniform_entropy),
                ]
            })
        })
        .collect()
}

/// The header of attention.csv.
pub const HISTOGRAM_HEADER: [&str; 8] =
    ["when", "stack", "layer", "low", "high", "count", "entropy", "uniform_entropy"];
