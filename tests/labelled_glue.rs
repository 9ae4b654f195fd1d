//! GLUE's official files, on small made-up ones with their quirks.

use std::path::{Path, PathBuf};
use synthesizer::data::labelled::glue::{self, read_file, read_texts, set};
use synthesizer::data::labelled::{Label, LabelledFile, LabelledRows, Target};
use synthesizer::data::rows::percentile;
use synthesizer::data::Examples;
use synthesizer::experiment::check::GLUE;
use synthesizer::metric::classification::MetricKind;

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data/labelled/glue").join(file)
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// Texts with a bar between them, and the class.
fn classes(rows: &LabelledRows) -> Vec<(String, u32)> {
    let class = |label| match label {
        Label::Class(class) => class,
        Label::Score(score) => panic!("a score: {score}"),
    };
    rows.rows.iter().map(|row| (row.texts.join("|"), class(row.label))).collect()
}

fn read(name: &str, file: &str) -> LabelledFile {
    read_file(set(name).unwrap(), &fixture(&format!("{name}/{file}"))).unwrap()
}

fn assert_rows(name: &str, file: &str, expected: &[(&str, u32)]) {
    let found = read(name, file);
    let expected: Vec<(String, u32)> = expected.iter().map(|(text, class)| (text.to_string(), *class)).collect();
    assert_eq!(classes(&found.rows), expected, "{name}/{file}");
    assert_eq!(found.rows.groups(), found.rows.len());
}

/// What `read_file` says of a file that holds `text`.
fn refusal(name: &str, text: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dev.tsv");
    std::fs::write(&path, text).unwrap();
    message(read_file(set(name).unwrap(), &path)).replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn cola_has_no_header_and_needs_no_line_end() {
    assert_rows(
        "CoLA",
        "dev.tsv",
        &[("The kettle sang .", 1), ("Kettle the sang \" loudly.", 0), ("Him sees she.", 0)],
    );
}

#[test]
fn blanks_before_tabs_go_and_quotes_and_other_white_space_stay() {
    let expected =
        [("a warm , funny , honest film .", 1), ("\"dull , and twice as long", 0), ("no\u{a0}plot\u{85}at all", 0)];
    assert_rows("SST-2", "train.tsv", &expected);
}

#[test]
fn mrpc_has_byte_order_marks_and_both_line_ends() {
    let expected =
        [("\"We won, the captain said.|The captain said: \"We won.\"", 1), ("Shares fell 3%.|Shares rose.", 0)];
    assert_rows("MRPC", "dev.tsv", &expected);
    assert_rows("MRPC", "msr_paraphrase_test.txt", &[("It doesn't rain.|It isn't dry.", 0)]);
}

#[test]
fn scores_are_numbers_however_they_are_spelled() {
    let rows = read("STS-B", "dev.tsv").rows;
    let scores: Vec<Label> = rows.rows.iter().map(|row| row.label).collect();
    assert_eq!(scores, [5.0, 0.0, 3.6, 0.2].map(Label::Score));
    assert_eq!(rows.text(0, 1).unwrap(), "A man sings \"la.");
}

#[test]
fn qqp_rows_without_all_columns_are_skipped_and_counted() {
    let found = read("QQP", "train.tsv");
    let expected =
        [("What is \"x?|What is y?", 0), ("How are you?|How do you do?", 1), ("Where is it?|Where was it?", 0)];
    assert_eq!(classes(&found.rows), expected.map(|(text, class)| (text.to_string(), class)));
    // A question over two lines is two short rows; another has an empty question.
    assert_eq!(found.notes.len(), 1);
    assert!(found.notes[0].starts_with("3 rows of") && found.notes[0].contains("skipped"), "{:?}", found.notes);
    assert_rows("QQP", "dev.tsv", &[("Is it?|Was it?", 1)]);
}

#[test]
fn mnli_columns_go_by_their_names() {
    assert_rows("MNLI", "train.tsv", &[("He ran.|He moved.", 0)]);
    assert_rows("MNLI", "dev_matched.tsv", &[("It snows.|It is hot.", 2)]);
    assert_rows("MNLI", "dev_mismatched.tsv", &[("Dear all.|Dear Ann.", 1)]);
}

#[test]
fn entailment_sets_spell_their_labels_differently() {
    assert_rows("QNLI", "dev.tsv", &[("Who won?|\" The home side won.", 0), ("When?|Nobody knows.", 1)]);
    assert_rows("RTE", "dev.tsv", &[("Ann, a \"doctor, works.|Ann works.", 0), ("Bob sleeps.|Bob works.", 1)]);
    let tile = "The cup fell on the tile and it broke.";
    let expected = [(format!("{tile}|The cup broke."), 1), (format!("{tile}|The tile broke."), 0)];
    assert_eq!(classes(&read("WNLI", "dev.tsv").rows), expected);
}

#[test]
fn test_files_give_texts_without_labels() {
    let texts = |name: &str, file: &str| -> Vec<String> {
        let rows = read_texts(set(name).unwrap(), &fixture(&format!("{name}/{file}"))).unwrap();
        rows.iter().map(|row| row.texts.join("|")).collect()
    };
    assert_eq!(texts("CoLA", "test.tsv"), ["A cat slept.", "\"Up and away"]);
    assert_eq!(texts("MRPC", "test.tsv"), ["One text.|Another."]);
    assert_eq!(texts("MNLI", "test_matched.tsv"), ["A bus.|A car."]);
    let said = message(read_file(set("MRPC").unwrap(), &fixture("MRPC/test.tsv")));
    assert!(said.contains("test.tsv, line 1: MRPC needs a column \"Quality\" (a test file without labels"), "{said}");
    let said = message(read_file(set("CoLA").unwrap(), &fixture("CoLA/test.tsv")));
    assert!(said.contains("test.tsv, line 1: 2 columns, where CoLA has 4 (a test file without labels"), "{said}");
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    let sst = |rest: &str| refusal("SST-2", format!("sentence\tlabel\nfine\t1\n{rest}").as_bytes());
    assert_eq!(sst("cut short\n"), "dev.tsv, line 3: 1 columns, where SST-2 has 2");
    assert_eq!(sst("a\tb\t1\n"), "dev.tsv, line 3: 3 columns, where SST-2 has 2");
    assert_eq!(sst("\nfine\t0\n"), "dev.tsv, line 3: 1 columns, where SST-2 has 2");
    assert_eq!(sst("fine\t2"), "dev.tsv, line 3: column \"label\": \"2\" is not a label of SST-2; labels: 0, 1");
    assert_eq!(sst("fine\t"), "dev.tsv, line 3: column \"label\": \"\" is not a label of SST-2; labels: 0, 1");
    assert!(refusal("SST-2", b"sentence\tlabel\n\xff\t1\n").starts_with("dev.tsv, line 2: invalid UTF-8"));
    // Only a first line can be the header of a test file.
    let cola = refusal("CoLA", b"gj04\t1\t\tIt slept.\ngj04\t0\tIt.\n");
    assert_eq!(cola, "dev.tsv, line 2: 3 columns, where CoLA has 4");
    assert_eq!(refusal("RTE", b""), "dev.tsv is empty; its first line must name the columns");
    assert_eq!(
        refusal("RTE", b"index\tsentence1\tlabel\n"),
        "dev.tsv, line 1: RTE needs a column \"sentence2\"; the columns are: \"index\", \"sentence1\", \"label\""
    );
    let score = |score: &str| refusal("STS-B", format!("sentence1\tsentence2\tscore\na\tb\t{score}").as_bytes());
    assert_eq!(score("5.1"), "dev.tsv, line 2: column \"score\": \"5.1\" is not a score from 0 to 5");
    assert_eq!(score("NaN"), "dev.tsv, line 2: column \"score\": \"NaN\" is not a score from 0 to 5");
    // QQP skips short rows, not wrong labels.
    let qqp = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\tyes\n";
    assert!(refusal("QQP", qqp.as_bytes()).contains("line 2: column \"is_duplicate\": \"yes\""));
}

#[test]
fn the_dev_set_is_held_out_by_content_and_the_official_dev_file_is_the_test() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("MNLI");
    std::fs::create_dir(&set).unwrap();
    for file in ["dev_matched.tsv", "dev_mismatched.tsv"] {
        std::fs::copy(fixture(&format!("MNLI/{file}")), set.join(file)).unwrap();
    }
    let mut lines: Vec<String> = (0..200).map(|n| format!("Text {n}. \tOther {n}.\tneutral")).collect();
    lines.push("It snows.\tIt is hot.\tcontradiction".into());
    let write = |lines: &[String]| {
        std::fs::write(set.join("train.tsv"), format!("sentence1\tsentence2\tgold_label\n{}\n", lines.join("\n")))
            .unwrap();
    };
    write(&lines);
    let corpus = glue::read(folder.path(), "MNLI").unwrap();
    let held_out = |n: &usize| percentile(&format!("Text {n}.\tOther {n}.")) < 5;
    let expected: Vec<String> = (0..200).filter(held_out).map(|n| format!("Text {n}.|Other {n}.")).collect();
    assert!(expected.len() > 3);
    let dev: Vec<String> = classes(&corpus.dev).into_iter().map(|(text, _)| text).collect();
    assert_eq!(dev, expected);
    assert_eq!(corpus.train.len() + corpus.dev.len(), 201);
    assert_eq!(corpus.train.groups(), corpus.train.len());
    let tests: Vec<(&str, usize)> = corpus.tests.iter().map(|test| (test.name.as_str(), test.len())).collect();
    assert_eq!(tests, [("", 1), ("mismatched", 1)]);
    assert_eq!(corpus.metrics, [MetricKind::Accuracy]);
    assert_eq!(corpus.target, Target::Classes(["entailment", "neutral", "contradiction"].map(String::from).to_vec()));
    let noted = |start: &str| corpus.notes.iter().any(|note| note.contains(start));
    assert!(noted("train.tsv has 201 rows; the full set has 392702"), "{:#?}", corpus.notes);
    assert!(noted("1 of 1 test rows are in train too") && noted("0 of 1 mismatched test rows"), "{:#?}", corpus.notes);

    // The order of the file moves no row to another split; a changed label changes the hash.
    lines.reverse();
    write(&lines);
    let mut other = classes(&glue::read(folder.path(), "MNLI").unwrap().dev);
    other.reverse();
    assert_eq!(other, classes(&corpus.dev));
    lines.reverse();
    lines[7] = lines[7].replace("neutral", "entailment");
    write(&lines);
    assert_ne!(glue::read(folder.path(), "MNLI").unwrap().hash, corpus.hash);
}

#[test]
fn sets_have_their_official_names_and_measures() {
    assert_eq!(glue::SETS.map(|set| set.name), GLUE);
    assert!(message(set("Cola")).starts_with("GLUE has no set \"Cola\"; its sets: CoLA, SST-2, MRPC"));
    let folder = tempfile::tempdir().unwrap();
    let said = message(glue::read(folder.path(), "RTE"));
    assert!(said.contains("GLUE's RTE is read from its official files in data.folder"), "{said}");
    assert!(said.contains("there is no file") && said.ends_with("RTE/train.tsv"), "{said}");
}

#[test]
fn too_few_training_rows_leave_no_dev_set() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("SST-2");
    std::fs::create_dir(&set).unwrap();
    std::fs::write(set.join("train.tsv"), "sentence\tlabel\na\t1\n").unwrap();
    std::fs::write(set.join("dev.tsv"), "sentence\tlabel\nb\t1\n").unwrap();
    let said = message(glue::read(folder.path(), "SST-2"));
    assert!(said.contains("the dev set of GLUE SST-2 is empty") && said.contains("held out of the training"), "{said}");
}
