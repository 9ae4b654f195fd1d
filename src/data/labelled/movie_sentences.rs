//! Sentences of movie reviews, each rated by about twenty people, read straight from the sdist: a table in a tar.gz in a
//! zip archive. The stand-in of Movie Reviews.
//!
//! A line is: number, mean rating (-4 to 4), text, with tabs between them. Ratings between -0.5 and 0.5 are left out; the
//! class is the sign. The numbers do not tell which review a sentence is of, so single sentences are held out. A sentence
//! that occurs twice is read once, and left out where its classes differ.

use super::super::catalog::MOVIE_SENTENCES;
use super::super::files::{open_zip, Zip};
use super::{classes, single_row, Label, Splits};
use super::{LabelledCorpus, LabelledRows};
use crate::metric::classification::MetricKind::Accuracy;
use anyhow::{bail, Context};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

const INNER: &str = "additional_resources/hutto_ICWSM_2014.tar.gz";
const TABLE: &str = "movieReviewSnippets_GroundTruth.txt";

/// Ratings nearer to 0 have no class.
const WEAKEST: f64 = 0.5;

/// Reads the sdist at `archive`.
///
/// Errors: a file that is no such sdist, or a damaged one; with the line of the table: a line that is no number, rating and
/// text.
pub fn read(archive: &Path) -> anyhow::Result<LabelledCorpus> {
    let mut zip = open_zip(archive)?;
    let table = table(&mut zip).with_context(|| format!("in {}", archive.display()))?;
    let (mut sentences, mut weak, mut total) = (Vec::new(), 0, 0);
    let mut votes: HashMap<&str, [bool; 2]> = HashMap::new();
    for (number, line) in table.lines().enumerate() {
        let (rating, text) =
            parsed(line).with_context(|| format!("{TABLE} in {}, line {}", archive.display(), number + 1))?;
        total += 1;
        if rating.abs() < WEAKEST {
            weak += 1;
            continue;
        }
        let classes = votes.entry(text).or_insert_with(|| {
            sentences.push(text);
            [false; 2]
        });
        classes[usize::from(rating > 0.0)] = true;
    }
    let mut rows = [const { Vec::new() }; 3];
    for text in sentences {
        let class = match votes[text] {
            [true, true] => continue,
            [_, positive] => positive.into(),
        };
        let split = &mut rows[super::held_out_split(text)];
        split.push(single_row(vec![text.into()], Label::Class(class), split.len()));
    }
    let kept: usize = rows.iter().map(Vec::len).sum();
    let notes = vec![
        format!("{weak} of {total} sentences dropped: their rating is between -{WEAKEST} and {WEAKEST}"),
        format!("{} sentences dropped: they repeat another, or have both classes", total - weak - kept),
        format!("split: {}", MOVIE_SENTENCES.split_rule),
    ];
    let [train, dev, test] = rows.map(|rows| LabelledRows::new(1, rows));
    let name = format!("{} {} movieReviewSnippets", MOVIE_SENTENCES.package, MOVIE_SENTENCES.version);
    let (target, metrics, tests) = (classes(&["negative", "positive"]), vec![Accuracy], vec![test]);
    Splits { name, target, metrics, train, dev, tests, notes }.join()
}

fn parsed(line: &str) -> anyhow::Result<(f64, &str)> {
    let mut cells = line.splitn(3, '\t');
    let (Some(_), Some(rating), Some(text)) = (cells.next(), cells.next(), cells.next()) else {
        bail!("a line is a number, a rating and a text with tabs between them");
    };
    let value: Option<f64> = rating.parse().ok();
    let value = value.filter(|rating| rating.abs() <= 4.0);
    let value = value.with_context(|| format!("{rating:?} is no rating from -4 to 4"))?;
    let text = text.trim_matches(' ');
    if text.is_empty() {
        bail!("there is no text after the rating");
    }
    Ok((value, text))
}

fn table(zip: &mut Zip) -> anyhow::Result<String> {
    let inner = format!("{}-{}/{INNER}", MOVIE_SENTENCES.package, MOVIE_SENTENCES.version);
    let inner = zip.by_name(&inner).with_context(|| format!("there is no {inner}"))?;
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(inner));
    let damaged = || format!("{INNER} is no tar.gz archive, or a damaged one");
    for entry in tar.entries().with_context(damaged)? {
        let mut entry = entry.with_context(damaged)?;
        if entry.path().with_context(damaged)?.file_name().is_some_and(|name| name == TABLE) {
            let mut text = String::new();
            entry.read_to_string(&mut text).with_context(|| format!("can't read {TABLE} in {INNER}"))?;
            return Ok(text);
        }
    }
    bail!("there is no {TABLE} in {INNER}")
}
