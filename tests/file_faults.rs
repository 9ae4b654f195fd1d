//! Errors name the file at fault, whichever reader meets it, and quote no more of it than a reader wants to see.

mod common;

use common::workplace::{text as said, Workplace};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Once;
use synthesizer::data::labelled::{ag_news, glue, imdb, superglue, LabelledFile};
use synthesizer::data::{load, Corpus, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::defaults;
use synthesizer::metric::embedding_average::WordVectors;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        static CACHE: Once = Once::new();
        CACHE.call_once(|| {
            std::env::set_var("SYNTHESIZER_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults"))
        });
        Place(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// An error without the folder's name.
    fn message<T>(&self, result: anyhow::Result<T>) -> String {
        match result {
            Ok(_) => panic!("no error"),
            Err(error) => format!("{error:#}").replace(&format!("{}/", self.0.path().display()), ""),
        }
    }
}

/// A corpus of one file for each split.
fn corpus(corpus: CorpusKind, task: TaskKind, path: &Path) -> anyhow::Result<Corpus> {
    let files = vec![vec![path.to_path_buf()]];
    let mut config = DataConfig { corpus, fields: defaults::fields(task), ..defaults::data(task) };
    config.train = files.clone();
    if corpus != CorpusKind::PersonaChat {
        (config.dev, config.test) = (files.clone(), files);
    }
    if corpus == CorpusKind::CnnStories {
        config.stories = vec![path.parent().unwrap().to_path_buf()];
    }
    load(&config, task)
}

/// The readers of one file, by name.
type Reader = Box<dyn Fn(&Path) -> anyhow::Result<()>>;

fn readers() -> Vec<(&'static str, Reader)> {
    fn of(kind: CorpusKind, task: TaskKind) -> Reader {
        Box::new(move |path| corpus(kind, task, path).map(|_| ()))
    }
    fn labelled(read: impl Fn(&Path) -> anyhow::Result<LabelledFile> + 'static) -> Reader {
        Box::new(move |path| read(path).map(|_| ()))
    }
    let mut all = vec![
        ("text", of(CorpusKind::Text, TaskKind::LanguageModelling)),
        ("json-lines", of(CorpusKind::JsonLines, TaskKind::LanguageModelling)),
        ("parlai", of(CorpusKind::Parlai, TaskKind::Dialogue)),
        ("persona-chat", of(CorpusKind::PersonaChat, TaskKind::Dialogue)),
        ("cnn-stories", of(CorpusKind::CnnStories, TaskKind::Summarization)),
        ("ag-news", labelled(ag_news::read_file)),
        ("vectors", Box::new(|path: &Path| WordVectors::read(path, &HashSet::new()).map(|_| ())) as Reader),
    ];
    for set in &glue::SETS {
        all.push((set.name, labelled(move |path| glue::read_file(set, path))));
    }
    for set in &superglue::SETS {
        all.push((set.name, labelled(move |path| superglue::read_file(set, path))));
    }
    all
}

#[test]
fn every_reader_names_a_file_that_is_empty_or_not_text() {
    let place = Place::new();
    let utf16: Vec<u8> = "a text\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cut = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x73][..];
    std::fs::create_dir(place.0.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.0.path().join("link")).unwrap();
    for (name, bytes) in
        [("empty", &b""[..]), ("mark", b"\xef\xbb\xbf"), ("utf16", &utf16), ("a.zip", b"PK\x03\x04"), ("x.gz", cut)]
    {
        place.write(name, bytes);
    }
    for (reader, read) in readers() {
        let message = |name: &str| place.message(read(&place.0.path().join(name)));
        for (name, expected) in [
            ("empty", ""),
            ("mark", ""),
            ("utf16", "text in UTF-16LE, but text is read in UTF-8"),
            ("a.zip", "a zip archive, which is not read; unpack it"),
            ("x.gz", "x.gz: the gzip data is cut short or damaged: the file ends at byte 11"),
            ("folder", "folder is a folder, not a file"),
            ("link", "link is a link to nowhere, which is not there"),
            ("none", "there is no file "),
        ] {
            let message = message(name);
            assert!(message.contains(name) && message.contains(expected), "{reader}: {message}");
        }
    }
}

#[test]
fn every_reader_takes_compressed_files_without_their_suffix() {
    let place = Place::new();
    let gzip = |text: &str| {
        use std::io::Write;
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    // Dialogues are held out by their text, so it takes some until there is one for dev.
    let dialogue = |number: usize| {
        format!("{{\"personality\": [], \"utterances\": [{{\"history\": [\"{number}\"], \"candidates\": [\"b\"]}}]}}")
    };
    let dialogues = (0..100).map(dialogue).collect::<Vec<_>>().join(", ");
    let personas = format!("{{\"train\": [{dialogues}], \"valid\": [{}]}}", dialogue(0));
    let files = [
        ("json-lines", "{\"text\": \"a\"}\r\n"),
        ("parlai", "1 a\tb\r\n2 c\td\r\n"),
        ("persona-chat", &personas),
        ("ag-news", "\"3\",\"a\",\"b\"\r\n"),
        ("vectors", "a 1 2\r\nb 3 4\r\n"),
        ("SST-2", "sentence\tlabel\r\na\t0\r\n"),
        ("BoolQ", "{\"question\": \"a\", \"passage\": \"b\", \"label\": true}\r\n"),
    ];
    for (reader, text) in files {
        let read = readers().into_iter().find(|(name, _)| *name == reader).unwrap().1;
        for (name, bytes) in [("plain.gz", text.as_bytes().to_vec()), ("packed.txt", gzip(text))] {
            let path = place.write(name, bytes);
            // A mark at the start, and of a concatenated file one on its second line.
            let marked = place.write("marked", format!("\u{feff}{text}"));
            for path in [path, marked] {
                if let Err(error) = read(&path) {
                    panic!("{reader}: {error:#}");
                }
            }
        }
    }
}

#[test]
fn empty_labelled_files_are_told_as_such() {
    let place = Place::new();
    let train = place.write("train.csv", "");
    place.write("test.csv", "\"1\",\"a\",\"b\"\n");
    let error = place.message(ag_news::read(train.parent().unwrap()));
    assert!(error.ends_with("train.csv has no row to read; is the file empty or cut short?"), "{error}");
    // One row can't be both in train and in dev.
    place.write("train.csv", "\"1\",\"a\",\"b\"\n");
    let error = place.message(ag_news::read(train.parent().unwrap()));
    assert_eq!(error, "the training set of AG News is empty: all of the 1 rows were held out for dev");

    let rte = glue::set("RTE").unwrap();
    let header = place.write("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\n");
    let error = place.message(glue::read_file(rte, &header));
    assert_eq!(error, "RTE/train.tsv: the first line names the columns, but no row to read follows");
    let wide = place.write("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\r\n0\ta\tb\tentailment\r\n1\ta\tb\r\n");
    let error = place.message(glue::read_file(rte, &wide));
    assert_eq!(error, "RTE/train.tsv, line 3: 3 columns, where RTE has 4");
    let rows = place.write("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\r\n0\ta\tb\tentailment\r\n");
    assert_eq!(&*glue::read_file(rte, &rows).unwrap().rows.rows[0].texts[1], "b");
    let blank = place.write("BoolQ/train.jsonl", "\n");
    let error = place.message(superglue::read_file(superglue::set("BoolQ").unwrap(), &blank));
    assert!(error.starts_with("BoolQ/train.jsonl has no line to read"), "{error}");
}

#[test]
fn marks_of_concatenated_files_are_noted_by_labelled_readers() {
    let place = Place::new();
    let twice = |name: &str, text: &str| place.write(name, format!("\u{feff}{text}").repeat(2));
    let csv = ag_news::read_file(&twice("x.csv", "\"3\",\"a\",\"b\"\n")).unwrap();
    let tsv = glue::read_file(glue::set("CoLA").unwrap(), &twice("x.tsv", "s\t1\t\ta b\n")).unwrap();
    let line = "{\"question\": \"a\", \"passage\": \"b\", \"label\": true}\n";
    let jsonl = superglue::read_file(superglue::set("BoolQ").unwrap(), &twice("x.jsonl", line)).unwrap();
    for file in [csv, tsv, jsonl] {
        assert_eq!(file.rows.len(), 2);
        assert!(file.notes.iter().any(|note| note.contains("1 line after the first began with a byte-order mark")));
        assert!(!file.rows.rows.iter().flat_map(|row| &row.texts).any(|text| text.contains('\u{feff}')));
    }
}

#[test]
fn hidden_files_and_backups_are_no_reviews() {
    let place = Place::new();
    for class in ["neg/0_2", "pos/0_9"] {
        place.write(&format!("train/{class}.txt"), "A review.");
        let (folder, name) = class.split_once('/').unwrap();
        // AppleDouble files are binary.
        place.write(&format!("train/{folder}/._{name}.txt"), b"\0\x05\x16\x07\0\x02\0\0Mac OS X");
        place.write(&format!("train/{folder}/.DS_Store"), b"\0\0\0\x01Bud1");
        place.write(&format!("train/{folder}/{name}.txt~"), "An older review.");
        place.write(&format!("train/{folder}/Thumbs.db"), b"\xd0\xcf\x11\xe0");
    }
    let read = imdb::read_split(&place.0.path().join("train")).unwrap();
    assert_eq!(read.rows.len(), 2);
    assert!(read.notes[0].starts_with("8 files in ") && read.notes[0].contains("hidden files"), "{:?}", read.notes);
    place.write("train/neg/1_2.txt", b"PK\x03\x04");
    let error = place.message(imdb::read_split(&place.0.path().join("train")));
    assert!(error.starts_with("train/neg/1_2.txt: a zip archive"), "{error}");
}

#[test]
fn faults_of_json_are_told_with_file_line_and_value() {
    let place = Place::new();
    let read = |text: &str| {
        let path = place.write("x.jsonl", text);
        place.message(corpus(CorpusKind::JsonLines, TaskKind::LanguageModelling, &path))
    };
    let lone = read("{\"text\": \"a\"}\n{\"text\": \"b \\ud83d\"}\n");
    assert!(
        lone.contains("x.jsonl, line 2: the escape \\ud83d at column 13 is one half of a surrogate pair"),
        "{lone}"
    );
    let twice = read("{\"text\": \"a\", \"text\": \"b\"}\n");
    assert!(twice.contains("x.jsonl, line 1: field \"text\" is there twice"), "{twice}");
    let long = read(&format!("{{\"text\": {}}}\n", "7".repeat(300)));
    assert!(long.contains("x.jsonl, line 1: ") && long.len() < 1000, "{long}");
    let keys: String = (0..100_000).map(|key| format!("\"key{key}\": 1, ")).collect();
    let many = read(&format!("{{{keys}\"last\": 2}}\n"));
    assert!(many.contains("there is no field \"text\", only \"key0\"") && many.contains(" and 99981 more"), "{many}");
    assert!(many.len() < 1000, "{}", many.len());

    let path =
        place.write("x.jsonl", "{\"question\": \"a\", \"question\": \"c\", \"passage\": \"b\", \"label\": true}\n");
    let error = place.message(superglue::read_file(superglue::set("BoolQ").unwrap(), &path));
    assert!(error.starts_with("x.jsonl, line 1: duplicate field `question`"), "{error}");
    let path = place.write("p.json", "{\"train\": [], \"train\": [], \"valid\": []}");
    let error = place.message(corpus(CorpusKind::PersonaChat, TaskKind::Dialogue, &path));
    assert!(error.contains("p.json") && error.contains("key \"train\" is there twice"), "{error}");
}

#[test]
fn long_lines_are_clipped_in_every_reader_s_message() {
    let place = Place::new();
    let long = place.write("long", "x".repeat(2_000_000) + "\n");
    for (reader, read) in readers() {
        // A line of one word is a text, and vectors have a limit of their own.
        if reader != "text" {
            let message = place.message(read(&long));
            assert!(message.contains("long") && message.len() < 1500, "{reader}: {} bytes", message.len());
        }
    }
    let classes = place.write("long", format!("\"{}\",\"a\",\"b\"\n", "y".repeat(2_000_000)));
    let message = place.message(ag_news::read_file(&classes));
    assert!(message.contains("is no class from 1 to 4") && message.contains(" more characters"), "{message}");
    let labels = place.write("long", format!("sentence\tlabel\na\t{}\n", "y".repeat(2_000_000)));
    let message = place.message(glue::read_file(glue::set("SST-2").unwrap(), &labels));
    assert!(message.len() < 500 && message.contains("is not a label of SST-2"), "{message}");
    let vectors = place.write("long", format!("a 1 {}\n", "z".repeat(900_000)));
    let message = place.message(WordVectors::read(&vectors, &HashSet::new()));
    assert!(message.len() < 500 && message.contains("which is not a finite number"), "{message}");
}

#[test]
fn long_values_and_control_characters_of_an_experiment_are_clipped_on_screen() {
    let place = Workplace::new("[\"V\"]", 8);
    for text in [
        format!("task = \"translation\"\nmix = \"{}\"\n", "V+".repeat(1_000_000)),
        format!("task = \"{}\"\nmix = \"V\"\n", "x".repeat(2_000_000)),
        format!("task = \"translation\"\nmix = \"V\"\n{} = 1\n", "k".repeat(2_000_000)),
        format!("task = \"translation\"\nmix = \"V\"\n[data]\ntrain = {}\n", "[".repeat(200_000)),
    ] {
        place.write(&text);
        let output = place.run(&["validate", "toy.toml"]);
        let message = said(&output);
        assert_eq!(output.status.code(), Some(2), "{}", message.len());
        assert!(message.contains("toy.toml") && message.len() < 12_000, "{} bytes", message.len());
    }
}

#[test]
fn hidden_experiment_files_are_not_read() {
    let place = Workplace::new("[\"V\"]", 8);
    std::fs::create_dir(place.path("folder")).unwrap();
    std::fs::copy(place.path("toy.toml"), place.path("folder/toy.toml")).unwrap();
    std::fs::write(place.path("folder/._toy.toml"), b"\0\x05\x16\x07").unwrap();
    std::fs::write(place.path("folder/#toy.toml#"), b"mix").unwrap();
    place.said(&["validate", "folder"], 0);
}

#[test]
fn patterns_of_other_parts_are_refused_by_validate_and_by_the_reader() {
    let place = Workplace::new("[\"V\"]", 8);
    for name in ["p-0.en", "p-2.en", "p-3.en", "p-0.de", "p-1.de", "p-2.de", "d.en", "d.de"] {
        std::fs::write(place.path(name), "a\n").unwrap();
    }
    let toml = common::workplace::toy("[\"V\"]", 8).replace(
        "corpus = \"reverse\"",
        "corpus = \"text\"\nsource = \"en\"\ntarget = \"de\"\ntrain = [\"p-*.en\", \"p-*.de\"]\ndev = [\"d.en\", \"d.de\"]\n\
         test = [[\"d.en\", \"d.de\"]]",
    );
    place.write(&toml);
    for command in [&["validate", "toy.toml"][..], &["data", "inspect", "toy.toml"]] {
        let message = place.said(command, 2);
        for expected in [
            "toy.toml:",
            "p-*.de has no match for p-3.en (wildcards: 3)",
            "p-*.en has no match for p-1.de (wildcards: 1)",
        ] {
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
}
