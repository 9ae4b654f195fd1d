//! Translation: a sentence in one language to one in another, scored by BLEU.

use super::remarks::{self, blanks, Score};
use super::sequence_to_sequence::Judge;
use super::{Metric, Scores};
use crate::experiment::Run;
use crate::metric::bleu::{corpus_bleu, Bleu, Language, Tokenization};
use anyhow::Result;

/// Scores translations.
pub struct Translation {
    /// Code of the target language; empty where the corpus has none.
    target: String,
}

impl Translation {
    /// For a run's target language.
    pub fn new(run: &Run) -> Self {
        Self { target: run.data.target.clone() }
    }
}

impl Judge for Translation {
    /// sacreBLEU's score on both splits, with its tokenization for the target language; on test also the customary tokenized
    /// one of languages that are written with blanks. Each has its signature.
    fn judge(&self, split: &str, translations: &[String], references: &[String]) -> Result<Scores> {
        let tokenization = Tokenization::of_target(&self.target);
        let bleu = corpus_bleu(translations, references, &tokenization)?;
        let mut scores = vec![Score::new(split, "bleu", bleu.defined(), undefined(&bleu))];
        let mut signatures: Vec<Metric> = vec![(format!("{split}.bleu.signature"), bleu.signature.clone().into())];
        let mut notes = Vec::new();
        if split == "test" {
            let tokenized = Tokenization::WmtTokenized(Language::from_code(&self.target));
            let tokenized = corpus_bleu(translations, references, &tokenized)?;
            let (value, reason) = match tokenization.splits_at_blanks() {
                true => (tokenized.defined(), undefined(&tokenized)),
                false => {
                    (None, format!("it is of languages that are scored with tok:13a, and {:?} is none", self.target))
                }
            };
            scores.push(Score::new(split, "bleu.brevity_penalty", Some(bleu.brevity_penalty), ""));
            scores.push(Score::new(split, "bleu_tokenized", value, reason));
            if tokenization.splits_at_blanks() {
                signatures.push(("test.bleu_tokenized.signature".into(), tokenized.signature.into()));
            }
            let names = if tokenization.splits_at_blanks() { "BLEU and tokenized BLEU" } else { "The n-grams of BLEU" };
            notes.extend(remarks::words(names, &tokenization, &self.target, references));
        }
        notes.extend(blanks(&scores));
        // each signature follows its score
        let mut metrics: Vec<Metric> = Vec::new();
        for score in &scores {
            metrics.push(score.metric());
            let key = format!("{}.signature", score.name);
            metrics.extend(signatures.iter().filter(|signature| signature.0 == key).cloned());
        }
        Ok(Scores { metrics, notes })
    }
}

/// Why BLEU has no value.
fn undefined(bleu: &Bleu) -> String {
    match bleu.ref_len {
        0 => "no reference has a word".into(),
        _ => "no reference has four words, so no translation can share a 4-gram with one".into(),
    }
}
