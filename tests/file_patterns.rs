//! File names with wildcards in an experiment: `validate` doesn't miss them, and the text reader opens what they match.

use std::path::Path;
use synthesizer::data::files::expand;
use synthesizer::data::{load, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::{defaults, Experiment};

/// A folder with the shards 00001, 00002, 00010 and 00012 of a corpus, one line each, and a folder that matches as well.
fn shards() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for shard in ["00012", "00001", "00010", "00002"] {
        std::fs::write(folder.path().join(format!("news.en-{shard}-of-00100")), format!("Line of {shard} .\n"))
            .unwrap();
        std::fs::write(folder.path().join(format!("news.de-{shard}-of-00100")), "Zeile\n").unwrap();
    }
    std::fs::create_dir(folder.path().join("news.en-00003-of-00100")).unwrap();
    std::fs::write(folder.path().join("what[1].txt"), "Brackets\n").unwrap();
    folder
}

fn lines(rows: &dyn Examples) -> Vec<String> {
    (0..rows.len()).map(|row| rows.text(row, 0).unwrap().into_owned()).collect()
}

#[test]
fn patterns_are_read_in_the_order_of_the_names() {
    let folder = shards();
    let at = |name: &str| vec![folder.path().join(name)];
    let config = DataConfig {
        corpus: CorpusKind::Text,
        train: vec![at("news.en-000[0-9][1-9]-*"), at("news.en-000?0-of-00100")],
        dev: vec![at("what[1].txt")],
        test: vec![at("*.en-00001-of-*")],
        ..defaults::data(TaskKind::LanguageModelling)
    };
    let corpus = load(&config, TaskKind::LanguageModelling).unwrap();
    let expected = ["00001", "00002", "00012", "00010"].map(|shard| format!("Line of {shard} ."));
    assert_eq!(lines(corpus.train.as_ref()), expected);
    // A name that a file has is that file, not a pattern.
    assert_eq!(lines(corpus.dev.as_ref()), ["Brackets"]);
    assert_eq!(lines(corpus.test.as_ref()), expected[..1]);
}

#[test]
fn parallel_patterns_match_pair_by_pair() {
    let folder = shards();
    let at = |name: &str| folder.path().join(name);
    let pairs = expand("train", &[vec![at("news.en-*"), at("news.de-*")]]).unwrap();
    assert_eq!(pairs.len(), 4);
    assert_eq!(pairs[2], [at("news.en-00010-of-00100"), at("news.de-00010-of-00100")]);
    let error = expand("train", &[vec![at("news.en-*"), at("news.de-0000*")]]).unwrap_err().to_string();
    assert!(error.starts_with("data.train: ") && error.contains("news.en-* matches 4 files and "), "{error}");
    assert!(error.contains("news.de-0000* 2, which do not belong together"), "{error}");
}

#[test]
fn parallel_patterns_pair_what_their_wildcards_stand_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let expand = |patterns: &[&str]| {
        let entry = patterns.iter().map(|pattern| at(pattern)).collect();
        expand("train", &[entry])
            .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    };
    for name in ["p-0.en", "p-2.en", "p-3.en", "p-0.de", "p-1.de", "p-2.de", "q1x.en", "q10x.en", "q1.de", "q10.de"] {
        std::fs::write(at(name), "x\n").unwrap();
    }
    // As many files, of other parts.
    assert_eq!(
        expand(&["p-*.en", "p-*.de"]).unwrap_err(),
        "data.train: p-*.en matches 3 files and p-*.de 3, which do not belong together: p-*.de has no match for p-3.en \
         (wildcards: 3); p-*.en has no match for p-1.de (wildcards: 1). The wildcards of parallel patterns must stand for the \
         same text in both"
    );
    // The order of names is another one on each side: `x` comes after the digits, `.` before them.
    let pairs = expand(&["q*x.en", "q*.de"]).unwrap();
    assert_eq!(pairs, [[at("q10x.en"), at("q10.de")], [at("q1x.en"), at("q1.de")]]);
    assert_eq!(expand(&["p-[02].en", "p-[02].de"]).unwrap().len(), 2);
    assert!(expand(&["p-[03].en", "p-[01].de"]).unwrap_err().contains("no match for p-3.en (wildcards: 3)"));
    // One file each is a pair only if it is the same part.
    assert!(expand(&["p-3*.en", "p-1*.de"]).is_ok());
    assert!(expand(&["p-[3].en", "p-[1].de"]).is_err());
    let unlike = expand(&["p-*.en", "?-*.de"]).unwrap_err();
    assert!(unlike.contains("p-*.en has 1 wildcards, but ?-*.de has 2"), "{unlike}");
    // A pattern with a name that was typed out.
    assert_eq!(expand(&["p-[3].en", "p-1.de"]).unwrap(), [[at("p-3.en"), at("p-1.de")]]);
    let more = expand(&["p-*.en", "p-1.de"]).unwrap_err();
    assert!(more.contains("p-*.en is 3 files, but p-1.de is 1"), "{more}");
    // Several wildcards are compared one by one.
    std::fs::create_dir_all(at("a")).unwrap();
    std::fs::create_dir_all(at("b")).unwrap();
    for name in ["a/1.en", "b/2.en", "a/2.de", "b/1.de"] {
        std::fs::write(at(name), "x\n").unwrap();
    }
    assert!(expand(&["[ab]/*.en", "[ab]/*.de"])
        .unwrap_err()
        .contains("a/1.en (wildcards: a, 1), b/2.en (wildcards: b, 2)"));
    assert!(expand(&["**/[12].en", "**/[12].de"]).is_err());
}

#[test]
fn hidden_files_and_backups_match_no_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["1.en", "._1.en", ".DS_Store", "1.en~", "#1.en#", "Thumbs.db", "2.en"] {
        std::fs::write(at(name), "x\n").unwrap();
    }
    let names = |pattern: &str| expand("train", &[vec![at(pattern)]]).unwrap().concat();
    assert_eq!(names("*"), [at("1.en"), at("2.en")]);
    assert_eq!(names("*.en*"), [at("1.en"), at("2.en")]);
    assert_eq!(names("*~"), [at("1.en~")]);
    assert_eq!(names("._*"), [at("._1.en")]);
}

#[test]
fn a_pattern_that_nothing_matches_is_named() {
    let folder = shards();
    let at = |name: &str| expand("dev", &[vec![folder.path().join(name)]]).unwrap_err().to_string();
    let nothing = at("news.fr-*");
    assert!(
        nothing.starts_with("data.dev: no file matches the pattern ") && nothing.ends_with("news.fr-*"),
        "{nothing}"
    );
    // The only thing that matches is a folder.
    assert!(at("news.en-00003*").starts_with("data.dev: no file matches"));
    assert!(at("news.en-[0").contains("news.en-[0 can't be understood"));
}

#[test]
fn validate_misses_no_pattern_that_matches() {
    let folder = shards();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let toml = format!(
        "task = \"language-modelling\"\nmix = \"V\"\n[data]\ncorpus = \"text\"\ntrain = [{:?}, {:?}]\ndev = [{:?}]\ntest = [{:?}]\n",
        at("news.en-*"),
        at("news.fr-?"),
        at("what[1].txt"),
        at("none.txt"),
    );
    let missing = Experiment::parse(Path::new("x.toml"), &toml).unwrap().missing_files();
    let told: Vec<_> =
        missing.iter().map(|problem| (problem.place.as_ref().unwrap().line, &problem.text[..])).collect();
    let none = format!("{} can't be read: No such file or directory (os error 2)", at("none.txt"));
    let pattern = format!("no file matches the pattern {}", at("news.fr-?"));
    assert_eq!(told, [(5, &pattern[..]), (7, &none[..])]);
}

#[test]
fn validate_misses_folders_and_vectors() {
    let folder = shards();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let list = at("what[1].txt");
    let toml = format!(
        "task = \"summarization\"\nmix = \"V\"\n[data]\ncorpus = \"cnn-stories\"\ntrain = {list:?}\ndev = {list:?}\ntest = {list:?}\n\
         stories = [\n{:?},\n{list:?},\n{:?}]\n[[variant]]\nname = \"a\"\nmix = \"V\"\n[variant.data]\nvectors = {:?}\n",
        at(""),
        at("none"),
        at("none.txt"),
    );
    let missing = Experiment::parse(Path::new("x.toml"), &toml).unwrap().missing_files();
    let told: Vec<_> =
        missing.iter().map(|problem| (problem.place.as_ref().unwrap().line, &problem.text[..])).collect();
    let no_folder = format!("{list} can't be read: it is no folder");
    let [none, vectors] =
        ["none", "none.txt"].map(|name| format!("{} can't be read: No such file or directory (os error 2)", at(name)));
    assert_eq!(told, [(10, &no_folder[..]), (11, &none[..]), (16, &vectors[..])]);
}
