//! Words that keep the period after them: lists of our own, of what is usual in news and parliament texts.

use super::Language;

/// Whether a word is an abbreviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepsPeriod {
    /// `Dr.`
    Always,
    /// `No. 5`, but `No.` at the end of a sentence.
    BeforeNumber,
    No,
}

/// Titles and forms of address, the same in texts of all three languages.
const TITLES: &[&str] = &["Dr", "Mr", "Mrs", "Ms", "Prof", "St", "MM", "Mme", "Mlle"];
const ENGLISH: &[&str] = &[
    "Adm", "Bros", "Capt", "Cmdr", "Co", "Col", "Corp", "Gen", "Gov", "Hon", "Inc", "Jr", "Lt", "Ltd", "Maj", "Messrs",
    "Ph", "Rep", "Reps", "Rev", "Sen", "Sens", "Sgt", "Sr", "etc", "i.e", "e.g", "v", "vs",
];
const ENGLISH_BEFORE_NUMBER: &[&str] = &["Art", "No", "Nos", "Nr", "pp"];
const GERMAN: &[&str] = &[
    "Art", "Ca", "Chr", "Co", "Corp", "Gen", "Ltd", "Mio", "Mrd", "MwSt", "No", "Nr", "Std", "Zt", "bzgl", "bzw", "ca",
    "dgl", "etc", "evtl", "ff", "ggf", "jun", "pp", "sen", "sog", "usf", "usw", "vgl", "vs", "zzt",
];
const FRENCH: &[&str] = &[
    "al", "ann", "apr", "art", "av", "boul", "ca", "cf", "chap", "dir", "env", "etc", "ex", "fig", "hab", "ibid", "id",
    "pl", "pp", "sect", "suiv", "tél", "vol", "vs", "éd",
];

/// What becomes of the period after `word`. German keeps it after ordinals, too: Roman up to XX, and numbers below 100.
pub(super) fn keeps_period(word: &str, language: Language) -> KeepsPeriod {
    let one_letter = |fits: fn(&char) -> bool| {
        let mut letters = word.chars();
        matches!((letters.next(), letters.next()), (Some(c), None) if fits(&c))
    };
    let always = match language {
        Language::English => one_letter(char::is_ascii_uppercase) || TITLES.contains(&word) || ENGLISH.contains(&word),
        Language::German => {
            one_letter(char::is_ascii_alphabetic)
                || TITLES.contains(&word)
                || GERMAN.contains(&word)
                || is_small_number(word)
                || is_small_roman(word)
        }
        Language::French => one_letter(char::is_ascii_alphabetic) || TITLES.contains(&word) || FRENCH.contains(&word),
        Language::Other => false,
    };
    match (always, language) {
        (true, _) => KeepsPeriod::Always,
        (false, Language::English) if ENGLISH_BEFORE_NUMBER.contains(&word) => KeepsPeriod::BeforeNumber,
        (false, _) => KeepsPeriod::No,
    }
}

/// 1 to 99.
fn is_small_number(word: &str) -> bool {
    word.len() <= 2 && !word.starts_with('0') && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// I to XX, in one case.
fn is_small_roman(word: &str) -> bool {
    const UNITS: [&str; 10] = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"];
    let upper = word.to_ascii_uppercase();
    let one_case = word == upper || word == word.to_ascii_lowercase();
    one_case && (upper == "XX" || UNITS.contains(&upper.strip_prefix('X').unwrap_or(&upper)))
}
