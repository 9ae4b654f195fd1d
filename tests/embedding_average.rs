//! The embedding average against numpy, and files of word vectors: `scripts/make_text_metric_fixtures.py`.

use serde::Deserialize;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use synthesizer::metric::embedding_average::{signature, words, EmbeddingAverage, WordVectors};
use synthesizer::metric::tokenize::{contractions, Tokenization};

#[derive(Deserialize)]
struct Pair {
    hypothesis: Vec<String>,
    reference: Vec<String>,
    score: f64,
}

#[derive(Deserialize)]
struct Contraction {
    word: String,
    words: Vec<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embedding_average")
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The vectors of `needed` words in a file of this content.
fn read(content: &[u8], needed: &[&str]) -> anyhow::Result<WordVectors> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.txt");
    std::fs::write(&path, content).unwrap();
    WordVectors::read(&path, &strings(needed).into_iter().collect())
}

fn cosine(vectors: &WordVectors, hypothesis: &[&str], reference: &[&str]) -> f64 {
    EmbeddingAverage::new(vectors).add(&strings(hypothesis), &strings(reference))
}

fn assert_close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-6, "{got}, expected {expected}");
}

#[test]
fn scores_are_numpys() {
    let pairs = std::fs::read_to_string(fixtures().join("pairs.json")).unwrap();
    let pairs: Vec<Pair> = serde_json::from_str(&pairs).unwrap();
    let needed: HashSet<String> =
        pairs.iter().flat_map(|pair| [&pair.hypothesis, &pair.reference]).flatten().cloned().collect();
    let vectors = WordVectors::read(&fixtures().join("vectors.txt"), &needed).unwrap();
    assert_eq!(vectors.dimensions(), 6);
    let unknown = ["ferries", "lorry", "hospital", "?", "xyzzy"];
    assert!(vectors.known() > 100 && unknown.iter().all(|word| needed.contains(*word)));
    let (mut average, mut sum) = (EmbeddingAverage::new(&vectors), 0.0);
    for Pair { hypothesis, reference, score } in &pairs {
        let got = average.add(hypothesis, reference);
        assert!((got - score).abs() < 1e-6, "{hypothesis:?} against {reference:?}: {got}, expected {score}");
        sum += score;
    }
    assert!(pairs.len() > 60);
    assert_close(average.score().unwrap(), 100.0 * sum / pairs.len() as f64);
}

/// Means (1, 1) and (2, 0): the cosine is 1/√2. The mean of all three vectors is (4/3, 1).
#[test]
fn scores_by_hand_and_unknown_words() {
    let vectors = read(b"a 2 0\nb 0 2\nc 2 1\n", &["a", "b"]).unwrap();
    assert_eq!((vectors.dimensions(), vectors.known()), (2, 2));
    assert_close(cosine(&vectors, &["a", "b"], &["a"]), 0.5f64.sqrt());
    // c was not needed, so it is as unknown as z: both are the mean of all vectors
    assert_close(cosine(&vectors, &["z"], &["c", "z"]), 1.0);
    assert_close(cosine(&vectors, &["z"], &["b"]), 0.6);
    assert_eq!(cosine(&vectors, &[], &["a"]), 0.0);
    assert_eq!(cosine(&vectors, &["a"], &[]), 0.0);
    assert_eq!(cosine(&vectors, &[], &[]), 0.0);
    assert_eq!(EmbeddingAverage::new(&vectors).score(), None);
    let opposite = read(b"a 1 0\nb -1 0\n", &["a", "b"]).unwrap();
    assert_eq!(cosine(&opposite, &["a", "b"], &["a"]), 0.0);
}

#[test]
fn quirks_of_the_files_are_read() {
    // blanks in words, a carriage return, a blank at the end, a word twice, bytes that are no UTF-8, no last line feed
    let content = b"a 2 0\r\n. . . 0 2 \nat name@example.org 0 2\na 0 9\n\xff\xfe 0 2\ncaf\xc3\xa9 1 1e0";
    let vectors = read(content, &["a", ". . .", "at name@example.org", "caf\u{e9}"]).unwrap();
    assert_eq!(vectors.known(), 4);
    assert_close(cosine(&vectors, &["a"], &["caf\u{e9}"]), 0.5f64.sqrt());
    assert_close(cosine(&vectors, &[". . ."], &["at name@example.org"]), 1.0);
    assert_close(cosine(&vectors, &["a"], &[". . ."]), 0.0);
    // word2vec's header; a first word that is a number is no header where more than one number follows
    let vectors = read(b"2 3\na 1 0 0\nb 1 0 1\n", &["a", "b"]).unwrap();
    assert_eq!((vectors.dimensions(), vectors.known()), (3, 2));
    assert_close(cosine(&vectors, &["a"], &["b"]), 0.5f64.sqrt());
    assert_eq!(read(b"2 3 4\n1 5 6\n", &["2", "1"]).unwrap().known(), 2);
}

#[test]
fn wrong_files_are_named_with_the_line() {
    let fail = |content: &[u8], expected: &[&str]| {
        let error = format!("{:#}", read(content, &[]).unwrap_err());
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    };
    fail(b"a 1 2 3\nb 1 2\n", &["vectors.txt:2", "3 numbers", "but 2 fields"]);
    fail(b"a 1 2 3\nb 1 x 3\n", &["vectors.txt:2", "number 2 of 3 is \"x\""]);
    fail(b"a 1 2\nb nan 2\n", &["vectors.txt:2", "number 1 of 2 is \"nan\""]);
    fail(b"a 1 2\n\nb 1 2\n", &["vectors.txt:2", "2 numbers"]);
    fail(b"a 1 2\n 1 2\n", &["vectors.txt:2", "no word before the numbers"]);
    fail(b"a\n", &["vectors.txt:1", "a word without numbers"]);
    fail(b"", &["vectors.txt", "no word vector"]);
    fail(b"3 2\na 1 2\n", &["vectors.txt:1", "3 word vectors are announced, but 1 follow"]);
    fail(b"3 2\na 1 2 3\nb 1\n", &["vectors.txt:3"]);
    // word2vec's binary form
    let binary = [b"1 4\nthe ", &[0x80; 5000][..]].concat();
    fail(&binary, &["vectors.txt:2", "read in GloVe's text form"]);
    let error = WordVectors::read(Path::new("/nowhere/glove.txt"), &HashSet::new()).unwrap_err();
    assert!(format!("{error:#}").contains("/nowhere/glove.txt"), "{error:#}");
}

#[test]
fn contractions_are_split_as_nltk_does() {
    let all = std::fs::read_to_string(fixtures().join("contractions.json")).unwrap();
    let all: Vec<Contraction> = serde_json::from_str(&all).unwrap();
    assert!(all.len() > 30);
    for Contraction { word, words } in all {
        assert_eq!(contractions::split(&[word]), words);
    }
    assert_eq!(words("I don't; you CANNOT.", &Tokenization::ThirteenA).join(" "), "i do n't ; you can not .");
    assert!(signature(Path::new("some/glove.6B.300d.txt"), &Tokenization::ThirteenA)
        .contains("|vectors:glove.6B.300d.txt|"));
}

#[test]
fn gzipped_vectors_read_as_plain_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.txt.gz");
    // Two members one after the other, as gzip files may be joined.
    let mut packed = Vec::new();
    for part in ["a 1 0\nb 0", " 2\nc 3 3\n"] {
        let mut gzip = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::default());
        gzip.write_all(part.as_bytes()).unwrap();
        gzip.finish().unwrap();
    }
    std::fs::write(&path, &packed).unwrap();
    let needed: HashSet<String> = strings(&["a", "b", "c"]).into_iter().collect();
    let vectors = WordVectors::read(&path, &needed).unwrap();
    assert_eq!((vectors.dimensions(), vectors.known()), (2, 3));
    assert_close(cosine(&vectors, &["a"], &["b"]), 0.0);
    assert_close(cosine(&vectors, &["a"], &["c"]), 0.5f64.sqrt());
    std::fs::write(&path, &packed[..packed.len() - 9]).unwrap();
    let error = format!("{:#}", WordVectors::read(&path, &needed).unwrap_err());
    assert!(error.contains("vectors.txt.gz: the gzip data is cut short or damaged: "), "{error}");
    // The name alone makes no gzip file.
    std::fs::write(&path, "\u{feff}a 1 0\n").unwrap();
    assert_eq!(WordVectors::read(&path, &needed).unwrap().known(), 1);
}

#[test]
fn references_without_a_known_word_have_no_average() {
    let vectors = read(b"sea 1 0\nblue 0 1\n", &["sea", "blue"]).unwrap();
    let score = |reference: &[&str]| {
        let mut average = EmbeddingAverage::new(&vectors);
        average.add(&strings(&["sea"]), &strings(reference));
        (average.score().is_some(), average.unknown().value())
    };
    assert_eq!(score(&["समुद्र", "नीला"]), (false, 1.0));
    assert_eq!(score(&[]), (false, 0.0));
    assert_eq!(score(&["sea", "xyzzy", "blue", "blue"]), (true, 0.25));
}
