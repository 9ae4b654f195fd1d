//! Dialogue: what was said so far to the reply, scored by the metrics of the paper's Table 3.

use super::remarks::{self, blanks, Score};
use super::sequence_to_sequence::Judge;
use super::Scores;
use crate::data::fetch::sha256_file;
use crate::experiment::Run;
use crate::metric::caption_bleu::{self, CaptionBleu};
use crate::metric::caption_rouge::{self, CaptionRougeL};
use crate::metric::cider::{self, Cider};
use crate::metric::embedding_average::{self, EmbeddingAverage, WordVectors};
use crate::metric::meteor::{self, Meteor};
use crate::metric::tokenize::{lower_case_words, Tokenization};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// From this share of unknown words on, the embedding average has a note.
const UNKNOWN: f64 = 0.05;

/// Scores replies.
pub struct Dialogue {
    /// Word vectors for the embedding average, if the user has named some.
    vectors: Option<PathBuf>,
    /// The declared language of the replies; empty for none.
    target: String,
}

impl Dialogue {
    /// With the word vectors and the target language that a run names.
    pub fn new(run: &Run) -> Self {
        let vectors = &run.data.vectors;
        let vectors = (!vectors.as_os_str().is_empty()).then(|| vectors.clone());
        Self { vectors, target: run.data.target.clone() }
    }

    /// The embedding average with its signature, and a note on unknown words.
    fn embedding_average(
        &self,
        path: &Path,
        tokenization: &Tokenization,
        replies: &[String],
        references: &[String],
    ) -> Result<(Score, String, Option<String>)> {
        let words = |texts: &[String]| {
            texts.iter().map(|text| embedding_average::words(text, tokenization)).collect::<Vec<_>>()
        };
        let (replies, references) = (words(replies), words(references));
        let needed = replies.iter().chain(&references).flatten().cloned().collect();
        let vectors = WordVectors::read(path, &needed)?;
        let mut average = EmbeddingAverage::new(&vectors);
        for (reply, reference) in replies.iter().zip(&references) {
            average.add(reply, reference);
        }
        let signature =
            format!("{}|sha256:{:.16}", embedding_average::signature(path, tokenization), sha256_file(path)?);
        let reason = "no word of the references has a vector in data.vectors";
        let score = Score::new("test", "embedding_average", average.score(), reason);
        let unknown = average.unknown();
        let note = (score.value.is_some() && unknown.value() >= UNKNOWN).then(|| {
            format!(
                "The embedding average takes {unknown} of the words of the test references for the mean of all vectors: \
                 data.vectors has none for them."
            )
        });
        Ok((score, signature, note))
    }
}

impl Judge for Dialogue {
    /// BLEU-1, BLEU-4, ROUGE-L, METEOR and, on test, the embedding average, 0 to 100; CIDEr, 0 to 1000. Without word vectors
    /// there is no embedding average; a file of them is read once. The words are those of the declared target language's
    /// tokenization.
    fn judge(&self, split: &str, replies: &[String], references: &[String]) -> Result<Scores> {
        let tokenization = Tokenization::of_target(&self.target);
        let (mut bleu, mut rouge, mut meteor, mut cider) =
            (CaptionBleu::default(), CaptionRougeL::default(), Meteor::default(), Cider::default());
        for (reply, reference) in replies.iter().zip(references) {
            let words = |text: &str| lower_case_words(text, &tokenization);
            let (reply, reference) = (words(reply), words(reference));
            bleu.add(&reply, &reference);
            rouge.add(&reply, &reference);
            meteor.add(&reply, &reference);
            cider.add(&reply, &reference);
        }
        let [bleu1, _, _, bleu4] = bleu.defined();
        let no_word = "no reference has a word";
        let no_four = if bleu1.is_some() { "no reference has four words" } else { no_word };
        let no_weight = match references.len() {
            1 => "the document frequencies of a single exchange give every n-gram the weight 0",
            _ if bleu1.is_some() => "all references have the same n-grams, so that every weight is 0",
            _ => no_word,
        };
        let score = |name: &str, value, reason: &str| Score::new(split, name, value, reason);
        let bleu_signature = caption_bleu::signature(&tokenization);
        let mut scores = vec![
            (score("bleu1", bleu1, no_word), bleu_signature.clone()),
            (score("bleu4", bleu4, no_four), bleu_signature),
            (score("rougel", rouge.score(), no_word), caption_rouge::signature(&tokenization)),
            (score("meteor", meteor.score(), no_word), meteor::signature(&tokenization)),
            (score("cider", cider.score(), no_weight), cider::signature(&tokenization)),
        ];
        let mut notes = Vec::new();
        if split == "test" {
            let mut names = vec!["BLEU-1", "BLEU-4", "ROUGE-L", "METEOR", "CIDEr"];
            if let Some(path) = &self.vectors {
                let (score, signature, note) = self.embedding_average(path, &tokenization, replies, references)?;
                scores.push((score, signature));
                notes.extend(note);
                names.push("embedding average");
            }
            notes.extend(remarks::words(&remarks::listed(&names), &tokenization, &self.target, references));
        }
        let mut metrics = Vec::new();
        for (score, signature) in &scores {
            metrics.push(score.metric());
            metrics.push((format!("{}.signature", score.name), signature.clone().into()));
        }
        let scores: Vec<Score> = scores.into_iter().map(|(score, _)| score).collect();
        notes.extend(blanks(&scores));
        Ok(Scores { metrics, notes })
    }
}
