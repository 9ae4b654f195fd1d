//! Corpora, tokenizer and batches.

use std::borrow::Cow;

/// A split of a corpus: rows of one text (language modelling) or two (source, target), read on demand.
pub trait Examples: Sync + Send {
    /// Rows.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Texts in a row: 1 or 2.
    fn columns(&self) -> usize;
    /// One text. Errors name the file and line (invalid UTF-8).
    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>>;
}

/// The three splits, and where they came from.
pub struct Corpus {
    /// Such as `homeassistant 2024.3.3 en-de`.
    pub name: String,
    /// Training rows.
    pub train: Box<dyn Examples>,
    /// Rows that choose among checkpoints.
    pub dev: Box<dyn Examples>,
    /// Rows that are reported.
    pub test: Box<dyn Examples>,
    /// SHA-256 (hex) over what the splits hold.
    pub hash: String,
    /// What a reader should know: rows dropped and why.
    pub notes: Vec<String>,
}
