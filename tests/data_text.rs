//! Plain and .sgm files, on small made-up files with the quirks of real ones.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, SystemTime};
use synthesizer::data::fetch::sha256_file;
use synthesizer::data::{batching, load, prepare, Corpus, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind, TooLong};
use synthesizer::experiment::defaults;

/// One cache for all tests of this file; nobody else's is touched.
fn cache() -> &'static Path {
    static SET: Once = Once::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data_text_cache");
    SET.call_once(|| {
        let _ = std::fs::remove_dir_all(&folder);
        std::env::set_var("SYNTHESIZER_CACHE", &folder);
    });
    Box::leak(folder.into_boxed_path())
}

fn fixture(name: &str) -> PathBuf {
    let path = Path::new(name);
    if path.is_absolute() {
        return path.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data").join(name)
}

/// Entries parted by blanks, files of an entry by commas.
fn files(names: &str) -> Vec<Vec<PathBuf>> {
    names.split_whitespace().map(|entry| entry.split(',').map(fixture).collect()).collect()
}

fn config(train: &str, dev: &str, test: &str) -> DataConfig {
    cache();
    DataConfig {
        corpus: CorpusKind::Text,
        source: "en".into(),
        target: "de".into(),
        train: files(train),
        dev: files(dev),
        test: files(test),
        vocabulary: 300,
        max_tokens: 100,
        too_long: TooLong::Skip,
        ..defaults::data(TaskKind::Translation)
    }
}

const MORE: &str = "more.en.gz,more.de.gz";
const SGM: &str = "test-src.en.sgm,test-ref.de.sgm";

fn translation(train: &str, dev: &str, test: &str) -> anyhow::Result<Corpus> {
    load(&config(train, dev, test), TaskKind::Translation)
}

fn message<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

fn column(rows: &dyn Examples, column: usize) -> Vec<String> {
    (0..rows.len()).map(|row| rows.text(row, column).unwrap().into_owned()).collect()
}

#[test]
fn lines_end_at_line_feeds_only() {
    let corpus = translation("train.en,train.de more.en.gz,more.de.gz", MORE, SGM).unwrap();
    let source =
        ["The dog\truns.", "Two  cats sleep ", "It's 5 o'clock.", "", "Café & bar", "The end", "A tree.", "A house."];
    let target = [
        "Der Hund läuft.",
        "Zwei\u{a0}Katzen schlafen",
        "Es ist\t5 Uhr.",
        "Leer",
        "Café & Bar \u{85} \u{2028}x",
        "Das Ende",
        "Ein Baum.",
        "Ein Haus.",
    ];
    assert_eq!(column(corpus.train.as_ref(), 0), source);
    assert_eq!(column(corpus.train.as_ref(), 1), target);
    assert_eq!(column(corpus.test.as_ref(), 0), ["AT&T says \"no\" &amp; 1 < 2", "Second\tone", "Third"]);
    assert_eq!(column(corpus.test.as_ref(), 1), ["AT&T sagt „nein“ &amp; 1 < 2", "Zweiter", "Dritter"]);
    assert_eq!(corpus.name, "text en-de (train.en …)");
}

#[test]
fn one_file_an_entry_for_language_modelling() {
    let corpus = load(&config("train.en more.en.gz", "short.de", "train.de"), TaskKind::LanguageModelling).unwrap();
    assert_eq!((corpus.train.columns(), corpus.train.len(), corpus.test.len()), (1, 8, 6));
    assert_eq!(column(corpus.dev.as_ref(), 0), ["Eins", "Zwei"]);
}

#[test]
fn gzip_and_plain_are_the_same_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.en"), "A tree.\nA house.\n").unwrap();
    std::fs::write(folder.path().join("x.de"), "Ein Baum.\nEin Haus.").unwrap();
    let plain = format!("{0}/x.en,{0}/x.de", folder.path().display());
    let hash = |train: &str| translation(train, SGM, SGM).unwrap().hash;
    assert_eq!(hash(MORE), hash(&plain));
    assert_ne!(hash(MORE), hash("train.en,train.de"));
}

#[test]
fn a_gzip_file_is_decompressed_once() {
    let folder = tempfile::tempdir().unwrap();
    // Text of its own, so that no other test has it decompressed.
    let packed = folder.path().join("once.gz");
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(b"Only here.\nAnd once.\n").unwrap();
    std::fs::write(&packed, writer.finish().unwrap()).unwrap();
    let name = packed.display().to_string();
    let read = || load(&config(&name, "short.de", "short.de"), TaskKind::LanguageModelling).unwrap();
    assert_eq!(column(read().train.as_ref(), 0), ["Only here.", "And once."]);

    let hash = sha256_file(&packed).unwrap();
    let plain = cache().join("text").join(format!("{hash}.text"));
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(cache().join("text")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(&hash)).collect()
    };
    assert_eq!(names(), [format!("{hash}.text")], "no temporary file is left");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(&plain).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(column(read().train.as_ref(), 0), ["Only here.", "And once."]);
    assert_eq!(std::fs::metadata(&plain).unwrap().modified().unwrap(), long_ago, "written again");
}

#[test]
fn the_hash_tells_which_file_is_in_which_split() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{name} one\n{name} two\n")).unwrap();
        path.display().to_string()
    });
    let read = |train: &str, dev: &str, task| load(&config(train, dev, &c), task).unwrap();
    let lines = |train: &str, dev: &str| read(train, dev, TaskKind::LanguageModelling);
    let (first, second) = (lines(&format!("{a} {b}"), &c), lines(&a, &format!("{b} {c}")));
    assert_ne!(first.hash, second.hash);
    // So the second run does not find the first one's token files, with rows of its dev set to train on.
    for (corpus, rows) in [(&first, [4, 2]), (&second, [2, 4])] {
        let prepared = prepare(corpus, &config("", "", ""), TaskKind::LanguageModelling).unwrap();
        assert_eq!([prepared.train.len(), prepared.dev.len()], rows);
    }
    // The same files in the same order, read as one text a row and as two.
    let single =
        load(&config(&format!("{a} {b}"), &format!("{a} {b}"), &format!("{a} {b}")), TaskKind::LanguageModelling);
    let pair = format!("{a},{b}");
    assert_ne!(single.unwrap().hash, translation(&pair, &pair, &pair).unwrap().hash);
    assert_eq!(first.notes, ["split: train, dev and test are the files that the experiment names"]);
}

#[test]
fn blank_lines_of_a_language_model_are_rows_but_not_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let some = file("some", "\nA line.\n \n\nAnother.\n\n");
    let config = config(&some, &some, &some);
    let corpus = load(&config, TaskKind::LanguageModelling).unwrap();
    let prepared = prepare(&corpus, &config, TaskKind::LanguageModelling).unwrap();
    for store in [prepared.train, prepared.dev, prepared.test] {
        assert_eq!((store.counts.rows, store.counts.empty, store.len()), (6, 0, 6));
        let lengths: Vec<bool> = (0..6).map(|row| store.text_length(row, 0) > 0).collect();
        assert_eq!(lengths, [false, true, false, false, true, false]);
    }
    let blank = file("blank", "\n \n");
    let config = self::config(&some, &blank, &some);
    let corpus = load(&config, TaskKind::LanguageModelling).unwrap();
    let error = message(prepare(&corpus, &config, TaskKind::LanguageModelling).map(|_| ()));
    assert!(error.starts_with("the dev set of text (some …) has no text: all 2 lines are blank"), "{error}");
}

#[test]
fn many_lines_are_found_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.txt");
    let text: Vec<String> = (0..1000).map(|line| "x".repeat(line % 7) + &line.to_string()).collect();
    std::fs::write(&path, text.join("\n") + "\n\n").unwrap();
    let name = path.display().to_string();
    let corpus = load(&config(&name, &name, &name), TaskKind::LanguageModelling).unwrap();
    assert_eq!(corpus.train.len(), 1001);
    assert_eq!(column(corpus.train.as_ref(), 0)[..1000], text);
    assert_eq!(corpus.train.text(1000, 0).unwrap(), "");
}

#[test]
fn lines_that_cross_the_reading_buffer_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.txt");
    // The first line feed ends the first MiB, the next line begins the second; the rest falls anywhere.
    let mut text = vec!["y".repeat((1 << 20) - 1)];
    text.extend((0..4000).map(|line| format!("{line} {}", "ö".repeat(line * 7919 % 700))));
    std::fs::write(&path, format!("\u{feff}{}", text.join("\r\n"))).unwrap();
    let name = path.display().to_string();
    let corpus = load(&config(&name, "short.de", "short.de"), TaskKind::LanguageModelling).unwrap();
    assert_eq!(corpus.train.len(), text.len());
    assert!(column(corpus.train.as_ref(), 0) == text);
}

#[test]
fn a_file_that_is_cut_while_a_run_reads_it_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.txt");
    std::fs::write(&path, "a line\n".repeat(100)).unwrap();
    let name = path.display().to_string();
    let corpus = load(&config(&name, "short.de", "short.de"), TaskKind::LanguageModelling).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(350).unwrap();
    assert_eq!(corpus.train.text(31, 0).unwrap(), "a line");
    let error = message(corpus.train.text(99, 0).map(|text| text.into_owned()));
    assert!(error.ends_with("cut.txt was changed while it was read; start again"), "{error}");
}

#[test]
fn unequal_line_counts_name_both_files_and_counts() {
    let error = message(translation("train.en,short.de", MORE, SGM));
    assert!(error.starts_with("data.train: ") && error.contains("train.en has 6 lines, but "), "{error}");
    assert!(error.contains("short.de has 2 lines; row n of one must be"), "{error}");
}

#[test]
fn invalid_utf8_names_file_and_line() {
    let corpus = translation("broken.en,broken.de", MORE, SGM).unwrap();
    let error = message(corpus.train.text(2, 0).map(|text| text.into_owned()));
    assert!(error.contains("broken.en, line 3: invalid UTF-8"), "{error}");
    let error = message(prepare(&corpus, &config("", "", ""), TaskKind::Translation).map(|_| ()));
    assert!(error.contains("broken.en, line 3: invalid UTF-8"), "{error}");
}

#[test]
fn missing_empty_and_broken_files_are_named() {
    let missing = message(translation("none.en,train.de", MORE, SGM));
    assert!(missing.starts_with("data.train: there is no file ") && missing.ends_with("none.en"), "{missing}");
    let empty = message(translation("empty.en,empty.de", MORE, SGM));
    assert!(empty.starts_with("data.train is empty: there is no line in ") && empty.contains("empty.de"), "{empty}");
    assert_eq!(message(translation("", MORE, SGM)), "data.train names no file");
    let folder = message(translation("/tmp,/tmp", MORE, SGM));
    assert_eq!(folder, "data.train: /tmp is a folder, not a file");
    let one = message(translation(MORE, "train.en", SGM));
    assert!(one.contains("data.dev: an entry has 1 files") && one.contains("a source and a target file"), "{one}");
    let sgm = message(translation(MORE, MORE, "broken.sgm,broken.sgm"));
    assert!(sgm.contains("broken.sgm, line 2: the segment has no </seg> on its line"), "{sgm}");

    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.gz");
    let bytes = std::fs::read(fixture("more.en.gz")).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    let error = message(translation(&format!("{0},{0}", cut.display()), MORE, SGM));
    assert!(error.contains("cut.gz: the gzip data is cut short or damaged: the file ends at byte "), "{error}");
}

#[test]
fn a_corpus_for_another_task_is_refused() {
    let mut config = config("", "", "");
    config.corpus = CorpusKind::NewsArticles;
    let error = message(load(&config, TaskKind::Translation));
    assert_eq!(error, "corpus `news-articles` has nothing for task `translation`");
}

#[test]
fn prepared_twice_is_the_same_and_batches_cover_it() {
    let mut config = config("train.en,train.de", MORE, SGM);
    let corpus = load(&config, TaskKind::Translation).unwrap();
    let first = prepare(&corpus, &config, TaskKind::Translation).unwrap();
    // The row with an empty source is dropped from training; dev and test keep all.
    assert_eq!((first.train.len(), first.train.counts.empty, first.train.row(3).unwrap()), (5, 1, 4));
    assert_eq!((first.dev.len(), first.test.len()), (2, 3));
    let text = |row, column| first.tokenizer.decode(&first.train.tokens(row, column).unwrap()).unwrap();
    assert_eq!((text(0, 0), text(3, 1)), ("The dog\truns.".into(), "Café & Bar \u{85} \u{2028}x".into()));
    let again = prepare(&corpus, &config, TaskKind::Translation).unwrap();
    assert_eq!(again.tokenizer.hash(), first.tokenizer.hash());
    assert_eq!(again.train.counts, first.train.counts);
    let batches = batching::in_order(&first.train.lengths(), 40);
    assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 5);

    config.max_tokens = 1;
    let error = message(prepare(&corpus, &config, TaskKind::Translation).map(|_| ()));
    assert!(error.contains("all 6 are empty or longer than data.max_tokens = 1"), "{error}");
}
