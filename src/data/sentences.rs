//! Text to sentences, by rules that fit on a page.
//!
//! 1. Line breaks and runs of two or more blanks end a paragraph, and so a sentence.
//! 2. A sentence ends after `.`, `!`, `?` or `…` (and quotes or brackets that close there) before a blank, unless the next
//!    word begins with a lower-case letter.
//! 3. A single full stop is no end after a title or month in short (`Mr.`, `Sen.`, `Feb.`) or after capitals (`J.`, `U.S.`).
//! 4. A piece without a letter or digit is no sentence and is left out.

/// Words that end in a full stop in the middle of a sentence.
const SHORT: [&str; 29] = [
    "Mr", "Mrs", "Ms", "Dr", "Prof", "Sen", "Sens", "Rep", "Reps", "Gov", "Gen", "Lt", "Col", "Maj", "Sgt", "Capt",
    "Cmdr", "Adm", "Rev", "St", "No", "vs", "Jan", "Feb", "Aug", "Sept", "Oct", "Nov", "Dec",
];

/// The sentences of a text, in order, without blanks around them.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for paragraph in paragraphs(text) {
        let mut start = 0;
        for (at, _) in paragraph.match_indices(' ') {
            if ends(&paragraph[start..at], &paragraph[at + 1..]) {
                sentences.push(&paragraph[start..at]);
                start = at + 1;
            }
        }
        sentences.push(&paragraph[start..]);
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r']).flat_map(|line| line.split("  ")).map(str::trim).filter(|piece| !piece.is_empty())
}

/// Whether a sentence ends between these two, where one blank is.
fn ends(before: &str, after: &str) -> bool {
    let bare = before.trim_end_matches(['"', '\'', ')', ']', '”', '’', '»']);
    let Some(word) = bare.strip_suffix(['.', '!', '?', '…']) else { return false };
    let next = after.trim_start_matches(['"', '\'', '(', '[', '“', '‘', '«', '-', '–']).chars().next();
    if next.is_none_or(char::is_lowercase) {
        return false;
    }
    if !bare.ends_with('.') || word.ends_with('.') {
        return true;
    }
    let last = word.rsplit(|c: char| c.is_whitespace() || "\"'(“‘-".contains(c)).next().unwrap_or(word);
    let capitals =
        !last.is_empty() && last.split('.').all(|part| part.len() == 1 && part.as_bytes()[0].is_ascii_uppercase());
    !capitals && !SHORT.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::sentences;

    #[test]
    fn sentences_end_at_marks_before_a_new_start() {
        let text = "He came. \"Go!\" she said. (They went.) Was it 5 p.m.? Yes... No wait. 12 came, etc. and left";
        let expected = [
            "He came.",
            "\"Go!\" she said.",
            "(They went.)",
            "Was it 5 p.m.?",
            "Yes...",
            "No wait.",
            "12 came, etc. and left",
        ];
        assert_eq!(sentences(text), expected);
    }

    #[test]
    fn short_forms_are_no_end() {
        let text =
            "Sen. J. W. Smith of the U.S. Senate met Dr. Who on Feb. 3. Mr. X, too (No. 5). It cost 3.5 dollars.";
        assert_eq!(sentences(text).len(), 3, "{:?}", sentences(text));
    }

    #[test]
    fn paragraphs_end_sentences_and_marks_alone_are_none() {
        assert_eq!(
            sentences(" A headline   - He ran \r\n ... \nand on\u{a0}it went  "),
            ["A headline", "- He ran", "and on\u{a0}it went"]
        );
        assert!(sentences("").is_empty());
    }
}
