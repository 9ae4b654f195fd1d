//! Which published column, result file and metrics belong together.

use super::metric::{self, Metric};
use crate::report::published::Published;
use crate::report::results::{Column, TableResults};

/// What one measured cell holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// One metric, or those that the paper prints in one cell.
    pub metrics: Vec<Metric>,
    /// Whether its difference to V is shown too.
    pub compared: bool,
}

/// One published column and what is measured beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualityColumn {
    /// Name of the published column; nothing need be published.
    pub published: String,
    /// Stem of the result file.
    pub stem: String,
    /// Cells measured, the first of them what the published figure stands beside.
    pub measures: Vec<Measure>,
    /// Whether the file has several columns, so that headings name the metric.
    pub one_of_several: bool,
    /// Whether it is the first of its file.
    pub first: bool,
    /// Whether the file's parameters follow it.
    pub last: bool,
}

/// Tasks whose mean is one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    /// Name of the published column.
    pub published: &'static str,
    /// Heading.
    pub heading: &'static str,
    /// Stems of the tasks' result files, each with its metrics.
    pub tasks: &'static [(&'static str, &'static [Metric])],
}

/// A part of a table, from left to right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Parameters that the paper prints: name of the published column.
    Parameters(String),
    /// A suite's score.
    Score(Suite),
    /// Published beside measured.
    Quality(QualityColumn),
}

const GLUE: Suite = Suite {
    published: "glue",
    heading: "GLUE",
    tasks: &[
        ("cola", &[metric::MATTHEWS]),
        ("sst", &[metric::ACCURACY]),
        ("mrpc", &[metric::F1, metric::ACCURACY]),
        ("stsb", &[metric::PEARSON, metric::SPEARMAN]),
        ("qqp", &[metric::F1, metric::ACCURACY]),
        ("mnli", &[metric::MATCHED, metric::MISMATCHED]),
        ("qnli", &[metric::ACCURACY]),
        ("rte", &[metric::ACCURACY]),
    ],
};

const SUPERGLUE: Suite = Suite {
    published: "superglue",
    heading: "SuperGLUE",
    tasks: &[
        ("boolq", &[metric::ACCURACY]),
        ("cb", &[metric::MACRO_F1, metric::ACCURACY]),
        ("copa", &[metric::ACCURACY]),
        ("multirc", &[metric::F1A, metric::EXACT_MATCH]),
        ("record", &[metric::F1, metric::EXACT_MATCH]),
        ("rte", &[metric::ACCURACY]),
        ("wic", &[metric::ACCURACY]),
        ("wsc", &[metric::ACCURACY]),
    ],
};

/// Table 3: published column, result file, its metric and those that are shown beside it.
const TABLE_3: [(&str, &str, &[Metric]); 9] = [
    ("rouge1", "summarization", &[metric::ROUGE_1]),
    ("rouge2", "summarization", &[metric::ROUGE_2]),
    ("rougel", "summarization", &[metric::ROUGE_L, metric::ROUGE_LSUM]),
    ("bleu1", "dialogue", &[metric::BLEU_1]),
    ("bleu4", "dialogue", &[metric::BLEU_4]),
    ("dialogue_rougel", "dialogue", &[metric::ROUGE_L]),
    ("meteor", "dialogue", &[metric::METEOR]),
    ("cider", "dialogue", &[metric::CIDER]),
    ("embedding", "dialogue", &[metric::EMBEDDING]),
];

/// Table 6: published column and metric, of the one file of results.
const TABLE_6: [(&str, Metric); 4] = [
    ("log_perplexity", metric::LOG_PERPLEXITY),
    ("steps_per_second", metric::STEPS_PER_SECOND),
    ("params", metric::PARAMETERS),
    ("tflops", metric::FORWARD_TFLOPS),
];

/// The task of Table 6.
const MASKED: &str = "masked-language-modelling";

/// The suite of a table.
pub fn suite(table: &str) -> Option<&'static Suite> {
    match table {
        "table4" => Some(&GLUE),
        "table5" => Some(&SUPERGLUE),
        _ => None,
    }
}

/// The paper's headings, where a column's own title is not known.
pub fn known_heading(stem: &str) -> &str {
    const KNOWN: [(&str, &str); 23] = [
        ("ende", "EnDe"),
        ("enfr", "EnFr"),
        ("lm1b", "LM1B"),
        ("summarization", "CNN/DailyMail"),
        ("dialogue", "PersonaChat"),
        ("cola", "CoLA"),
        ("sst", "SST-2"),
        ("mrpc", "MRPC"),
        ("stsb", "STS-B"),
        ("qqp", "QQP"),
        ("mnli", "MNLI"),
        ("qnli", "QNLI"),
        ("rte", "RTE"),
        ("boolq", "BoolQ"),
        ("cb", "CB"),
        ("copa", "COPA"),
        ("multirc", "MultiRC"),
        ("record", "ReCoRD"),
        ("wic", "WiC"),
        ("wsc", "WSC"),
        ("agnews", "AGNews"),
        ("imdb", "IMDb"),
        ("c4", "C4"),
    ];
    KNOWN.iter().find(|k| k.0 == stem).map_or(stem, |k| k.1)
}

/// The heading of a column's results.
pub fn heading(column: &Column) -> String {
    if column.title.is_empty() {
        known_heading(&column.stem).to_string()
    } else {
        column.title.clone()
    }
}

/// The parts of a table: the columns of the paper first, in its order, then others that have results.
pub fn parts(results: &TableResults, published: &Published) -> Vec<Part> {
    let suite = suite(&results.name);
    let mut parts: Vec<Part> = Vec::new();
    for name in published.columns() {
        parts.push(if name.starts_with("params_") {
            Part::Parameters(name)
        } else if let Some(suite) = suite.filter(|s| s.published == name) {
            Part::Score(*suite)
        } else {
            Part::Quality(quality_column(results, &name))
        });
    }
    for column in &results.columns {
        let known = parts.iter().any(|part| matches!(part, Part::Quality(q) if q.stem == column.stem));
        if !known {
            parts.push(Part::Quality(quality_column(results, &column.stem)));
        }
    }
    let stems: Vec<Option<String>> = parts.iter().map(|part| stem_of(part).map(str::to_string)).collect();
    for (at, part) in parts.iter_mut().enumerate() {
        if let Part::Quality(q) = part {
            let stem = Some(q.stem.clone());
            q.first = !stems[..at].contains(&stem);
            let has_own_column = results.name == "table6" && TABLE_6.iter().any(|known| known.0 == q.published);
            let is_suites = suite.is_some_and(|s| is_task(s, &q.stem));
            q.last = !stems[at + 1..].contains(&stem) && !is_suites && !has_own_column;
        }
    }
    parts
}

fn stem_of(part: &Part) -> Option<&str> {
    match part {
        Part::Quality(q) => Some(&q.stem),
        _ => None,
    }
}

fn is_task(suite: &Suite, stem: &str) -> bool {
    suite.tasks.iter().any(|task| task.0 == stem)
}

/// What belongs to a published column or, by the same name, to a file of results.
fn quality_column(results: &TableResults, name: &str) -> QualityColumn {
    let column = |stem: &str, measures: Vec<Measure>, one_of_several| QualityColumn {
        published: name.to_string(),
        stem: stem.to_string(),
        measures,
        one_of_several,
        first: true,
        last: true,
    };
    // A cell a metric; those of language modelling are all compared, since which of them the paper prints is not known.
    let single = |metrics: &[Metric]| -> Vec<Measure> {
        let measure = |(at, metric): (usize, &Metric)| Measure {
            metrics: vec![*metric],
            compared: at == 0 || *metric == metric::PERPLEXITY,
        };
        metrics.iter().enumerate().map(measure).collect()
    };
    if let Some(known) = TABLE_3.iter().find(|known| results.name == "table3" && known.0 == name) {
        return column(known.1, single(known.2), true);
    }
    if let Some(known) = TABLE_6.iter().find(|known| results.name == "table6" && known.0 == name) {
        let stem = results.columns.iter().find(|c| c.task == MASKED).map_or("c4", |c| c.stem.as_str());
        let compared = known.1.print == metric::Print::Measured;
        return column(stem, vec![Measure { metrics: vec![known.1], compared }], true);
    }
    if let Some(task) = suite(&results.name).and_then(|s| s.tasks.iter().find(|task| task.0 == name)) {
        return column(name, vec![Measure { metrics: task.1.to_vec(), compared: true }], true);
    }
    let metrics = results.columns.iter().find(|c| c.stem == name).map(metric::of);
    column(name, single(&metrics.unwrap_or_default()), false)
}
