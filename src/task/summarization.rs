//! Summarization: an article to its summary, scored by ROUGE.

use super::sequence_to_sequence::Judge;
use super::Metric;
use crate::metric::rouge::{self, Rouge};
use anyhow::Result;

/// Scores summaries. The sentences of a summary are its lines.
pub struct Summarization;

impl Judge for Summarization {
    /// ROUGE-1, -2, -L and -Lsum: F1, 0 to 100.
    fn judge(&self, split: &str, summaries: &[String], references: &[String]) -> Result<Vec<Metric>> {
        let mut rouge = Rouge::default();
        for (summary, reference) in summaries.iter().zip(references) {
            rouge.add(summary, reference);
        }
        let mean = rouge.mean();
        let scores =
            [("rouge1", mean.rouge1), ("rouge2", mean.rouge2), ("rougel", mean.rougel), ("rougelsum", mean.rougelsum)];
        let mut metrics: Vec<Metric> =
            scores.iter().map(|(name, score)| (format!("{split}.{name}"), (*score).into())).collect();
        metrics.push((format!("{split}.rouge.signature"), rouge::signature().into()));
        Ok(metrics)
    }
}
