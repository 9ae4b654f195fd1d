//! Metrics of labelled rows against scikit-learn 1.9.1, SciPy 1.17.1 and the SQuAD metric of transformers 4.57.6
//! (`scripts/make_classification_fixtures.py`), against cases written out, and against the paper's suite scores.

use serde::de::DeserializeOwned;
use serde::Deserialize;
use synthesizer::metric::answers;
use synthesizer::metric::classification::{
    accuracy, f1, group_accuracy, group_exact, likeliest, macro_f1, matthews, suite_score,
};
use synthesizer::metric::correlation::{pearson, spearman};

#[derive(Deserialize)]
struct Classes {
    name: String,
    predicted: Vec<u32>,
    wanted: Vec<u32>,
    accuracy: f64,
    f1: f64,
    macro_f1: f64,
    matthews: f64,
}

#[derive(Deserialize)]
struct Scores {
    name: String,
    predicted: Vec<f64>,
    wanted: Vec<f64>,
    pearson: Option<f64>,
    spearman: Option<f64>,
}

#[derive(Deserialize)]
struct Answers {
    predicted: String,
    gold: String,
    exact: bool,
    f1: f64,
    words: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    name: String,
    groups: Vec<u32>,
    candidates: Vec<String>,
    gold: Vec<Vec<String>>,
    odds: Vec<f64>,
    predicted: Vec<u32>,
    wanted: Vec<u32>,
    group_accuracy: f64,
    f1a: f64,
    exact: f64,
    record_f1: f64,
    record_exact: f64,
}

fn fixtures<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = format!("{}/tests/fixtures/classification/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn close(got: f64, expected: f64, what: &str) {
    assert!((got - expected).abs() < 1e-12, "{what}: {got} is not {expected}");
}

#[test]
fn classes_are_judged_as_scikit_learn_does() {
    let cases: Vec<Classes> = fixtures("classes.json");
    assert!(cases.len() >= 15);
    for case in cases {
        let Classes { name, predicted, wanted, .. } = &case;
        // scikit-learn warns, and gives 0, where a quotient is of 0 and 0
        let has = |classes: &[u32], class: u32| classes.contains(&class);
        let varies = |classes: &[u32]| classes.iter().any(|class| *class != classes[0]);
        let both = |judged: Option<f64>, defined: bool, expected: f64, what: &str| {
            assert_eq!(judged.is_some(), defined, "{name}: {what}");
            close(judged.unwrap_or(0.0), expected, &format!("{name}: {what}"));
        };
        both(accuracy(predicted, wanted), true, case.accuracy, "accuracy");
        both(f1(predicted, wanted, 1), has(predicted, 1) || has(wanted, 1), case.f1, "F1");
        both(macro_f1(predicted, wanted), true, case.macro_f1, "macro F1");
        both(matthews(predicted, wanted), varies(predicted) && varies(wanted), case.matthews, "Matthews");
    }
}

#[test]
fn scores_are_judged_as_scipy_does_and_undefined_without_variation() {
    let cases: Vec<Scores> = fixtures("scores.json");
    assert!(cases.len() >= 10 && cases.iter().filter(|case| case.pearson.is_none()).count() == 2);
    for case in cases {
        let (got, name) = (pearson(&case.predicted, &case.wanted), &case.name);
        let ranks = spearman(&case.predicted, &case.wanted);
        for (got, expected, what) in [(got, case.pearson, "Pearson"), (ranks, case.spearman, "Spearman")] {
            assert_eq!(got.is_some(), expected.is_some(), "{name}: {what}");
            close(got.unwrap_or(0.0), expected.unwrap_or(0.0), &format!("{name}: {what}"));
        }
    }
}

#[test]
fn quotients_of_0_and_0_are_undefined_but_no_hit_is_0() {
    for (predicted, wanted) in [(vec![], vec![]), (vec![0, 0], vec![0, 0])] {
        assert_eq!(
            (f1(&predicted, &wanted, 1), matthews(&predicted, &wanted)),
            (None, None),
            "{predicted:?} {wanted:?}"
        );
    }
    // positives that are missed, and positives that are none
    assert_eq!((f1(&[0, 0], &[1, 1], 1), f1(&[1, 1], &[0, 0], 1)), (Some(0.0), Some(0.0)));
    assert_eq!(
        (matthews(&[0, 0], &[1, 1]), matthews(&[0, 0], &[0, 1]), matthews(&[0, 1], &[1, 1])),
        (None, None, None)
    );
    assert_eq!((accuracy(&[], &[]), macro_f1(&[], &[])), (None, None));
    assert_eq!((group_accuracy(&[], &[], &[]), group_exact(&[], &[], &[])), (None, None));
    let (candidates, gold): ([&str; 0], [Vec<&str>; 0]) = ([], []);
    assert_eq!(answers::record(&[], &[], &candidates, &gold), (None, None));
}

#[test]
fn answers_are_compared_as_squad_does() {
    let cases: Vec<Answers> = fixtures("answers.json");
    assert!(cases.len() > 200 && cases.iter().filter(|case| case.f1 > 0.0 && case.f1 < 1.0).count() > 40);
    for Answers { predicted, gold, exact, f1, words } in cases {
        assert_eq!(answers::words(&predicted), words, "{predicted:?}");
        assert_eq!(answers::exact(&predicted, &gold), exact, "{predicted:?} {gold:?}");
        close(answers::f1(&predicted, &gold), f1, &format!("{predicted:?} {gold:?}"));
    }
}

#[test]
fn groups_are_judged_as_superglue_does() {
    let cases: Vec<Groups> = fixtures("groups.json");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let Groups { name, groups, odds, predicted, wanted, .. } = &case;
        close(group_accuracy(odds, wanted, groups).unwrap(), case.group_accuracy, &format!("{name}: accuracy"));
        close(f1(predicted, wanted, 1).unwrap(), case.f1a, &format!("{name}: F1a"));
        close(group_exact(predicted, wanted, groups).unwrap(), case.exact, &format!("{name}: exact match"));
        let (f1, exact) = answers::record(odds, groups, &case.candidates, &case.gold);
        close(f1.unwrap(), case.record_f1, &format!("{name}: ReCoRD F1"));
        close(exact.unwrap(), case.record_exact, &format!("{name}: ReCoRD exact match"));
    }
}

/// Two MultiRC questions: of the first all three answers are told right, of the second one of two.
#[test]
fn multirc_by_hand() {
    let (groups, wanted, predicted) = ([0, 0, 0, 1, 1], [1, 0, 1, 1, 0], [1, 0, 1, 1, 1]);
    // 3 hits, 4 predicted, 3 wanted
    close(f1(&predicted, &wanted, 1).unwrap(), 6.0 / 7.0, "F1a");
    close(group_exact(&predicted, &wanted, &groups).unwrap(), 0.5, "exact match");
}

#[test]
fn rows_of_a_group_need_not_be_neighbours_and_the_first_of_equal_ones_counts() {
    let (numbers, groups) = ([0.5, -1.0, 0.5, -0.5, 0.2], [7, 2, 7, 2, 2]);
    assert_eq!(likeliest(&numbers, &groups), [(2, 4), (7, 0)]);
    close(group_accuracy(&numbers, &[1, 0, 0, 1, 0], &groups).unwrap(), 0.5, "one of two");
}

/// The suite scores that the paper prints, from its own task columns: ten rows of tables 4 and 5.
#[test]
fn suite_scores_are_the_papers() {
    let mut checked = 0;
    for (table, suite) in [("table4", "glue"), ("table5", "superglue")] {
        let path = format!("{}/experiments/published/{table}.csv", env!("CARGO_MANIFEST_DIR"));
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let mut rows: Vec<&str> = records.iter().map(|record| &record[0]).collect();
        rows.dedup();
        for row in rows {
            let cells = records.iter().filter(|record| &record[0] == row);
            let (printed, tasks): (Vec<_>, Vec<_>) = cells.partition(|record| &record[3] == suite);
            let numbers = |cell: &str| cell.split('/').map(|part| part.parse().unwrap()).collect::<Vec<f64>>();
            let tasks: Vec<Vec<f64>> = tasks.iter().map(|record| numbers(&record[4])).collect();
            assert_eq!((printed.len(), tasks.len()), (1, 8), "{table} {row}");
            let (score, printed) = (suite_score(&tasks).unwrap(), numbers(&printed[0][4])[0]);
            // both are rounded to a digit, the score from figures that are
            assert!((score - printed).abs() <= 0.1, "{table} {row}: {score} is not {printed}");
            checked += 1;
        }
    }
    assert_eq!(checked, 10);
    assert_eq!((suite_score(&[]), suite_score(&[vec![1.0], vec![]])), (None, None));
}
