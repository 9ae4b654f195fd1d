//! JSON Lines as documents to model, in C4's form: `url`, `text` and `timestamp`, in either order that its copies have.

use std::io::Write;
use std::path::{Path, PathBuf};
use synthesizer::data::rows::Hasher;
use synthesizer::data::{load, Corpus, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::{defaults, Experiment};

const LINES: [&str; 3] = [
    r#"{"url": "http://a.example/1", "text": "Fern Care\nWater ferns \u00e0 la carte.\n\n Once a week", "timestamp": "2019-04-25T12:57:54Z"}"#,
    r#"{"text":"One line.","timestamp":"2019-04-25T12:57:54Z","url":"http://a.example/2"}"#,
    r#"{"timestamp":"2019-04-25T12:57:54Z","url":"http://a.example/\"3\"","text":"\"Third\"\r\nof three"}"#,
];

fn config(path: &Path) -> DataConfig {
    let [train, dev, test] = [(); 3].map(|()| vec![vec![path.to_path_buf()]]);
    let task = TaskKind::LanguageModelling;
    let fields = defaults::fields(task);
    DataConfig { corpus: CorpusKind::JsonLines, train, dev, test, fields, ..defaults::data(task) }
}

fn read(config: &DataConfig) -> anyhow::Result<Corpus> {
    load(config, TaskKind::LanguageModelling)
}

fn texts(rows: &dyn Examples) -> Vec<String> {
    assert_eq!(rows.columns(), 1);
    (0..rows.len()).map(|row| rows.text(row, 0).unwrap().into_owned()).collect()
}

fn write(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_document_is_a_row_whatever_the_order_of_its_fields() {
    let folder = tempfile::tempdir().unwrap();
    std::env::set_var("SYNTHESIZER_CACHE", folder.path().join("cache"));
    let expected = ["Fern Care Water ferns à la carte. Once a week", "One line.", "\"Third\" of three"];
    let plain = write(&folder, "c4.json", LINES.join("\n").as_bytes());
    let corpus = read(&config(&plain)).unwrap();
    assert_eq!(texts(corpus.train.as_ref()), expected);
    assert_eq!(corpus.notes, ["the files say what is train, dev and test; text"]);
    // Read many at a time, the hash is that of the rows one by one.
    let mut hasher = Hasher::default();
    for _ in 0..3 {
        hasher.number(3);
        hasher.number(1);
        expected.iter().for_each(|text| hasher.text(text));
    }
    assert_eq!(corpus.hash, hasher.finish());

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(LINES.join("\n").as_bytes()).unwrap();
    let packed = write(&folder, "c4-train.00000-of-01024.json.gz", &gzip.finish().unwrap());
    assert_eq!(texts(read(&config(&packed)).unwrap().train.as_ref()), expected);

    // Masked or not, the text is the same, in the files that a pattern matches.
    write(&folder, "c4-train.00001-of-01024.json.gz", &std::fs::read(&packed).unwrap());
    let pattern = config(&folder.path().join("c4-train.*.json.gz"));
    let masked = load(&pattern, TaskKind::MaskedLanguageModelling).unwrap();
    assert_eq!(texts(masked.train.as_ref()), [expected, expected].concat());

    let mut urls = config(&plain);
    urls.fields = vec!["url".into()];
    assert_eq!(texts(read(&urls).unwrap().dev.as_ref())[2], "http://a.example/\"3\"");
}

#[test]
fn a_blank_last_line_is_passed_over_and_lines_keep_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(&folder, "a.json", format!("{}\n \r\n", LINES[1]).as_bytes());
    let second = write(&folder, "b.json", format!("{}\n{}\n\n", LINES[1], LINES[0]).as_bytes());
    let mut config = config(&first);
    config.train.push(vec![second.clone()]);
    let corpus = read(&config).unwrap();
    assert_eq!(texts(corpus.train.as_ref()).len(), 3);
    assert_eq!(corpus.dev.len(), 1);
    // In the second file, whose rows come after the first one's.
    for (text, expected) in [
        (format!("{}\n\n{}\n", LINES[1], LINES[0]), "b.json, line 2: the line is blank"),
        (format!("{}\n{{\"url\": \"u\"}}\n\n", LINES[1]), "b.json, line 2: there is no field \"text\", only \"url\";"),
        (
            format!("{}\n{{\"text\": null}}", LINES[1]),
            "line 2: field \"text\": invalid type: null, expected a string, column 13",
        ),
    ] {
        std::fs::write(&second, text).unwrap();
        let error = format!("{:#}", read(&config).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn fields_are_as_many_as_the_task_has_texts() {
    let plan = |task: &str, fields: &str| {
        let text = format!(
            "task = \"{task}\"\nmix = \"V\"\n[data]\ncorpus = \"json-lines\"\ntrain = \"a\"\ndev = \"a\"\ntest = \"a\"\n{fields}"
        );
        let experiment = Experiment::parse(Path::new("x.toml"), &text)?;
        experiment.plan(Path::new("results")).map(|plan| plan.runs[0].run.data.fields.clone())
    };
    assert_eq!(plan("language-modelling", "").unwrap(), ["text"]);
    assert_eq!(plan("language-modelling", "fields = [\"url\"]").unwrap(), ["url"]);
    assert_eq!(plan("masked-language-modelling", "").unwrap(), ["text"]);
    assert_eq!(plan("summarization", "").unwrap(), ["article", "highlights"]);
    let problems = |task, fields| plan(task, fields).unwrap_err().to_string();
    let text = problems("language-modelling", "fields = [\"text\", \"url\"]");
    assert!(text.contains("`fields` has 2 names") && text.contains("give one, of the text"), "{text}");
    let text = problems("summarization", "fields = [\"text\"]");
    assert!(text.contains("`fields` has 1 name") && text.contains("give two"), "{text}");
    let text = problems("dialogue", "");
    assert!(text.contains("corpus `json-lines` has nothing for task `dialogue`"), "{text}");

    let mut two = config(Path::new("a"));
    two.fields.push("url".into());
    assert_eq!(read(&two).unwrap_err().to_string(), "data.fields names 2 fields; it names one, the text's");
}
