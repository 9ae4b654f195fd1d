//! The tables of all tasks: several metrics a file, two metrics a cell, suite scores, and folders that are no profile.

use super::{fixtures, published, sheet, Work};
use serde_json::Value;
use std::collections::HashMap;
use synthesizer::report::published::Published;
use synthesizer::report::table::{Cell, Table};
use synthesizer::report::{make_table, results};

fn table(name: &str) -> Table {
    let results = results::read(&fixtures().join("results/mini").join(name), "mini").unwrap();
    make_table(&results, &Published::read(&published(), name).unwrap())
}

/// What a cell of the row of a mix shows.
fn shown(table: &Table, mix: &str, key: &str) -> String {
    let column = table.columns.iter().position(|c| c.key == key);
    let column = column.unwrap_or_else(|| panic!("{}: no column {key}", table.name));
    let of_mix = |row: &&Vec<Cell>| row[1].show() == mix;
    // The paper's own run of V comes after the row that it quotes.
    let rows: Vec<_> = table.rows.iter().filter(of_mix).collect();
    let row = if table.name == "table2" && mix == "V" { rows[1] } else { rows[0] };
    row[column].show()
}

#[test]
fn measured_cells_are_those_that_python_computes() {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected: HashMap<String, HashMap<String, HashMap<String, String>>> = serde_json::from_str(&text).unwrap();
    let mut cells = 0;
    for (name, rows) in &expected {
        let table = table(name);
        for (mix, row) in rows {
            for (key, text) in row {
                assert_eq!(&shown(&table, mix, key), text, "{name}, {mix}, {key}");
                cells += 1;
            }
        }
    }
    assert_eq!((expected.len(), cells), (6, 240));
}

#[test]
fn published_cells_stand_beside_measured_ones() {
    let (three, four) = (table("table3"), table("table4"));
    assert_eq!(shown(&three, "R", "rouge1.published"), "35.47");
    assert_eq!(shown(&three, "R", "rouge1.published.delta"), "\u{2212}2.77");
    assert_eq!(shown(&three, "D", "dialogue_rougel.published"), "15.22");
    assert_eq!(shown(&three, "D", "embedding.published.delta"), "+1.52");
    // A mix that the paper has not.
    assert_eq!(shown(&three, "FR", "bleu1.published"), "·");
    // Two metrics in a cell, and their differences one by one: 85.9 - 92.0, 79.4 - 88.7.
    assert_eq!(shown(&four, "R", "mrpc.published"), "85.9/79.4");
    assert_eq!(shown(&four, "R", "mrpc.published.delta"), "\u{2212}6.1/\u{2212}9.3");
    assert_eq!(shown(&four, "R+V", "glue.published.delta"), "+0.6");
    assert_eq!(shown(&table("table5"), "R", "cb.published"), "54.6/73.2");
    let seven = table("table7");
    assert_eq!(shown(&seven, "FR+V", "agnews.published"), "89.1");
    assert_eq!(shown(&seven, "V", "agnews.published"), "·");
    let mixes: Vec<String> = seven.rows.iter().map(|row| row[1].show()).collect();
    assert_eq!(mixes, ["V", "FR", "FR+V"]);
    assert!(!seven.columns.iter().any(|c| c.key.starts_with("reviews.published")));
}

#[test]
fn columns_are_in_the_papers_order_with_the_metrics_of_their_task() {
    let keys = |name: &str, wanted: &[&str]| {
        let table = table(name);
        let keys: Vec<String> = table.columns.iter().map(|c| c.key.clone()).collect();
        keys.into_iter().filter(|key| wanted.iter().any(|end| key.ends_with(end))).collect::<Vec<_>>()
    };
    assert_eq!(
        keys(
            "table3",
            &[
                ".rouge1",
                ".rouge2",
                ".rougel",
                ".rougelsum",
                ".bleu1",
                ".bleu4",
                ".meteor",
                ".cider",
                ".embedding_average",
                ".parameters"
            ]
        ),
        [
            "summarization.rouge1",
            "summarization.rouge2",
            "summarization.rougel",
            "summarization.rougelsum",
            "summarization.parameters",
            "dialogue.bleu1",
            "dialogue.bleu4",
            "dialogue.rougel",
            "dialogue.meteor",
            "dialogue.cider",
            "dialogue.embedding_average",
            "dialogue.parameters"
        ]
    );
    assert_eq!(
        keys("table2", &["perplexity", "perplexity.delta"]),
        ["lm1b.word_perplexity", "lm1b.word_perplexity.delta", "lm1b.perplexity", "lm1b.perplexity.delta"]
    );
    assert_eq!(
        keys("table5", &["score", "accuracy", "f1", "match"]),
        [
            "superglue.score",
            "boolq.accuracy",
            "cb.f1_macro/cb.accuracy",
            "copa.accuracy",
            "multirc.f1a/multirc.exact_match",
            "record.f1/record.exact_match",
            "rte.accuracy",
            "wic.accuracy",
            "wsc.accuracy"
        ]
    );
}

#[test]
fn table_6_has_its_four_columns_of_one_file() {
    let six = table("table6");
    let keys: Vec<&str> = six.columns.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "row",
            "mix",
            "log_perplexity.published",
            "log_perplexity.published.delta",
            "news.log_perplexity",
            "news.log_perplexity.delta",
            "steps_per_second.published",
            "steps_per_second.published.delta",
            "news.steps_per_second",
            "news.steps_per_second.delta",
            "params.published",
            "news.trainable_parameters",
            "tflops.published",
            "tflops.published.delta",
            "news.forward_tflops",
        ]
    );
    assert_eq!(shown(&six, "DC", "steps_per_second.published"), "2.65");
    assert_eq!(shown(&six, "R", "log_perplexity.published.delta"), "+0.107");
    assert_eq!(shown(&six, "R+V", "params.published"), "292M");
    // published alone: nothing was run
    assert_eq!(
        (shown(&six, "LC", "tflops.published").as_str(), shown(&six, "LC", "news.log_perplexity").as_str()),
        ("3.50", "")
    );
    let note = six.notes.iter().find(|note| note.contains("TFLOPs")).expect("a note");
    assert!(note.contains("what the paper counts is not stated") && note.contains("a multiply-add being 2"), "{note}");
    assert!(six.caption.contains("C4, T5-base"), "{}", six.caption);
}

#[test]
fn a_suite_score_needs_every_task() {
    let (four, five) = (table("table4"), table("table5"));
    assert_eq!((shown(&four, "R", "glue.score").as_str(), shown(&four, "D+V", "glue.score").as_str()), ("", ""));
    assert!(
        shown(&four, "V", "glue.score").ends_with("(2)") && shown(&five, "R+V", "superglue.score").ends_with("(3)")
    );
    let has = |table: &Table, note: &str| assert!(table.notes.iter().any(|n| n == note), "{:?}", table.notes);
    has(&four, "GLUE score, R: blank, since not measured: QQP, MNLI, QNLI.");
    has(&four, "GLUE score, D+V: blank, since no seed has all 8 tasks.");
    has(&five, "SuperGLUE score, R: blank, since not measured: ReCoRD.");
    // D was not run at all: nothing to say.
    assert!(!four.notes.iter().any(|n| n.contains("score, D:")));
    assert!(four.caption.contains("GLUE score: the mean over the 8 tasks, a task with two metrics averaged first"));
}

#[test]
fn the_rule_of_the_score_gives_the_papers_own_scores() {
    for (name, suite) in [("table4", "glue"), ("table5", "superglue")] {
        let published = Published::read(&published(), name).unwrap();
        for row in published.rows() {
            let tasks = published.columns().into_iter().filter(|c| c != suite);
            let means: Vec<f64> = tasks.map(|c| published.cell(&row, &c).unwrap().mean().unwrap()).collect();
            assert_eq!(means.len(), 8);
            let score = published.cell(&row, suite).unwrap().value().unwrap();
            assert!((means.iter().sum::<f64>() / 8.0 - score).abs() < 0.1, "{name}, {}: {means:?}", row.name);
        }
    }
}

#[test]
fn notes_say_how_seeds_differ_and_what_the_paper_leaves_open() {
    let (two, three) = (table("table2"), table("table3"));
    let has = |table: &Table, note: &str| assert!(table.notes.iter().any(|n| n.contains(note)), "{:?}", table.notes);
    has(&two, "Seeds differ (News sentences): 3 for V; 2 for R, R+V.");
    has(&two, "per word or per subword is not stated");
    has(&three, "Seeds differ (News to titles): 3 for V, R, D, R+V; 2 for D+V.");
    has(&three, "Seeds differ (Chatter): 2 for V, R, D; 1 for FR.");
    has(&three, "(ROUGE-Lsum) is not known here");
    has(&three, "ROUGE signature (News to titles): rouge-score, stemmed, F1");
    // Both corpora have three seeds throughout.
    assert!(!table("table7").notes.iter().any(|n| n.contains("Seeds differ")));
}

#[test]
fn machines_find_a_number_a_column() {
    let work = Work::of(&["table4"]);
    let json: Value = serde_json::from_str(&work.text(&["--json", "results/mini/table4"])).unwrap();
    let rows: HashMap<_, _> = sheet(&work.read("results/mini/table4/table4.csv")).into_iter().collect();
    let fixture = std::fs::read_to_string(fixtures().join("results/mini/table4/mrpc.csv")).unwrap();
    let of_v: Vec<_> = sheet(&fixture).into_iter().map(|r| r.1).filter(|r| r["mix"] == "V").collect();
    let row = json["tables"][0]["rows"].as_array().unwrap().iter().find(|r| r["mix"] == "V").unwrap();
    for metric in ["f1", "accuracy"] {
        let values: Vec<f64> = of_v.iter().map(|r| r[&format!("test.{metric}")].parse().unwrap()).collect();
        let mean = (values[0] + values[1]) / 2.0;
        let cell: f64 = rows["T5 (Base)"][&format!("mrpc.{metric}.mean")].parse().unwrap();
        assert!((cell - mean).abs() < 1e-6);
        assert_eq!(rows["T5 (Base)"][&format!("mrpc.{metric}.n")], "2");
        assert!((row[format!("mrpc.{metric}")]["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
        assert_eq!(rows["T5 (Base)"][&format!("mrpc.{metric}.delta")], "0");
    }
    assert_eq!(rows["D"]["mrpc.f1.mean"], "");
    assert_eq!(
        (rows["D"]["mrpc.published"].as_str(), row["mrpc.published"].as_str()),
        ("86.4/79.4", Some("92.0/88.7"))
    );
}

#[test]
fn foreign_files_under_the_results_are_left_alone() {
    let work = Work::of(&["table7"]);
    let foreign = [
        ("results/bench/mine.csv", "function,length,seconds\nV,64,0.1\n"),
        ("results/bench/h200/train.csv", "a,b\n1,2\n"),
        ("results/notes/old.csv", "a,b\n1,2\n"),
    ];
    for (path, text) in foreign {
        std::fs::create_dir_all(work.path(path).parent().unwrap()).unwrap();
        std::fs::write(work.path(path), text).unwrap();
    }
    let shown = work.text(&[]);
    assert!(
        shown.contains("Table 7, profile mini.") && !shown.contains("bench") && !shown.contains("notes"),
        "{shown}"
    );
    for (path, text) in foreign {
        assert_eq!(work.read(path), text);
    }
    let count = |path: &str| std::fs::read_dir(work.path(path)).unwrap().count();
    assert_eq!((count("results/bench"), count("results/notes"), count("plots")), (2, 1, 1));
}
