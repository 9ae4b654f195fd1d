//! IMDb reviews in the official folders: `FOLDER/{train,test}/{neg,pos}/<id>_<rating>.txt`, one review a file.
//!
//! Files are read in the order of their names. Runs of `<br />` and line breaks become one blank; control characters that
//! cp1252 left behind (U+0085, U+0096 …) stay. The unlabelled reviews (`unsup`) are not read.

use super::{classes, hold_out, single_row, size_note, whole_row, Label, Splits, HELD_OUT};
use super::{LabelledCorpus, LabelledFile, LabelledRows};
use crate::files::is_clutter;
use crate::input;
use crate::interrupt;
use crate::metric::classification::MetricKind::Accuracy;
use anyhow::{bail, Context};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Folders, which are the class names, and the ratings that they hold.
const FOLDERS: [(&str, RangeInclusive<u32>); 2] = [("neg", 1..=4), ("pos", 7..=10)];

/// Reads both splits in `folder` (aclImdb).
///
/// Errors: a missing folder, those of [`read_split`], an empty split.
pub fn read(folder: &Path) -> anyhow::Result<LabelledCorpus> {
    let mut notes = Vec::new();
    let mut open = |split: &str| -> anyhow::Result<LabelledRows> {
        let path = folder.join(split);
        let LabelledFile { rows, notes: said } =
            read_split(&path).context("IMDb is read from its official folders (aclImdb) in data.folder")?;
        notes.extend(said);
        notes.extend(size_note(&path, "reviews", rows.rows.len(), 25_000));
        Ok(rows)
    };
    let (train, test) = (open("train")?, open("test")?);
    let (train, dev) = hold_out(train, whole_row);
    notes.push(HELD_OUT.to_string());
    let names = FOLDERS.map(|(name, _)| name);
    let (name, target, metrics) = ("IMDb".to_string(), classes(&names), vec![Accuracy]);
    Splits { name, target, metrics, train, dev, tests: vec![test], notes }.join()
}

/// Reads the reviews of one split: those in `neg`, then those in `pos`.
///
/// Errors: a missing folder; with the file: a name that is not `<id>_<rating>.txt`, a rating that is not of its folder, an
/// empty file, invalid UTF-8. Files that don't end in `.txt` are passed over.
pub fn read_split(split: &Path) -> anyhow::Result<LabelledFile> {
    let (mut rows, mut marked, mut clutter) = (Vec::new(), 0, 0);
    for (class, (name, ratings)) in FOLDERS.iter().enumerate() {
        let folder = split.join(name);
        let (files, left_out) = text_files(&folder)?;
        clutter += left_out;
        for path in files {
            interrupt::check()?;
            let rating = rating(&path).with_context(|| {
                format!(
                    "{}: the name of a review is <id>_<rating>.txt, such as 0_{}.txt",
                    path.display(),
                    ratings.start()
                )
            })?;
            if !ratings.contains(&rating) {
                bail!(
                    "{}: a rating of {rating} in the folder {name}, where ratings are {} to {}",
                    path.display(),
                    ratings.start(),
                    ratings.end()
                );
            }
            let (text, marks) = input::read_text(&path)?;
            marked += marks;
            let text = review(&text);
            if text.is_empty() {
                bail!("{}, line 1: the file is empty; a review is text", path.display());
            }
            rows.push(single_row(vec![text.into()], Label::Class(class as u32), rows.len()));
        }
    }
    let mut notes: Vec<String> = input::marks_note(split, marked).into_iter().collect();
    if clutter > 0 {
        notes.push(format!(
            "{clutter} files in {} not read: their names are those of hidden files, of editors' backups or of file managers",
            split.display()
        ));
    }
    LabelledFile { rows: LabelledRows::new(1, rows), notes }.not_empty(split)
}

/// The reviews of a folder in the order of their names, and how many files are clutter ([`is_clutter`]).
fn text_files(folder: &Path) -> anyhow::Result<(Vec<PathBuf>, usize)> {
    let listing = || format!("can't list the folder {}", folder.display());
    let (mut files, mut clutter) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if is_clutter(&path) {
            clutter += 1;
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    files.sort();
    Ok((files, clutter))
}

fn rating(path: &Path) -> Option<u32> {
    let (id, rating) = path.file_stem()?.to_str()?.split_once('_')?;
    id.parse::<u32>().ok()?;
    rating.parse().ok()
}

fn review(text: &str) -> String {
    let parts = text.split("<br />").flat_map(|part| part.split(['\n', '\r']));
    let parts: Vec<&str> = parts.map(|part| part.trim_matches(' ')).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
