//! Dialogues in memory, and their rows: history and reply; and a history that is given in one line.
//!
//! Only the dialogues are kept; a history is put together when it is read, so that memory does not grow with the square of
//! a dialogue's length.

use super::rows::{is_blank, one_line};
use super::Examples;
use crate::experiment::config::DataConfig;
use anyhow::bail;
use std::borrow::Cow;

/// How persona lines begin.
const PERSONAS: [&str; 2] = ["your persona:", "partner's persona:"];

/// Stands for a line break within a field of ParlAI's text form, and in the histories that `generate` reads.
const BREAK: &str = "\\n";

/// The lines of a text in which `\n` (a backslash and an n) stands for each line break, without blank ones.
pub fn lines(text: &str) -> Vec<String> {
    text.split(BREAK).map(one_line).filter(|line| !is_blank(line)).collect()
}

/// Whether a line is about a speaker.
pub fn is_persona(line: &str) -> bool {
    PERSONAS.iter().any(|prefix| line.starts_with(prefix))
}

/// What of the past a row's source shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Whether the persona lines come first.
    pub personas: bool,
    /// How many of the last utterances follow, or of their lines where they have several; 0 is all.
    pub last: usize,
}

impl History {
    /// What a `[data]` section asks for.
    pub fn of(config: &DataConfig) -> History {
        History { personas: config.personas, last: config.history }
    }

    /// The source of a reply to all that was said.
    fn source(&self, personas: &[String], said: &[String]) -> String {
        let personas = if self.personas { personas } else { &[] };
        let said: Vec<&str> = said.iter().flat_map(|text| text.split('\n')).filter(|line| !is_blank(line)).collect();
        let first = match self.last {
            0 => 0,
            last => said.len().saturating_sub(last),
        };
        let lines = personas.iter().map(String::as_str).chain(said[first..].iter().copied());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The source that training makes of the same persona lines and utterances, given in one line with `\n` (a backslash and an
    /// n) between them. `personas` says whether the corpus has persona lines.
    ///
    /// # Errors
    /// A tab, which ParlAI's form has between an utterance and its reply; a persona line after an utterance.
    pub fn source_of_line(&self, line: &str, personas: bool) -> anyhow::Result<String> {
        if line.contains('\t') {
            bail!("a tab in a dialogue; persona lines and turns are separated by \\n (a backslash and an n)");
        }
        let mut said = lines(line);
        let about = if personas { said.iter().take_while(|line| is_persona(line)).count() } else { 0 };
        let about: Vec<String> = said.drain(..about).collect();
        if personas && said.iter().any(|line| is_persona(line)) {
            bail!("a persona line after a turn; persona lines begin a dialogue");
        }
        Ok(self.source(&about, &said))
    }
}

/// A conversation from one speaker's side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dialogue {
    /// Lines about the speakers, such as `your persona: i only eat kosher.`
    pub personas: Vec<String>,
    /// What was said, in turns.
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
    pub fn push(&mut self, dialogue: Dialogue, replies: impl IntoIterator<Item = usize>) {
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
        Ok(Cow::Owned(self.history.source(&dialogue.personas, &dialogue.utterances[..reply])))
    }
}
