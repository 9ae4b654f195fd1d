//! Places in texts: character offsets, and words that are marked for a model to see.

use anyhow::Context;
use std::cmp::Reverse;

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

/// Where `span` stands in `text`, by the number of the word (parted by white space) that it begins at; and whether it was
/// just there. Upper and lower case are alike. Where another text is found there, the nearest word at which it does stand
/// is taken; where it stands nowhere, as many words as it has, from the numbered one.
///
/// Error: a number beyond the last word.
pub fn word_span(text: &str, number: usize, span: &str) -> anyhow::Result<(std::ops::Range<usize>, bool)> {
    let starts: Vec<usize> = word_starts(text).collect();
    let start = *starts
        .get(number)
        .with_context(|| format!("word {number} (from 0) is asked for, but the text has {} words", starts.len()))?;
    if let Some(length) = begins_with(&text[start..], span) {
        return Ok((start..start + length, true));
    }
    let mut others: Vec<usize> = (0..starts.len()).collect();
    others.sort_by_key(|other| other.abs_diff(number));
    for other in others {
        if let Some(length) = begins_with(&text[starts[other]..], span) {
            return Ok((starts[other]..starts[other] + length, false));
        }
    }
    let last = (number + span.split_whitespace().count().max(1)).min(starts.len());
    let end = starts.get(last).map_or(text.len(), |&next| next);
    Ok((start..start + text[start..end].trim_end().len(), false))
}

fn word_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut outside = true;
    text.char_indices().filter_map(move |(at, character)| {
        let starts = outside && !character.is_whitespace();
        outside = character.is_whitespace();
        starts.then_some(at)
    })
}

/// Bytes of `text` that spell `span`, if it begins with it as whole words; any white space matches any other.
fn begins_with(text: &str, span: &str) -> Option<usize> {
    let mut characters = text.char_indices();
    for wanted in span.trim().chars() {
        let (_, found) = characters.next()?;
        let alike = found == wanted
            || (found.is_whitespace() && wanted.is_whitespace())
            || found.to_lowercase().eq(wanted.to_lowercase());
        if !alike {
            return None;
        }
    }
    let rest = characters.as_str();
    let whole = !rest.starts_with(char::is_alphanumeric) && !span.trim().is_empty();
    whole.then(|| text.len() - rest.len())
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
        // A punctuation mark may follow at once; a letter may not.
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
}
