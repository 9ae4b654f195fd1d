//! Test sets in documents of `<seg>` segments: WMT's `.sgm` files, WMT's XML (2021 and later), IWSLT's XML.
//!
//! ```text
//! <srcset setid="newstest2014">          <dataset id="newstest2021">
//! <doc docid="d1">                       <doc id="d1">
//! <p>                                    <src lang="en"><p><seg id="1">AT&amp;T</seg></p></src>
//! <seg id="1">AT&T</seg>                 <ref lang="de" translator="A"><p><seg id="1">AT&amp;T</seg></p></ref>
//! </p></doc></srcset>                    </doc></dataset>
//! ```
//!
//! Files with an XML declaration (`<?xml`) have entities (`&amp;`), which are resolved. The `.sgm` files look like XML and are
//! not: `&`, `<` and `"` stand raw, so their text is taken as it stands. Text outside of `<seg>` is not read.
//!
//! A file may hold sources and references, and references of many translators or outputs of many systems. A source file gives
//! its sources, a target file its references; of many versions of the same documents the first one is read, with a note.

use super::rows::one_line;
use super::segments::{Segment, Segments};
use crate::excerpt::{excerpt, excerpts};
use anyhow::bail;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

const CLOSE: &str = "</seg>";

/// Bytes in which a tag ends.
const LONGEST_TAG: usize = 4096;

/// Which texts of a file are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The sources, or the only text of a row.
    Source,
    /// The references.
    Target,
}

/// What a set of segments is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Source,
    Reference,
    Hypothesis,
    /// The file does not say.
    Unknown,
}

/// Elements that say what is in them.
const ROLES: [(&str, Role); 7] = [
    ("srcset", Role::Source),
    ("src", Role::Source),
    ("refset", Role::Reference),
    ("ref", Role::Reference),
    ("tstset", Role::Hypothesis),
    ("hypset", Role::Hypothesis),
    ("hyp", Role::Hypothesis),
];

/// A segment with what its elements say.
struct Entry {
    role: Role,
    /// Translator or system.
    version: Arc<str>,
    segment: Segment,
}

/// The segments of one side, in order. `path` is for errors.
///
/// # Errors
/// With file and line: invalid UTF-8; a segment that doesn't end (on its line, unless the file is XML); a tag in the text of a
/// segment of an XML file. With the file: no segment; none of the side; versions of different documents; two segments with the
/// ids of one.
pub fn read(bytes: &[u8], path: &Path, side: Side) -> anyhow::Result<Segments> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = line_of(&bytes[..error.valid_up_to()]);
        crate::input::invalid_utf8(&path.display().to_string(), line, &error)
    })?;
    let entries = Parser::new(text, path)?.entries()?;
    if entries.is_empty() {
        bail!("{} has no <seg id=\"…\">…</seg> line", path.display());
    }
    let mut notes = Vec::new();
    let entries = of_side(entries, side, path, &mut notes)?;
    let entries = first_version(entries, path, &mut notes)?;
    Segments::new(path, entries.into_iter().map(|entry| entry.segment).collect(), notes)
}

/// How many segments of any role a file has: what the files of a campaign are counted in.
pub fn count(bytes: &[u8], path: &Path) -> anyhow::Result<usize> {
    Ok(read(bytes, path, Side::Source)?.len())
}

fn of_side(entries: Vec<Entry>, side: Side, path: &Path, notes: &mut Vec<String>) -> anyhow::Result<Vec<Entry>> {
    let wanted = if side == Side::Source { Role::Source } else { Role::Reference };
    let has = |role: Role| entries.iter().any(|entry| entry.role == role);
    let only = entries[0].role;
    if entries.iter().all(|entry| entry.role == only) {
        return Ok(entries);
    }
    if !has(wanted) {
        let (name, elements) =
            if side == Side::Source { ("sources", "<srcset> or <src>") } else { ("references", "<refset> or <ref>") };
        bail!("{} has segments of many kinds, but no {name} ({elements})", path.display());
    }
    let which = if side == Side::Source { "sources" } else { "references" };
    notes.push(format!(
        "{}: of segments of many kinds (sources, references, outputs) the {which} are read",
        path.display()
    ));
    Ok(entries.into_iter().filter(|entry| entry.role == wanted).collect())
}

fn first_version(entries: Vec<Entry>, path: &Path, notes: &mut Vec<String>) -> anyhow::Result<Vec<Entry>> {
    let mut versions: Vec<Arc<str>> = Vec::new();
    let mut documents: Vec<HashSet<Arc<str>>> = Vec::new();
    for entry in &entries {
        let place = versions.iter().position(|version| *version == entry.version).unwrap_or_else(|| {
            versions.push(entry.version.clone());
            documents.push(HashSet::new());
            versions.len() - 1
        });
        documents[place].insert(entry.segment.document.clone());
    }
    let all: HashSet<&Arc<str>> = documents.iter().flatten().collect();
    let sizes: usize = documents.iter().map(HashSet::len).sum();
    // Each document has one version: these are the names of those who translated it.
    if sizes == all.len() {
        return Ok(entries);
    }
    if documents[0].len() < all.len() {
        bail!(
            "{}: documents are there in many versions ({}), but none of them has all documents from the first on; name a file \
             with one version",
            path.display(),
            excerpts(&versions)
        );
    }
    let first = versions.remove(0);
    notes.push(format!("{}: read is version {}; left out: {}", path.display(), excerpt(&first), excerpts(&versions)));
    Ok(entries.into_iter().filter(|entry| entry.version == first).collect())
}

/// Goes through the tags outside of segments.
struct Parser<'a> {
    text: &'a str,
    path: &'a Path,
    is_xml: bool,
    at: usize,
    /// Line feeds before `counted`.
    line: usize,
    counted: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, path: &'a Path) -> anyhow::Result<Parser<'a>> {
        let text = text.trim_start_matches('\u{feff}');
        let start = text.trim_start();
        let is_xml = start.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("<?xml"));
        if is_xml {
            let declaration = &start[..start.find("?>").unwrap_or(0)];
            let encoding = attribute(declaration, "encoding").unwrap_or("utf-8");
            if !["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|known| known.eq_ignore_ascii_case(encoding)) {
                bail!(
                    "{}: the XML declaration says encoding {}; convert the file to UTF-8",
                    path.display(),
                    excerpt(encoding)
                );
            }
        }
        Ok(Parser { text, path, is_xml, at: 0, line: 1, counted: 0 })
    }

    /// The line of a place that is not before the last one asked for, from 1.
    fn line(&mut self, at: usize) -> usize {
        self.line += memchr::memchr_iter(b'\n', &self.text.as_bytes()[self.counted..at]).count();
        self.counted = at;
        self.line
    }

    fn place(&mut self, at: usize) -> String {
        let line = self.line(at);
        format!("{}, line {line}", self.path.display())
    }

    fn entries(mut self) -> anyhow::Result<Vec<Entry>> {
        let none: Arc<str> = "".into();
        let mut entries = Vec::new();
        let mut roles = vec![(Role::Unknown, none.clone(), "")];
        let (mut document, mut anonymous, mut segments): (Arc<str>, usize, usize) = ("number 1".into(), 0, 0);
        let mut of_document = none;
        while let Some(start) = memchr::memchr(b'<', &self.text.as_bytes()[self.at..]).map(|next| self.at + next) {
            let rest = &self.text[start..];
            if rest.starts_with("<!--") {
                self.at = rest.find("-->").map_or(self.text.len(), |end| start + end + 3);
                continue;
            }
            let is_close = rest[1..].starts_with('/');
            let name = name(&rest[1 + usize::from(is_close)..]);
            let Some(length) = tag_length(rest) else {
                if name.eq_ignore_ascii_case("seg") {
                    bail!("{}: the <seg tag has no >", self.place(start));
                }
                self.at = start + 1;
                continue;
            };
            let tag = &rest[..length];
            self.at = start + length;
            let known = ROLES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            match known {
                Some((element, _)) if is_close => {
                    roles.pop_if(|(_, _, open)| open == element);
                }
                // Empty elements have no end.
                Some(_) if tag.ends_with("/>") => {}
                Some((element, role)) => {
                    roles.push((*role, version(tag).unwrap_or("").into(), element));
                    segments = 0;
                    if element.ends_with("set") {
                        anonymous = 0;
                    }
                }
                None if is_close => {}
                None if name.eq_ignore_ascii_case("doc") => {
                    anonymous += 1;
                    segments = 0;
                    let id = attribute(tag, "docid").or_else(|| attribute(tag, "id"));
                    document = id.map_or_else(|| format!("number {anonymous}").into(), Arc::from);
                    of_document = version(tag).unwrap_or("").into();
                }
                None if name.eq_ignore_ascii_case("seg") => {
                    segments += 1;
                    let id = attribute(tag, "id").map_or_else(|| format!("number {segments}"), str::to_string);
                    let line = self.line(start);
                    let is_empty = self.is_xml && tag.ends_with("/>");
                    let text = if is_empty { String::new() } else { self.segment(start)? };
                    let (role, of_set, _) = &roles[roles.len() - 1];
                    let version = if of_set.is_empty() { &of_document } else { of_set };
                    let segment = Segment { document: document.clone(), id, text, line };
                    entries.push(Entry { role: *role, version: version.clone(), segment });
                }
                None => {}
            }
        }
        Ok(entries)
    }

    /// The text from here to the end of the segment that began at `start`.
    fn segment(&mut self, start: usize) -> anyhow::Result<String> {
        let rest = &self.text[self.at..];
        let end = find(rest, CLOSE).filter(|end| find(&rest[..*end], "<seg").is_none_or(|_| !self.is_xml));
        let end = end.filter(|end| self.is_xml || !rest[..*end].contains('\n'));
        let Some(end) = end else {
            let place = self.place(start);
            match self.is_xml {
                true => bail!("{place}: the segment has no {CLOSE} before the next one"),
                false => bail!("{place}: the segment has no {CLOSE} on its line"),
            }
        };
        let text = &rest[..end];
        let place = self.at;
        self.at += end + CLOSE.len();
        if !self.is_xml {
            return Ok(text.trim().to_string());
        }
        let resolved = resolved(text).map_err(|(at, what)| anyhow::anyhow!("{}: {what}", self.place(place + at)));
        Ok(one_line(&resolved?))
    }
}

/// Who made a set or document.
fn version(tag: &str) -> Option<&str> {
    ["translator", "sysid", "system", "refid"].iter().find_map(|name| attribute(tag, name))
}

/// The letters and digits at the start.
fn name(text: &str) -> &str {
    &text[..text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len())]
}

/// Bytes of a tag, its `>` included; one within quotation marks does not count, unless there is no other.
fn tag_length(text: &str) -> Option<usize> {
    // Bounded, so that a file of nothing but `<` takes no time to speak of.
    let bytes = &text.as_bytes()[..text.len().min(LONGEST_TAG)];
    let mut quote = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, *byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == byte => quote = None,
            // Attributes of these files have no line breaks.
            (Some(_), b'\n') => break,
            _ => {}
        }
    }
    memchr::memchr(b'>', bytes).map(|at| at + 1)
}

/// The value of a tag's attribute, in quotation marks or without.
fn attribute<'a>(tag: &'a str, wanted: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = find(&tag[from..], wanted).map(|at| from + at) {
        from = at + wanted.len();
        let begins =
            tag[..at].ends_with(|before: char| before.is_ascii_whitespace() || before == '"' || before == '\'');
        let Some(value) = tag[from..].trim_start().strip_prefix('=').map(str::trim_start).filter(|_| begins) else {
            continue;
        };
        return match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
            _ => value.split(|end: char| end.is_ascii_whitespace() || end == '>').next(),
        };
    }
    None
}

/// XML text with its entities resolved; an `&` that begins none stands for itself. Error: a tag, with its place.
fn resolved(text: &str) -> Result<String, (usize, String)> {
    const ENTITIES: [(&str, char); 5] = [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\'')];
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<']) {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(data) = rest.strip_prefix("<![CDATA[") {
            let Some(end) = data.find("]]>") else {
                return Err((text.len() - rest.len(), "the CDATA section has no ]]>".into()));
            };
            result.push_str(&data[..end]);
            rest = &data[end + 3..];
            continue;
        }
        if rest[1..].starts_with(|next: char| next.is_ascii_alphabetic() || next == '/' || next == '!')
            && rest.starts_with('<')
        {
            let tag = &rest[..tag_length(rest).unwrap_or(rest.len())];
            return Err((text.len() - rest.len(), format!("the segment has the tag {} in its text", excerpt(tag))));
        }
        let entity = rest[1..].split_once(';').map(|(name, _)| name).filter(|_| rest.starts_with('&'));
        let sign = entity.and_then(|name| match name.strip_prefix('#') {
            Some(number) => {
                let hexadecimal = number.strip_prefix(['x', 'X']).map(|digits| u32::from_str_radix(digits, 16).ok());
                char::from_u32(hexadecimal.unwrap_or_else(|| number.parse().ok())?)
            }
            None => ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, sign)| *sign),
        });
        match (sign, entity) {
            (Some(sign), Some(name)) => {
                result.push(sign);
                rest = &rest[name.len() + 2..];
            }
            _ => {
                result.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
    }
    Ok(result + rest)
}

fn line_of(before: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', before).count() + 1
}

/// Where the ASCII `word` begins, upper or lower case.
pub fn find(text: &str, word: &str) -> Option<usize> {
    text.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(text: &[u8], side: Side) -> Result<(Vec<String>, Vec<String>), String> {
        let read = read(text, Path::new("x.sgm"), side).map_err(|error| format!("{error:#}"))?;
        Ok(((0..read.len()).map(|at| read.text(at).to_string()).collect(), read.notes))
    }

    fn texts(text: &[u8]) -> Result<Vec<String>, String> {
        side(text, Side::Source).map(|(texts, _)| texts)
    }

    #[test]
    fn text_of_sgm_is_taken_as_it_stands() {
        let text = "<srcset setid=\"a\">\r\n<doc>\n<hl>\n<seg id=\"1\"> AT&T \"x\" &amp; 1 < 2 > 0 </seg>\r\n</hl>\n<SEG id=2>\u{a0}Wort\tzwei</SEG>";
        assert_eq!(texts(text.as_bytes()).unwrap(), ["AT&T \"x\" &amp; 1 < 2 > 0", "Wort\tzwei"]);
        assert_eq!(texts(b"<seg id=\"1\"></seg><seg id=\"2\">b</seg>").unwrap(), ["", "b"]);
        // Segments in comments are none.
        assert_eq!(texts(b"<!-- <seg id=\"1\">x</seg> -->\n<seg id=\"1\">y</seg>").unwrap(), ["y"]);
    }

    #[test]
    fn entities_of_xml_are_resolved() {
        let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<mteval><srcset><doc docid=\"1\"><title>No</title>\n\
                    <seg id=\"1\"> AT&amp;T &lt;b&gt; &quot;x&apos; &#x1F44D;&#228; &amp;lt; Q&A; R&D 1 < 2\n &c <![CDATA[<i>&amp;]]></seg>\n</doc></srcset></mteval>";
        assert_eq!(texts(text.as_bytes()).unwrap(), ["AT&T <b> \"x' 👍ä &lt; Q&A; R&D 1 < 2 &c <i>&amp;"]);
        let error = texts(b"<?xml version='1.0'?>\n<dataset>\n<seg id='1'>a\n<b>c</b></seg>").unwrap_err();
        assert_eq!(error, "x.sgm, line 4: the segment has the tag \"<b>\" in its text");
        assert_eq!(texts(b"<?xml version='1.0'?>\n<src/><seg id='1'/><seg id='2'>b</seg>").unwrap(), ["", "b"]);
        let error = texts(b"<?xml version='1.0' encoding=\"ISO-8859-1\"?>\n<seg id='1'>a</seg>").unwrap_err();
        assert!(error.contains("says encoding \"ISO-8859-1\""), "{error}");
    }

    #[test]
    fn a_file_of_sources_and_references_gives_the_side_that_is_wanted() {
        let text = b"<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"x\">\n\
            <doc id=\"d1\" origlang=\"en\">\n<src lang=\"en\">\n<p>\n<seg id=\"1\">one</seg>\n<seg id=\"2\">two</seg>\n</p></src>\n\
            <ref lang=\"de\" translator=\"A\"><p><seg id=\"1\">eins</seg><seg id=\"2\">zwei</seg></p></ref>\n\
            <ref lang=\"de\" translator=\"B\"><p><seg id=\"1\">EINS</seg><seg id=\"2\">ZWEI</seg></p></ref>\n\
            <hyp system=\"S\"><p><seg id=\"1\">uno</seg></p></hyp>\n</doc></dataset>";
        let (sources, notes) = side(text, Side::Source).unwrap();
        assert_eq!((sources, notes.len()), (vec!["one".to_string(), "two".to_string()], 1));
        let (references, notes) = side(text, Side::Target).unwrap();
        assert_eq!(references, ["eins", "zwei"]);
        assert_eq!(notes[1], "x.sgm: read is version \"A\"; left out: \"B\"");
    }

    #[test]
    fn of_many_references_the_first_is_read() {
        let document = |name: &str, version: &str| {
            format!("<DOC docid=\"{name}\" sysid=\"{version}\">\n<seg id=1>{name}{version}</seg>\n</DOC>\n")
        };
        let file = |documents: &[(&str, &str)]| {
            let documents: String = documents.iter().map(|(name, version)| document(name, version)).collect();
            side(format!("<refset>\n{documents}</refset>").as_bytes(), Side::Target)
        };
        let (read, notes) = file(&[("a", "r1"), ("b", "r1"), ("a", "r2"), ("b", "r2")]).unwrap();
        assert_eq!((read, notes.len()), (vec!["ar1".to_string(), "br1".to_string()], 1));
        // A translator for each document: all are read.
        assert_eq!(file(&[("a", "r1"), ("b", "r2")]).unwrap(), (vec!["ar1".into(), "br2".into()], vec![]));
        assert!(file(&[("a", "r1"), ("a", "r2"), ("b", "r2")]).unwrap_err().contains("in many versions"));
        let twice = file(&[("a", "r1"), ("a", "r1")]).unwrap_err();
        assert_eq!(twice, "x.sgm: document \"a\" has segment \"1\" twice, in lines 3 and 6");
    }

    #[test]
    fn errors_name_file_and_line() {
        assert_eq!(
            texts(b"\n<seg id=\"1\">a\nb</seg>").unwrap_err(),
            "x.sgm, line 2: the segment has no </seg> on its line"
        );
        assert_eq!(texts(b"<seg id=\"1\"").unwrap_err(), "x.sgm, line 1: the <seg tag has no >");
        assert_eq!(texts(b"plain text\n").unwrap_err(), "x.sgm has no <seg id=\"…\">…</seg> line");
        assert!(texts(b"\n\n<seg id=\"1\">\xff</seg>").unwrap_err().starts_with("x.sgm, line 3: invalid UTF-8"));
        let open = texts(b"<?xml version='1.0'?>\n<seg id='1'>a\n<seg id='2'>b</seg>").unwrap_err();
        assert_eq!(open, "x.sgm, line 2: the segment has no </seg> before the next one");
    }
}
