//! English conversations of the `chatterbot-corpus` package, read straight from the wheel.
//!
//! `chatterbot_corpus/data/english/<topic>.yml` holds `conversations`, a list of lists of utterances. A row is an utterance
//! with all that was said before it in its conversation. Utterances become one line (some are programs of many lines).
//! YAML's scalars are taken as they are written, so that `yes` and `22` stay text. An item that is a text alone, not a
//! conversation, is dropped; exchanges that repeat another (same history, same reply) are read once.
//!
//! Conversations are held out by their first utterance, upper and lower case and punctuation aside, so that the many
//! replies to one question are in one split.

use super::catalog::CHATTERBOT;
use super::dialogue::{Dialogue, DialogueRows, History};
use super::files::open_zip;
use super::rows::{one_line, split_at, Split};
use super::{Corpus, Examples};
use crate::input;
use anyhow::{bail, Context};
use saphyr_parser::{Event, Parser, Span, StrInput};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

/// Of 100 conversations, as many are dev and as many test: some 1,200 exchanges are few to be judged by.
const SHARE: u64 = 10;

const FOLDER: &str = "chatterbot_corpus/data/english/";

/// Reads the wheel at `archive`; a history has the `last` utterances, 0 is all.
///
/// Errors: a file that is no zip archive or has no English conversations; broken YAML, or YAML of another form (with file
/// and line).
pub fn read(archive: &Path, last: usize) -> anyhow::Result<Corpus> {
    let damaged = || format!("{} is a damaged zip archive", archive.display());
    let mut wheel = open_zip(archive)?;
    let mut topics = Vec::new();
    for name in wheel.file_names() {
        let name = name.with_context(damaged)?;
        if name.starts_with(FOLDER) && name.ends_with(".yml") {
            topics.push(name.into_owned());
        }
    }
    topics.sort();
    if topics.is_empty() {
        bail!("{} has no file {FOLDER}*.yml", archive.display());
    }
    let (mut conversations, mut alone) = (Vec::new(), 0);
    for topic in &topics {
        let mut bytes = Vec::new();
        wheel.by_name(topic).with_context(damaged)?.read_to_end(&mut bytes).with_context(damaged)?;
        let place = format!("{topic} in {}", archive.display());
        let found = parse(&input::without_marks(input::text_of(bytes, &place)?).0, &place)?;
        conversations.extend(found.conversations);
        alone += found.alone;
    }
    corpus(conversations, topics.len(), alone, last)
}

fn corpus(conversations: Vec<Vec<String>>, topics: usize, alone: usize, last: usize) -> anyhow::Result<Corpus> {
    let history = History { personas: false, last };
    let [mut train, mut dev, mut test] = [(); 3].map(|()| DialogueRows::new(history));
    let (mut seen, mut repeated, found) = (HashSet::new(), 0, conversations.len());
    for utterances in conversations {
        let utterances: Vec<String> = utterances.iter().map(|text| one_line(text)).collect();
        let mut replies = Vec::new();
        for reply in 1..utterances.len() {
            if seen.insert(utterances[..=reply].to_vec()) {
                replies.push(reply);
            } else {
                repeated += 1;
            }
        }
        let rows = match split_at(&utterances.first().map_or(String::new(), |first| words(first)), SHARE, SHARE) {
            Split::Train => &mut train,
            Split::Dev => &mut dev,
            Split::Test => &mut test,
        };
        if !replies.is_empty() {
            rows.push(Dialogue { personas: Vec::new(), utterances }, replies);
        }
    }
    let known = exchanges(&train)?.into_iter().collect::<HashSet<_>>();
    let overlap = exchanges(&test)?.iter().filter(|exchange| known.contains(*exchange)).count();
    let notes = vec![
        format!("{found} conversations in {topics} topics"),
        format!("{alone} items dropped: a text alone is no conversation"),
        format!("{repeated} exchanges dropped: they repeat another, history and reply"),
        format!(
            "{overlap} of {} test exchanges (last utterance, reply) are in train too, within other conversations",
            test.len()
        ),
        format!("split: {}", CHATTERBOT.split_rule),
    ];
    let name = format!("{} {} English", CHATTERBOT.package, CHATTERBOT.version);
    Corpus::new(name, Box::new(train), Box::new(dev), Box::new(test), notes)
}

/// Last utterance of the history, and reply.
fn exchanges(rows: &DialogueRows) -> anyhow::Result<Vec<(String, String)>> {
    (0..rows.len())
        .map(|row| {
            let history = rows.text(row, 0)?;
            let last = history.rsplit('\n').next().unwrap_or_default().to_string();
            Ok((last, rows.text(row, 1)?.into_owned()))
        })
        .collect()
}

/// Letters and digits, lower case, one blank between words.
fn words(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

struct Topic {
    conversations: Vec<Vec<String>>,
    /// Items that are a text alone.
    alone: usize,
}

/// Reads one YAML file; `place` is for messages.
fn parse(text: &str, place: &str) -> anyhow::Result<Topic> {
    let mut events = Events { parser: Parser::new_from_str(text), place };
    let mut topic = Topic { conversations: Vec::new(), alone: 0 };
    let mut found = false;
    loop {
        match events.next()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::MappingStart(..), _) => break,
            (_, span) => bail!("{place}, line {}: not a YAML mapping with `conversations`", span.start.line()),
        }
    }
    loop {
        match events.next()? {
            (Event::MappingEnd, _) => break,
            (Event::Scalar(key, ..), _) if key == "conversations" => {
                found = true;
                events.conversations(&mut topic)?;
            }
            (Event::Scalar(..), _) => events.skip()?,
            (_, span) => bail!("{place}, line {}: a key is not a text", span.start.line()),
        }
    }
    if !found {
        bail!("{place}: there is no `conversations`");
    }
    Ok(topic)
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    place: &'a str,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> anyhow::Result<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => bail!("{}, line {}: broken YAML: {}", self.place, error.marker().line(), error.info()),
            None => bail!("{}: the YAML ends too early", self.place),
        }
    }

    /// Passes over one value.
    fn skip(&mut self) -> anyhow::Result<()> {
        let mut depth = 0;
        loop {
            match self.next()?.0 {
                Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
                Event::SequenceEnd | Event::MappingEnd => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn conversations(&mut self, topic: &mut Topic) -> anyhow::Result<()> {
        let place = self.place;
        let other = |span: Span, what: &str| -> anyhow::Error {
            anyhow::anyhow!("{place}, line {}: {what}", span.start.line())
        };
        match self.next()? {
            (Event::SequenceStart(..), _) => {}
            (_, span) => return Err(other(span, "`conversations` is not a list")),
        }
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(()),
                (Event::Scalar(..), _) => topic.alone += 1,
                (Event::SequenceStart(..), _) => {
                    let mut utterances = Vec::new();
                    loop {
                        match self.next()? {
                            (Event::SequenceEnd, _) => break,
                            (Event::Scalar(text, ..), _) => utterances.push(text.into_owned()),
                            (_, span) => return Err(other(span, "an utterance is not a text (a colon wants quotes)")),
                        }
                    }
                    topic.conversations.push(utterances);
                }
                (_, span) => return Err(other(span, "a conversation is not a list of utterances")),
            }
        }
    }
}
