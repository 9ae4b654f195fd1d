//! The numbers that tasks are judged by: their column in the result files, heading, decimals and better direction.

use crate::report::read::runs::RunRow;
use crate::report::results::Column;

/// A number that a task is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Column of the result file.
    pub key: &'static str,
    /// Heading.
    pub heading: &'static str,
    /// Decimal places.
    pub decimals: usize,
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl Metric {
    /// The key without its split: `bleu` of `test.bleu`.
    pub fn name(&self) -> &'static str {
        self.key.trim_start_matches("test.")
    }
}

/// With two decimals, as translation and generation are printed.
const fn fine(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, decimals: 2, higher_is_better: true }
}

/// With one decimal, as classification is printed.
const fn coarse(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, decimals: 1, higher_is_better: true }
}

/// BLEU as sacreBLEU defines it.
pub const BLEU: Metric = fine("test.bleu", "BLEU");
/// BLEU of tokenized text with compounds split.
pub const BLEU_TOKENIZED: Metric = fine("test.bleu_tokenized", "BLEU (tokenized)");
/// Perplexity per word.
pub const WORD_PERPLEXITY: Metric =
    Metric { key: "test.word_perplexity", heading: "word perplexity", decimals: 2, higher_is_better: false };
/// Perplexity per subword.
pub const PERPLEXITY: Metric =
    Metric { key: "test.perplexity", heading: "subword perplexity", decimals: 2, higher_is_better: false };
/// ROUGE-1 F1.
pub const ROUGE_1: Metric = fine("test.rouge1", "ROUGE-1");
/// ROUGE-2 F1.
pub const ROUGE_2: Metric = fine("test.rouge2", "ROUGE-2");
/// ROUGE-L F1 of the whole text.
pub const ROUGE_L: Metric = fine("test.rougel", "ROUGE-L");
/// ROUGE-L F1 by sentences.
pub const ROUGE_LSUM: Metric = fine("test.rougelsum", "ROUGE-Lsum");
/// BLEU of single words.
pub const BLEU_1: Metric = fine("test.bleu1", "BLEU-1");
/// BLEU of up to four words.
pub const BLEU_4: Metric = fine("test.bleu4", "BLEU-4");
/// METEOR.
pub const METEOR: Metric = fine("test.meteor", "METEOR");
/// CIDEr.
pub const CIDER: Metric = fine("test.cider", "CIDEr");
/// Cosine of mean word vectors.
pub const EMBEDDING: Metric = fine("test.embedding_average", "embedding average");
/// Accuracy.
pub const ACCURACY: Metric = coarse("test.accuracy", "accuracy");
/// MNLI's accuracy on the genres of the training data.
pub const MATCHED: Metric = coarse("test.accuracy", "matched");
/// MNLI's accuracy on other genres.
pub const MISMATCHED: Metric = coarse("test.mismatched.accuracy", "mismatched");
/// F1 of the positive class; ReCoRD's token F1.
pub const F1: Metric = coarse("test.f1", "F1");
/// F1 averaged over the classes.
pub const MACRO_F1: Metric = coarse("test.f1_macro", "macro-F1");
/// Matthews' correlation coefficient.
pub const MATTHEWS: Metric = coarse("test.matthews", "Matthews");
/// Pearson's correlation coefficient.
pub const PEARSON: Metric = coarse("test.pearson", "Pearson");
/// Spearman's rank correlation coefficient.
pub const SPEARMAN: Metric = coarse("test.spearman", "Spearman");
/// MultiRC's F1 over all answers.
pub const F1A: Metric = coarse("test.f1a", "F1a");
/// Exact match: of a question's answers, or of an answer's text.
pub const EXACT_MATCH: Metric = coarse("test.exact_match", "EM");

const CLASSIFICATION: [Metric; 9] = [ACCURACY, MISMATCHED, F1, MACRO_F1, MATTHEWS, PEARSON, SPEARMAN, F1A, EXACT_MATCH];
const OF_TASK: [(&str, &[Metric]); 5] = [
    ("translation", &[BLEU, BLEU_TOKENIZED]),
    ("language-modelling", &[WORD_PERPLEXITY, PERPLEXITY]),
    ("summarization", &[ROUGE_1, ROUGE_2, ROUGE_L, ROUGE_LSUM]),
    ("dialogue", &[BLEU_1, BLEU_4, ROUGE_L, METEOR, CIDER, EMBEDDING]),
    ("classification", &CLASSIFICATION),
];

/// The metrics of a column's task; the first is the one that rows are compared by. Of classification those that the rows hold.
pub fn of(column: &Column) -> Vec<Metric> {
    let all = OF_TASK.iter().find(|(task, _)| *task == column.task).map_or(OF_TASK[0].1, |(_, metrics)| metrics);
    if column.task != "classification" {
        return all.to_vec();
    }
    let held = |metric: &&Metric| column.rows.iter().any(|row| row.metric(metric.key).is_some());
    let found: Vec<Metric> = all.iter().filter(held).copied().collect();
    if found.is_empty() {
        vec![ACCURACY]
    } else {
        found
    }
}

/// Heading of a metric by its name in the result files; the name itself where it is not known.
pub fn heading_of(name: &str) -> String {
    let known = OF_TASK.iter().flat_map(|(_, metrics)| metrics.iter()).find(|metric| metric.name() == name);
    known.map_or_else(|| name.replace('_', " "), |metric| metric.heading.to_string())
}

/// Headings of the metrics of one cell: `F1/accuracy`.
pub fn joined_heading(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.heading).collect::<Vec<_>>().join("/")
}

/// A task's score in one run: the mean of its metrics; none when one of them is missing.
pub fn score(row: &RunRow, metrics: &[Metric]) -> Option<f64> {
    let values = metrics.iter().map(|metric| row.metric(metric.key)).collect::<Option<Vec<f64>>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
