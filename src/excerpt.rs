//! Quotations in messages: files may hold lines of megabytes, and control characters that a terminal would obey.

/// Most characters of a quotation, quotation marks and escapes not counted.
pub const MOST: usize = 200;

/// Most characters of one line of an error message.
const MOST_OF_LINE: usize = 2000;

/// `text` in quotation marks, with control characters escaped. Of a text of more than [`MOST`] characters the beginning, and
/// how many characters follow.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?} … ({} more characters)", &text[..end], text[end..].chars().count()),
    }
}

/// Names in quotation marks with commas between: the first twenty, and how many follow.
pub fn excerpts<T: AsRef<str>>(names: &[T]) -> String {
    const NAMED: usize = 20;
    let named: Vec<String> = names.iter().take(NAMED).map(|name| excerpt(name.as_ref())).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}

/// As [`excerpt`], of bytes that need not be UTF-8.
pub fn excerpt_of_bytes(bytes: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(bytes))
}

/// A message with every line of more than 2,000 characters cut, and control characters but line feeds and tabs replaced:
/// libraries quote values in their errors as they are, and however long.
pub fn clipped(message: &str) -> String {
    let clip = |line: &str| match line.char_indices().nth(MOST_OF_LINE) {
        None => line.to_string(),
        // The end of a message says where the fault is (`at line 1 column 7`).
        Some((end, _)) => {
            let rest = &line[end..];
            let tail = rest.char_indices().rev().nth(MOST - 1).map_or(rest, |(at, _)| &rest[at..]);
            let left_out = rest.chars().count() - tail.chars().count();
            match left_out {
                0 => line.to_string(),
                _ => format!("{} … ({left_out} characters left out) … {tail}", &line[..end]),
            }
        }
    };
    let shown = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    let clip = |line: &str| clip(line).chars().map(shown).collect::<String>();
    message.split('\n').map(clip).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_quoted_whole_and_escaped() {
        assert_eq!(excerpt("a \"b\"\u{1b}[31m\n"), "\"a \\\"b\\\"\\u{1b}[31m\\n\"");
        assert_eq!(excerpt(&"é".repeat(MOST)), format!("\"{}\"", "é".repeat(MOST)));
        assert_eq!(excerpt_of_bytes(b"a\xff"), "\"a\u{fffd}\"");
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_the_rest_is_counted() {
        let text = format!("{}👍{}", "é".repeat(MOST - 1), "x".repeat(2_000_000));
        assert_eq!(excerpt(&text), format!("\"{}👍\" … (2000000 more characters)", "é".repeat(MOST - 1)));
    }

    #[test]
    fn long_lines_of_a_message_keep_their_beginning_and_end() {
        let message = format!("short\n{}at line 1 column 7", "ö".repeat(1_000_000));
        let clipped = clipped(&message);
        assert!(clipped.starts_with("short\nöö") && clipped.ends_with("ööat line 1 column 7"), "{clipped}");
        assert!(clipped.contains(" … (997818 characters left out) … "), "{clipped}");
        assert!(clipped.chars().count() < 2300);
        assert_eq!(super::clipped("one\n\ttwo\u{1b}[2J\r"), "one\n\ttwo\u{fffd}[2J\u{fffd}");
    }
}
