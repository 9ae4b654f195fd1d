//! PersonaChat and ConvAI2 in ParlAI's text form.
//!
//! A line is a number, a blank and a text. Numbers count the lines of a dialogue; where they go back to 1 another one
//! begins. First come the persona lines (`your persona: …`, `partner's persona: …`; none in the `_none_` files), then the
//! turns: the partner's utterance, a tab, the reply; in files with candidates also a tab, a reward (empty), a tab, and the
//! candidates separated by `|`, which are passed over.
//!
//! As ParlAI's `FbDeprecatedDialogTeacher` reads them, `\n` (a backslash and an n) in a field is a line break, and `|` in the
//! reply separates several right replies. The first that is not blank is learned and scored, and is what was said in the
//! histories of later turns. Persona lines may also stand before the first utterance in one field, with `\n` between them.
//! Lines without a tab that are no persona lines (the statements of bAbI) are refused: they would hide a line that was cut.
//!
//! A row is a reply with all that was said before it; persona lines stay as they are written.

use super::dialogue::{is_persona, lines, Dialogue, DialogueRows, History};
use super::files::{single, SplitFiles};
use super::lines::Lines;
use super::{Corpus, Examples};
use crate::excerpt::excerpt;
use crate::interrupt;
use anyhow::{bail, Context};
use std::path::{Path, PathBuf};

/// What the files of a split hold besides rows.
#[derive(Default)]
struct Found {
    personas: usize,
    /// Turns with several labels.
    labelled: usize,
}

/// Reads the files of the three splits, plain or compressed.
///
/// Errors name file and line: a line without number, a number that does not follow, a turn without its tab or with more
/// than three, an empty reply, a persona line after a turn, invalid UTF-8.
pub fn read(files: &SplitFiles, history: History) -> anyhow::Result<Corpus> {
    let mut marks = Vec::new();
    let splits = files.map(|key, entries| split(key, entries, history, &mut marks))?;
    let personas: usize = splits.iter().map(|(_, found)| found.personas).sum();
    let labelled: usize = splits.iter().map(|(_, found)| found.labelled).sum();
    let [train, dev, test] = splits.map(|(rows, _)| rows);
    let mut notes = vec![
        format!("dialogues: {} train, {} dev, {} test", train.dialogues(), dev.dialogues(), test.dialogues()),
        format!(
            "persona lines: {personas}{}",
            if history.personas { "" } else { ", left out (data.personas = false)" }
        ),
        "the files say what is train, dev and test; candidates are not read".into(),
    ];
    notes.extend(marks);
    if labelled > 0 {
        notes.push(format!(
            "{labelled} turns have several replies (`a|b`): the first is learned and scored, others are not read"
        ));
    }
    Corpus::new(format!("parlai ({})", files.name()), Box::new(train), Box::new(dev), Box::new(test), notes)
}

fn split(
    key: &str,
    entries: &[Vec<PathBuf>],
    history: History,
    notes: &mut Vec<String>,
) -> anyhow::Result<(DialogueRows, Found)> {
    let mut rows = DialogueRows::new(history);
    let mut found = Found::default();
    for path in single(key, entries, "dialogues in ParlAI's text form")? {
        let before = rows.len();
        let lines = Lines::open(&path).with_context(|| format!("data.{key}"))?;
        notes.extend(lines.note());
        file(&path, &lines, &mut rows, &mut found)?;
        if rows.len() == before {
            bail!("data.{key}: there is no turn in {}", path.display());
        }
    }
    Ok((rows, found))
}

/// Adds the dialogues of a file.
fn file(path: &Path, file: &Lines, rows: &mut DialogueRows, found: &mut Found) -> anyhow::Result<()> {
    let (mut dialogue, mut replies, mut last) = (Dialogue::default(), Vec::new(), 0);
    for at in 0..file.len() {
        interrupt::check()?;
        let line = &file.line(at)?;
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}, line {}", path.display(), at + 1);
        let numbered = line.split_once(' ').and_then(|(number, text)| Some((number.parse::<u32>().ok()?, text)));
        let Some((number, text)) = numbered else {
            bail!(
                "{}: a line begins with its number in the dialogue and a blank, but this one is {}",
                place(),
                excerpt(line)
            );
        };
        if number == 1 {
            finish(std::mem::take(&mut dialogue), std::mem::take(&mut replies), rows);
        } else if number != last + 1 {
            bail!(
                "{}: number {number} follows {last}; the next line of a dialogue has the next number, a new dialogue 1",
                place()
            );
        }
        last = number;
        let columns: Vec<&str> = text.split('\t').collect();
        let mut said = lines(columns[0]);
        let mut personas = said.iter().take_while(|line| is_persona(line)).count();
        if columns.len() == 1 && personas > 0 {
            // A persona line may be broken too.
            personas = said.len();
        }
        if personas > 0 && !dialogue.utterances.is_empty() {
            bail!("{}: a persona line after a turn; persona lines begin a dialogue", place());
        }
        found.personas += personas;
        dialogue.personas.extend(said.drain(..personas));
        if columns.len() == 1 && personas > 0 {
            continue;
        }
        let (2..=4, [_, labels, ..]) = (columns.len(), &columns[..]) else {
            bail!(
                "{}: {} tabs; a turn is an utterance, a tab and its reply (and may have a tab, a reward, a tab, candidates); statements \
                 without a reply, as bAbI has them, are not read",
                place(),
                columns.len() - 1
            );
        };
        let labels: Vec<String> =
            labels.split('|').map(|label| lines(label).join("\n")).filter(|label| !label.is_empty()).collect();
        let Some(reply) = labels.first() else {
            bail!("{}: the reply to {} is empty", place(), excerpt(columns[0]));
        };
        found.labelled += usize::from(labels.len() > 1);
        if !said.is_empty() {
            dialogue.utterances.push(said.join("\n"));
        }
        replies.push(dialogue.utterances.len());
        dialogue.utterances.push(reply.clone());
    }
    finish(dialogue, replies, rows);
    Ok(())
}

fn finish(dialogue: Dialogue, replies: Vec<usize>, rows: &mut DialogueRows) {
    if !replies.is_empty() {
        rows.push(dialogue, replies);
    }
}
