//! Dialogue: what was said so far to the reply, scored by the metrics of the paper's Table 3.

use super::sequence_to_sequence::Judge;
use super::Metric;
use crate::data::fetch::sha256_file;
use crate::experiment::Run;
use crate::metric::caption_bleu::{self, CaptionBleu};
use crate::metric::caption_rouge::{self, CaptionRougeL};
use crate::metric::cider::{self, Cider};
use crate::metric::embedding_average::{self, EmbeddingAverage, WordVectors};
use crate::metric::meteor::{self, Meteor};
use crate::metric::tokenize::lower_case_words;
use anyhow::Result;
use std::path::PathBuf;

/// Scores replies.
pub struct Dialogue {
    /// Word vectors for the embedding average, if the user has named some.
    vectors: Option<PathBuf>,
}

impl Dialogue {
    /// With the word vectors that a run names.
    pub fn new(run: &Run) -> Self {
        let vectors = &run.data.vectors;
        Self { vectors: (!vectors.as_os_str().is_empty()).then(|| vectors.clone()) }
    }
}

impl Judge for Dialogue {
    /// BLEU-1, BLEU-4, ROUGE-L, METEOR and, on test, the embedding average, 0 to 100; CIDEr, 0 to 1000. Without word vectors
    /// there is no embedding average; a file of them is read once.
    fn judge(&self, split: &str, replies: &[String], references: &[String]) -> Result<Vec<Metric>> {
        let (mut bleu, mut rouge, mut meteor, mut cider) =
            (CaptionBleu::default(), CaptionRougeL::default(), Meteor::default(), Cider::default());
        for (reply, reference) in replies.iter().zip(references) {
            let (reply, reference) = (lower_case_words(reply), lower_case_words(reference));
            bleu.add(&reply, &reference);
            rouge.add(&reply, &reference);
            meteor.add(&reply, &reference);
            cider.add(&reply, &reference);
        }
        let [bleu1, _, _, bleu4] = bleu.scores();
        let mut scores = vec![
            ("bleu1", bleu1, caption_bleu::signature()),
            ("bleu4", bleu4, caption_bleu::signature()),
            ("rougel", rouge.score(), caption_rouge::signature()),
            ("meteor", meteor.score(), meteor::signature()),
            ("cider", cider.score(), cider::signature()),
        ];
        if let Some(path) = self.vectors.as_ref().filter(|_| split == "test") {
            let words = |texts: &[String]| texts.iter().map(|text| embedding_average::words(text)).collect::<Vec<_>>();
            let (replies, references) = (words(replies), words(references));
            let needed = replies.iter().chain(&references).flatten().cloned().collect();
            let vectors = WordVectors::read(path, &needed)?;
            let mut average = EmbeddingAverage::new(&vectors);
            for (reply, reference) in replies.iter().zip(&references) {
                average.add(reply, reference);
            }
            let signature = format!("{}|sha256:{:.16}", embedding_average::signature(path), sha256_file(path)?);
            scores.push(("embedding_average", average.score(), signature));
        }
        let mut metrics: Vec<Metric> = Vec::new();
        for (name, score, signature) in scores {
            metrics.push((format!("{split}.{name}"), score.into()));
            metrics.push((format!("{split}.{name}.signature"), signature.into()));
        }
        Ok(metrics)
    }
}
