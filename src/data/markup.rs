//! Which text files are markup: SGML and XML of translation campaigns, told by how they begin.

use crate::input::MARK;
use std::path::Path;

/// How markup is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markup {
    /// Documents of `<seg>` segments (WMT's and IWSLT's test sets); see [`super::sgm`].
    Segments,
    /// IWSLT's `train.tags.*`; see [`super::talks`].
    Talks,
    /// Not read.
    Other(&'static str),
}

/// The first elements of files with segments.
const SEGMENTS: [&str; 8] = ["srcset", "refset", "tstset", "hypset", "mteval", "dataset", "seg", "hl"];

/// First elements of other formats.
const OTHER: [(&str, &str); 6] = [
    ("tmx", "a translation memory (TMX)"),
    ("xliff", "an XLIFF file"),
    ("mediawiki", "a MediaWiki dump"),
    ("tei", "a TEI document"),
    ("ts", "a Qt Linguist file"),
    ("rss", "an RSS feed"),
];

/// Elements of IWSLT's training files that stand on lines of their own.
pub const TALK_TAGS: [&str; 9] =
    ["url", "keywords", "speaker", "talkid", "title", "description", "doc", "translator", "reviewer"];

impl Markup {
    /// Of a file that begins with `head`. Its content decides; a name that ends in `.sgm`, or contains `train.tags.`, says it
    /// of a file that begins otherwise. Nothing for plain text, whatever may follow in it.
    pub fn of(head: &[u8], path: &Path) -> Option<Markup> {
        let head = String::from_utf8_lossy(head.strip_prefix(MARK).unwrap_or(head));
        let name = plain_name(path);
        if let Some(found) = beginning(&head) {
            return Some(found);
        }
        if name.contains("train.tags.") {
            return Some(Markup::Talks);
        }
        (name.ends_with(".sgm") || name.ends_with(".sgml")).then_some(Markup::Segments)
    }
}

/// A file's name in lower case, without the ending of its compression.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let packed = [".gz", ".bz2", ".xz", ".zst", ".zstd"].iter().find_map(|ending| name.strip_suffix(ending));
    packed.map(str::to_string).unwrap_or(name)
}

/// What the first element says.
fn beginning(head: &str) -> Option<Markup> {
    let mut rest = head.trim_start();
    let mut is_xml = false;
    loop {
        let after = |end: &str| rest.find(end).map_or("", |at| rest[at + end.len()..].trim_start());
        let lower = rest.get(..9).unwrap_or(rest).to_ascii_lowercase();
        if lower.starts_with("<?") {
            is_xml |= lower.starts_with("<?xml");
            rest = after("?>");
        } else if lower.starts_with("<!--") {
            rest = after("-->");
        } else if lower.starts_with("<!doctype") {
            rest = after(">");
        } else {
            break;
        }
    }
    let element = rest.strip_prefix('<').unwrap_or_default();
    let length = element.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(element.len());
    let name = element[..length].to_ascii_lowercase();
    let ends_well = element[length..].starts_with(['>', ' ', '\t', '\r', '\n', '/']);
    let has = |tag: &str| super::sgm::find(head, tag).is_some();
    match name.as_str() {
        name if ends_well && SEGMENTS.contains(&name) => Some(Markup::Segments),
        "doc" if ends_well && has("<seg") => Some(Markup::Segments),
        name if ends_well && TALK_TAGS.contains(&name) && talk_tags(head) > 1 => Some(Markup::Talks),
        "doc" if ends_well => Some(Markup::Other("documents in SGML without <seg> segments")),
        name if ends_well => match OTHER.iter().find(|(known, _)| *known == name) {
            Some((_, what)) if is_xml || name != "ts" => Some(Markup::Other(what)),
            _ => is_xml.then_some(Markup::Other("an XML file of unknown kind")),
        },
        _ => is_xml.then_some(Markup::Other("an XML file of unknown kind")),
    }
}

/// How many different tags of IWSLT's training files begin lines.
fn talk_tags(head: &str) -> usize {
    let begins = |tag: &&&str| head.lines().any(|line| is_talk_tag(line.trim_start(), tag));
    TALK_TAGS.iter().filter(begins).count()
}

/// Whether a line begins with the tag `name`.
pub fn is_talk_tag(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix('<').map(|rest| rest.strip_prefix('/').unwrap_or(rest));
    let rest = rest.and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with(['>', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str, name: &str) -> Option<Markup> {
        Markup::of(head.as_bytes(), Path::new(name))
    }

    #[test]
    fn content_decides_before_the_name() {
        for head in [
            "<srcset setid=\"x\" srclang=\"any\">\n<doc docid=\"a\">\n<seg id=\"1\">A</seg>",
            "\u{feff}\r\n<REFSET>\n",
            "<?xml version=\"1.0\"?>\n<!DOCTYPE mteval SYSTEM \"x.dtd\">\n<!-- of 2017 -->\n<mteval>",
            "<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"newstest2021\">",
            "<DOC docid=\"a\">\n<seg id=1>A</seg>",
            "<seg id=\"1\">A</seg>",
        ] {
            assert_eq!(of(head, "x.txt"), Some(Markup::Segments), "{head}");
        }
        for head in ["<url>http://x</url>\n<keywords>a</keywords>\nText", "<doc docid=\"1\">\n<url>u</url>\nText"] {
            assert_eq!(of(head, "x.en"), Some(Markup::Talks), "{head}");
        }
        assert_eq!(of("Text first\n", "train.tags.de-en.de"), Some(Markup::Talks));
        assert_eq!(of("Text first\n", "x.SGM.GZ"), Some(Markup::Segments));
        for head in [
            "<doc id=\"12\" url=\"u\" title=\"t\">\nt\n",
            "<?xml version=\"1.0\"?>\n<tmx version=\"1.4\">",
            "<tmx>",
            "<?xml version=\"1.0\"?><books/>",
        ] {
            assert!(matches!(of(head, "x.txt"), Some(Markup::Other(_))), "{head}");
        }
    }

    #[test]
    fn text_that_mentions_tags_is_text() {
        for head in [
            "The tag <seg id=\"1\"> begins a segment</seg>.\n<srcset>\n",
            "<segment> one\n<seg id=\"1\">\n",
            "<unk> is a token\n",
            "<title>Only a title</title>\nText\n",
            "<s> a </s>\n",
            "< srcset>",
            "1 < 2\n",
            "",
        ] {
            assert_eq!(of(head, "x.txt"), None, "{head}");
        }
    }
}
