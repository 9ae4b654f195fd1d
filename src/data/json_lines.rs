//! JSON Lines: an object a line, of which two fields are the source and the target (`article` and `highlights`).
//!
//! Fields are taken by name, in any order, and others are passed over. The source becomes one line; the target keeps its
//! line breaks, which part its sentences. Lines are parsed when they are read, so a file may be larger than memory.

use super::files::{single, SplitFiles};
use super::lines::Lines;
use super::rows::{hash_pairs, one_line, Hasher};
use super::{Corpus, Examples};
use anyhow::bail;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Opens the files of the three splits, plain or gzipped; `fields` are the names of source and target.
///
/// Every line is parsed once, for the hash. Errors name file and line: broken or cut JSON, a field that is missing (with
/// those that are there), twice there, or no text, invalid UTF-8.
pub fn read(fields: &[String], files: &SplitFiles) -> anyhow::Result<Corpus> {
    let [source, target] = fields else {
        bail!("data.fields names {} fields; it names two, the source's and the target's", fields.len());
    };
    if source == target {
        bail!("data.fields names {source:?} twice; source and target are two fields");
    }
    let [train, dev, test] = files.map(|key, entries| {
        let mut rows = JsonLines { parts: Vec::new(), rows: 0, fields: [source.clone(), target.clone()] };
        for path in single(key, entries, "JSON Lines")? {
            let lines = Lines::open(&path)?;
            let start = rows.rows;
            rows.rows += lines.len();
            rows.parts.push(Part { lines, path, start });
        }
        Ok(Box::new(rows))
    })?;
    let notes = vec![format!("the files say what is train, dev and test; {source} -> {target}")];
    Corpus::new(format!("json-lines ({})", files.name()), train, dev, test, notes)
}

struct Part {
    lines: Lines,
    path: PathBuf,
    /// Rows in the parts before.
    start: usize,
}

struct JsonLines {
    parts: Vec<Part>,
    rows: usize,
    fields: [String; 2],
}

impl JsonLines {
    fn pair(&self, row: usize) -> anyhow::Result<(String, String)> {
        // Parts without rows share their start with the next; the last part that starts here or before holds the row.
        let part = &self.parts[self.parts.partition_point(|part| part.start <= row) - 1];
        let row = row - part.start;
        let line = &part.lines.line(row)?;
        let place = || format!("{}, line {}", part.path.display(), row + 1);
        let mut json = serde_json::Deserializer::from_str(line);
        let parsed = Fields(&self.fields).deserialize(&mut json).and_then(|texts| json.end().map(|()| texts));
        let texts = parsed.map_err(|error| anyhow::anyhow!("{}: {}", place(), described(&error)))?;
        match texts {
            [Some(source), Some(target)] => {
                // Only the ends of lines are white space to take off; within, the text is the target's.
                let target: Vec<&str> = target.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
                Ok((one_line(&source), target.join("\n")))
            }
            [source, _] => {
                let missing = &self.fields[usize::from(source.is_some())];
                let there: BTreeMap<String, IgnoredAny> = serde_json::from_str(line).unwrap_or_default();
                let there: Vec<&str> = there.keys().map(String::as_str).collect();
                bail!(
                    "{}: there is no field {missing:?}, only {}; data.fields names the fields",
                    place(),
                    there.join(", ")
                )
            }
        }
    }
}

/// What is wrong, with the column; serde_json's own line is always 1.
fn described(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let hint = if error.is_eof() { "; is the file cut short?" } else { "" };
    format!("column {}: {what}{hint}", error.column())
}

impl Examples for JsonLines {
    fn len(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        2
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        let (source, target) = self.pair(row)?;
        Ok(Cow::Owned(if column == 0 { source } else { target }))
    }

    fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hash_pairs(self.rows, hasher, |row| self.pair(row))
    }
}

/// The texts of two fields of an object.
struct Fields<'a>(&'a [String; 2]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = [Option<String>; 2];
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = [Option<String>; 2];
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = [None, None];
        while let Some(key) = map.next_key::<Cow<str>>()? {
            let Some(at) = self.0.iter().position(|field| *field == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let text = map.next_value().map_err(|error| A::Error::custom(format_args!("field {key:?}: {error}")))?;
            if texts[at].replace(text).is_some() {
                return Err(A::Error::custom(format_args!("field {key:?} is there twice")));
            }
        }
        Ok(texts)
    }
}
