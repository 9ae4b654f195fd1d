//! SuperGLUE's official files, on small made-up ones with their quirks.

use std::path::{Path, PathBuf};
use synthesizer::data::labelled::superglue::{self, read_file, read_texts, set};
use synthesizer::data::labelled::{Label, LabelledFile, LabelledRows};
use synthesizer::data::rows::percentile;
use synthesizer::data::Examples;
use synthesizer::experiment::check::SUPERGLUE;
use synthesizer::metric::classification::MetricKind::*;

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data/labelled/superglue").join(file)
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// Texts with a bar between them, class, group.
fn contents(rows: &LabelledRows) -> Vec<(String, u32, u32)> {
    let class = |label| match label {
        Label::Class(class) => class,
        Label::Score(score) => panic!("a score: {score}"),
    };
    rows.rows.iter().map(|row| (row.texts.join("|"), class(row.label), row.group)).collect()
}

fn read(name: &str) -> LabelledFile {
    read_file(set(name).unwrap(), &fixture(&format!("{name}/val.jsonl"))).unwrap()
}

fn assert_rows(name: &str, expected: &[(&str, u32, u32)]) {
    let expected: Vec<_> = expected.iter().map(|(text, class, group)| (text.to_string(), *class, *group)).collect();
    assert_eq!(contents(&read(name).rows), expected, "{name}");
}

/// What `read_file` says of a file that holds `text`.
fn refusal(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("val.jsonl");
    std::fs::write(&path, text).unwrap();
    message(read_file(set(name).unwrap(), &path)).replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn keys_come_in_any_order_and_labels_are_booleans_or_words() {
    let expected = [("is café a word|Café -- a word\u{85}of French.", 1, 0), ("is tin a gas|Tin is a metal.", 0, 1)];
    assert_rows("BoolQ", &expected);
    let expected = [
        ("A: Is it so? B: I doubt it.|it is so", 1, 0),
        ("She knew it rained.|it rained", 0, 1),
        ("Did it?|it did", 2, 2),
    ];
    assert_rows("CB", &expected);
    assert_rows("RTE", &[("Ann, a doctor, works.|Ann works.", 0, 0), ("Bob sleeps.|Bob works.", 1, 1)]);
}

#[test]
fn choices_of_a_question_are_a_group() {
    let expected = [
        ("The lamp went out. What was the cause?|The bulb broke.", 1, 0),
        ("The lamp went out. What was the cause?|The sun rose.", 0, 0),
        ("The dog barked. What happened as a result?|It slept.", 0, 1),
        ("The dog barked. What happened as a result?|The thief ran.", 1, 1),
    ];
    assert_rows("COPA", &expected);
}

#[test]
fn answers_of_a_question_are_a_group_and_share_the_passage() {
    let expected = [
        ("Ann has two dogs. Bob has none.|Who has dogs? Ann", 1, 0),
        ("Ann has two dogs. Bob has none.|Who has dogs? Bob", 0, 0),
        ("Ann has two dogs. Bob has none.|How many? Two", 1, 1),
        ("It rained.|What fell? Rain", 1, 2),
        ("It rained.|What fell? Snow", 0, 2),
    ];
    assert_rows("MultiRC", &expected);
    let rows = read("MultiRC").rows.rows;
    assert!(std::sync::Arc::ptr_eq(&rows[0].texts[0], &rows[2].texts[0]));
}

#[test]
fn words_and_spans_are_marked() {
    let expected = [("The café on the * bank *.|* Banks * lend money.", 0, 0), ("We * go *.|They * went *.", 1, 1)];
    assert_rows("WiC", &expected);
    let expected = [
        ("# Sam # told Lee that * he * won .", 1, 0),
        ("I put # the heavy bag # on the shelf and * it * broke.", 0, 1),
    ];
    assert_rows("WSC", &expected);
    let notes = read("WSC").notes;
    assert!(notes[0].starts_with("1 spans of") && notes[0].ends_with("not where their index says"), "{notes:?}");
}

#[test]
fn marks_attached_to_a_word_do_not_move_its_span() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("val.jsonl");
    let line = |text: &str, first: (usize, &str), second: (usize, &str)| {
        serde_json::json!({"text": text, "label": true, "target": {
            "span1_index": first.0, "span1_text": first.1, "span2_index": second.0, "span2_text": second.1}})
        .to_string()
    };
    let lines = [
        line("Ann said (it was late) that it works, the lamp.", (8, "the lamp"), (2, "it")),
        line("\"He left,\" said Tim, and then he sat.", (3, "Tim"), (0, "He")),
        line("\u{2018}Emma\u{2019}s lamp\u{2019} fell\u{2014}it broke.", (0, "Emma's lamp"), (2, "it")),
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let file = read_file(set("WSC").unwrap(), &path).unwrap();
    let texts: Vec<&str> = file.rows.rows.iter().map(|row| &*row.texts[0]).collect();
    let expected = [
        "Ann said (* it * was late) that it works, # the lamp #.",
        "\"* He * left,\" said # Tim #, and then he sat.",
        "\u{2018}# Emma\u{2019}s lamp #\u{2019} fell\u{2014}* it * broke.",
    ];
    assert_eq!(texts, expected);
    assert!(file.notes.is_empty(), "{:?}", file.notes);
}

#[test]
fn offsets_that_count_bytes_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("val.jsonl");
    let wic = r#"{"sentence1": "Der schöne Tag.", "sentence2": "A day", "start1": 5, "end1": 12, "start2": 2, "end2": 5, "label": true}"#;
    std::fs::write(&path, wic).unwrap();
    let notes = read_file(set("WiC").unwrap(), &path).unwrap().notes;
    assert!(
        notes[0].starts_with("1 of 2 marked words in ") && notes[0].ends_with("count characters from 0"),
        "{notes:?}"
    );
    let record = r#"{"passage": {"text": "Zoë Lund sang.", "entities": [{"start": 0, "end": 2}, {"start": 5, "end": 8}]}, "qas": [{"query": "@placeholder hums.", "answers": [{"text": "Zoë"}]}]}"#;
    std::fs::write(&path, record).unwrap();
    let notes = read_file(set("ReCoRD").unwrap(), &path).unwrap().notes;
    assert!(notes[0].starts_with("1 of 2 entities in "), "{notes:?}");
}

#[test]
fn entities_by_character_offsets_fill_the_queries() {
    let passage = "Zoë Lund met Ann in Århus 🚢. Zoë Lund left. Ann stayed.";
    let row = |query: &str, class, group| (format!("{query}|{passage}"), class, group);
    let file = read("ReCoRD");
    let expected = [
        row("In spring Zoë Lund went home.", 1, 0),
        row("In spring Ann went home.", 0, 0),
        row("In spring Århus went home.", 0, 0),
        row("The port of Zoë Lund is old.", 0, 1),
        row("The port of Ann is old.", 0, 1),
        row("The port of Århus is old.", 1, 1),
        ("Bob and Bob hummed.|Bob sang.".to_string(), 0, 2),
    ];
    assert_eq!(contents(&file.rows), expected);
    let answers = file.rows.answers.unwrap();
    let candidates: Vec<&str> = answers.candidates.iter().map(|text| &**text).collect();
    assert_eq!(candidates, ["Zoë Lund", "Ann", "Århus", "Zoë Lund", "Ann", "Århus", "Bob"]);
    let gold: Vec<Vec<&str>> = answers.gold.iter().map(|gold| gold.iter().map(|text| &**text).collect()).collect();
    assert_eq!(gold, [vec!["Zoë Lund"], vec!["Århus"], vec!["Eve"]]);
    assert!(file.notes[0].starts_with("1 queries of"), "{:?}", file.notes);
}

#[test]
fn test_files_give_texts_without_labels() {
    let texts = |name: &str| -> Vec<(String, u32)> {
        let rows = read_texts(set(name).unwrap(), &fixture(&format!("{name}/test.jsonl"))).unwrap();
        rows.iter().map(|row| (row.texts.join("|"), row.group)).collect()
    };
    let copa = ["The tap drips. What was the cause?|It is worn.", "The tap drips. What was the cause?|It is new."];
    assert_eq!(texts("COPA"), copa.map(|text| (text.to_string(), 0)));
    // The span has a full stop and a capital of its own; the file has no line end.
    assert_eq!(texts("WSC"), [("# The tape # is old and * it * tore.".to_string(), 0)]);
    let said = message(read_file(set("COPA").unwrap(), &fixture("COPA/test.jsonl")));
    assert!(said.contains("test.jsonl, line 1: key \"label\" is missing (a test file without labels"), "{said}");
    let record = r#"{"passage": {"text": "Bob sang.", "entities": [{"start": 0, "end": 2}]}, "qas": [{"query": "@placeholder hums."}]}"#;
    assert!(refusal("ReCoRD", record).starts_with("val.jsonl, line 1: key \"answers\" is missing (a test file"));
}

#[test]
fn wrong_and_truncated_lines_are_refused_with_line_and_column() {
    let good = r#"{"question": "q", "passage": "p", "label": true}"#;
    let boolq = |rest: &str| refusal("BoolQ", &format!("{good}\n{rest}"));
    assert_eq!(
        boolq(r#"{"question": "q", "passage": "p"#),
        "val.jsonl, line 2: the JSON object breaks off at column 31; is the file cut short?"
    );
    assert_eq!(
        boolq(r#"{"question": "q", "passage": "p", "label": 1}"#),
        "val.jsonl, line 2: invalid type: integer `1`, expected a boolean, column 44"
    );
    assert_eq!(boolq(r#"{"question": "q", "label": true}"#), "val.jsonl, line 2: missing field `passage`, column 32");
    assert!(boolq("question\tpassage").starts_with("val.jsonl, line 2: expected value, column 1"));
    assert!(boolq(&format!("\n{good}")).starts_with("val.jsonl, line 2: the JSON object breaks off"));
    assert_eq!(
        refusal("RTE", r#"{"premise": "p", "hypothesis": "h", "label": "neutral"}"#),
        "val.jsonl, line 1: key \"label\": \"neutral\" is none of: entailment, not_entailment"
    );
    let copa = |question: &str, label: u32| {
        let line = format!(
            r#"{{"premise": "p", "choice1": "a", "choice2": "b", "question": "{question}", "label": {label}}}"#
        );
        refusal("COPA", &line)
    };
    assert_eq!(copa("cause", 2), "val.jsonl, line 1: key \"label\": 2 is neither 0 nor 1");
    assert_eq!(copa("why", 0), "val.jsonl, line 1: key \"question\": \"why\" is neither \"cause\" nor \"effect\"");
    let wic = r#"{"sentence1": "A bank.", "sentence2": "Bank", "start1": 2, "end1": 6, "start2": 0, "end2": 5, "label": true}"#;
    assert_eq!(
        refusal("WiC", wic),
        "val.jsonl, line 1: keys \"start2\", \"end2\": there is no word from 0 to 5 in a sentence of 4 characters"
    );
    let wsc = r#"{"text": "A b", "target": {"span1_index": 0, "span1_text": "A", "span2_index": 2, "span2_text": "b"}, "label": true}"#;
    assert_eq!(
        refusal("WSC", wsc),
        "val.jsonl, line 1: key \"span2_index\": word 2 (from 0) is asked for, but the text has 2 words"
    );
    let record = |end: u32, query: &str| {
        let line = format!(
            r#"{{"passage": {{"text": "Bob sang.", "entities": [{{"start": 6, "end": {end}}}]}}, "qas": [{{"query": "{query}", "answers": []}}]}}"#
        );
        refusal("ReCoRD", &line)
    };
    assert_eq!(
        record(9, "@placeholder"),
        "val.jsonl, line 1: key \"entities\", number 0: no characters 6 to 9 in a passage of 9"
    );
    assert_eq!(record(8, "who?"), "val.jsonl, line 1: key \"query\": \"who?\" has no @placeholder");
}

/// A folder with one set: `train` as its training file, and the fixture's dev file.
fn folder_with(name: &str, train: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join(name);
    std::fs::create_dir(&set).unwrap();
    std::fs::copy(fixture(&format!("{name}/val.jsonl")), set.join("val.jsonl")).unwrap();
    std::fs::write(set.join("train.jsonl"), train).unwrap();
    folder
}

#[test]
fn whole_passages_are_held_out_with_their_groups_and_answers() {
    let passage = |n: usize| format!("Ann{n} met Bob. They sang.");
    let lines: String = (0..120)
        .map(|n| {
            let end = format!("Ann{n}").len() - 1;
            format!(
                "{{\"passage\": {{\"text\": \"{}\", \"entities\": [{{\"start\": 0, \"end\": {end}}}, {{\"start\": {}, \"end\": {}}}]}}, \
                 \"qas\": [{{\"query\": \"Who is @placeholder?\", \"answers\": [{{\"text\": \"Bob\"}}]}}, \
                 {{\"query\": \"@placeholder left.\", \"answers\": [{{\"text\": \"Ann{n}\"}}]}}]}}\n",
                passage(n), end + 6, end + 8
            )
        })
        .collect();
    let folder = folder_with("ReCoRD", &lines);
    let corpus = superglue::read(folder.path(), "ReCoRD").unwrap();
    let held_out: Vec<usize> = (0..120).filter(|n| percentile(&passage(*n)) < 5).collect();
    assert!(held_out.len() > 1);
    assert_eq!((corpus.dev.len(), corpus.train.len()), (4 * held_out.len(), 4 * (120 - held_out.len())));
    for rows in [&corpus.train, &corpus.dev] {
        let answers = rows.answers.as_ref().unwrap();
        assert_eq!(answers.gold.len(), rows.groups());
        for (at, row) in rows.rows.iter().enumerate() {
            assert_eq!(row.group as usize, at / 2);
            // The row is right just where its candidate is a gold answer of its group.
            let right = answers.gold[row.group as usize].contains(&answers.candidates[at]);
            assert_eq!(row.label, Label::Class(right.into()));
            assert!(row.texts[0].contains(&*answers.candidates[at]));
            assert_eq!(rows.name, "");
        }
    }
    let dev: Vec<&str> = corpus.dev.rows.iter().step_by(4).map(|row| &*row.texts[1]).collect();
    assert_eq!(dev, held_out.iter().map(|n| passage(*n)).collect::<Vec<_>>());
    assert_eq!(corpus.tests[0].len(), 7);
    let noted = |text: &str| corpus.notes.iter().any(|note| note.contains(text));
    assert!(noted("train.jsonl has 240 queries; the full set has 100730"), "{:#?}", corpus.notes);
    assert!(noted("val.jsonl has 3 queries; the full set has 10000"), "{:#?}", corpus.notes);
}

#[test]
fn groups_stay_whole() {
    let lines: String = (0..120)
        .map(|n| format!("{{\"premise\": \"It was {n}.\", \"choice1\": \"a\", \"choice2\": \"b\", \"question\": \"cause\", \"label\": {}}}\n", n % 2))
        .collect();
    let folder = folder_with("COPA", &lines);
    let corpus = superglue::read(folder.path(), "COPA").unwrap();
    assert!(corpus.dev.groups() > 1);
    for rows in [&corpus.train, &corpus.dev, &corpus.tests[0]] {
        for pair in rows.rows.chunks(2) {
            assert_eq!(pair[0].group, pair[1].group);
            assert_eq!(pair[0].texts[0], pair[1].texts[0]);
            assert_ne!(pair[0].label, pair[1].label);
        }
        assert_eq!(rows.groups() * 2, rows.len());
    }
    assert_eq!(corpus.metrics, [GroupAccuracy]);
}

#[test]
fn sets_have_their_official_names() {
    assert_eq!(superglue::SETS.map(|set| set.name), SUPERGLUE);
    assert!(message(set("MultiRc")).starts_with("SuperGLUE has no set \"MultiRc\"; its sets: BoolQ, CB, COPA"));
}
