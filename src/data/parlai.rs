//! PersonaChat and ConvAI2 in ParlAI's text form.
//!
//! A line is a number, a blank and a text. Numbers count the lines of a dialogue; where they go back to 1 another one
//! begins. First come the persona lines (`your persona: …`, `partner's persona: …`; none in the `_none_` files), then the
//! turns: the partner's utterance, a tab, the reply; in files with candidates also a tab, a reward (empty), a tab, and the
//! candidates parted by `|`, which are passed over.
//!
//! A row is a reply with all that was said before it; persona lines stay as they are written.

use super::dialogue::{Dialogue, DialogueRows, History};
use super::files::{single, SplitFiles};
use super::lines::Lines;
use super::{Corpus, Examples};
use crate::excerpt::excerpt;
use crate::interrupt;
use anyhow::{bail, Context};
use std::path::{Path, PathBuf};

const PERSONAS: [&str; 2] = ["your persona:", "partner's persona:"];

/// Reads the files of the three splits, plain or compressed.
///
/// Errors name file and line: a line without number, a number that does not follow, a turn without its tab or with more
/// than three, an empty reply, a persona line after a turn, invalid UTF-8.
pub fn read(files: &SplitFiles, history: History) -> anyhow::Result<Corpus> {
    let mut marks = Vec::new();
    let splits = files.map(|key, entries| split(key, entries, history, &mut marks))?;
    let personas: usize = splits.iter().map(|(_, personas)| personas).sum();
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
    Corpus::new(format!("parlai ({})", files.name()), Box::new(train), Box::new(dev), Box::new(test), notes)
}

fn split(
    key: &str,
    entries: &[Vec<PathBuf>],
    history: History,
    notes: &mut Vec<String>,
) -> anyhow::Result<(DialogueRows, usize)> {
    let mut rows = DialogueRows::new(history);
    let mut personas = 0;
    for path in single(key, entries, "dialogues in ParlAI's text form")? {
        let before = rows.len();
        let lines = Lines::open(&path).with_context(|| format!("data.{key}"))?;
        notes.extend(lines.note());
        personas += file(&path, &lines, &mut rows)?;
        if rows.len() == before {
            bail!("data.{key}: there is no turn in {}", path.display());
        }
    }
    Ok((rows, personas))
}

/// Adds the dialogues of a file, and says how many persona lines it has.
fn file(path: &Path, lines: &Lines, rows: &mut DialogueRows) -> anyhow::Result<usize> {
    let (mut dialogue, mut last, mut personas) = (Dialogue::default(), 0, 0);
    for at in 0..lines.len() {
        interrupt::check()?;
        let line = &lines.line(at)?;
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
            finish(std::mem::take(&mut dialogue), rows);
        } else if number != last + 1 {
            bail!(
                "{}: number {number} follows {last}; the next line of a dialogue has the next number, a new dialogue 1",
                place()
            );
        }
        last = number;
        if PERSONAS.iter().any(|prefix| text.starts_with(prefix)) {
            if !dialogue.utterances.is_empty() {
                bail!("{}: a persona line after a turn; persona lines begin a dialogue", place());
            }
            personas += 1;
            dialogue.personas.push(text.trim().into());
            continue;
        }
        let columns: Vec<&str> = text.split('\t').collect();
        let (2..=4, [said, reply, ..]) = (columns.len(), &columns[..]) else {
            bail!(
                "{}: {} tabs; a turn is an utterance, a tab and its reply (and may have a tab, a reward, a tab, candidates)",
                place(),
                columns.len() - 1
            );
        };
        if reply.trim().is_empty() {
            bail!("{}: the reply to {} is empty", place(), excerpt(said));
        }
        dialogue.utterances.extend([said, reply].map(|text| text.trim().into()));
    }
    finish(dialogue, rows);
    Ok(personas)
}

/// A turn is two utterances, the second of which is a reply.
fn finish(dialogue: Dialogue, rows: &mut DialogueRows) {
    let replies = (1..dialogue.utterances.len()).step_by(2);
    if !dialogue.utterances.is_empty() {
        rows.push(dialogue, replies);
    }
}
