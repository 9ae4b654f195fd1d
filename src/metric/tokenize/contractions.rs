//! English contractions, split as in the Penn Treebank and as GloVe's vocabulary has them: `do n't`, `it 's`, `can not`.

const SHORT: &[&str] = &["'s", "'m", "'d", "'"];
const LONG: &[&str] = &["'ll", "'re", "'ve", "n't"];
const WHOLE: &[(&str, &str)] =
    &[("can", "not"), ("gim", "me"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("wan", "na")];

/// The words in lower case, contractions split. Equal to NLTK's `word_tokenize` on the words of
/// `tests/fixtures/embedding_average/contractions.json`; of its whole-word rules `d'ye`, `more'n` and `'tis` are left out.
pub fn split(words: &[String]) -> Vec<String> {
    let mut split = Vec::with_capacity(words.len());
    for word in words {
        let (rest, short) = ending(word, SHORT);
        let (rest, long) = ending(rest, LONG);
        match WHOLE.iter().find(|(first, second)| rest.strip_prefix(first) == Some(second)) {
            Some((first, second)) => split.extend([*first, *second].map(str::to_owned)),
            None => split.push(rest.to_owned()),
        }
        split.extend([long, short].into_iter().filter(|ending| !ending.is_empty()).map(str::to_owned));
    }
    split
}

/// A word without its ending, and the ending; something else than `'` must stand before it.
fn ending<'a>(word: &'a str, endings: &[&str]) -> (&'a str, &'a str) {
    let found = endings.iter().find_map(|ending| word.strip_suffix(ending).filter(|rest| !rest.is_empty()));
    match found {
        Some(rest) if !rest.ends_with('\'') => word.split_at(rest.len()),
        _ => (word, ""),
    }
}
