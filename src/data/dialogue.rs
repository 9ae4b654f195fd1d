//! Dialogues in memory, and their rows: history and reply.
//!
//! Only the dialogues are kept; a history is put together when it is read, so that memory does not grow with the square of
//! a dialogue's length.

use super::rows::one_line;
use super::Examples;
use crate::experiment::config::DataConfig;
use std::borrow::Cow;

/// What of the past a row's source shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Whether the persona lines come first.
    pub personas: bool,
    /// How many of the last utterances follow; 0 is all.
    pub last: usize,
}

impl History {
    /// What a `[data]` section asks for.
    pub fn of(config: &DataConfig) -> History {
        History { personas: config.personas, last: config.history }
    }
}

/// A conversation from one speaker's side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dialogue {
    /// Lines about the speakers, such as `your persona: i only eat kosher.`
    pub personas: Vec<String>,
    /// What was said, in turns; each in one line.
    pub utterances: Vec<String>,
}

/// Rows of two texts: the history (persona lines and utterances joined with `\n`), and the reply.
#[derive(Debug)]
pub struct DialogueRows {
    dialogues: Vec<Dialogue>,
    /// Dialogue, and the reply's place among its utterances.
    rows: Vec<(u32, u32)>,
    history: History,
}

impl DialogueRows {
    /// No row yet.
    pub fn new(history: History) -> DialogueRows {
        DialogueRows { dialogues: Vec::new(), rows: Vec::new(), history }
    }

    /// Adds a dialogue, and a row for each of the utterances whose places `replies` names.
    pub fn push(&mut self, mut dialogue: Dialogue, replies: impl IntoIterator<Item = usize>) {
        for line in dialogue.personas.iter_mut().chain(&mut dialogue.utterances) {
            if line.contains(['\n', '\r']) {
                *line = one_line(line);
            }
        }
        let number = self.dialogues.len() as u32;
        self.rows.extend(replies.into_iter().map(|reply| (number, reply as u32)));
        self.dialogues.push(dialogue);
    }

    /// Dialogues.
    pub fn dialogues(&self) -> usize {
        self.dialogues.len()
    }
}

impl Examples for DialogueRows {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        2
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        let (dialogue, reply) = self.rows[row];
        let (dialogue, reply) = (&self.dialogues[dialogue as usize], reply as usize);
        if column == 1 {
            return Ok(Cow::Borrowed(&dialogue.utterances[reply]));
        }
        let personas = if self.history.personas { &dialogue.personas[..] } else { &[] };
        let first = match self.history.last {
            0 => 0,
            last => reply.saturating_sub(last),
        };
        let lines: Vec<&str> = personas.iter().chain(&dialogue.utterances[first..reply]).map(String::as_str).collect();
        Ok(Cow::Owned(lines.join("\n")))
    }
}
