//! The paper's figures in experiments/published.

use std::collections::HashSet;

#[test]
fn published_figures_are_well_formed() {
    let columns: &[(u32, usize, &[&str])] = &[
        (1, 24, &["parameters", "conditions_on", "sample", "interact"]),
        (2, 51, &["params_mt", "ende", "enfr", "params_lm", "lm1b"]),
        (3, 45, &["rouge1", "rouge2", "rougel", "bleu1", "bleu4", "dialogue_rougel", "meteor", "cider", "embedding"]),
        (4, 45, &["glue", "cola", "sst", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"]),
        (5, 45, &["superglue", "boolq", "cb", "copa", "multirc", "record", "rte", "wic", "wsc"]),
        (6, 28, &["log_perplexity", "steps_per_second", "params", "tflops"]),
        (7, 1, &["agnews"]),
    ];
    for (table, cells, known) in columns {
        let path = format!("experiments/published/table{table}.csv");
        let mut reader = csv::Reader::from_path(&path).expect(&path);
        assert_eq!(reader.headers().expect(&path), vec!["row", "mix", "variant", "column", "value", "source"]);
        let mut seen = HashSet::new();
        for record in reader.records() {
            let record = record.expect(&path);
            let (mix, column, value) = (&record[1], &record[3], &record[4]);
            assert!(synthesizer::experiment::Mix::parse(mix).is_ok(), "{path}: {mix}");
            assert!(["", "control", "vaswani"].contains(&&record[2]), "{path}: {record:?}");
            assert!(known.contains(&column), "{path}: {column}");
            assert!(record[5].starts_with("arXiv 2005.00743v"), "{path}: {record:?}");
            let number = |text: &str| text.trim_end_matches('M').parse::<f64>().is_ok_and(|x| x > 0.0);
            assert!(*table == 1 || value.split('/').all(number), "{path}: {value}");
            assert!(seen.insert(format!("{mix} {} {column}", &record[2])), "{path}: {record:?} is there twice");
        }
        assert_eq!(seen.len(), *cells, "{path}");
    }
}

/// Spot checks against the paper's tables, so that no column slipped.
#[test]
fn published_figures_stand_in_their_cells() {
    let cell = |table: u32, mix: &str, variant: &str, column: &str| {
        let path = format!("experiments/published/table{table}.csv");
        let mut reader = csv::Reader::from_path(&path).expect(&path);
        let found = reader.records().map(|record| record.expect(&path));
        let mut found = found.filter(|r| &r[1] == mix && &r[2] == variant && &r[3] == column).map(|r| r[4].to_owned());
        found.next()
    };
    assert_eq!(cell(2, "R+V", "", "ende").as_deref(), Some("28.47"));
    assert_eq!(cell(2, "V", "", "lm1b").as_deref(), Some("38.21"));
    assert_eq!(cell(2, "V", "control", "enfr").as_deref(), Some("41.83"));
    assert_eq!(cell(2, "V", "control", "lm1b"), None, "blank in the paper's table stays absent");
    assert_eq!(cell(2, "Rfix", "", "params_lm").as_deref(), Some("53M"));
    assert_eq!(cell(3, "D", "", "bleu4").as_deref(), Some("4.02"));
    assert_eq!(cell(4, "R", "", "mnli").as_deref(), Some("77.6/78.1"));
    assert_eq!(cell(5, "R+V", "", "wsc").as_deref(), Some("75.0"));
    assert_eq!(cell(6, "DC", "", "steps_per_second").as_deref(), Some("2.65"));
}
