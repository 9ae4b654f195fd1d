//! SuperGLUE's two sets of which a line is a passage with many questions: MultiRC and ReCoRD.

use super::json_objects::each;
use super::spans::{bytes_of, cut_note, cuts_a_word};
use super::superglue::{binary, given};
use super::{trimmed, Label, LabelledFile, LabelledRow, LabelledRows, RecordAnswers, Wanted};
use crate::excerpt::excerpt;
use anyhow::{bail, Context};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct MultiRc {
    passage: QuestionedPassage,
}

#[derive(Deserialize)]
struct QuestionedPassage {
    text: String,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    question: String,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    label: Option<u32>,
}

/// A row an answer, a group a question.
pub fn multirc(path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    let mut rows = Vec::new();
    let mut group = 0;
    let notes = each(path, |line: MultiRc| {
        let passage = trimmed(&line.passage.text);
        for question in &line.passage.questions {
            for answer in &question.answers {
                let asked = format!("{} {}", question.question.trim_matches(' '), answer.text.trim_matches(' '));
                rows.push(LabelledRow {
                    texts: vec![passage.clone(), trimmed(&asked)],
                    label: Label::Class(binary(answer.label, wanted)?),
                    group,
                });
            }
            group += u32::from(!question.answers.is_empty());
        }
        Ok(())
    })?;
    LabelledFile { rows: LabelledRows::new(2, rows), notes }.not_empty(path)
}

const PLACEHOLDER: &str = "@placeholder";
const HIGHLIGHT: &str = "\n@highlight\n";

#[derive(Deserialize)]
struct Record {
    passage: RecordPassage,
    qas: Vec<Query>,
}

#[derive(Deserialize)]
struct RecordPassage {
    text: String,
    entities: Vec<Entity>,
}

/// Offsets in characters; `end` is that of the last one.
#[derive(Deserialize)]
struct Entity {
    start: usize,
    end: usize,
}

#[derive(Deserialize)]
struct Query {
    query: String,
    answers: Option<Vec<GoldAnswer>>,
}

#[derive(Deserialize)]
struct GoldAnswer {
    text: String,
}

/// A row a distinct entity, a group a query; the entities are taken in the order of the passage's list.
pub fn record(path: &Path, wanted: Wanted) -> anyhow::Result<LabelledFile> {
    let mut rows = Vec::new();
    let mut answers = RecordAnswers::default();
    let mut unanswered = 0;
    let (mut cut, mut count) = (0, 0);
    let mut notes = each(path, |line: Record| {
        let text = &line.passage.text;
        let mut seen = HashSet::new();
        let mut candidates: Vec<Arc<str>> = Vec::new();
        for (number, Entity { start, end }) in line.passage.entities.iter().enumerate() {
            let range = bytes_of(text, *start, end.saturating_add(1)).filter(|range| !range.is_empty());
            let range = range.with_context(|| {
                let length = text.chars().count();
                format!("key \"entities\", number {number}: no characters {start} to {end} in a passage of {length}")
            })?;
            (cut, count) = (cut + usize::from(cuts_a_word(text, &range)), count + 1);
            if seen.insert(&text[range.clone()]) {
                candidates.push(text[range].into());
            }
        }
        let passage = sentences(text);
        for query in line.qas {
            if !query.query.contains(PLACEHOLDER) {
                bail!("key \"query\": {} has no {PLACEHOLDER}", excerpt(&query.query));
            }
            if candidates.is_empty() {
                bail!("key \"entities\" is empty: there is nothing to put in for {PLACEHOLDER}");
            }
            let group = answers.gold.len() as u32;
            let mut gold: Vec<Arc<str>> = Vec::new();
            for answer in given(query.answers, "answers", wanted)? {
                if !gold.iter().any(|known| **known == *answer.text) {
                    gold.push(answer.text.into());
                }
            }
            unanswered += usize::from(!candidates.iter().any(|candidate| gold.contains(candidate)));
            for candidate in &candidates {
                let filled: Arc<str> = query.query.replace(PLACEHOLDER, candidate).into();
                let label = Label::Class(gold.contains(candidate).into());
                rows.push(LabelledRow { texts: vec![trimmed(&filled), passage.clone()], label, group });
                answers.candidates.push(candidate.clone());
            }
            answers.gold.push(gold);
        }
        Ok(())
    })?;
    if unanswered > 0 && wanted == Wanted::Labels {
        notes.push(format!("{unanswered} queries of {} have no answer among the passage's entities", path.display()));
    }
    notes.extend(cut_note(path, "entities", cut, count));
    LabelledFile { rows: LabelledRows { answers: Some(answers), ..LabelledRows::new(2, rows) }, notes }.not_empty(path)
}

/// The passage in one line: a highlight follows as a sentence, after a full stop where there was no mark.
fn sentences(text: &str) -> Arc<str> {
    let mut line = String::with_capacity(text.len());
    for part in text.split(HIGHLIGHT).map(|part| part.trim_matches([' ', '\n'])).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push_str(if line.ends_with(['.', '!', '?', '"', '\'']) { " " } else { ". " });
        }
        line.push_str(&part.replace('\n', " "));
    }
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highlights_are_sentences() {
        let text = "He left. \n@highlight\nAnn won\n@highlight\n\"Yes!\"\n@highlight\nlast";
        assert_eq!(&*sentences(text), "He left. Ann won. \"Yes!\" last");
    }
}
