//! Scripts: which letters of a text a metric's tokenizer drops, and which belong to scripts written without blanks.

use regex::Regex;
use std::fmt;
use std::sync::LazyLock;

/// Scripts whose words no blank separates, as the body of a character class.
pub(super) const UNSPACED: &str = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Balinese}\p{Javanese}";

/// From this share on, letters that a metric does not see are noted.
pub const NOTED: f64 = 0.01;

static UNSPACED_RUN: LazyLock<Regex> = LazyLock::new(|| constant(&format!("[{UNSPACED}]+")));
/// Letters and digits that are neither Latin nor ASCII. The full-width forms of Latin letters are not Latin here.
static FOREIGN_RUN: LazyLock<Regex> =
    LazyLock::new(|| constant(r"[[\p{Alphabetic}\p{N}]--[[\p{Latin}0-9]--\x{ff00}-\x{ffef}]]+"));

/// A pattern of this crate's own; the tests compile each one.
pub(super) fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern that compiles")
}

/// A part of a whole, displayed in percent: `97 %`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// The part.
    pub part: u64,
    /// The whole.
    pub whole: u64,
}

impl Share {
    /// As a fraction; 0 of nothing.
    pub fn value(self) -> f64 {
        self.part as f64 / self.whole.max(1) as f64
    }

    /// Whether it is large enough to be noted.
    pub fn is_noted(self) -> bool {
        self.value() >= NOTED
    }

    fn add(&mut self, part: u64, whole: u64) {
        self.part += part;
        self.whole += whole;
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let percent = 100.0 * self.value();
        match self {
            Share { part, whole } if part == whole => write!(f, "100 %"),
            _ if percent >= 99.95 => write!(f, "over 99.9 %"),
            _ if !(10.0..99.0).contains(&percent) => write!(f, "{percent:.1} %"),
            _ => write!(f, "{percent:.0} %"),
        }
    }
}

/// Letters and digits of some texts, and how many of them are of some kind.
fn share<T: AsRef<str>>(texts: &[T], part: impl Fn(&str) -> u64) -> Share {
    let mut share = Share::default();
    for text in texts {
        let text = text.as_ref();
        share.add(part(text), letters(text));
    }
    share
}

fn letters(text: &str) -> u64 {
    text.chars().filter(|letter| letter.is_alphanumeric()).count() as u64
}

fn in_runs(pattern: &Regex, text: &str) -> u64 {
    pattern.find_iter(text).map(|run| letters(run.as_str())).sum()
}

/// The share of letters and digits that belong to scripts written without blanks.
pub fn unspaced<T: AsRef<str>>(texts: &[T]) -> Share {
    share(texts, unspaced_letters)
}

/// Letters of a text that belong to scripts written without blanks.
pub fn unspaced_letters(text: &str) -> u64 {
    if text.is_ascii() {
        return 0;
    }
    in_runs(&UNSPACED_RUN, text)
}

/// Adds a text to the share of letters in scripts written without blanks.
pub fn add_unspaced(share: &mut Share, text: &str) {
    share.add(unspaced_letters(text), letters(text));
}

/// The share of letters and digits that are neither Latin nor ASCII.
pub fn foreign<T: AsRef<str>>(texts: &[T]) -> Share {
    share(texts, |text| in_runs(&FOREIGN_RUN, text))
}

/// How much of some texts a tokenizer keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reach {
    /// Letters and digits that it drops.
    pub dropped: Share,
    /// Of the texts that are not blank: those of which it keeps nothing.
    pub unseen: Share,
}

impl Reach {
    /// Of the lower-case form of `texts`, of which the tokenizer keeps the characters that `keeps` holds for.
    pub fn of<T: AsRef<str>>(texts: &[T], keeps: impl Fn(char) -> bool) -> Reach {
        let mut reach = Reach::default();
        for text in texts {
            let text = text.as_ref().to_lowercase();
            let dropped = text.chars().filter(|letter| letter.is_alphanumeric() && !keeps(*letter)).count();
            reach.dropped.add(dropped as u64, letters(&text));
            if !text.trim().is_empty() {
                reach.unseen.add(u64::from(!text.chars().any(&keeps)), 1);
            }
        }
        reach
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_mixed_scripts_by_hand() {
        // 2 Han, 3 Hiragana, 5 Latin
        assert_eq!(unspaced(&["東京へようhello"]), Share { part: 5, whole: 10 });
        // Devanagari and Arabic have blanks; the digits ٣ and ３ are not ASCII
        assert_eq!(unspaced(&["नमस्ते", "سلام", "привет", "한국어"]).part, 0);
        assert_eq!(foreign(&["abc é 12", "где ٣ ３", "Ａ"]), Share { part: 6, whole: 12 });
        assert_eq!(unspaced(&["สวัสดี", "ສະບາຍ", "ជំរាប", "မင်္ဂလာ", "བོད"]).value(), 1.0);
        assert_eq!(unspaced::<&str>(&[]).value(), 0.0);
    }

    #[test]
    fn texts_without_letters_can_be_unseen() {
        let latin = |letter: char| matches!(letter, 'a'..='z' | '0'..='9');
        let reach = Reach::of(&["Größe", "🙂", "где", " ", "A"], latin);
        // ö, ß and three Cyrillic letters of 9; the face and the Cyrillic word of 4 texts
        assert_eq!((reach.dropped, reach.unseen), (Share { part: 5, whole: 9 }, Share { part: 2, whole: 4 }));
    }

    #[test]
    fn percents_are_rounded_but_never_to_all() {
        let shown = |part, whole| Share { part, whole }.to_string();
        assert_eq!([shown(97, 100), shown(1, 3), shown(21, 1000)], ["97 %", "33 %", "2.1 %"]);
        assert_eq!([shown(9999, 10_000), shown(8, 8), shown(995, 1000)], ["over 99.9 %", "100 %", "99.5 %"]);
    }
}
