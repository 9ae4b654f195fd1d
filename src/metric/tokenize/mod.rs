//! How text is split into the words that metrics compare.

mod abbreviations;
pub mod chinese;
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
        match primary_subtag(code).as_str() {
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
    /// `zh`, sacreBLEU's for Chinese: see [`chinese`].
    Chinese,
    /// `char`, sacreBLEU's of characters: each Unicode scalar value but white space is a word.
    Characters,
    /// The customary one of WMT'14 papers, compounds split: see [`moses`]. The language is the target's.
    WmtTokenized(Language),
}

impl Tokenization {
    /// For the target language `code`, such as `de` or `zh-TW`, by sacreBLEU's rule where it can be followed: `zh` for
    /// Chinese, else `13a`. For Japanese and Korean sacreBLEU runs MeCab, which this program does not have; they get
    /// [`Tokenization::Characters`], and so do Thai, Lao, Khmer, Burmese, Tibetan and Dzongkha, which `13a` would not split.
    pub fn of_target(code: &str) -> Tokenization {
        match primary_subtag(code).as_str() {
            "zh" | "zho" | "chi" | "cmn" | "yue" | "wuu" | "gan" | "hak" | "nan" | "lzh" => Tokenization::Chinese,
            "ja" | "jpn" | "ko" | "kor" => Tokenization::Characters,
            "th" | "tha" | "lo" | "lao" | "km" | "khm" | "my" | "mya" | "bur" | "bo" | "bod" | "tib" | "dz" | "dzo" => {
                Tokenization::Characters
            }
            _ => Tokenization::ThirteenA,
        }
    }

    /// Its name in signatures.
    pub fn name(&self) -> String {
        match self {
            Tokenization::ThirteenA => "13a".into(),
            Tokenization::Chinese => "zh".into(),
            Tokenization::Characters => "char".into(),
            Tokenization::WmtTokenized(language) => format!("moses-{}-compounds-split", language.code()),
        }
    }

    /// Whether words are found by the blanks between them.
    pub fn splits_at_blanks(&self) -> bool {
        matches!(self, Tokenization::ThirteenA | Tokenization::WmtTokenized(_))
    }

    /// The words of `text`.
    pub fn words(&self, text: &str) -> Vec<String> {
        match self {
            Tokenization::ThirteenA => words_of(&thirteen_a::tokenize(text)),
            Tokenization::Chinese => words_of(&chinese::tokenize(text)),
            Tokenization::Characters => text.chars().filter(|letter| !is_space(*letter)).map(String::from).collect(),
            Tokenization::WmtTokenized(language) => {
                words_of(&moses::split_compounds(&moses::tokenize(text, *language)))
            }
        }
    }
}

/// The language of a tag such as `zh-Hant_TW`, in lower case.
fn primary_subtag(code: &str) -> String {
    code.split(['-', '_']).next().unwrap_or_default().to_lowercase()
}

/// The words in which replies are compared: those of `text` in lower case. The usual corpora of dialogues are in lower case
/// with blanks around marks already, and stay as they are under [`Tokenization::ThirteenA`].
pub fn lower_case_words(text: &str, tokenization: &Tokenization) -> Vec<String> {
    tokenization.words(&text.to_lowercase())
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
