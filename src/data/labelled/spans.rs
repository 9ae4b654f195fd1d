//! Places in texts: character offsets, and words that are marked for a model to see.

use anyhow::Context;
use std::cmp::Reverse;
use std::path::Path;

/// The characters `start..end` of a text as a range of bytes; `None` where they are not in it.
pub fn bytes_of(text: &str, start: usize, end: usize) -> Option<std::ops::Range<usize>> {
    if start > end {
        return None;
    }
    if text.is_ascii() {
        return (end <= text.len()).then_some(start..end);
    }
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let from = places.nth(start)?;
    let to = if end == start { from } else { places.nth(end - start - 1)? };
    Some(from..to)
}

/// Puts `mark` and blanks around each range: `a [b] c` with `*` is `a * b * c`. Ranges may lie within one another, also with
/// the same start or end: the outer one's marks stand outside. None is empty.
pub fn marked(text: &str, spans: &[(std::ops::Range<usize>, char)]) -> String {
    // Outer ranges first.
    let mut spans = spans.to_vec();
    spans.sort_by_key(|(range, _)| (range.start, Reverse(range.end)));
    // At one place, what ends there is closed before another is opened, inner ranges first.
    let closing = spans.iter().rev().map(|(range, mark)| (range.end, format!(" {mark}")));
    let opening = spans.iter().map(|(range, mark)| (range.start, format!("{mark} ")));
    let mut inserts: Vec<(usize, String)> = closing.chain(opening).collect();
    inserts.sort_by_key(|(at, _)| *at);
    let mut result = String::with_capacity(text.len() + 4 * inserts.len());
    let mut from = 0;
    for (at, mark) in inserts {
        result.push_str(&text[from..at]);
        result.push_str(&mark);
        from = at;
    }
    result + &text[from..]
}

/// A note where offsets cut words: they may count bytes, or something else than characters.
pub fn cut_note(path: &Path, what: &str, cut: usize, count: usize) -> Option<String> {
    let note = || {
        format!(
            "{cut} of {count} {what} in {} begin or end within a longer word; offsets count characters from 0",
            path.display()
        )
    };
    (cut > 0).then(note)
}

/// Whether a range begins or ends within a word.
pub fn cuts_a_word(text: &str, range: &std::ops::Range<usize>) -> bool {
    let within = |at: usize| {
        text[..at].chars().next_back().is_some_and(of_a_word) && text[at..].chars().next().is_some_and(of_a_word)
    };
    within(range.start) || within(range.end)
}

/// Where `span` stands in `text`, by the number of the word (separated by white space) that it begins in; and whether it was
/// found in that word.
///
/// Marks may be attached to the word (`(it`, `"He`, `yes—it`), so its start is tried first, then every place in it where
/// letters begin. Case, the kind of white space, and straight or curly quotes make no difference. Where the word does not
/// hold the span, the marks around the span are left out of the search, then the nearest other word that holds it is taken;
/// where none does, as many words as the span has, from the numbered one.
///
/// # Errors
/// A number beyond the last word.
pub fn word_span(text: &str, number: usize, span: &str) -> anyhow::Result<(std::ops::Range<usize>, bool)> {
    let words = words(text);
    let word = words
        .get(number)
        .with_context(|| format!("word {number} (from 0) is asked for, but the text has {} words", words.len()))?;
    let bare = span.trim_matches(|character: char| !of_a_word(character));
    for span in [span, bare] {
        if let Some(found) = found_in(text, word, span) {
            return Ok((found, true));
        }
    }
    let mut others: Vec<usize> = (0..words.len()).collect();
    others.sort_by_key(|other| other.abs_diff(number));
    for span in [span, bare] {
        if let Some(found) = others.iter().find_map(|&other| found_in(text, &words[other], span)) {
            return Ok((found, false));
        }
    }
    let last = (number + span.split_whitespace().count().max(1)).min(words.len()) - 1;
    Ok((word.start..words[last].end, false))
}

/// The words of a text as Python's `str.split` counts them.
fn words(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut words: Vec<std::ops::Range<usize>> = Vec::new();
    let mut outside = true;
    for (at, character) in text.char_indices() {
        let blank = character.is_whitespace() || ('\x1c'..='\x1f').contains(&character);
        if !blank {
            let end = at + character.len_utf8();
            match words.last_mut() {
                Some(word) if !outside => word.end = end,
                _ => words.push(at..end),
            }
        }
        outside = blank;
    }
    words
}

/// Where `span` begins in a word of `text`: at its start, or where letters begin in it. It may end in a later word.
fn found_in(text: &str, word: &std::ops::Range<usize>, span: &str) -> Option<std::ops::Range<usize>> {
    let inner = text[word.clone()].char_indices().zip(text[word.clone()].chars().skip(1));
    let inner = inner.filter(|((_, before), _)| !of_a_word(*before));
    let starts = inner.map(|((at, before), _)| word.start + at + before.len_utf8());
    std::iter::once(word.start)
        .chain(starts)
        .find_map(|start| begins_with(&text[start..], span).map(|length| start..start + length))
}

/// Letters and digits, and the marks that combine with them.
fn of_a_word(character: char) -> bool {
    character.is_alphanumeric()
        || matches!(character, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Bytes of `text` that spell `span`, if it begins with it as whole words.
fn begins_with(text: &str, span: &str) -> Option<usize> {
    let mut rest = text;
    for (number, word) in span.split_whitespace().enumerate() {
        if number > 0 {
            let next = rest.trim_start();
            if next.len() == rest.len() {
                return None;
            }
            rest = next;
        }
        for wanted in word.chars() {
            let found = rest.chars().next().filter(|found| alike(*found, wanted))?;
            rest = &rest[found.len_utf8()..];
        }
    }
    let within = span.trim_end().ends_with(of_a_word) && rest.starts_with(of_a_word);
    (!within && rest.len() < text.len()).then(|| text.len() - rest.len())
}

/// Whether two characters are one but for case or the form of a quotation mark.
fn alike(one: char, other: char) -> bool {
    let both = |marks: &[char]| marks.contains(&one) && marks.contains(&other);
    one == other
        || one.to_lowercase().eq(other.to_lowercase())
        || both(&['\'', '\u{2018}', '\u{2019}', '\u{2bc}', '`'])
        || both(&['"', '\u{201c}', '\u{201d}', '\u{201e}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_characters() {
        let text = "é👍 a–b";
        assert_eq!(&text[bytes_of(text, 0, 2).unwrap()], "é👍");
        assert_eq!(&text[bytes_of(text, 3, 6).unwrap()], "a–b");
        assert_eq!(bytes_of(text, 6, 6), Some(text.len()..text.len()));
        assert_eq!((bytes_of(text, 3, 7), bytes_of(text, 7, 7), bytes_of(text, 2, 1)), (None, None, None));
        assert_eq!((bytes_of("abc", 1, 3), bytes_of("abc", 1, 4)), (Some(1..3), None));
    }

    #[test]
    fn marks_stand_apart() {
        assert_eq!(marked("a b c", &[(2..3, '*')]), "a * b * c");
        assert_eq!(marked("He saw it.", &[(7..9, '*'), (0..2, '#')]), "# He # saw * it *.");
    }

    #[test]
    fn marks_of_ranges_within_others_nest() {
        let nested = "# a * b * #";
        assert_eq!(marked("a b", &[(0..3, '#'), (2..3, '*')]), nested);
        assert_eq!(marked("a b", &[(2..3, '*'), (0..3, '#')]), nested);
        assert_eq!(marked("a b", &[(0..1, '*'), (0..3, '#')]), "# * a * b #");
        assert_eq!(marked("ab", &[(1..2, '*'), (0..1, '#')]), "# a #* b *");
        assert_eq!(marked("a", &[(0..1, '#'), (0..1, '*')]), "# * a * #");
    }

    #[test]
    fn spans_are_found_by_word_number_or_near_it() {
        let find = |number, span| {
            let text = "Lena saw  the red car , but The Car went. Use it now";
            word_span(text, number, span).map(|(range, exact)| (text[range].to_string(), exact))
        };
        assert_eq!(find(2, "The red\ncar").unwrap(), ("the red car".into(), true));
        // A punctuation mark may follow immediately; a letter may not.
        assert_eq!(find(9, "went").unwrap(), ("went".into(), true));
        assert_eq!(find(0, "Len").unwrap(), ("Lena".into(), false));
        // One word too early, as in a row of the official dev file.
        assert_eq!(find(10, "it").unwrap(), ("it".into(), false));
        // Of two places the nearer.
        assert_eq!(find(7, "car").unwrap(), ("Car".into(), false));
        assert_eq!(find(11, "no such words").unwrap(), ("it now".into(), false));
        assert!(find(13, "now")
            .unwrap_err()
            .to_string()
            .contains("word 13 (from 0) is asked for, but the text has 13"));
    }
    #[test]
    fn spans_are_found_past_the_marks_of_their_word() {
        // text, number of the word, span, and the text with the span in brackets
        for (text, number, span, expected) in [
            ("Ann said (it was late) that it works", 2, "it", "Ann said ([it] was late) that it works"),
            ("\"He left,\" said Tim, and then he sat.", 0, "He", "\"[He] left,\" said Tim, and then he sat."),
            ("\u{201c}He left\u{201d} and he sat", 0, "he", "\u{201c}[He] left\u{201d} and he sat"),
            ("so ([{'it' it", 1, "it", "so ([{'[it]' it"),
            ("it came late\u{2014}it broke", 2, "it", "it came late\u{2014}[it] broke"),
            ("it came (at last)/it broke", 3, "it", "it came (at last)/[it] broke"),
            ("it: he took (the red  lamp), it", 3, "the red\nlamp", "it: he took ([the red  lamp]), it"),
            ("it's his, it's", 0, "it", "[it]'s his, it's"),
            (
                "Emma left \u{2018}Emma\u{2019}s house\u{2019}",
                2,
                "Emma's house",
                "Emma left \u{2018}[Emma\u{2019}s house]\u{2019}",
            ),
            ("he saw him", 2, "him.", "he saw [him]"),
            ("he saw him . \u{bf}him?", 4, "him", "he saw him . \u{bf}[him]?"),
            ("_it_ and it", 0, "it", "_[it]_ and it"),
            // Python's words: file separators part them as well.
            ("a\u{1c}b it it", 2, "it", "a\u{1c}b [it] it"),
        ] {
            let (range, there) = word_span(text, number, span).unwrap();
            assert!(there, "{text}: {span:?} is in word {number}");
            let marked = format!("{}[{}]{}", &text[..range.start], &text[range.clone()], &text[range.end..]);
            assert_eq!(marked, expected);
        }
        // Not within a word, nor a letter without its accent.
        for (text, expected) in [("(iterate) it", "it"), ("exit it", "it"), ("(ite\u{301} it", "it")] {
            let (range, there) = word_span(text, 0, "it").unwrap();
            assert_eq!((&text[range.clone()], range.start > 3, there), (expected, true, false), "{text}");
        }
        let (range, there) = word_span("He\u{301} he", 0, "he").unwrap();
        assert_eq!((range, there), (5..7, false));
    }

    #[test]
    fn ranges_that_cut_a_word_are_known() {
        for (text, start, end, cut) in [
            ("a word.", 2, 6, false),
            ("a word.", 2, 5, true),
            ("a word.", 3, 6, true),
            ("a-b", 2, 3, false),
            ("ab", 0, 2, false),
        ] {
            assert_eq!(cuts_a_word(text, &(start..end)), cut, "{text} {start}..{end}");
        }
    }
}
