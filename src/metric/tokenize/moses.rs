//! The customary tokenization of WMT'14 results: that of Moses' `tokenizer.perl`, with compounds split.
//!
//! Sources: the behaviour of `tokenizer.perl` (language `de`, `en` or `fr`, no options) as its port `sacremoses` 0.2.0
//! has it, and the practice of GNMT, ConvS2S and Tensor2Tensor (`get_ende_bleu.sh`) to write `reich-text` as
//! `reich ##AT##-##AT## text` before scoring with `multi-bleu.perl`.
//!
//! This is our own writing-out of those rules for English, German and French. Known differences:
//! - Characters are not escaped (`&`, `|`, `<`, `>`, `'`, `"`, `[`, `]` stay themselves). Tokens remain in one-to-one
//!   correspondence, so BLEU does not change.
//! - The abbreviations after which a period stays attached are lists of our own (`abbreviations.rs`), shorter than
//!   Moses'. Where a list is silent a period may be split in one tokenizer and not in the other; since hypothesis and
//!   reference are treated alike the effect on BLEU is small, but it is not zero.
//! - Newer versions of `tokenizer.perl` always split the period of the last word; the port, older versions, and this one
//!   do so only if it isn't an abbreviation's (a last `U.S.` stays whole).
//! - Typographic quotes and dashes are not replaced by ASCII ones beforehand (`replace-unicode-punctuation.perl`,
//!   `normalize-punctuation.perl`), as `get_ende_bleu.sh` doesn't either. Papers that did so score higher.

use super::abbreviations::{keeps_period, KeepsPeriod};
use super::{apply_all, is_space, replace_with, Language, Rule};
use regex::Regex;
use std::sync::LazyLock;

/// Stands for a run of n periods while single ones are looked at: it, n times. (A private-use character.)
const DOT: char = '\u{f8fe}';

static CONTROL: LazyLock<Rule> = LazyLock::new(|| Rule::new(r"[\x00-\x1f]", ""));
static SPACES: LazyLock<Rule> = LazyLock::new(|| Rule::new(r"[\s\x1c-\x1f]+", " "));
/// All but letters, digits, spaces and `.` `'` `` ` `` `,` `-` stands alone.
static SYMBOLS: LazyLock<Rule> = LazyLock::new(|| Rule::new(r"[^\p{Alphabetic}\p{Nd}\s.'`,\-]", " $0 "));
static PERIODS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\.{2,}").expect("a constant pattern that compiles"));
/// A comma stands alone unless both its neighbours are numbers.
static COMMAS: LazyLock<[Rule; 3]> =
    LazyLock::new(|| [Rule::new(r"(\PN),", "$1 , "), Rule::new(r",(\PN)", " , $1"), Rule::new(r"(\pN),$", "$1 , ")]);
/// `don't` -> `don 't`, `1990's` -> `1990 's`.
static ENGLISH: LazyLock<[Rule; 5]> = LazyLock::new(|| {
    [
        Rule::new(r"(\P{Alphabetic})'(\P{Alphabetic})", "$1 ' $2"),
        Rule::new(r"([^\p{Alphabetic}\pN])'(\p{Alphabetic})", "$1 ' $2"),
        Rule::new(r"(\p{Alphabetic})'(\P{Alphabetic})", "$1 ' $2"),
        Rule::new(r"(\p{Alphabetic})'(\p{Alphabetic})", "$1 '$2"),
        Rule::new(r"(\pN)'(s)", "$1 '$2"),
    ]
});
/// `l'an` -> `l' an`.
static FRENCH: LazyLock<[Rule; 4]> = LazyLock::new(|| {
    [
        Rule::new(r"(\P{Alphabetic})'(\P{Alphabetic})", "$1 ' $2"),
        Rule::new(r"(\P{Alphabetic})'(\p{Alphabetic})", "$1 ' $2"),
        Rule::new(r"(\p{Alphabetic})'(\P{Alphabetic})", "$1 ' $2"),
        Rule::new(r"(\p{Alphabetic})'(\p{Alphabetic})", "$1' $2"),
    ]
});
static OTHER: LazyLock<[Rule; 1]> = LazyLock::new(|| [Rule::new("'", " ' ")]);
static LAST_QUOTE: LazyLock<Rule> = LazyLock::new(|| Rule::new(r"\.' ?$", " . ' "));
static COMPOUND: LazyLock<Rule> = LazyLock::new(|| Rule::new(r"(\S)-(\S)", "$1 ##AT##-##AT## $2"));

/// `text` with one space between tokens.
pub fn tokenize(text: &str, language: Language) -> String {
    let text = CONTROL.apply(&SPACES.apply(text));
    let text = SYMBOLS.apply(text.trim_matches(is_space));
    let text = replace_with(&PERIODS, &text, |run| format!(" {} ", DOT.to_string().repeat(run[0].len())));
    let text = apply_all(&*COMMAS, text);
    let text = match language {
        Language::English => apply_all(&*ENGLISH, text),
        Language::French => apply_all(&*FRENCH, text),
        Language::German | Language::Other => apply_all(&*OTHER, text),
    };
    let text = LAST_QUOTE.apply(&split_periods(&text, language));
    text.trim_matches(is_space).replace(DOT, ".")
}

/// Compounds as papers on WMT'14 score them: `rich-text` -> `rich ##AT##-##AT## text`. In `a-b-c` only the first hyphen
/// is split, since the pattern has used up `b`; that is what the usual one-line script does.
pub fn split_compounds(tokenized: &str) -> String {
    COMPOUND.apply(tokenized)
}

/// Splits the period off words that don't keep it.
fn split_periods(text: &str, language: Language) -> String {
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    let mut out: Vec<&str> = Vec::with_capacity(words.len() + 1);
    for (i, word) in words.iter().enumerate() {
        let next = words.get(i + 1).and_then(|word| word.chars().next());
        match word.strip_suffix('.') {
            Some(stem) if !stem.is_empty() && !keeps(stem, next, language) => out.extend([stem, "."]),
            _ => out.push(word),
        }
    }
    out.join(" ")
}

/// Whether a word that ends in a period keeps it: an acronym, an abbreviation, or within a sentence.
fn keeps(stem: &str, next: Option<char>, language: Language) -> bool {
    let acronym = stem.contains('.') && stem.chars().any(char::is_alphabetic);
    acronym
        || next.is_some_and(char::is_lowercase)
        || match keeps_period(stem, language) {
            KeepsPeriod::Always => true,
            KeepsPeriod::BeforeNumber => next.is_some_and(|c| c.is_ascii_digit()),
            KeepsPeriod::No => false,
        }
}
