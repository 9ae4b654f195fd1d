//! Answers as words, as SQuAD and ReCoRD compare them: lower case, without punctuation and articles.

use super::classification::likeliest;
use super::tokenize::is_space;
use std::collections::HashMap;

/// The words that are compared: lower case, ASCII punctuation taken out, the words a, an and the left out.
pub fn words(answer: &str) -> Vec<String> {
    let lower = answer.to_lowercase();
    let kept: String = lower.chars().filter(|letter| !letter.is_ascii_punctuation()).collect();
    let mut text = String::with_capacity(kept.len());
    // an article is a run of letters and digits of its own, whatever stands beside it
    for run in kept.split_inclusive(|letter: char| !letter.is_alphanumeric()) {
        let word = run.trim_end_matches(|letter: char| !letter.is_alphanumeric());
        text.push_str(if matches!(word, "a" | "an" | "the") { " " } else { word });
        text.push_str(&run[word.len()..]);
    }
    text.split(is_space).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether two answers have the same [`words`] in the same order.
pub fn exact(predicted: &str, gold: &str) -> bool {
    words(predicted) == words(gold)
}

/// F1 of the [`words`] that two answers share, each as often as both have it; 0 where they share none.
pub fn f1(predicted: &str, gold: &str) -> f64 {
    let (predicted, gold) = (words(predicted), words(gold));
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in &gold {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in &predicted {
        if let Some(count @ 1..) = left.get_mut(word.as_str()) {
            *count -= 1;
            common += 1;
        }
    }
    if common == 0 {
        return 0.0;
    }
    2.0 * f64::from(common) / (predicted.len() + gold.len()) as f64
}

/// ReCoRD's F1 and exact match: each group answers with its likeliest candidate, which is held against the nearest of the
/// group's gold answers; means over groups, `None` without any.
///
/// `numbers`, `groups` and `candidates` have an entry a row, `gold` the answers of each group by its number.
pub fn record(
    numbers: &[f64],
    groups: &[u32],
    candidates: &[impl AsRef<str>],
    gold: &[Vec<impl AsRef<str>>],
) -> (Option<f64>, Option<f64>) {
    let picked = likeliest(numbers, groups);
    let (mut sum, mut hits) = (0.0, 0);
    for &(group, row) in &picked {
        let (candidate, gold) = (candidates[row].as_ref(), gold.get(group as usize).map_or(&[][..], Vec::as_slice));
        sum += gold.iter().map(|answer| f1(candidate, answer.as_ref())).fold(0.0, f64::max);
        hits += usize::from(gold.iter().any(|answer| exact(candidate, answer.as_ref())));
    }
    let mean = |sum: f64| (!picked.is_empty()).then(|| sum / picked.len() as f64);
    (mean(sum), mean(hits as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_are_words_of_their_own() {
        assert_eq!(words("The  U.S.A., a-an theory: “the” Thé"), ["usa", "aan", "theory", "“", "”", "thé"]);
        assert!(words(" an a.\u{1c}THE! ").is_empty());
    }

    #[test]
    fn f1_counts_a_word_as_often_as_both_have_it() {
        // common: one "new", one "york"; 3 and 4 words
        assert!((f1("New York, New", "the York of new Jersey") - 2.0 * 2.0 / 7.0).abs() < 1e-15);
        assert_eq!((f1("the", "a"), exact("the", "a"), f1("x", "y")), (0.0, true, 0.0));
    }

    #[test]
    fn the_likeliest_candidate_answers() {
        // group 0: rows 0 and 2, row 2 wins; group 1: rows 1 and 3 are level, the first wins
        let (numbers, groups) = ([0.1, 2.0, 0.7, 2.0], [0, 1, 0, 1]);
        let candidates = ["Ann", "Bob Smith", "The Alps", "Smith"];
        let gold = [vec!["Andes", "alps"], vec!["Smith", "Sue"]];
        let (f1, exact) = record(&numbers, &groups, &candidates, &gold);
        assert!((f1.unwrap() - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-15, "{f1:?}");
        assert_eq!(exact, Some(0.5));
    }
}
