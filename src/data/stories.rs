//! CNN/DailyMail in its original form: folders of `.story` files, and lists of URLs that say which story is in which split.
//!
//! The story of a URL is `<SHA-1 of the URL, hexadecimal>.story` in one of the folders. Its article is what comes before
//! the first line `@highlight`, each of its highlights what follows such a line. Here
//! - the article's paragraphs are joined to one line, the highlights with `\n`;
//! - a paragraph or highlight that ends without a mark gets the full stop that it lacks (most highlights do), as is the custom;
//! - the byline (`WASHINGTON (CNN) -- `, `(CNN)`, `LONDON, England (Reuters) -- `) is taken off, also after an editor's note:
//!   it says who wrote the text, and no summary has it;
//! - all else stays as it is: case, `Editor's note:` paragraphs, the words of links (`Watch the report »`).
//!
//! Only the hashes of the URLs are kept in memory (22 bytes a story); a story is read when its row is asked for.

use super::files::{single, SplitFiles};
use super::lines::Lines;
use super::rows::{hash_pairs, Hasher};
use super::{Corpus, Examples};
use crate::excerpt::excerpt;
use crate::input;
use crate::interrupt;
use anyhow::{bail, Context};
use rayon::prelude::*;
use regex::Regex;
use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// Ends of a sentence, closing quotation marks and brackets included.
const ENDS: [char; 11] = ['.', '!', '?', '…', '\'', '`', '"', '’', '”', ')', ']'];

/// How many missing stories are named.
const NAMED: usize = 3;

/// An article and its highlights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// The text, in one line.
    pub article: String,
    /// The highlights, joined with `\n`.
    pub highlights: String,
}

impl Story {
    /// Reads a `.story` file. Errors name the file: unreadable, invalid UTF-8 (with the line), no `@highlight`, highlights without text.
    pub fn read(path: &Path) -> anyhow::Result<Story> {
        let (text, _) = input::read_text(path)?;
        let mut lines = text.lines().map(str::trim).enumerate();
        let mut paragraphs: Vec<&str> = Vec::new();
        let start = loop {
            match lines.next() {
                Some((at, "@highlight")) => break at + 1,
                Some((_, line)) => paragraphs.extend(Some(line).filter(|line| !line.is_empty())),
                None => bail!(
                    "{}, line {}: the file ends without `@highlight`, so it has no summary; is it cut short?",
                    path.display(),
                    text.lines().count().max(1)
                ),
            }
        };
        if let Some(first) = paragraphs.iter_mut().find(|line| !is_note(line)) {
            *first = without_byline(first);
        }
        let mut highlights = vec![String::new()];
        for (_, line) in lines {
            // One highlight is one line; were it more, they belong together.
            match highlights.last_mut() {
                _ if line == "@highlight" => highlights.push(String::new()),
                Some(last) if !line.is_empty() => {
                    *last += if last.is_empty() { "" } else { " " };
                    *last += line;
                }
                _ => {}
            }
        }
        let highlights: Vec<String> =
            highlights.iter().filter(|text| !text.is_empty()).map(|text| ended(text).into_owned()).collect();
        if highlights.is_empty() {
            bail!("{}, line {start}: no text follows `@highlight`; is the file cut short?", path.display());
        }
        let article: Vec<Cow<str>> =
            paragraphs.iter().filter(|line| !line.is_empty()).map(|line| ended(line)).collect();
        Ok(Story { article: article.join(" "), highlights: highlights.join("\n") })
    }
}

/// Whether a paragraph is an editor's note, with a straight apostrophe or a curly one.
fn is_note(paragraph: &str) -> bool {
    let paragraph = paragraph.to_ascii_lowercase();
    ["editor's note:", "editor’s note:"].iter().any(|note| paragraph.starts_with(note))
}

/// With a full stop, where the text ends without a mark.
fn ended(text: &str) -> Cow<'_, str> {
    // The mark of a link ends a paragraph too.
    if text.ends_with(ENDS) || text.ends_with('»') {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text}."))
    }
}

/// The opening paragraph without place and agency. Without a dash after it, only `(CNN)` that opens the paragraph or touches
/// the next word is a byline, since `Anderson Cooper (CNN) said` and `Anderson Cooper (CNN), who` are none.
fn without_byline(paragraph: &str) -> &str {
    static BYLINE: LazyLock<Regex> = LazyLock::new(|| {
        // The pattern is a constant, tested below.
        Regex::new(r"^([^()]{0,80})\((CNN(?:[ .][A-Za-z. ]+)?|Reuters|AP)\)([\s\u{a0}]*)(?:(--|[-–—])[\s\u{a0}]*)?")
            .expect("a pattern")
    });
    let Some(found) = BYLINE.captures(paragraph) else { return paragraph };
    let (place, agency, gap, dash) = (&found[1], &found[2], &found[3], found.get(4));
    let rest = &paragraph[found[0].len()..];
    let word = |sign: char| sign.is_alphanumeric() || ['"', '\'', '`', '“', '‘'].contains(&sign);
    let touches = gap.is_empty() && rest.starts_with(word);
    let without_dash = agency.starts_with("CNN") && (place.trim().is_empty() || touches);
    if dash.is_some() || without_dash {
        rest
    } else {
        paragraph
    }
}

/// The stories of one split that are there.
struct Stories {
    folders: Arc<[PathBuf]>,
    /// SHA-1 of the URL, and the folder that has the story.
    rows: Vec<([u8; 20], u16)>,
    /// Listed stories of which there is no file.
    missing: usize,
}

impl Stories {
    fn story(&self, row: usize) -> anyhow::Result<Story> {
        let (digest, folder) = &self.rows[row];
        Story::read(&self.folders[usize::from(*folder)].join(file_name(digest)))
    }
}

impl Examples for Stories {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        2
    }

    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>> {
        let story = self.story(row)?;
        Ok(Cow::Owned(if column == 0 { story.article } else { story.highlights }))
    }

    fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hash_pairs(self.rows.len(), hasher, |row| self.story(row).map(|story| (story.article, story.highlights)))
    }
}

fn file_name(digest: &[u8; 20]) -> String {
    let mut name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    name += ".story";
    name
}

/// Finds the stories of the three splits: `files` are the lists of URLs, `folders` hold the stories.
///
/// Every story is read once, for the hash. Errors: no folder, a folder that isn't there, a list that can't be read, a split of
/// which no story is there, what [`Story::read`] says. Stories that are missing from a list of which others are there are
/// counted in the notes, the first ones by name.
pub fn read(folders: &[PathBuf], files: &SplitFiles) -> anyhow::Result<Corpus> {
    if folders.is_empty() {
        bail!("data.stories names no folder of .story files");
    }
    if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
        bail!("data.stories: {} is no folder", folder.display());
    }
    if folders.len() > usize::from(u16::MAX) {
        bail!("data.stories names {} folders; at most {} are read", folders.len(), u16::MAX);
    }
    let folders: Arc<[PathBuf]> = folders.into();
    let mut notes = Vec::new();
    let [train, dev, test] = files.map(|key, entries| split(key, entries, &folders, &mut notes).map(Box::new))?;
    notes.push("the lists of URLs say what is train, dev and test".into());
    let skipped_test = test.missing;
    let corpus = Corpus::new(format!("cnn-stories ({})", files.name()), train, dev, test, notes)?;
    Ok(Corpus { skipped_test, ..corpus })
}

fn split(
    key: &str,
    entries: &[Vec<PathBuf>],
    folders: &Arc<[PathBuf]>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Stories> {
    let lists = single(key, entries, "a list of URLs")?;
    let (mut digests, mut seen, mut repeated) = (Vec::new(), HashSet::new(), 0);
    for path in &lists {
        let lines = Lines::open(path).with_context(|| format!("data.{key}"))?;
        notes.extend(lines.note());
        for at in 0..lines.len() {
            let url = lines.line(at)?;
            let url = url.trim();
            if url.is_empty() {
                continue;
            }
            if !url.contains("://") {
                bail!(
                    "{}, line {}: {} is not a URL; data.{key} names lists of URLs, one a line",
                    path.display(),
                    at + 1,
                    excerpt(url)
                );
            }
            let digest: [u8; 20] = Sha1::digest(url.as_bytes()).into();
            if seen.insert(digest) {
                digests.push(digest);
            } else {
                repeated += 1;
            }
        }
    }
    let names: Vec<String> = lists.iter().map(|path| path.display().to_string()).collect();
    let lists = names.join(", ");
    if digests.is_empty() {
        bail!("data.{key}: {lists} names no URL");
    }
    let found: Vec<Option<u16>> = digests
        .par_iter()
        .map(|digest| {
            interrupt::check()?;
            let name = file_name(digest);
            Ok(folders.iter().position(|folder| folder.join(&name).is_file()).map(|folder| folder as u16))
        })
        .collect::<Result<_, interrupt::Interrupted>>()?;
    let missing: Vec<String> =
        digests.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(digest, _)| file_name(digest)).collect();
    let names = missing[..missing.len().min(NAMED)].join(", ");
    let more = if missing.len() > NAMED { ", …" } else { "" };
    if missing.len() == digests.len() {
        let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        bail!(
            "data.{key}: not one of the {} stories of {lists} is in {} ({names}{more}); data.stories must name the folders of .story files",
            digests.len(),
            places.join(", ")
        );
    }
    notes.push(format!("{key}: {} stories of {} URLs", digests.len() - missing.len(), digests.len()));
    if !missing.is_empty() {
        notes.push(format!("{key}: {} stories dropped: no file ({names}{more})", missing.len()));
    }
    if repeated > 0 {
        notes.push(format!("{key}: {repeated} URLs dropped: they repeat another"));
    }
    let rows = digests.into_iter().zip(found).filter_map(|(digest, folder)| Some((digest, folder?))).collect();
    Ok(Stories { folders: folders.clone(), rows, missing: missing.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bylines_are_told_from_text() {
        for (line, text) in [
            ("WASHINGTON (CNN) -- As he awaits", "As he awaits"),
            ("(CNN)Seventy years ago", "Seventy years ago"),
            ("(CNN)  -- The League", "The League"),
            ("(CNN) The League", "The League"),
            ("LONDON, England (Reuters) -- Harry", "Harry"),
            ("Marseille, France (CNN)The prosecutor", "The prosecutor"),
            ("(CNN Student News) -- April 1", "April 1"),
            ("LONDON (CNN)\u{a0}— A", "A"),
            ("Paris (CNN)“We saw it", "“We saw it"),
        ] {
            assert_eq!(without_byline(line), text, "{line}");
        }
        for line in [
            "Anderson Cooper (CNN) said",
            "Reporter Jane Doe (CNN), who was there, said so.",
            "He works for his network (CNN).",
            "The agency (AP) said",
            "A (short) word (CNN) -- x",
            "CNN -- x",
            "(BBC) -- x",
        ] {
            assert_eq!(without_byline(line), line);
        }
    }

    #[test]
    fn notes_of_editors_have_either_apostrophe() {
        assert!(is_note("Editor's note: Rain.") && is_note("EDITOR’S NOTE: Rain."));
        assert!(!is_note("Editors note: Rain.") && !is_note("The editor's note: Rain."));
    }

    #[test]
    fn only_texts_without_an_end_get_one() {
        assert_eq!(ended("No stop"), "No stop.");
        for text in ["Stop.", "Who?", "\"Quoted\"", "(so)", "Watch »", "‘so’"] {
            assert_eq!(ended(text), text);
        }
    }
}
