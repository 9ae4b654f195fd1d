//! An experiment file as text, and where each key stands in it.

use super::message::{clip, suggest, Place, Problem, Problems};
use super::typed::ExperimentToml;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// Faults of the TOML itself that are listed; each takes another pass over the file.
const MOST_FAULTS: usize = 20;

/// Longer keys are unknown ones; nothing beneath them is indexed.
const LONGEST_KEY: usize = 64;

/// Deeper keys are unknown ones: `variant.0.data.train.0.0` is the deepest known.
const DEEPEST_KEY: usize = 8;

/// Bytes of a key and of its value (of an element of a list, twice its own).
type Spans = (Range<usize>, Range<usize>);

/// A file's text with the place of every key in it, such as `model.heads`, `mix.3` or `variant.0.model.d_ff`.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    text: String,
    places: BTreeMap<String, Spans>,
}

impl Source {
    /// Parses a file's text; all that serde finds wrong is listed, not its first find only.
    pub fn parse(path: &Path, text: &str) -> Result<(Source, ExperimentToml), Problems> {
        let mut source = Source { path: path.to_owned(), text: text.to_owned(), places: BTreeMap::new() };
        let mut table = DeTable::parse(text).map_err(|error| {
            Problems(vec![source.problem_at(error.span().unwrap_or(0..0), lines_joined(error.message()), "")])
        })?;
        index(table.get_ref(), "", 0, &mut source.places);
        let mut problems = Vec::new();
        loop {
            let error = match ExperimentToml::deserialize(toml::de::Deserializer::from(table.clone())) {
                Ok(typed) if problems.is_empty() => return Ok((source, typed)),
                Ok(_) => break,
                Err(error) => error,
            };
            let span = error.span().unwrap_or(0..0);
            let name = source.path_at(&span);
            let (message, help) = reword(error.message(), name.as_deref().unwrap_or_default());
            problems.push(source.problem_at(span.clone(), message, help));
            if problems.len() == MOST_FAULTS || !remove(table.get_mut(), &span) {
                break;
            }
        }
        problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
        Err(Problems(problems))
    }

    /// Whether a key was typed.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The names of all keys typed, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// A problem with a value, marked in the file; without the value, the file's first line that isn't a comment.
    pub fn of_value(&self, name: &str, text: impl Into<String>, help: impl Into<String>) -> Problem {
        self.problem_at(self.places.get(name).map_or(self.start(), |spans| spans.1.clone()), text, help)
    }

    /// A problem with a key that shouldn't be there.
    pub fn of_key(&self, name: &str, text: impl Into<String>, help: impl Into<String>) -> Problem {
        self.problem_at(self.places.get(name).map_or(self.start(), |spans| spans.0.clone()), text, help)
    }

    /// A problem inside a string, at the character `offset` (from 0).
    pub fn of_string(&self, name: &str, offset: usize, text: impl Into<String>, help: impl Into<String>) -> Problem {
        let span = self.places.get(name).map_or(self.start(), |spans| spans.1.clone());
        let typed = &self.text[span.clone()];
        // Only a plain "…" or '…' shows the string's characters one to one.
        if typed.starts_with("\"\"\"") || typed.starts_with("'''") || typed.contains('\\') {
            return self.problem_at(span, text, help);
        }
        let at = typed.char_indices().nth(offset + 1).map_or(span.end, |(byte, _)| span.start + byte);
        self.problem_at(at..at + 1, text, help)
    }

    fn start(&self) -> Range<usize> {
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
                return at..at + line.trim_end().len();
            }
            at += line.len();
        }
        0..0
    }

    fn problem_at(&self, span: Range<usize>, text: impl Into<String>, help: impl Into<String>) -> Problem {
        let place = Some(Place::of(&self.text, span));
        Problem { path: self.path.clone(), place, text: text.into(), help: help.into() }
    }

    /// The name of what stands at exactly these bytes.
    fn path_at(&self, span: &Range<usize>) -> Option<String> {
        let found = self.places.iter().find(|(_, (key, value))| key == span || value == span);
        found.map(|(name, _)| name.clone())
    }
}

fn index(table: &DeTable, prefix: &str, depth: usize, places: &mut BTreeMap<String, Spans>) {
    for (key, value) in table.iter() {
        let is_long = key.get_ref().len() > LONGEST_KEY;
        let name = format!("{prefix}{}", if is_long { clip(key.get_ref()) } else { key.get_ref().to_string() });
        if !is_long {
            index_value(value, &name, depth + 1, places);
        }
        places.insert(name, (key.span(), value.span()));
    }
}

fn index_value(value: &Spanned<DeValue>, name: &str, depth: usize, places: &mut BTreeMap<String, Spans>) {
    match value.get_ref() {
        _ if depth >= DEEPEST_KEY => {}
        DeValue::Table(table) => index(table, &format!("{name}."), depth, places),
        DeValue::Array(list) => {
            for (i, element) in list.iter().enumerate() {
                let name = format!("{name}.{i}");
                index_value(element, &name, depth + 1, places);
                places.insert(name, (element.span(), element.span()));
            }
        }
        _ => {}
    }
}

/// Takes out the innermost entry at `span`, so that what else is wrong comes to light.
///
/// Recursion is bounded by the parser's own limit on nesting.
fn remove(table: &mut DeTable, span: &Range<usize>) -> bool {
    let covers = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (_, value) in table.iter_mut() {
        let inner = match value.get_mut() {
            DeValue::Table(table) => remove(table, span),
            DeValue::Array(list) => list.iter_mut().any(|element| match element.get_mut() {
                DeValue::Table(table) => remove(table, span),
                _ => false,
            }),
            _ => false,
        };
        if inner {
            return true;
        }
    }
    let found = table.iter().find(|(key, value)| covers(key.span()) || covers(value.span()));
    let found = found.map(|(key, _)| key.get_ref().to_string());
    found.is_some_and(|key| table.remove(key.as_str()).is_some())
}

/// serde's words for an error, turned into ours: what is wrong, and what to do.
fn reword(message: &str, name: &str) -> (String, String) {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("unknown field") && !quoted.is_empty() {
        let section = section_of(name);
        let within = if section.is_empty() { String::new() } else { format!(" in {section}") };
        let text = format!("unknown key `{}`{within}", clip(quoted[0]));
        let elsewhere = sections_with(quoted[0]);
        let mut help = suggest(quoted[0], &quoted[1..]);
        if !elsewhere.is_empty() {
            help = format!("it belongs in {}; {help}", elsewhere.join(" or "));
        }
        return (text, help);
    }
    let key = match name.rsplit_once('.') {
        Some((list, index)) if index.parse::<usize>().is_ok() => format!("an element of `{}`", last_word(list)),
        _ => format!("`{}`", clip(last_word(name))),
    };
    if message.starts_with("unknown variant") && !quoted.is_empty() {
        return (format!("{key} can't be `{}`", clip(quoted[0])), suggest(quoted[0], &quoted[1..]));
    }
    if let Some((found, expected)) = message.split_once(", expected ") {
        let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
        let expected = match expected {
            "usize" | "u64" => "a whole number, 0 or more",
            "i64" => "a whole number",
            "f64" => "a number",
            "a sequence" => "a list",
            other if other.starts_with("struct ") => "a section",
            other => other,
        };
        return (format!("{key} is the {}, but must be {expected}", clip(found)), String::new());
    }
    if message == "wanted string or table" {
        return (format!("{key} must be a string"), String::new()); // toml's words for an enum
    }
    (lines_joined(message), String::new())
}

/// `variant.0.model.heads` is in `[variant.model]`, `mix` in no section.
fn section_of(name: &str) -> String {
    let of_variant = name.strip_prefix("variant.").and_then(|rest| rest.split_once('.')).map(|(_, rest)| rest);
    match (of_variant.unwrap_or(name).split_once('.'), of_variant) {
        (Some((section, _)), None) => format!("[{section}]"),
        (Some((section, _)), Some(_)) => format!("[variant.{section}]"),
        (None, Some(_)) => "[[variant]]".to_owned(),
        (None, None) => String::new(),
    }
}

/// Sections that know a key; serde tells them when it is asked for a key that no section has.
fn sections_with(key: &str) -> Vec<String> {
    use super::typed::{DataToml, DecodeToml, ModelToml, TrainToml};
    fn knows<T: for<'de> Deserialize<'de>>(key: &str) -> bool {
        match toml::from_str::<T>("\" \" = 0").err() {
            Some(error) => error.message().split('`').skip(3).step_by(2).any(|known| known == key),
            None => false,
        }
    }
    let sections = [
        ("the top of the file", knows::<ExperimentToml>(key)),
        ("[data]", knows::<DataToml>(key)),
        ("[model]", knows::<ModelToml>(key)),
        ("[train]", knows::<TrainToml>(key)),
        ("[decode]", knows::<DecodeToml>(key)),
    ];
    sections.iter().filter(|(_, knows)| *knows).map(|(name, _)| (*name).to_owned()).collect()
}

fn last_word(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn lines_joined(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ").chars().take(300).collect()
}
