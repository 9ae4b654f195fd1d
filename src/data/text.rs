//! Plain parallel or single files, one sentence a line, `.tagged` files, and SGML and XML of WMT and IWSLT, which are told by
//! their content ([`super::markup`]); each may be compressed with gzip, bzip2, xz or zstd.
//!
//! A name may be a pattern (`news.en-0000[1-9]-of-00100`): the files that it matches, in the order of their names.
//! A line of a `.tagged` file holds the sentences of a summary, each as `<t> … </t>`; they are read without the tags, joined
//! with `\n`.
//!
//! Plain files are paired line by line; documents (SGML, XML, `train.tags.*`) segment by segment by their ids, in the order of
//! the source file. A plain file and one of documents are paired in order.
//!
//! Lines are read when they are asked for ([`Lines`]), so tens of millions of pairs take no memory to speak of.

use super::files::expand;
use super::lines::Lines;
use super::markup::{plain_name, Markup};
use super::rows::Hasher;
use super::segments::Segments;
use super::sgm::{self, Side};
use super::{talks, Corpus, Examples};
use crate::excerpt::excerpt;
use crate::experiment::config::{DataConfig, TaskKind};
use anyhow::{bail, Context};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

enum Source {
    Lines(Lines),
    /// Lines with `<t>` and `</t>`, and the file's name.
    Tagged(Lines, PathBuf),
    Segments(Segments),
}

impl Source {
    fn open(path: &Path, side: Side) -> anyhow::Result<Source> {
        let lines = Lines::open(path)?;
        Ok(match Markup::of(&lines.head()?, path) {
            Some(Markup::Segments) => Source::Segments(sgm::read(&lines.bytes()?, path, side)?),
            Some(Markup::Talks) => Source::Segments(talks::read(&lines.bytes()?, path)?),
            Some(Markup::Other(name)) => bail!("{}: {name}, which is not read; convert it to text", path.display()),
            None if plain_name(path).ends_with(".tagged") => Source::Tagged(lines, path.into()),
            None => Source::Lines(lines),
        })
    }

    fn len(&self) -> usize {
        match self {
            Source::Lines(lines) | Source::Tagged(lines, _) => lines.len(),
            Source::Segments(segments) => segments.len(),
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Source::Lines(_) | Source::Tagged(..) => "lines",
            Source::Segments(_) => "segments",
        }
    }
}

/// Files that are parallel, line by line.
struct Part {
    sources: Vec<Source>,
    /// Rows in the parts before.
    start: usize,
}

/// The rows of all files of a split, one file after the other.
struct TextRows {
    parts: Vec<Part>,
    columns: usize,
    rows: usize,
}

impl TextRows {
    /// Adds what a reader should know to `notes`.
    fn open(key: &str, files: &[Vec<PathBuf>], columns: usize, notes: &mut Vec<String>) -> anyhow::Result<TextRows> {
        let mut split = TextRows { parts: Vec::new(), columns, rows: 0 };
        let files = &expand(key, files)?;
        for paths in files {
            if paths.len() != columns {
                let needed = if columns == 1 { "one text file" } else { "a source and a target file" };
                let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                bail!("data.{key}: an entry has {} files ({}); the task needs {needed}", paths.len(), names.join(", "));
            }
            let open = |(path, side): (&PathBuf, Side)| Source::open(path, side);
            let sources = paths.iter().zip([Side::Source, Side::Target]).map(open).collect::<anyhow::Result<Vec<_>>>();
            let sources = paired(sources.with_context(|| format!("data.{key}"))?, paths, notes);
            let sources = sources.with_context(|| format!("data.{key}"))?;
            let rows = sources[0].len();
            split.parts.push(Part { sources, start: split.rows });
            split.rows += rows;
        }
        if split.rows == 0 {
            let names: Vec<String> = files.iter().flatten().map(|path| path.display().to_string()).collect();
            bail!("data.{key} is empty: there is no line in {}", names.join(", "));
        }
        Ok(split)
    }
}

/// The files of one entry, of which row n of the one belongs to row n of the other.
fn paired(sources: Vec<Source>, paths: &[PathBuf], notes: &mut Vec<String>) -> anyhow::Result<Vec<Source>> {
    for source in &sources {
        match source {
            Source::Lines(lines) | Source::Tagged(lines, _) => notes.extend(lines.note()),
            Source::Segments(segments) => notes.extend(segments.notes.clone()),
        }
    }
    let sources: [Source; 2] = match sources.try_into() {
        Ok(pair) => pair,
        Err(single) => return Ok(single),
    };
    let sources = match sources {
        [Source::Segments(source), Source::Segments(target)] => {
            let target = target.paired_with(&source)?;
            [Source::Segments(source), Source::Segments(target)]
        }
        sources => sources,
    };
    let [source, target] = &sources;
    let [first, second] = [paths[0].display(), paths[1].display()];
    if source.len() != target.len() {
        bail!(
            "{first} has {} {}, but {second} has {} {}; row n of one must belong to row n of the other",
            source.len(),
            source.unit(),
            target.len(),
            target.unit()
        );
    }
    if source.unit() != target.unit() {
        notes.push(format!("{first} has {}, {second} {}: paired in order", source.unit(), target.unit()));
    }
    Ok(sources.into())
}

impl Examples for TextRows {
    fn len(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        // Parts without rows share their start with the next; the last part that starts here or before holds the row.
        let part = &self.parts[self.parts.partition_point(|part| part.start <= row) - 1];
        let row = row - part.start;
        Ok(match &part.sources[column] {
            Source::Lines(lines) => Cow::Owned(lines.line(row)?),
            Source::Tagged(lines, path) => {
                let untagged = untagged(&lines.line(row)?);
                Cow::Owned(untagged.with_context(|| format!("{}, line {}", path.display(), row + 1))?)
            }
            Source::Segments(segments) => Cow::Borrowed(segments.text(row)),
        })
    }

    fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        // Which file is in which split, and whether a row has one text or two, is not in the bytes.
        hasher.number(self.rows as u64);
        hasher.number(self.columns as u64);
        // The bytes of each file rather than each line: as fast as the disk.
        for source in self.parts.iter().flat_map(|part| &part.sources) {
            hasher.number(source.len() as u64);
            match source {
                Source::Lines(lines) => lines.hash_into(hasher)?,
                // What is read depends on the file's name, so its bytes don't say it.
                Source::Tagged(lines, path) => {
                    for row in 0..lines.len() {
                        let untagged = untagged(&lines.line(row)?);
                        hasher.text(&untagged.with_context(|| format!("{}, line {}", path.display(), row + 1))?);
                    }
                }
                Source::Segments(segments) => (0..segments.len()).for_each(|row| hasher.text(segments.text(row))),
            }
        }
        Ok(())
    }
}

/// The sentences of `<t> one . </t> <t> two . </t>`, joined with `\n`; an empty line has none.
fn untagged(line: &str) -> anyhow::Result<String> {
    let mut sentences = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let Some(tagged) = rest.strip_prefix("<t>") else {
            bail!("a .tagged file has its sentences between <t> and </t>, but here is {} outside", excerpt(rest));
        };
        let Some((sentence, after)) = tagged.split_once("</t>").filter(|(sentence, _)| !sentence.contains("<t>"))
        else {
            bail!("a sentence begins with <t>, but does not end with </t>; is the line cut short?");
        };
        sentences.push(sentence.trim());
        rest = after.trim_start();
    }
    Ok(sentences.join("\n"))
}

/// Opens the files that `data.train`, `data.dev` and `data.test` name.
///
/// Errors name the key and the files: missing or unreadable files, unequal line counts, no line, a wrong number of files.
/// Invalid UTF-8 shows when a line is read.
pub fn corpus(config: &DataConfig, task: TaskKind) -> anyhow::Result<Corpus> {
    let columns = if task.has_target() { 2 } else { 1 };
    let mut notes = vec!["split: train, dev and test are the files that the experiment names".into()];
    let mut open = |key: &str, files: &[Vec<PathBuf>]| TextRows::open(key, files, columns, &mut notes).map(Box::new);
    let train = open("train", &config.train)?;
    let dev = open("dev", &config.dev)?;
    let test = open("test", &config.test)?;
    let first = config.train.first().and_then(|files| files.first());
    let name = first.and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let name = match task {
        TaskKind::Translation => format!("text {}-{} ({} …)", config.source, config.target, name.unwrap_or_default()),
        _ => format!("text ({} …)", name.unwrap_or_default()),
    };
    Corpus::new(name, train, dev, test, notes)
}
