//! Porter's stemmer (Porter 1980, "An algorithm for suffix stripping") as NLTK's `PorterStemmer` has it by default: with
//! the changes of Porter's later versions (`bli`, `logi`; words of one or two letters are left alone) and NLTK's own
//! (irregular forms, `ies` of four letters, when `y` becomes `i`, short stems that end vowel-consonant, `alli` first,
//! `fulli`). Equal to it on the words of `tests/fixtures/rouge/words.json`.

/// Words that the rules would spoil.
const IRREGULAR: &[(&str, &str)] = &[
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

const STEP_1A: &[(&str, &str)] = &[("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")];
/// After `ed` or `ing` was taken away.
const STEP_1B: &[(&str, &str)] = &[("at", "ate"), ("bl", "ble"), ("iz", "ize")];
const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
    ("logi", "log"),
];
const STEP_3: &[(&str, &str)] =
    &[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];
const STEP_4: &[(&str, &str)] = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ion", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// The stem of a word in lower case. Letters other than `a` to `z`, digits and signs count as consonants.
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    let mut letters: Vec<char> = word.chars().collect();
    if letters.len() <= 2 {
        return word.to_owned();
    }
    plurals(&mut letters);
    past_and_participle(&mut letters);
    if let [stem @ .., 'y'] = &letters[..] {
        if stem.len() > 1 && ends_in_consonant(stem) {
            let last = letters.len() - 1;
            letters[last] = 'i';
        }
    }
    double_suffixes(&mut letters);
    replace(&mut letters, STEP_3, |stem, _| measure(stem) > 0);
    replace(&mut letters, STEP_4, |stem, suffix| {
        measure(stem) > 1 && (suffix != "ion" || matches!(stem.last(), Some('s' | 't')))
    });
    if let [stem @ .., 'e'] = &letters[..] {
        if measure(stem) > 1 || (measure(stem) == 1 && !ends_short(stem)) {
            letters.pop();
        }
    }
    if ends_with(&letters, "ll") && measure(&letters[..letters.len() - 1]) > 1 {
        letters.pop();
    }
    letters.into_iter().collect()
}

/// Step 1a.
fn plurals(word: &mut Vec<char>) {
    if word.len() == 4 && ends_with(word, "ies") {
        word.pop();
    } else {
        replace(word, STEP_1A, |_, _| true);
    }
}

/// Step 1b.
fn past_and_participle(word: &mut Vec<char>) {
    if word.len() >= 3 && ends_with(word, "ied") {
        // `died`, but `spi(ed)`
        let left = if word.len() == 4 { 1 } else { 2 };
        word.truncate(word.len() - left);
        return;
    }
    if ends_with(word, "eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            word.pop();
        }
        return;
    }
    let Some(suffix) = ["ed", "ing"]
        .into_iter()
        .find(|suffix| ends_with(word, suffix) && consonants(&word[..word.len() - suffix.len()]).contains(&false))
    else {
        return;
    };
    word.truncate(word.len() - suffix.len());
    if replace(word, STEP_1B, |_, _| true) {
        return;
    }
    match word[..] {
        // What ends in two equal consonants is never short, so ll, ss and zz stay.
        [.., a, b] if a == b && !matches!(b, 'l' | 's' | 'z') && ends_in_consonant(word) => {
            word.pop();
        }
        _ if measure(word) == 1 && ends_short(word) => word.push('e'),
        _ => {}
    }
}

/// Step 2.
fn double_suffixes(word: &mut Vec<char>) {
    if ends_with(word, "alli") && measure(&word[..word.len() - 4]) > 0 {
        word.truncate(word.len() - 2);
    }
    replace(word, STEP_2, |stem, suffix| {
        // The l of `logi` counts as the stem's, so that geology and archaeology are treated alike.
        measure(stem) > 0 || (suffix == "logi" && !stem.is_empty() && !ends_in_consonant(stem))
    });
}

/// Replaces the first suffix that the word has, if `allowed` (stem, suffix); whether it had one.
fn replace(word: &mut Vec<char>, rules: &[(&str, &str)], allowed: impl Fn(&[char], &str) -> bool) -> bool {
    let Some((suffix, replacement)) = rules.iter().find(|(suffix, _)| ends_with(word, suffix)) else {
        return false;
    };
    let stem = word.len() - suffix.len();
    if allowed(&word[..stem], suffix) {
        word.truncate(stem);
        word.extend(replacement.chars());
    }
    true
}

/// Whether a word ends in an ASCII suffix.
fn ends_with(word: &[char], suffix: &str) -> bool {
    word.len() >= suffix.len() && word.iter().rev().zip(suffix.bytes().rev()).all(|(&c, byte)| c == char::from(byte))
}

/// For each letter whether it is a consonant: not a, e, i, o, u, and not a y after a consonant.
fn consonants(word: &[char]) -> Vec<bool> {
    let mut flags: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word {
        flags.push(match letter {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => !flags.last().copied().unwrap_or(false),
            _ => true,
        });
    }
    flags
}

/// m of \[C\](VC)^m\[V\]: how often a consonant follows a vowel.
fn measure(stem: &[char]) -> usize {
    consonants(stem).windows(2).filter(|pair| pair == &[false, true]).count()
}

fn ends_in_consonant(word: &[char]) -> bool {
    consonants(word).last().copied().unwrap_or(false)
}

/// Whether a word ends consonant, vowel, consonant, and not in w, x or y; or is of two letters, vowel and consonant.
fn ends_short(word: &[char]) -> bool {
    match consonants(word)[..] {
        [false, true] => true,
        [.., true, false, true] => !matches!(word.last(), Some('w' | 'x' | 'y')),
        _ => false,
    }
}
