//! Interface texts of Home Assistant, read straight from the wheel.
//!
//! A row is one text of `components/<integration>/translations/<language>.json`, found in both languages under the same
//! key path. Line breaks become blanks, placeholders such as `{name}` stay, pairs with an empty side are dropped.
//! Pairs whose two sides are equal stay: most are names (`TV`, `{name} ({host})`), of which the copy is the translation.
//!
//! Whole integrations are held out ([`split_of`] their name). A source is read once: where train has it, dev and test
//! don't; of several translations the most frequent one in that split is taken, of equally frequent ones the first.

use super::catalog::HOME_ASSISTANT;
use super::files::{open_zip, Zip};
use super::rows::{one_line, split_of, Rows, Split};
use super::Corpus;
use anyhow::{bail, Context};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::path::Path;

/// Integration, then key path, to text.
type Texts = BTreeMap<String, BTreeMap<String, String>>;

const BEFORE: &str = "homeassistant/components/";
const FOLDER: &str = "translations";

/// Reads the wheel at `archive`.
///
/// Errors: a file that is no zip archive, a language that it hasn't (those that it has are named), broken JSON.
pub fn read(archive: &Path, source: &str, target: &str) -> anyhow::Result<Corpus> {
    if source == target {
        bail!("data.source and data.target are both {source:?}; a translation needs two languages");
    }
    let mut zip = open_zip(archive)?;
    let sources = texts(&mut zip, source).with_context(|| format!("in {}", archive.display()))?;
    let mut targets = texts(&mut zip, target).with_context(|| format!("in {}", archive.display()))?;

    let mut empty = 0;
    let mut pairs: BTreeMap<Split, Vec<(String, String)>> = BTreeMap::new();
    for (integration, by_path) in sources {
        let Some(mut translations) = targets.remove(&integration) else { continue };
        let rows = pairs.entry(split_of(&integration)).or_default();
        for (path, text) in by_path {
            let Some(translation) = translations.remove(&path) else { continue };
            if text.is_empty() || translation.is_empty() {
                empty += 1;
            } else {
                rows.push((text, translation));
            }
        }
    }

    let total: usize = pairs.values().map(Vec::len).sum();
    let mut seen = HashSet::new();
    // Train first: what it has is no test of anything. Then test, which is to keep all that it can.
    let [train, test, dev] = [Split::Train, Split::Test, Split::Dev]
        .map(|split| Box::new(Rows::pairs(distinct(pairs.remove(&split).unwrap_or_default(), &mut seen))));
    let notes = vec![
        format!(
            "{} of {total} pairs dropped: their source is in the same split, in train, or (dev) in test",
            total - seen.len()
        ),
        format!("{empty} pairs dropped: a side is empty"),
        format!("split: {}", HOME_ASSISTANT.split_rule),
    ];
    let name = format!("{} {} {source}-{target}", HOME_ASSISTANT.package, HOME_ASSISTANT.version);
    Corpus::new(name, train, dev, test, notes)
}

/// One pair for each source that is not yet seen, in the order of first occurrence.
fn distinct(pairs: Vec<(String, String)>, seen: &mut HashSet<String>) -> Vec<(String, String)> {
    let mut order = Vec::new();
    let mut votes: HashMap<String, Vec<(String, u32)>> = HashMap::new();
    for (source, target) in pairs {
        if seen.contains(&source) {
            continue;
        }
        let targets = votes.entry(source.clone()).or_insert_with(|| {
            order.push(source);
            Vec::new()
        });
        match targets.iter_mut().find(|(text, _)| *text == target) {
            Some((_, count)) => *count += 1,
            None => targets.push((target, 1)),
        }
    }
    let mut rows = Vec::with_capacity(order.len());
    for source in order {
        let targets = votes.remove(&source).unwrap_or_default();
        // The first of equals: `max_by_key` alone would take the last.
        if let Some((target, _)) = targets.into_iter().rev().max_by_key(|(_, count)| *count) {
            rows.push((source.clone(), target));
            seen.insert(source);
        }
    }
    rows
}

fn texts(zip: &mut Zip, language: &str) -> anyhow::Result<Texts> {
    let wanted = format!("{language}.json");
    let mut names = Vec::new();
    let mut languages = BTreeSet::new();
    for name in zip.file_names() {
        let name = name.context("a file name in the archive can't be read")?;
        let Some(rest) = name.strip_prefix(BEFORE) else { continue };
        let parts: Vec<&str> = rest.split('/').collect();
        if let [integration, FOLDER, file] = parts[..] {
            if file == wanted {
                names.push((integration.to_string(), name.to_string()));
            } else if let Some(other) = file.strip_suffix(".json").filter(|other| !other.contains('.')) {
                languages.insert(other.to_string());
            }
        }
    }
    if names.is_empty() {
        let known: Vec<String> = languages.into_iter().collect();
        bail!("there are no texts in the language {language:?}; languages: {}", known.join(", "));
    }
    let mut texts = Texts::new();
    for (integration, name) in names {
        let mut json = String::new();
        let mut file = zip.by_name(&name).with_context(|| format!("can't read {name}"))?;
        file.read_to_string(&mut json).with_context(|| format!("can't read {name}"))?;
        let value: Value = serde_json::from_str(&json).with_context(|| format!("{name} is no valid JSON"))?;
        flatten(&value, String::new(), texts.entry(integration).or_default());
    }
    Ok(texts)
}

fn flatten(value: &Value, path: String, texts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                flatten(value, format!("{path}/{key}"), texts);
            }
        }
        Value::String(text) => {
            texts.insert(path, one_line(text));
        }
        // Numbers, lists and nulls are no interface text.
        _ => {}
    }
}
