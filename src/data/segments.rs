//! Segments of documents, and their pairs: a segment belongs to that of the same document and number in the other file.

use crate::excerpt::excerpt;
use anyhow::bail;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many documents and segments an error lists.
const LISTED: usize = 10;

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its document's id, or which document it is in.
    pub document: Arc<str>,
    /// Its id in the document, or which segment of it this is.
    pub id: String,
    /// Its text, without the blanks around it.
    pub text: String,
    /// Where it begins, from 1.
    pub line: usize,
}

/// The segments of a file, in order; no two have the same document and id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    path: PathBuf,
    segments: Vec<Segment>,
    /// What was left out.
    pub notes: Vec<String>,
}

impl Segments {
    /// # Errors
    /// Two segments of one document with one id.
    pub fn new(path: &Path, segments: Vec<Segment>, notes: Vec<String>) -> anyhow::Result<Segments> {
        let all = Segments { path: path.to_path_buf(), segments, notes };
        let mut known = HashMap::new();
        for segment in &all.segments {
            if let Some(line) = known.insert((&segment.document, &segment.id), segment.line) {
                bail!(
                    "{}: document {} has segment {} twice, in lines {line} and {}",
                    path.display(),
                    excerpt(&segment.document),
                    excerpt(&segment.id),
                    segment.line
                );
            }
        }
        Ok(all)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// One text.
    pub fn text(&self, number: usize) -> &str {
        &self.segments[number].text
    }

    /// These segments in the order of `source`.
    ///
    /// # Errors
    /// Documents or segments that one file has and the other lacks.
    pub fn paired_with(mut self, source: &Segments) -> anyhow::Result<Segments> {
        let key = |segment: &Segment| (segment.document.clone(), segment.id.clone());
        let mut places: HashMap<_, usize> = self.segments.iter().map(key).zip(0..).collect();
        let order: Vec<Option<usize>> = source.segments.iter().map(|segment| places.remove(&key(segment))).collect();
        let lacking = source.segments.iter().zip(&order).filter(|(_, place)| place.is_none());
        let lacking: Vec<&Segment> = lacking.map(|(segment, _)| segment).collect();
        let mut rest: Vec<usize> = places.into_values().collect();
        rest.sort_unstable();
        let rest: Vec<&Segment> = rest.into_iter().map(|place| &self.segments[place]).collect();
        if !lacking.is_empty() || !rest.is_empty() {
            let only = |file: &Segments, segments: &[&Segment]| match segments.is_empty() {
                true => String::new(),
                false => format!("; only {} has {}", file.path.display(), file.listed(segments)),
            };
            bail!(
                "segments are paired by the ids of documents and segments, but those of {} and {} differ{}{}",
                source.path.display(),
                self.path.display(),
                only(source, &lacking),
                only(&self, &rest)
            );
        }
        let mut segments: Vec<Option<Segment>> = self.segments.into_iter().map(Some).collect();
        self.segments = order.into_iter().flatten().filter_map(|place| segments[place].take()).collect();
        Ok(self)
    }

    /// `document "a" (all 5 segments), segments "1", "3" of document "b" and 7 more documents`.
    fn listed(&self, lacking: &[&Segment]) -> String {
        let mut sizes: HashMap<&Arc<str>, usize> = HashMap::new();
        self.segments.iter().for_each(|segment| *sizes.entry(&segment.document).or_default() += 1);
        let mut documents: BTreeMap<usize, (&Arc<str>, Vec<&str>)> = BTreeMap::new();
        let mut numbers = HashMap::new();
        for segment in lacking {
            let next = numbers.len();
            let number = *numbers.entry(&segment.document).or_insert(next);
            documents.entry(number).or_insert((&segment.document, Vec::new())).1.push(&segment.id);
        }
        let told = |(document, ids): &(&Arc<str>, Vec<&str>)| {
            let name = excerpt(document);
            if sizes.get(document) == Some(&ids.len()) {
                return format!("document {name} (all {} segments)", ids.len());
            }
            let shown: Vec<String> = ids.iter().take(LISTED).map(|id| excerpt(id)).collect();
            let more = if ids.len() > LISTED { format!(" and {} more", ids.len() - LISTED) } else { String::new() };
            format!("of document {name} segment {}{more}", shown.join(", "))
        };
        let mut listed: Vec<String> = documents.values().take(LISTED).map(told).collect();
        if documents.len() > LISTED {
            listed.push(format!("{} more documents", documents.len() - LISTED));
        }
        listed.join(", ")
    }
}
