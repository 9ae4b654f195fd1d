//! `synthesizer data inspect` on a corpus whose every number can be counted by hand.

use serde_json::{json, Value};
use std::process::{Command, Output, Stdio};
use synthesizer::data::rows::percentile;

/// With bytes as tokens a text has one token more than bytes: the blank before it.
const VOCABULARY: usize = 260;

struct Place(tempfile::TempDir);

impl Place {
    fn new(task: &str, data: &str, files: &[(&str, &str)]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for (name, text) in files {
            std::fs::write(place.0.path().join(name), text).unwrap();
        }
        let toml = format!(
            "title = \"Made up\"\ntask = \"{task}\"\nmix = [\"V\", \"R\"]\n[data]\nvocabulary = {VOCABULARY}\n{data}\n"
        );
        std::fs::write(place.0.path().join("made-up.toml"), toml).unwrap();
        place
    }

    fn inspect(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_synthesizer"))
            .args(["data", "inspect", "made-up.toml"])
            .args(more)
            .current_dir(self.0.path())
            .env("SYNTHESIZER_CACHE", self.0.path().join("cache"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    #[track_caller]
    fn json(&self) -> Value {
        let output = self.inspect(&["--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn parallel() -> Place {
    let data = r#"corpus = "text"
source = "en"
target = "de"
train = ["train.en", "train.de"]
dev = ["dev.en", "dev.de"]
test = ["test.en", "test.de"]
max_tokens = 10"#;
    let files = [
        ("train.en", "ab\n\na much too long row\ng h\nZoë\n"),
        ("train.de", "c\nd\ne\ni j\nx\n"),
        ("dev.en", "ab\ng h\n"),
        ("dev.de", "c\nother\n"),
        ("test.en", "a much too long row\nnew\n\n"),
        ("test.de", "e\ni j\nd\n"),
    ];
    Place::new("translation", data, &files)
}

#[test]
fn a_parallel_corpus_is_counted() {
    let found = parallel().json();
    let [inspection] = &found.as_array().unwrap()[..] else { panic!("one [data] section: {found}") };
    assert_eq!((&inspection["corpus"], &inspection["vocabulary"]), (&json!("text en-de (train.en …)"), &json!(260)));
    let splits = inspection["splits"].as_array().unwrap();
    let column = |name: &str, numbers: [u64; 5]| {
        let [tokens, words, median, percentile_95, longest] = numbers;
        json!({ "name": name, "tokens": tokens, "words": words, "median": median, "percentile_95": percentile_95,
                "longest": longest })
    };
    let counts =
        |split: &Value| ["rows", "kept", "skipped", "cut", "empty"].map(|name| split["counts"][name].as_u64().unwrap());
    assert_eq!(splits.iter().map(counts).collect::<Vec<_>>(), [[5, 3, 1, 0, 1], [2, 2, 0, 0, 0], [3, 3, 0, 1, 0]]);
    // The sources that are kept have 3, 4 and 5 tokens (ë is two bytes), the targets 2, 4 and 2.
    assert_eq!(splits[0]["columns"], json!([column("source", [12, 4, 4, 5, 5]), column("target", [8, 4, 2, 4, 4])]));
    assert_eq!(splits[1]["columns"], json!([column("source", [7, 3, 3, 4, 4]), column("target", [8, 2, 2, 6, 6])]));
    // Of the long row ten tokens are left, "a much to"; an empty source has none.
    assert_eq!(splits[2]["columns"], json!([column("source", [14, 4, 4, 10, 10]), column("target", [8, 4, 2, 4, 4])]));

    // Rows that training drops, for their length or emptiness, are compared too.
    assert_eq!(splits[0]["overlap"], Value::Null);
    assert_eq!(splits[1]["overlap"], json!({ "rows": 2, "first_texts": 2, "whole_rows": 1 }));
    assert_eq!(splits[2]["overlap"], json!({ "rows": 3, "first_texts": 2, "whole_rows": 2 }));

    let shown = |row: u64, cut: bool, sequences: [&str; 2]| json!({ "row": row, "cut": cut, "label": null, "sequences": sequences });
    assert_eq!(
        splits[0]["shown"],
        json!([
            shown(1, false, ["▁ a b </s>", "<s> ▁ c </s>"]),
            shown(4, false, ["▁ g ▁ h </s>", "<s> ▁ i ▁ j </s>"]),
            shown(5, false, ["▁ Z o <c3> <ab> </s>", "<s> ▁ x </s>"])
        ])
    );
    assert_eq!(
        splits[2]["shown"],
        json!([
            shown(1, true, ["▁ a ▁ m u c h ▁ t o </s>", "<s> ▁ e </s>"]),
            shown(2, false, ["▁ n e w </s>", "<s> ▁ i ▁ j </s>"]),
            shown(3, false, ["</s>", "<s> ▁ d </s>"])
        ])
    );
}

#[test]
fn people_read_the_same_in_words() {
    let output = parallel().inspect(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let train = "\ntrain: 3 of 5 rows; 1 dropped because a text is empty; 1 dropped because a text is too long\n";
    let test = "\ntest: 3 of 3 rows; 1 kept, but cut because a text is too long\n  train has 2 first texts and 2 whole rows of these 3 too\n";
    let table = "          tokens  words  median  95%  longest\n  ------  ------  -----  ------  ---  -------\n  source      12      4       4    5        5\n  target       8      4       2    4        4\n  row 1\n    ▁ a b </s>\n    <s> ▁ c </s>\n";
    for part in [train, test, table, "  row 1, cut\n    ▁ a ▁ m u c h ▁ t o </s>\n"] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn of_a_language_model_lines_or_windows_are_shown() {
    let data = "corpus = \"text\"\ntrain = [\"train.txt\"]\ndev = [\"held.txt\"]\ntest = [\"held.txt\"]";
    let files = [("train.txt", "ab\nc\n\nde\n"), ("held.txt", "c\nx\n")];
    let lines = Place::new("language-modelling", data, &files).json();
    let train = &lines[0]["splits"][0];
    assert_eq!(train["shown"][2], json!({ "row": 4, "cut": false, "label": null, "sequences": ["<s> ▁ d e </s>"] }));
    assert_eq!((&train["columns"][0]["name"], &train["columns"][0]["tokens"]), (&json!("text"), &json!(8)));
    assert_eq!(lines[0]["splits"][2]["overlap"], json!({ "rows": 2, "first_texts": 1, "whole_rows": 1 }));

    // "ab</s>", "c</s>", "</s>", "de</s>": twelve tokens in windows of five.
    let windows = Place::new("language-modelling", &format!("{data}\nwindow = 5"), &files).json();
    let shown: Vec<&Value> = windows[0]["splits"][0]["shown"].as_array().unwrap().iter().collect();
    let expected = ["<s> ▁ a b </s> ▁", "<s> c </s> </s> ▁ d", "<s> e </s>"];
    assert_eq!(shown.iter().map(|shown| shown["sequences"][0].as_str().unwrap()).collect::<Vec<_>>(), expected);

    // Of five tokens one is masked, the last: what is kept comes first. Of a window of two, the second.
    let masked = Place::new("masked-language-modelling", &format!("{data}\nwindow = 5"), &files).json();
    let shown = &masked[0]["splits"][0]["shown"];
    assert_eq!(shown[0]["sequences"], json!(["▁ a b </s> <0> </s>", "<s> <0> ▁ <1> </s>"]));
    assert_eq!(shown[1]["sequences"], json!(["c </s> </s> ▁ <0> </s>", "<s> <0> d <1> </s>"]));
    assert_eq!(shown[2]["sequences"], json!(["e <0> </s>", "<s> <0> </s> <1> </s>"]));
}

#[test]
fn a_missing_file_ends_with_2_and_its_name() {
    let data = "corpus = \"text\"\ntrain = [\"no.txt\"]\ndev = [\"no.txt\"]\ntest = [\"no.txt\"]";
    let output = Place::new("language-modelling", data, &[]).inspect(&[]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("made-up.toml:") && error.contains("no.txt"), "{error}");
}

#[test]
fn labelled_pairs_are_counted_by_class() {
    let heading = "index\tsentence1\tsentence2\tlabel\n";
    // As many training rows as it takes for some to be held out as dev; "long" rows don't fit together, "longest" not alone.
    let train: String = (0..200).map(|n| format!("{n}\tfirst {n}\tsecond\t{}\n", u8::from(n % 4 == 0))).collect();
    let dev = "0\tab\tc\t1\n1\tfirst 7\tsecond\t0\n2\tfirst 8\tanother\t0\n3\tlong long lo\tlong long lo\t1\n4\tlongest of them all\tx\t0\n";
    let place = Place::new(
        "classification",
        "corpus = \"glue\"\nset = \"WNLI\"\nfolder = \"glue\"\nmax_tokens = 16\n[model]\nmax_length = 24",
        &[],
    );
    std::fs::create_dir_all(place.0.path().join("glue/WNLI")).unwrap();
    std::fs::write(place.0.path().join("glue/WNLI/train.tsv"), format!("{heading}{train}")).unwrap();
    std::fs::write(place.0.path().join("glue/WNLI/dev.tsv"), format!("{heading}{dev}")).unwrap();
    let found = place.json();
    let [train, held_out, test] = &found[0]["splits"].as_array().unwrap()[..] else { panic!("three splits: {found}") };
    let count = |split: &Value, what: &str| split["counts"][what].as_u64().unwrap();
    assert_eq!((count(train, "rows") + count(held_out, "rows"), count(test, "rows")), (200, 5));
    let class = |split: &Value, class: usize| split["labels"]["classes"][class][1].as_u64().unwrap();
    assert_eq!([0, 1].map(|number| class(train, number) + class(held_out, number)), [150, 50]);
    assert_eq!([0, 1].map(|number| class(test, number)), [3, 2]);
    // 13 and 13 tokens are more than the 21 that 3 marks leave; 20 tokens alone are more than 16.
    assert_eq!((count(test, "cut"), test["cut_pairs"].as_u64()), (1, Some(1)));
    let lengths = json!({ "name": "first", "tokens": 3 + 8 + 8 + 13 + 16, "words": 1 + 2 + 2 + 3 + 3, "median": 8, "percentile_95": 16, "longest": 16 });
    assert_eq!(test["columns"][0], lengths);
    let in_train = |row: u64| u64::from(percentile(&format!("first {row}\tsecond")) >= 5);
    let overlap = json!({ "rows": 5, "first_texts": in_train(7) + in_train(8), "whole_rows": in_train(7) });
    assert_eq!(test["overlap"], overlap);
    let name = |class: usize| &test["labels"]["classes"][class][0];
    let shown = &test["shown"];
    assert_eq!(shown[0], json!({ "row": 1, "cut": false, "label": name(1), "sequences": ["<s> ▁ a b </s> ▁ c </s>"] }));
    let cut = "<s> ▁ l o n g ▁ l o n g ▁ </s> ▁ l o n g ▁ l o n g </s>";
    assert_eq!(shown[1], json!({ "row": 4, "cut": true, "label": name(1), "sequences": [cut] }));
    assert_eq!((&shown[2]["row"], &shown[2]["cut"]), (&json!(5), &json!(true)));
}
