//! Summarization: an article to its summary, scored by ROUGE.

use super::remarks::{blanks, Score};
use super::sequence_to_sequence::Judge;
use super::Scores;
use crate::experiment::Run;
use crate::metric::rouge::{self, Rouge, Words};
use crate::metric::script::{self, Reach};
use anyhow::Result;

/// From this share of letters outside the Latin script on, a declared target language gets ROUGE over words of any script.
const FOREIGN: f64 = 0.1;

/// Scores summaries. The sentences of a summary are its lines.
pub struct Summarization {
    /// The declared language of the summaries; empty for none.
    target: String,
}

impl Summarization {
    /// With a run's target language.
    pub fn new(run: &Run) -> Self {
        Self { target: run.data.target.clone() }
    }

    /// rouge-score's own words, unless the target language is declared and its text is in another script.
    fn words(&self, references: &[String]) -> Words {
        let foreign = script::foreign(references).value() >= FOREIGN;
        if foreign && !self.target.is_empty() {
            Words::Unicode
        } else {
            Words::Latin
        }
    }
}

impl Judge for Summarization {
    /// ROUGE-1, -2, -L and -Lsum: F1, 0 to 100.
    fn judge(&self, split: &str, summaries: &[String], references: &[String]) -> Result<Scores> {
        let words = self.words(references);
        let mut rouge = Rouge::over(words);
        for (summary, reference) in summaries.iter().zip(references) {
            rouge.add(summary, reference);
        }
        let reach = Reach::of(references, |letter| words.keep(letter));
        let nothing_seen = reach.unseen.part == reach.unseen.whole;
        let reason = |name: &str| match name {
            _ if reach.unseen.whole == 0 => "all references are blank".to_string(),
            _ if nothing_seen => unseen(&reach, words),
            "rouge2" => "no reference has two words".to_string(),
            _ => "no reference has a word".to_string(),
        };
        let names = ["rouge1", "rouge2", "rougel", "rougelsum"];
        let scores: Vec<Score> = (names.into_iter().zip(rouge.means()))
            .map(|(name, mean)| Score::new(split, name, mean, reason(name)))
            .collect();
        let mut notes = blanks(&scores);
        if split == "test" && !nothing_seen {
            notes.extend((reach.unseen.part > 0).then(|| format!("{}, and counts them as 0.", unseen(&reach, words))));
            let dropped = reach.dropped;
            notes.extend(dropped.is_noted().then(|| {
                format!("ROUGE ignores {dropped} of the letters of the test references: it keeps {} only.", kept(words))
            }));
        }
        let mut metrics: Vec<_> = scores.iter().map(Score::metric).collect();
        metrics.push((format!("{split}.rouge.signature"), rouge::signature(words).into()));
        Ok(Scores { metrics, notes })
    }
}

/// Which references ROUGE cannot score.
fn unseen(reach: &Reach, words: Words) -> String {
    let advice = match words {
        Words::Latin => " (data.target, the language of the summaries, can be declared for words of other scripts)",
        Words::Unicode => "",
    };
    let (part, whole) = (reach.unseen.part, reach.unseen.whole);
    format!("ROUGE cannot score {part} of {whole} references: they have no {}{advice}", kept(words))
}

fn kept(words: Words) -> &'static str {
    match words {
        Words::Latin => "Latin letters (a to z) or digits",
        Words::Unicode => "letters or digits",
    }
}
