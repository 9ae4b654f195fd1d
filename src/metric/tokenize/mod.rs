//! How text is split into the words that metrics compare.

mod abbreviations;
pub mod contractions;
pub mod moses;
pub mod thirteen_a;

use regex::{Captures, Regex};

/// Language of a text, as far as tokenization depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// `en`
    English,
    /// `de`
    German,
    /// `fr`
    French,
    /// Any other: apostrophes are split off, and no abbreviations are known.
    Other,
}

impl Language {
    /// From an ISO 639-1 code, such as `de`.
    pub fn from_code(code: &str) -> Language {
        match code {
            "en" => Language::English,
            "de" => Language::German,
            "fr" => Language::French,
            _ => Language::Other,
        }
    }

    /// Its ISO 639-1 code; `other` for any other.
    pub fn code(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::German => "de",
            Language::French => "fr",
            Language::Other => "other",
        }
    }
}

/// The tokenization before words are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tokenization {
    /// `13a`, that of WMT's mteval-v13a and sacreBLEU's default: see [`thirteen_a`].
    ThirteenA,
    /// The customary one of WMT'14 papers, compounds split: see [`moses`]. The language is the target's.
    WmtTokenized(Language),
}

impl Tokenization {
    /// The words of `text`.
    pub fn words(&self, text: &str) -> Vec<String> {
        match self {
            Tokenization::ThirteenA => words_of(&thirteen_a::tokenize(text)),
            Tokenization::WmtTokenized(language) => {
                words_of(&moses::split_compounds(&moses::tokenize(text, *language)))
            }
        }
    }
}

/// The words in which replies are compared: `text` in lower case, its 13a tokens. Corpora of dialogues are in lower case
/// with blanks around marks already, and stay as they are.
pub fn lower_case_words(text: &str) -> Vec<String> {
    Tokenization::ThirteenA.words(&text.to_lowercase())
}

fn words_of(text: &str) -> Vec<String> {
    text.split(is_space).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// White space as Python's `str.split` sees it, whose tokenizers we follow: Unicode's, and the separators U+001C-U+001F.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// A regular expression and what replaces each match.
struct Rule {
    pattern: Regex,
    replacement: &'static str,
}

impl Rule {
    fn new(pattern: &str, replacement: &'static str) -> Rule {
        // Patterns are constants; the tests compile each one.
        Rule { pattern: Regex::new(pattern).expect("a constant pattern that compiles"), replacement }
    }

    fn apply(&self, text: &str) -> String {
        self.pattern.replace_all(text, self.replacement).into_owned()
    }
}

fn apply_all(rules: &[Rule], text: String) -> String {
    rules.iter().fold(text, |text, rule| rule.apply(&text))
}

fn replace_with(pattern: &Regex, text: &str, replacement: impl Fn(&Captures) -> String) -> String {
    pattern.replace_all(text, |captures: &Captures| replacement(captures)).into_owned()
}
