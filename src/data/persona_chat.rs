//! PersonaChat in its JSON form: `{"train": […], "valid": […]}`.
//!
//! An entry is a dialogue: `personality`, a list of lines, and `utterances`, of which each has its `history` and its
//! `candidates`; the last candidate is the reply. The form has no test set: `valid` is reported, and dialogues of `train`
//! are held out for dev by the SHA-256 of their persona lines and first utterance.
//!
//! The file is read as a stream, and of the candidates only the reply is kept. The rows are those of [`super::parlai`]:
//! persona lines get the words `your persona: `.

use super::dialogue::{Dialogue, DialogueRows, History};
use super::files::{single, SplitFiles};
use super::rows::{one_line, percentile};
use super::{Corpus, Examples};
use crate::excerpt::clipped;
use crate::input;
use crate::interrupt;
use anyhow::{bail, Context};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::path::Path;

const SPLIT_RULE: &str = "dev: dialogues of \"train\" by the SHA-256 of their persona lines and first utterance \
                          (first 8 bytes, big-endian, mod 100, 0 to 4); test: \"valid\"";

/// Reads the one file that `data.train` names, plain or compressed.
///
/// Errors: dev or test files; broken or cut JSON, a missing field, an utterance without candidates (with file, line and
/// column); no entry in `train` or `valid`.
pub fn read(files: &SplitFiles, history: History) -> anyhow::Result<Corpus> {
    if !files.dev.is_empty() || !files.test.is_empty() {
        bail!("data.dev and data.test name files, but the JSON form of PersonaChat is one file with all splits: name it in data.train alone");
    }
    let names = single("train", files.train, "PersonaChat's JSON")?;
    let [path] = &names[..] else {
        bail!("data.train names {} files; PersonaChat's JSON is one file with all splits", names.len());
    };
    let mut splits =
        Splits { train: DialogueRows::new(history), dev: DialogueRows::new(history), test: DialogueRows::new(history) };
    parse(path, &mut splits)?;
    let Splits { train, dev, test } = splits;
    for (name, rows) in [("train", train.len() + dev.len()), ("valid", test.len())] {
        if rows == 0 {
            bail!("{}: there is no dialogue in \"{name}\"", path.display());
        }
    }
    let notes = vec![
        format!("dialogues: {} train, {} dev, {} test", train.dialogues(), dev.dialogues(), test.dialogues()),
        format!("split: {SPLIT_RULE}"),
        "of the candidates only the last, the reply, is read".into(),
    ];
    Corpus::new(format!("persona-chat ({})", files.name()), Box::new(train), Box::new(dev), Box::new(test), notes)
}

fn parse(path: &Path, splits: &mut Splits) -> anyhow::Result<()> {
    let mut text = input::stream(path)?;
    if text.fill_buf().map_err(|error| input::damaged(path, &error))?.is_empty() {
        bail!("{} is empty; PersonaChat's JSON is {{\"train\": […], \"valid\": […]}}", path.display());
    }
    let mut json = serde_json::Deserializer::from_reader(text);
    let damaged = || {
        format!("{} is not PersonaChat's JSON ({{\"train\": […], \"valid\": […]}}), or is cut short", path.display())
    };
    let parsed = splits.deserialize(&mut json).and_then(|()| json.end());
    interrupt::check()?;
    parsed.map_err(|error| anyhow::anyhow!(clipped(&error.to_string()))).with_context(damaged)
}

#[derive(serde::Deserialize)]
struct Entry {
    personality: Vec<String>,
    utterances: Vec<Utterance>,
}

#[derive(serde::Deserialize)]
struct Utterance {
    candidates: Last,
    history: Vec<String>,
}

/// The last text of a list.
struct Last(String);

impl<'de> serde::Deserialize<'de> for Last {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Last, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Last;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of candidates")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Last, A::Error> {
                let mut last = None;
                while let Some(text) = texts.next_element::<String>()? {
                    last = Some(text);
                }
                last.map(Last).ok_or_else(|| A::Error::custom("an utterance has no candidates, so no reply"))
            }
        }
        deserializer.deserialize_seq(Texts)
    }
}

struct Splits {
    train: DialogueRows,
    dev: DialogueRows,
    test: DialogueRows,
}

impl Splits {
    fn add(&mut self, entry: Entry, valid: bool) {
        let first = entry.utterances.first().and_then(|turn| turn.history.first()).map_or("", String::as_str);
        let key: Vec<&str> = entry.personality.iter().map(String::as_str).chain([first]).collect();
        let rows = match (valid, percentile(&key.join("\n"))) {
            (true, _) => &mut self.test,
            (false, 0..=4) => &mut self.dev,
            (false, _) => &mut self.train,
        };
        let personas: Vec<String> = entry.personality.iter().map(|line| format!("your persona: {line}")).collect();
        let mut dialogue = Dialogue { personas: personas.clone(), utterances: Vec::new() };
        let mut replies = Vec::new();
        for Utterance { candidates: Last(reply), history } in entry.utterances {
            // A history repeats what was said and adds to it; where it doesn't, it stands for itself.
            if !history.starts_with(&dialogue.utterances) {
                let before =
                    std::mem::replace(&mut dialogue, Dialogue { personas: personas.clone(), utterances: Vec::new() });
                push(rows, before, std::mem::take(&mut replies));
            }
            dialogue.utterances = history;
            replies.push(dialogue.utterances.len());
            dialogue.utterances.push(reply);
        }
        if !replies.is_empty() {
            push(rows, dialogue, replies);
        }
    }
}

/// Adds a dialogue with each text in one line.
fn push(rows: &mut DialogueRows, mut dialogue: Dialogue, replies: Vec<usize>) {
    for line in dialogue.personas.iter_mut().chain(&mut dialogue.utterances) {
        if line.contains(['\n', '\r']) {
            *line = one_line(line);
        }
    }
    rows.push(dialogue, replies);
}

impl<'de> DeserializeSeed<'de> for &mut Splits {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Splits {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with \"train\" and \"valid\"")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if ["train", "valid"].contains(&key.as_str()) {
                if seen.contains(&key) {
                    return Err(A::Error::custom(format_args!("key {key:?} is there twice")));
                }
                seen.push(key.clone());
            }
            match key.as_str() {
                "train" => map.next_value_seed(Entries { splits: self, valid: false })?,
                "valid" => map.next_value_seed(Entries { splits: self, valid: true })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Entries<'a> {
    splits: &'a mut Splits,
    valid: bool,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of dialogues")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element::<Entry>()? {
            // The error's type is lost on the way up; the caller asks once more.
            interrupt::check().map_err(A::Error::custom)?;
            self.splits.add(entry, self.valid);
        }
        Ok(())
    }
}
