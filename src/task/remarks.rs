//! Sentences about scores: why a value is blank, and how much of the data a score covers.

use super::Metric;
use crate::metric::script::{self, Share};
use crate::metric::tokenize::Tokenization;
use serde_json::Value;

/// A metric's value; blank where it is undefined or not finite.
pub fn value(number: Option<f64>) -> Value {
    // JSON has no infinity and no NaN: both become null here
    number.map_or(Value::Null, Value::from)
}

/// A metric that may be undefined, and the reason why it would be.
pub struct Score {
    /// Name with its split, such as `test.cider`.
    pub name: String,
    /// Its value where it is defined.
    pub value: Option<f64>,
    /// The end of "`name` is blank: …", needed where `value` is `None`.
    pub reason: String,
}

impl Score {
    /// Of a metric without its split.
    pub fn new(split: &str, name: &str, value: Option<f64>, reason: impl Into<String>) -> Score {
        Score { name: format!("{split}.{name}"), value, reason: reason.into() }
    }

    /// Name and value.
    pub fn metric(&self) -> Metric {
        (self.name.clone(), value(self.value))
    }
}

/// A sentence for each reason why some of the scores are blank.
pub fn blanks(scores: &[Score]) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for score in scores.iter().filter(|score| score.value.is_none_or(|value| !value.is_finite())) {
        match found.iter_mut().find(|(reason, _)| *reason == score.reason) {
            Some((_, names)) => names.push(&score.name),
            None => found.push((&score.reason, vec![&score.name])),
        }
    }
    let sentence = |(reason, names): (&str, Vec<&str>)| {
        format!("{} {} blank: {reason}.", listed(&names), if names.len() == 1 { "is" } else { "are" })
    };
    found.into_iter().map(sentence).collect()
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// How words were found, where that is not what a reader would expect of `metrics`; `target` is the declared language, if any.
pub fn words(metrics: &str, tokenization: &Tokenization, target: &str, references: &[String]) -> Option<String> {
    if *tokenization == Tokenization::Characters {
        let standard = match target.split(['-', '_']).next().unwrap_or_default().to_lowercase().as_str() {
            "ja" | "jpn" => "sacreBLEU splits Japanese with MeCab (ja-mecab), which this program does not have",
            "ko" | "kor" => "sacreBLEU splits Korean with MeCab (ko-mecab), which this program does not have",
            _ => "sacreBLEU's 13a does not split a language that is written without blanks",
        };
        return Some(format!(
            "{metrics} compare characters (tok:char), not words, and stand beside other tok:char scores only: {standard}."
        ));
    }
    let unspaced = script::unspaced(references);
    (tokenization.splits_at_blanks() && unspaced.is_noted()).then(|| {
        let declared = match target {
            "" => "data.target is not declared".to_string(),
            target => format!("data.target is {target:?}"),
        };
        format!(
            "{metrics} split words at blanks, but {unspaced} of the letters of the test references are of scripts written \
             without blanks, of which a whole phrase counts as one word; {declared} (\"zh\", \"ja\" or \"th\" would choose \
             another tokenizer)."
        )
    })
}

/// The column that says how much of the test set is scored, and a note where it is not all.
pub fn coverage(share: Share, unit: &str) -> (Metric, Option<String>) {
    let note = (share.part < share.whole)
        .then(|| format!("The test scores cover {} of {} {unit} ({share}).", share.part, share.whole));
    // a share of nothing is never reached: empty splits are errors
    (("test.scored_share".into(), share.value().into()), note)
}

/// `3 of 8 test sources are cut to 100 tokens, so that their scores are of parts of them.`
pub fn cut(count: usize, of: usize, what: &str, limit: usize) -> Option<String> {
    (count > 0).then(|| {
        format!("{count} of {of} test {what} are cut to {limit} tokens: the model sees only that part of them.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_with_one_reason_share_a_sentence() {
        let scores = [
            Score::new("test", "bleu1", None, "no reference has a word"),
            Score::new("test", "cider", Some(f64::INFINITY), "it overflows"),
            Score::new("test", "bleu4", Some(3.0), "no reference has four words"),
            Score::new("test", "meteor", None, "no reference has a word"),
        ];
        let expected =
            ["test.bleu1 and test.meteor are blank: no reference has a word.", "test.cider is blank: it overflows."];
        assert_eq!(blanks(&scores), expected);
        assert_eq!((scores[1].metric().1, scores[2].metric().1), (Value::Null, 3.0.into()));
    }

    #[test]
    fn a_score_of_a_part_says_so() {
        let (metric, note) = coverage(Share { part: 3, whole: 4 }, "rows");
        assert_eq!((metric.1, note.unwrap()), (0.75.into(), "The test scores cover 3 of 4 rows (75 %).".to_string()));
        assert_eq!(coverage(Share { part: 4, whole: 4 }, "rows"), (("test.scored_share".into(), 1.0.into()), None));
    }
}
