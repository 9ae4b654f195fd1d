//! Translation: a sentence in one language to one in another, scored by BLEU.

use super::sequence_to_sequence::Judge;
use super::Metric;
use crate::experiment::Run;
use crate::metric::bleu::{corpus_bleu, Language, Tokenization};
use anyhow::Result;

/// Scores translations.
pub struct Translation {
    /// Of the target side: how the customary tokenized BLEU splits words.
    language: Language,
}

impl Translation {
    /// For a run's target language.
    pub fn new(run: &Run) -> Self {
        Self { language: Language::from_code(&run.data.target) }
    }
}

impl Judge for Translation {
    /// sacreBLEU's score on both splits; on test also the customary tokenized one, each with its signature.
    fn judge(&self, split: &str, translations: &[String], references: &[String]) -> Result<Vec<Metric>> {
        let bleu = corpus_bleu(translations, references, &Tokenization::ThirteenA)?;
        let mut metrics: Vec<Metric> = vec![
            (format!("{split}.bleu"), bleu.score.into()),
            (format!("{split}.bleu.signature"), bleu.signature.into()),
        ];
        if split == "test" {
            metrics.push(("test.bleu.brevity_penalty".into(), bleu.brevity_penalty.into()));
            let tokenized = corpus_bleu(translations, references, &Tokenization::WmtTokenized(self.language))?;
            metrics.push(("test.bleu_tokenized".into(), tokenized.score.into()));
            metrics.push(("test.bleu_tokenized.signature".into(), tokenized.signature.into()));
        }
        Ok(metrics)
    }
}
