//! What is wrong with a line of JSON, in words.

use crate::excerpt::clipped;
use anyhow::anyhow;

/// An error of a JSON text of one line, with its column; who reads the line adds file and line.
pub fn explained(error: serde_json::Error, line: &str) -> anyhow::Error {
    let column = error.column();
    if error.is_eof() {
        return anyhow!("the JSON object breaks off at column {column}; is the file cut short?");
    }
    // The parser sees one line and calls it line 1; column 0 stands for the whole.
    let text = error.to_string();
    let what = text.strip_suffix(&format!(" at line 1 column {column}")).unwrap_or(&text);
    // Who reads a field says its name first.
    if ["unexpected end of hex escape", "lone leading surrogate in hex escape"].iter().any(|end| what.ends_with(end)) {
        if let Some((at, escape)) = lone_surrogate(line) {
            return anyhow!(
                "the escape {escape} at column {at} is one half of a surrogate pair without the other half, which is not a \
                 character; was the text cut within a character?"
            );
        }
    }
    match column {
        // Values are quoted in full.
        0 => anyhow!("{}", clipped(what)),
        _ => anyhow!("{}, column {column}", clipped(what)),
    }
}

/// The first escape of half a surrogate pair, with its column (from 1, in bytes as the parser counts).
fn lone_surrogate(line: &str) -> Option<(usize, &str)> {
    let unit = |at: usize| {
        let digits = line.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', line.as_bytes().get(at..)?) {
        at += next;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => return Some((at + 1, &line[at..at + 6])),
            Some(_) => at += 6,
            // Another escape: a backslash and one more character.
            None => at += 2,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        explained(serde_json::from_str::<Vec<String>>(line).unwrap_err(), line).to_string()
    }

    #[test]
    fn half_a_surrogate_pair_is_named() {
        for (line, escape, column) in [
            (r#"["\\ud800 \ud83d\udc4d \ud800 x"]"#, r"\ud800", 24),
            (r#"["é\udc4d"]"#, r"\udc4d", 5),
            (r#"["\ud83d\u0041"]"#, r"\ud83d", 3),
            (r#"["\ud83d\n"]"#, r"\ud83d", 3),
        ] {
            let message = message(line);
            assert!(message.contains(&format!("the escape {escape} at column {column} is one half")), "{message}");
        }
        assert_eq!(serde_json::from_str::<Vec<String>>(r#"["\ud83d\udc4d"]"#).unwrap(), ["👍"]);
    }

    #[test]
    fn long_values_are_cut() {
        let line = format!("[{}]", "7".repeat(100));
        assert!(message(&line).len() < 300);
        let line = format!("{:?}", "x".repeat(2_000_000));
        let message = message(&line);
        assert!(message.contains("invalid type: string \"xxx") && message.len() < 2500, "{}", message.len());
    }
}
