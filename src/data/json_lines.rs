//! JSON Lines: an object a line, of which two fields are the source and the target (`article` and `highlights`), or one
//! is a document to model (`text`, as in C4).
//!
//! Fields are taken by name, in any order, and others are passed over. The source, or the document, becomes one line; the
//! target keeps its line breaks, which part its sentences. Lines are parsed when they are read, so a file may be larger than
//! memory. A blank last line is passed over.

use super::files::{single, SplitFiles};
use super::json::explained;
use super::lines::Lines;
use super::rows::{hash_rows, one_line, Hasher};
use super::{Corpus, Examples};
use crate::excerpt::{excerpt, excerpts};
use crate::experiment::config::TaskKind;
use anyhow::{bail, Context};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Opens the files of the three splits, plain or compressed; `fields` are the names of source and target, or of the only text
/// where the task has no target.
///
/// Every line is parsed once, for the hash. Errors name file and line: broken or cut JSON, a blank line before the last, a
/// field that is missing (with those that are there), twice there, or no text, invalid UTF-8.
pub fn read(fields: &[String], task: TaskKind, files: &SplitFiles) -> anyhow::Result<Corpus> {
    match (fields, task.has_target()) {
        ([source, target], true) if source == target => {
            bail!("data.fields names {source:?} twice; source and target are two fields")
        }
        ([_, _], true) | ([_], false) => {}
        (_, true) => bail!("data.fields names {} fields; it names two, the source's and the target's", fields.len()),
        (_, false) => bail!("data.fields names {} fields; it names one, the text's", fields.len()),
    }
    let mut notes = vec![format!("the files say what is train, dev and test; {}", fields.join(" -> "))];
    let [train, dev, test] = files.map(|key, entries| {
        let mut rows = JsonLines { parts: Vec::new(), rows: 0, fields: fields.to_vec() };
        for path in single(key, entries, "JSON Lines")? {
            let part = Part::open(path, rows.rows).with_context(|| format!("data.{key}"))?;
            notes.extend(part.lines.note());
            rows.rows += part.rows;
            rows.parts.push(part);
        }
        if rows.rows == 0 {
            let names: Vec<String> = rows.parts.iter().map(|part| part.path.display().to_string()).collect();
            bail!("data.{key} is empty: there is no line in {}", names.join(", "));
        }
        Ok(Box::new(rows))
    })?;
    Corpus::new(format!("json-lines ({})", files.name()), train, dev, test, notes)
}

struct Part {
    lines: Lines,
    path: PathBuf,
    /// Rows in the parts before.
    start: usize,
    /// Lines, without a blank last one.
    rows: usize,
}

impl Part {
    fn open(path: PathBuf, start: usize) -> anyhow::Result<Part> {
        let lines = Lines::open(&path)?;
        let blank = match lines.len() {
            0 => false,
            count => lines.line(count - 1)?.trim().is_empty(),
        };
        let rows = lines.len() - usize::from(blank);
        Ok(Part { lines, path, start, rows })
    }
}

struct JsonLines {
    parts: Vec<Part>,
    rows: usize,
    /// One or two.
    fields: Vec<String>,
}

impl JsonLines {
    /// The texts of all fields.
    fn texts(&self, row: usize) -> anyhow::Result<Vec<String>> {
        // Parts without rows share their start with the next; the last part that starts here or before holds the row.
        let part = &self.parts[self.parts.partition_point(|part| part.start <= row) - 1];
        let row = row - part.start;
        let line = &part.lines.line(row)?;
        let texts = self.parsed(line).with_context(|| format!("{}, line {}", part.path.display(), row + 1))?;
        let clean = |(column, text): (usize, String)| match column {
            0 => one_line(&text),
            // Only the ends of lines are white space to take off; within, the text is the target's.
            _ => text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"),
        };
        Ok(texts.into_iter().enumerate().map(clean).collect())
    }

    fn parsed(&self, line: &str) -> anyhow::Result<Vec<String>> {
        if line.trim().is_empty() {
            bail!("the line is blank, where a JSON object should be");
        }
        let mut json = serde_json::Deserializer::from_str(line);
        let texts = Fields(&self.fields).deserialize(&mut json).and_then(|texts| json.end().map(|()| texts));
        let texts = texts.map_err(|error| explained(error, line))?;
        if let Some(missing) = texts.iter().position(Option::is_none) {
            let there: BTreeMap<String, IgnoredAny> = serde_json::from_str(line).unwrap_or_default();
            let there: Vec<&str> = there.keys().map(String::as_str).collect();
            let missing = &self.fields[missing];
            bail!("there is no field {missing:?}, only {}; data.fields names the fields", excerpts(&there));
        }
        Ok(texts.into_iter().flatten().collect())
    }
}

impl Examples for JsonLines {
    fn len(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.fields.len()
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        Ok(Cow::Owned(self.texts(row)?.swap_remove(column)))
    }

    fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hash_rows(self.rows, self.columns(), hasher, |row| self.texts(row))
    }
}

/// The texts of some fields of an object.
struct Fields<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Vec<Option<String>>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<Option<String>>;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = vec![None; self.0.len()];
        while let Some(key) = map.next_key::<Cow<str>>()? {
            let Some(at) = self.0.iter().position(|field| *field == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let text =
                map.next_value().map_err(|error| A::Error::custom(format_args!("field {}: {error}", excerpt(&key))))?;
            if texts[at].replace(text).is_some() {
                return Err(A::Error::custom(format_args!("field {} is there twice", excerpt(&key))));
            }
        }
        Ok(texts)
    }
}
