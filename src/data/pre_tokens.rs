//! Pre-tokens: the pieces of a text that byte-pair merges never cross.
//!
//! They are those of GPT-2 (a word with the space before it, a number, a run of marks, a run of white space), except that
//! a run of more than [`LONGEST`] characters is cut. Merging is quadratic in the length of a pre-token, so without the cut a
//! text of 600,000 letters would take minutes. A text is read in windows, so the work per character does not depend on its
//! length, and the regular expression never backtracks further than a window.

use anyhow::anyhow;
use std::sync::OnceLock;
use tokenizers::utils::SysRegex;

/// Longest pre-token in characters.
pub const LONGEST: usize = 256;

/// Bytes of text that are matched together.
const WINDOW: usize = 8192;

/// A match depends on at most so many bytes after its end.
const LOOKED_AT: usize = 16;

/// The expression of the `tokenizers` library's byte-level pre-tokenizer.
const PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

fn pattern() -> anyhow::Result<&'static SysRegex> {
    static COMPILED: OnceLock<SysRegex> = OnceLock::new();
    if let Some(pattern) = COMPILED.get() {
        return Ok(pattern);
    }
    let pattern = SysRegex::new(PATTERN).map_err(|error| anyhow!("cannot compile {PATTERN}: {error}"))?;
    Ok(COMPILED.get_or_init(|| pattern))
}

/// Hands over the pre-tokens of a text in order; together they are the text.
///
/// # Errors
/// Those of `take`.
pub fn for_each<'a>(text: &'a str, take: impl FnMut(&'a str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for_each_by(text, LONGEST, WINDOW, take)
}

fn for_each_by<'a>(
    text: &'a str,
    longest: usize,
    window: usize,
    mut take: impl FnMut(&'a str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let pattern = pattern()?;
    let mut rest = text;
    while !rest.is_empty() {
        let seen = &rest[..rest.floor_char_boundary(window)];
        let reaches_end = seen.len() == rest.len();
        let mut done = 0;
        for (start, end) in pattern.find_iter(seen) {
            let decided = reaches_end || end + LOOKED_AT <= seen.len();
            if !decided && start > 0 {
                // The next window begins here.
                break;
            }
            let (cut, tail) = cut(&seen[start..end], longest, &mut take)?;
            done = end - tail.len();
            if cut || !decided {
                // What follows the last cut is matched anew, as the text after any other pre-token is.
                break;
            }
            take(tail)?;
            done = end;
        }
        if done == 0 {
            // Every character matches, so this is out of reach; text is never lost.
            take(seen)?;
            done = seen.len();
        }
        rest = &rest[done..];
    }
    Ok(())
}

/// Hands over pieces of `longest` characters while more than that are left; whether there was one, and what is left.
fn cut<'a>(
    mut piece: &'a str,
    longest: usize,
    take: &mut impl FnMut(&'a str) -> anyhow::Result<()>,
) -> anyhow::Result<(bool, &'a str)> {
    let mut any = false;
    while piece.len() > longest {
        let Some((end, _)) = piece.char_indices().nth(longest) else { break };
        take(&piece[..end])?;
        piece = &piece[end..];
        any = true;
    }
    Ok((any, piece))
}

/// Parts of a text of about `size` bytes, cut between pre-tokens such that each part has the pre-tokens of its place.
///
/// # Errors
/// None but those of the regular expression, which compiles.
pub fn parts(text: String, size: usize) -> anyhow::Result<Vec<String>> {
    if text.len() <= size {
        return Ok(vec![text]);
    }
    let (mut parts, mut part) = (Vec::new(), String::new());
    for_each(&text, |piece| {
        if part.len() + piece.len() > size && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        part.push_str(piece);
        Ok(())
    })?;
    parts.push(part);
    Ok(parts)
}

/// A pre-token as the vocabulary spells it: a character for each byte.
pub fn byte_level(piece: &str) -> String {
    static CHARACTERS: OnceLock<Vec<char>> = OnceLock::new();
    let characters = CHARACTERS.get_or_init(|| {
        let mut characters = vec!['\0'; 256];
        // Printing characters of Latin-1 stand for themselves, those from U+0100 for the 68 other bytes in their order.
        let mut next = 0x100u32;
        for byte in 0..=0xffu8 {
            characters[usize::from(byte)] = match byte {
                0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
                _ => {
                    next += 1;
                    char::from_u32(next - 1).unwrap_or_default()
                }
            };
        }
        characters
    });
    piece.bytes().map(|byte| characters[usize::from(byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    fn pieces(text: &str, longest: usize, window: usize) -> Vec<String> {
        let mut pieces = Vec::new();
        for_each_by(text, longest, window, |piece| {
            pieces.push(piece.to_string());
            Ok(())
        })
        .unwrap();
        pieces
    }

    /// The library's own, without a cut.
    fn of_library(text: &str) -> Vec<String> {
        let mut text = PreTokenizedString::from(text);
        ByteLevel::new(false, false, true).pre_tokenize(&mut text).unwrap();
        let splits = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(piece, _, _)| piece.to_owned()).filter(|piece| !piece.is_empty()).collect()
    }

    #[test]
    fn long_runs_are_cut_at_the_longest_length() {
        let lengths = |text: &str| -> Vec<usize> {
            pieces(text, LONGEST, WINDOW).iter().map(|piece| piece.chars().count()).collect()
        };
        assert_eq!(lengths(&"a".repeat(256)), [256]);
        assert_eq!(lengths(&"a".repeat(257)), [256, 1]);
        // The space belongs to the word; the next word is not touched.
        assert_eq!(lengths(&format!("b {} c", "é".repeat(300))), [1, 256, 45, 2]);
        for unit in ["x", " ", "7", "語", "🚢", "👩\u{200d}🔬", "e\u{301}", "\u{301}", ".", "\t", "\0", "\u{85}", "'s"]
        {
            let text = unit.repeat(60_000 / unit.chars().count());
            let found = pieces(&text, LONGEST, WINDOW);
            assert!(found.concat() == text, "{unit:?}");
            assert!(found.iter().all(|piece| piece.chars().count() <= LONGEST), "{unit:?}");
        }
    }

    #[test]
    fn parts_of_a_text_have_its_pre_tokens() {
        let text =
            format!("{} {}\t \n'll{}  {}", "It's  the".repeat(40), "z".repeat(900), "… ".repeat(90), " ".repeat(700));
        for size in [1, 7, 300, 4000] {
            let parts = parts(text.clone(), size).unwrap();
            assert_eq!(parts.concat(), text);
            let again: Vec<String> = parts.iter().flat_map(|part| pieces(part, LONGEST, WINDOW)).collect();
            assert_eq!(again, pieces(&text, LONGEST, WINDOW), "{size}");
        }
    }

    proptest! {
        #[test]
        fn without_long_runs_they_are_those_of_the_library(text in "\\PC{0,40}|[ \\t\u{a0}a-c'sr1.\u{85}\n]{0,60}") {
            let found: Vec<String> = pieces(&text, LONGEST, WINDOW).iter().map(|piece| byte_level(piece)).collect();
            prop_assert_eq!(found, of_library(&text));
        }

        #[test]
        fn they_do_not_depend_on_the_window(text in "[ \\t\u{a0}abdlmrstve'1.\u{85}\né語]{0,200}", longest in 1usize..12, window in 64usize..100) {
            prop_assert_eq!(pieces(&text, longest, window), pieces(&text, longest, 1 << 20));
        }
    }
}
