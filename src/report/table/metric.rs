//! The numbers that tasks are judged by: their column in the result files, heading, decimals and better direction.

use super::Cell;
use crate::report::number;
use crate::report::read::runs::RunRow;
use crate::report::results::Column;
use crate::report::statistics::Summary;

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
    /// How a figure is printed.
    pub print: Print,
}

/// How a figure is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// With the metric's decimal places, its spread and the number of seeds.
    Measured,
    /// With so many significant digits: equal for all seeds.
    Significant(usize),
    /// In k, M, G: equal for all seeds.
    Compact,
}

impl Metric {
    /// The key without its split: `bleu` of `test.bleu`.
    pub fn name(&self) -> &'static str {
        self.key.trim_start_matches("test.")
    }

    /// The cell of a figure.
    pub fn cell(&self, summary: Summary) -> Cell {
        match self.print {
            Print::Measured => Cell::Measured(summary, self.decimals),
            Print::Significant(digits) => Cell::Significant(summary.mean, digits),
            Print::Compact => Cell::Compact(summary.mean),
        }
    }

    /// A figure beside its bar.
    pub fn text(&self, summary: Summary) -> String {
        match (self.print, summary.std) {
            (Print::Significant(digits), _) => number::significant(summary.mean, digits),
            (Print::Compact, _) => number::compact(summary.mean),
            (Print::Measured, None) => number::fixed(summary.mean, self.decimals),
            (Print::Measured, Some(std)) => {
                format!("{} ± {}", number::fixed(summary.mean, self.decimals), number::fixed(std, self.decimals))
            }
        }
    }
}

/// With two decimals, as translation and generation are printed.
const fn fine(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, decimals: 2, higher_is_better: true, print: Print::Measured }
}

/// With one decimal, as classification is printed.
const fn coarse(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, decimals: 1, higher_is_better: true, print: Print::Measured }
}

/// Of which less is better.
const fn low(key: &'static str, heading: &'static str, decimals: usize, print: Print) -> Metric {
    Metric { key, heading, decimals, higher_is_better: false, print }
}

/// BLEU as sacreBLEU defines it.
pub const BLEU: Metric = fine("test.bleu", "BLEU");
/// BLEU of tokenized text with compounds split.
pub const BLEU_TOKENIZED: Metric = fine("test.bleu_tokenized", "BLEU (tokenized)");
/// Perplexity per word.
pub const WORD_PERPLEXITY: Metric = low("test.word_perplexity", "word perplexity", 2, Print::Measured);
/// Perplexity per subword.
pub const PERPLEXITY: Metric = low("test.perplexity", "subword perplexity", 2, Print::Measured);
/// Nats a target token of masked language modelling.
pub const LOG_PERPLEXITY: Metric = low("test.log_perplexity", "log perplexity", 3, Print::Measured);
/// Training steps a second, evaluations left out.
pub const STEPS_PER_SECOND: Metric = fine("steps_per_second", "steps/s");
/// Parameters that are trained.
pub const PARAMETERS: Metric = low("trainable_parameters", "parameters", 0, Print::Compact);
/// Operations of a step's forward pass, in 10¹².
pub const FORWARD_TFLOPS: Metric = low("forward_tflops", "TFLOPs", 2, Print::Significant(3));
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
const OF_TASK: [(&str, &[Metric]); 6] = [
    ("translation", &[BLEU, BLEU_TOKENIZED]),
    ("language-modelling", &[WORD_PERPLEXITY, PERPLEXITY]),
    ("masked-language-modelling", &[LOG_PERPLEXITY]),
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
