//! Cache files that were damaged, byte by byte and as a whole, are made again; what is read from them is never other data.

mod common;

use common::workplace::Workplace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;
use synthesizer::data::lines::Lines;
use synthesizer::data::rows::Rows;
use synthesizer::data::token_store::{Keep, StoreOptions, TokenStore};
use synthesizer::data::tokenizer::{self, Tokenizer, SMALLEST};
use synthesizer::experiment::config::TooLong;

/// One cache for all tests of this file; nobody else's is touched.
fn cache() -> PathBuf {
    static SET: Once = Once::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged_caches");
    SET.call_once(|| {
        let _ = std::fs::remove_dir_all(&folder);
        std::env::set_var("SYNTHESIZER_CACHE", &folder);
    });
    folder
}

/// About `count` places, evenly spread, among them every one of the first and last 16.
fn places(length: usize, count: usize) -> Vec<usize> {
    let spread = (0..length).step_by((length / count).max(1));
    let mut places: Vec<usize> = (0..16).chain(spread).chain(length - 16..length).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Damages `file` in every way that a disk, a copy or a person does, and calls `check` after each; whole again afterwards.
fn damage(file: &Path, flips: usize, mut check: impl FnMut(&str)) {
    let whole = std::fs::read(file).unwrap();
    let mut put = |what: &str, bytes: &[u8]| {
        std::fs::write(file, bytes).unwrap();
        check(what);
        assert!(std::fs::read(file).unwrap() == whole, "{what}: not made again");
    };
    for at in places(whole.len(), flips) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x01;
        put(&format!("byte {at} of {}", whole.len()), &bytes);
    }
    let zeros = vec![0; whole.len()];
    for (what, bytes) in [
        ("empty", &whole[..0]),
        ("cut in half", &whole[..whole.len() / 2]),
        ("cut by a byte", &whole[..whole.len() - 1]),
        ("cut by a seal", &whole[..whole.len() - 16]),
        ("a byte more", &[&whole[..], b"\n"].concat()),
        ("twice", &[&whole[..], &whole[..]].concat()),
        ("only zeros", &zeros[..]),
        ("another program's", b"something else"),
    ] {
        put(what, bytes);
    }
    std::fs::remove_file(file).unwrap();
    std::fs::create_dir(file).unwrap();
    check("an empty folder");
    assert!(std::fs::read(file).unwrap() == whole, "a folder: not made again");
    std::fs::remove_file(file).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", file).unwrap();
    check("a link to nowhere");
    assert!(std::fs::read(file).unwrap() == whole, "a link: not made again");
}

fn rows() -> Rows {
    // three tokens and one: the ids need padding to four bytes
    Rows::pairs((0..40).map(|n| (format!("a lamp {n}"), "ä".repeat(n % 3 + 1))))
}

#[test]
fn a_token_file_is_made_again_wherever_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::train(&Rows::single(vec!["a".into()]), SMALLEST).unwrap();
    let file = folder.path().join("x.tokens");
    let options =
        StoreOptions { max_tokens: 20, source: None, keep: Keep::Training(TooLong::Skip), data_hash: "x".into() };
    let read = || {
        let store = TokenStore::build(&rows(), &tokenizer, &options, &file).unwrap();
        let ids: Vec<_> = (0..store.len()).map(|row| [0, 1].map(|column| store.tokens(row, column).unwrap())).collect();
        (ids, store.counts, (0..store.len()).map(|row| store.row(row).unwrap()).collect::<Vec<_>>())
    };
    let whole = read();
    damage(&file, 120, |what| assert!(read() == whole, "{what}"));
    // one that holds something is not removed
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir_all(file.join("something")).unwrap();
    let error = TokenStore::build(&rows(), &tokenizer, &options, &file).unwrap_err().to_string();
    assert!(error.contains("x.tokens is a folder") && error.contains("remove the folder"), "{error}");
}

#[test]
fn a_tokenizer_is_made_again_wherever_its_cache_file_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let load = || tokenizer::train_or_load_rows("toy", "hash", &rows(), 300, folder.path()).unwrap();
    let whole = load();
    let name = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    damage(&name, 50, |what| assert_eq!(load().json(), whole.json(), "{what}"));
}

#[test]
fn decompressed_text_is_made_again_wherever_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("x.gz");
    let text: String = (0..50).map(|line| format!("line {line} of a text\n")).collect();
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(text.as_bytes()).unwrap();
    std::fs::write(&packed, writer.finish().unwrap()).unwrap();
    let cache = cache();
    let read = || Lines::open(&packed).unwrap().bytes().unwrap();
    assert_eq!(read(), text.as_bytes());
    let hash = synthesizer::data::fetch::sha256_file(&packed).unwrap();
    damage(&cache.join(format!("text/{hash}.text")), 50, |what| assert!(read() == text.as_bytes(), "{what}"));
}

#[test]
fn many_at_once_make_a_damaged_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::train(&Rows::single(vec!["a".into()]), SMALLEST).unwrap();
    let file = folder.path().join("x.tokens");
    let rows = Rows::single((0..3000).map(|row| format!("row {row}")).collect());
    // two rules with one name, as if two processes worked on different experiments whose files are named alike
    let options = |keep| StoreOptions { max_tokens: 20, source: None, keep, data_hash: "x".into() };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let keep = if thread % 2 == 0 { Keep::All } else { Keep::Lines(TooLong::Cut) };
            let (rows, tokenizer, file) = (&rows, &tokenizer, &file);
            scope.spawn(move || {
                for round in 0..8 {
                    if thread == 3 {
                        // in place of the file and not into it: whoever has it open reads on
                        let damaged = file.with_extension("damaged");
                        std::fs::write(&damaged, format!("damaged {round}")).unwrap();
                        std::fs::rename(damaged, file).unwrap();
                    }
                    let store = TokenStore::build(rows, tokenizer, &options(keep), file).unwrap();
                    let last = store.tokens(2999, 0).unwrap();
                    assert_eq!(tokenizer.decode(&last).unwrap(), "row 2999");
                }
            });
        }
    });
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x.tokens"]);
}

#[test]
fn a_run_says_that_a_cache_file_is_made_again_and_trains_on_the_same_data() {
    let (whole, damaged) = (Workplace::new(r#"["V"]"#, 4), Workplace::new(r#"["V"]"#, 4));
    whole.said(&["run", "toy.toml"], 0);
    damaged.said(&["run", "toy.toml", "--stop-after", "1"], 130);
    for entry in std::fs::read_dir(damaged.path("cache/tokens")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // within the ids of a token file, where another id is as good as any
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let said = damaged.said(&["run", "toy.toml"], 0);
    assert_eq!(said.matches("this cache file cannot be used").count(), 4, "a tokenizer and three splits: {said}");
    let hypotheses = |place: &Workplace| std::fs::read(place.path("results/custom/toy/V-s1/test.hypotheses.txt"));
    assert_eq!(hypotheses(&damaged).unwrap(), hypotheses(&whole).unwrap());
    let again = damaged.said(&["run", "toy.toml", "--fresh"], 0);
    assert!(!again.contains("cannot be used"), "{again}");
}
