//! IWSLT's training files, `train.tags.de-en.de`: sentences of talks, one a line, with lines of tags between them.
//!
//! ```text
//! <url>http://www.ted.com/talks/…</url>
//! <keywords>talks, TED Conference</keywords>
//! <talkid>535</talkid>
//! <title>…</title>
//! <description>…</description>
//! A sentence.
//! Another one.
//! ```
//!
//! Sentences are read and lines of tags are not, titles and descriptions included. A sentence is told by its talk and its
//! number there.

use super::lines::clean_line;
use super::markup::{is_talk_tag, TALK_TAGS};
use super::segments::{Segment, Segments};
use crate::interrupt;
use anyhow::bail;
use std::path::Path;
use std::sync::Arc;

/// The sentences of a file. `path` is for errors.
///
/// # Errors
/// Invalid UTF-8, with the line; no sentence; two talks with one number.
pub fn read(bytes: &[u8], path: &Path) -> anyhow::Result<Segments> {
    let mut segments: Vec<Segment> = Vec::new();
    let (mut talk, mut number, mut talks, mut left_out): (Arc<str>, _, _, _) = ("0".into(), 0, 0, 0);
    // Whether tags were the last lines, so that the next of them begins no talk.
    let mut in_tags = false;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        interrupt::check()?;
        let text = std::str::from_utf8(line)
            .map_err(|error| crate::input::invalid_utf8(&path.display().to_string(), at + 1, &error))?;
        let text = clean_line(text).trim();
        if let Some(tag) = TALK_TAGS.iter().find(|tag| is_talk_tag(text, tag)) {
            left_out += 1;
            let begins = !text.starts_with("</") && ["url", "doc", "talkid"].contains(tag);
            if begins && !in_tags {
                (number, talks) = (0, talks + 1);
                talk = format!("number {talks}").into();
            }
            in_tags |= begins;
            if let Some(id) = text.strip_prefix("<talkid>").and_then(|id| id.strip_suffix("</talkid>")) {
                talk = id.trim().into();
            }
            continue;
        }
        in_tags = false;
        number += 1;
        segments.push(Segment { document: talk.clone(), id: number.to_string(), text: text.to_string(), line: at + 1 });
    }
    if segments.is_empty() {
        bail!("{} has tags, but no sentence", path.display());
    }
    let note = format!(
        "{}: {left_out} lines of tags (url, title, description, …) left out, {} sentences of {talks} talks read",
        path.display(),
        segments.len()
    );
    Segments::new(path, segments, vec![note])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_read_and_tags_are_not() {
        let file = "<url>u1</url>\n<keywords>a, b</keywords>\n<talkid>535</talkid>\n<title>T</title>\n\
                    <description>D</description>\n Thank you .\r\n Laughter & <i>more</i> .\n\n\
                    <translator href=\"x\">X</translator>\n</doc>\n<doc docid=\"2\" genre=\"lectures\">\n<url>u2</url>\n<talkid>66</talkid>\nGood morning .\n<reviewer>R</reviewer>\n";
        let read = read(file.as_bytes(), Path::new("train.tags.de-en.en")).unwrap();
        let texts: Vec<&str> = (0..read.len()).map(|at| read.text(at)).collect();
        assert_eq!(texts, ["Thank you .", "Laughter & <i>more</i> .", "", "Good morning ."]);
        assert!(
            read.notes[0].contains("11 lines of tags") && read.notes[0].contains("4 sentences of 2 talks"),
            "{read:?}"
        );
    }

    #[test]
    fn a_talk_that_is_there_twice_is_an_error() {
        let talk = "<url>u</url>\n<talkid>5</talkid>\na\n";
        let error = read(talk.repeat(2).as_bytes(), Path::new("x")).unwrap_err().to_string();
        assert_eq!(error, "x: document \"5\" has segment \"1\" twice, in lines 3 and 6");
    }
}
