//! What `validate` and `run` find before anything is trained, and what they then tell of the data and the model.

#[path = "common/workplace.rs"]
mod workplace;

use serde_json::Value;
use std::path::Path;
use workplace::Workplace;

/// Sentences that no two numbers share.
fn lines(numbers: std::ops::Range<u32>, word: &str) -> String {
    numbers.map(|n| format!("{word} {n} {} end\n", n * n)).collect()
}

fn place() -> Workplace {
    let place = Workplace::new(r#"["V"]"#, 1);
    for (name, numbers) in [("train", 0..120), ("dev", 200..212), ("test", 300..312)] {
        write(&place, &format!("{name}.en"), &lines(numbers.clone(), "the lamp"));
        write(&place, &format!("{name}.de"), &lines(numbers, "die Lampe"));
    }
    place
}

fn write(place: &Workplace, name: &str, text: &str) {
    let path = place.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const MODEL: &str = "[model]\nd_model = 16\nheads = 2\nd_ff = 32\nmax_length = 64\n";
const TRAIN: &str = "[train]\nsteps = 1\nbatch_tokens = 256\nschedule = \"linear\"\nlearning_rate = 1e-3\nwarmup = 0\n";

fn translation(train: &str, dev: &str, test: &str) -> String {
    format!(
        "task = \"translation\"\nmix = \"V\"\n[data]\ncorpus = \"text\"\nsource = \"en\"\ntarget = \"de\"\nvocabulary = 300\n\
         max_tokens = 60\ntrain = {train}\ndev = {dev}\ntest = {test}\n{MODEL}encoder_layers = 1\ndecoder_layers = 1\n{TRAIN}"
    )
}

const FILES: [&str; 3] = ["[\"train.en\", \"train.de\"]", "[\"dev.en\", \"dev.de\"]", "[\"test.en\", \"test.de\"]"];

fn json(place: &Workplace) -> Value {
    let output = place.run(&["validate", "--json", "toy.toml"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", workplace::text(&output)))
}

fn cell(place: &Workplace, column: &str) -> String {
    let mut reader = csv::Reader::from_path(place.path("results/custom/toy.csv")).unwrap();
    let row: std::collections::HashMap<String, String> = reader.deserialize().next().unwrap().unwrap();
    row.get(column).unwrap_or_else(|| panic!("no column {column}")).clone()
}

/// One file in train and test, whatever it is called: both commands refuse it, and nothing is written.
#[test]
fn a_test_set_that_is_the_training_set_is_refused() {
    let place = place();
    write(&place, "copy.en", &lines(0..120, "the lamp"));
    std::os::unix::fs::symlink(place.path("train.de"), place.path("link.de")).unwrap();
    let [train, dev, test] = FILES;
    for (text, message) in [
        (translation(train, dev, train), "toy.toml:11:8: `train.en` is both in `train` and in `test`"),
        (
            translation(train, dev, "[\"copy.en\", \"link.de\"]"),
            "toy.toml:11:8: `train.en` and `copy.en` are the same file, both in `train` and in `test`",
        ),
        (
            translation(train, dev, "[[\"test.en\", \"test.de\"], [\"./train.en\", \"train.de\"]]"),
            "are the same file, both in `train` and in `test`",
        ),
        (
            translation("[\"*n.en\", \"*n.de\"]", dev, train),
            "toy.toml:11:8: `train.en` is both in `train` and in `test`",
        ),
        (
            translation(train, dev, "[\"test.en\", \"test.en\"]"),
            "toy.toml:11:8: `test.en` is both sides of an entry of `test`",
        ),
    ] {
        place.write(&text);
        for command in ["validate", "run"] {
            let said = place.said(&[command, "toy.toml"], 2);
            assert!(said.contains(message), "{command}: {message}\n{said}");
        }
        assert!(!place.path("results").exists());
    }
    // dev only chooses
    place.write(&translation(train, test, test));
    let said = place.said(&["validate", "toy.toml"], 0);
    assert!(said.contains("warning: toy.toml:11:8: `test.en` is both in `dev` and in `test`"), "{said}");
}

/// Three of twelve test rows are training rows: a warning at once, then a column, a note in the log and one under the table.
#[test]
fn a_share_of_seen_test_rows_is_marked() {
    let place = place();
    write(&place, "test.en", &(lines(300..309, "the lamp") + &lines(5..8, "the  lamp")));
    write(&place, "test.de", &(lines(300..309, "die Lampe") + &lines(5..8, "die Lampe")));
    let [train, dev, test] = FILES;
    place.write(&translation(train, dev, test));
    let remark = "25.0 % of the test rows are in the training set too (3 of 12)";
    let found = json(&place);
    assert_eq!(found["files"][0]["runs"][0]["data"]["test_seen_in_training"], 0.25);
    assert_eq!(
        (found["warnings"][0]["message"].as_str(), found["warnings"][0]["line"].as_u64()),
        (Some(remark), Some(11))
    );
    assert_eq!(found["problems"], Value::Array(vec![]));
    let said = place.said(&["run", "toy.toml", "--threads", "1"], 0);
    assert!(said.contains(&format!("warning: toy.toml:11:8: {remark}")), "{said}");
    assert!(said.contains(&format!("V-s1: note: {remark}.")), "{said}");
    assert_eq!(cell(&place, "test.seen_in_training"), "0.25");
    assert!(cell(&place, "notes").contains(&format!("{remark}.")));
    let said = place.said(&["report", "toy.toml"], 0);
    assert!(said.contains(&format!("{remark}.")), "{said}");
}

#[test]
fn validate_reads_small_data() {
    let place = place();
    let [train, dev, test] = FILES;
    write(&place, "short.de", &lines(0..119, "die Lampe"));
    write(&place, "empty", "");
    write(&place, "void", "");
    std::fs::write(place.path("latin.de"), b"die L\xe4mpchen\n".repeat(120)).unwrap();
    for (text, message) in [
        (
            translation("[\"train.en\", \"short.de\"]", dev, test),
            "toy.toml:9:9: data.train: train.en has 120 lines, but short.de has 119",
        ),
        (translation(train, "[\"empty\", \"void\"]", test), "toy.toml:10:7: data.dev is empty"),
        (translation("[\"train.en\", \"latin.de\"]", dev, test), "latin.de, line 1: invalid UTF-8"),
    ] {
        place.write(&text);
        for command in ["validate", "run"] {
            let said = place.said(&[command, "toy.toml"], 2);
            assert!(said.contains(message), "{command}: {message}\n{said}");
        }
    }
}

/// Nothing is allocated for a model that cannot fit, by either command; the key to blame is marked.
#[test]
fn a_model_that_cannot_fit_is_refused_with_numbers() {
    let place = place();
    let [train, dev, test] = FILES;
    for (key, line) in [
        ("d_ff = 1048576\nencoder_layers = 1000\ndecoder_layers = 1000\nd_model = 1024", "d_ff"),
        ("max_length = 1048576", "max_length"),
    ] {
        let name = key.split(' ').next().unwrap();
        let mix = if name == "max_length" { "R" } else { "V" };
        let base = translation(train, dev, test).replace("mix = \"V\"", &format!("mix = \"{mix}\""));
        let mut text = String::new();
        for row in base.lines() {
            let known = key.lines().any(|new| row.split(' ').next() == new.split(' ').next());
            text += &if known { String::new() } else { format!("{row}\n") };
            text += &if row == "[model]" { format!("{key}\n") } else { String::new() };
        }
        place.write(&text);
        for command in ["validate", "run"] {
            let said = place.said(&[command, "toy.toml"], 2);
            assert!(said.contains("with gradients and Adam's moments; this machine has"), "{command}: {said}");
            assert!(said.contains(&format!("| {line} = ")) && said.contains('^'), "{command}: {said}");
        }
        assert!(!place.path("results").exists());
    }
}

/// A task with small data of its kind.
fn tasks(place: &Workplace) -> Vec<(&'static str, String)> {
    let [train, dev, test] = FILES;
    let both = "encoder_layers = 1\ndecoder_layers = 1\n";
    let single = "train = \"train.en\"\ndev = \"dev.en\"\ntest = \"test.en\"\nvocabulary = 300\n";
    for name in ["train", "dev", "test"] {
        let [source, target] =
            ["en", "de"].map(|side| std::fs::read_to_string(place.path(&format!("{name}.{side}"))).unwrap());
        let pairs = || source.lines().zip(target.lines());
        let objects = pairs().map(|(a, b)| serde_json::json!({ "article": a, "highlights": b }).to_string() + "\n");
        write(place, &format!("{name}.jsonl"), &objects.collect::<String>());
        let talk = pairs().map(|(a, b)| format!("1 {a}\t{b}\n"));
        write(place, &format!("{name}.parlai"), &talk.collect::<String>());
        let news = source.lines().enumerate().map(|(n, text)| format!("\"{}\",\"{text}\",\"news\"\n", n % 4 + 1));
        write(place, &format!("news/{name}.csv"), &news.collect::<String>());
    }
    let files = |ending: &str| {
        format!("train = \"train.{ending}\"\ndev = \"dev.{ending}\"\ntest = \"test.{ending}\"\nvocabulary = 300\nmax_tokens = 60\n")
    };
    let of = |task: &str, data: &str, layers: &str| {
        format!("task = \"{task}\"\nmix = \"R+V\"\n[data]\n{data}{MODEL}{layers}{TRAIN}")
    };
    vec![
        ("translation", translation(train, dev, test)),
        (
            "language modelling",
            of("language-modelling", &format!("corpus = \"text\"\nmax_tokens = 60\n{single}"), "decoder_layers = 1\n"),
        ),
        (
            "masked language modelling",
            of("masked-language-modelling", &format!("corpus = \"text\"\nwindow = 40\n{single}"), both),
        ),
        ("summarization", of("summarization", &format!("corpus = \"json-lines\"\n{}", files("jsonl")), both)),
        ("dialogue", of("dialogue", &format!("corpus = \"parlai\"\n{}", files("parlai")), both)),
        (
            "classification",
            of("classification", "corpus = \"ag-news\"\nfolder = \"news\"\nvocabulary = 300\n", "encoder_layers = 1\n"),
        ),
    ]
}

/// The text has room for fewer merges than 100,000: plan, log and CSV have the numbers of the real vocabulary, in every task.
#[test]
fn the_plans_parameters_are_the_trained_ones() {
    let place = place();
    for (task, text) in tasks(&place) {
        // tasks of one corpus share its tokenizer
        for folder in ["results", "cache"] {
            let _ = std::fs::remove_dir_all(place.path(folder));
        }
        place.write(&text.replace("vocabulary = 300", "vocabulary = 100000"));
        let run = || json(&place)["files"][0]["runs"][0].clone();
        let before = run();
        assert_eq!(
            (&before["vocabulary"], &before["vocabulary_is_exact"]),
            (&100_000.into(), &false.into()),
            "{task}: {before}"
        );
        let said = place.said(&["run", "toy.toml", "--threads", "1"], 0);
        assert!(said.contains(" parameters (vocabulary 100,000)"), "{task}: {said}");
        assert_eq!(cell(&place, "test.seen_in_training"), "0.0", "{task}");
        let trained = cell(&place, "total_parameters").parse::<u64>().unwrap();
        let after = run();
        assert_eq!(after["vocabulary_is_exact"], true, "{task}");
        assert_eq!(after["total_parameters"], trained, "{task}");
        assert_eq!(after["trainable_parameters"].to_string(), cell(&place, "trainable_parameters"), "{task}");
        assert!(before["total_parameters"].as_u64() > Some(trained), "{task}");
        let number = synthesizer::attention::cost::Thousands(trained).to_string();
        assert!(said.contains(&format!("V-s1: {number} parameters (")), "{task}: {said}");
        // the run's folder alone knows it too, and so does the cache alone
        let planned = place.said(&["run", "toy.toml", "--dry-run"], 0);
        assert!(planned.contains(&format!(" {number} parameters (")) && planned.contains("done"), "{task}: {planned}");
        std::fs::remove_dir_all(place.path("results")).unwrap();
        let planned = place.said(&["run", "toy.toml", "--dry-run"], 0);
        assert!(planned.contains(&format!(" {number} parameters (")), "{task}: {planned}");
        assert!(!Path::new(&place.path("results")).exists());
    }
}
