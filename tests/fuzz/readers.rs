//! The readers of corpora, through to their token stores.

use crate::mutate::{bytes, files, repository};
use anyhow::{bail, Result};
use flate2::write::GzEncoder;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use synthesizer::data::labelled::{self, glue, superglue};
use synthesizer::data::{self, Examples};
use synthesizer::experiment::{defaults, CorpusKind, DataConfig, TaskKind};
use synthesizer::metric::embedding_average::WordVectors;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn config(corpus: CorpusKind, task: TaskKind) -> DataConfig {
    DataConfig { corpus, vocabulary: 300, max_tokens: 40, window: 0, ..defaults::data(task) }
}

fn each(folder: &Path, names: &[&str]) -> Vec<Vec<PathBuf>> {
    vec![names.iter().map(|name| folder.join(name)).collect()]
}

/// Reads every text of every split, then makes tokenizer and token stores.
fn read(config: &DataConfig, task: TaskKind) -> Result<()> {
    let corpus = data::load(config, task)?;
    for split in [&corpus.train, &corpus.dev, &corpus.test] {
        all(split.as_ref())?;
    }
    let prepared = data::prepare(&corpus, config, task)?;
    for store in [&prepared.train, &prepared.dev, &prepared.test] {
        for row in 0..store.len() {
            for column in 0..store.columns() {
                assert_eq!(store.tokens(row, column)?.len(), store.text_length(row, column));
            }
        }
    }
    Ok(())
}

fn all(rows: &dyn Examples) -> Result<()> {
    for row in 0..rows.len() {
        for column in 0..rows.columns() {
            rows.text(row, column)?;
        }
    }
    Ok(())
}

/// Parallel lines, plain or gzipped, SGML of both forms, tagged summaries; or single files of a language model.
pub fn text(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let lines = |word: &str| (0..20).map(|n| format!("{word} {n} is a line\n")).collect::<String>().into_bytes();
    let [a, b] = [lines("this"), lines("jene")];
    let sgm = |lang: &str| {
        let segments: String = (1..9).map(|n| format!("<seg id=\"{n}\">{lang} segment {n} & so on</seg>\n")).collect();
        format!("<refset setid=\"x\" trglang=\"{lang}\">\n<doc docid=\"one\" origlang=\"en\">\n<p>\n{segments}</p>\n</doc>\n</refset>\n")
            .into_bytes()
    };
    let tags = |lang: &str| {
        let lines: String = (0..9).map(|n| format!("<title>{lang} {n}</title>\n{lang} sentence {n}\n")).collect();
        format!("<url>http://x</url>\n{lines}").into_bytes()
    };
    let tagged = |_: &str| (0..20).map(|n| format!("<t> a {n} </t> <t> b </t>\n")).collect::<String>().into_bytes();
    let pairs: [(&str, &str, Vec<u8>, Vec<u8>); 7] = [
        ("t.en", "t.de", a.clone(), b.clone()),
        ("t.en.gz", "t.de.gz", gzip(&a), gzip(&b)),
        ("t-src.en.sgm", "t-ref.de.sgm", sgm("en"), sgm("de")),
        ("train.tags.en-de.en", "train.tags.en-de.de", tags("en"), tags("de")),
        ("t.src", "t.tgt.tagged", a.clone(), tagged("")),
        ("t.EN.GZ", "t.DE.GZ", gzip(&a), gzip(&b)),
        ("t.en.sgm.gz", "t.de.sgm.gz", gzip(&sgm("en")), gzip(&sgm("de"))),
    ];
    let (source, target, from, to) = pairs.choose(rng).unwrap().clone();
    let held =
        [("dev.en", lines("dev")), ("dev.de", lines("held")), ("test.en", lines("test")), ("test.de", lines("out"))];
    let mut sample = vec![(source.to_string(), from), (target.to_string(), to)];
    sample.extend(held.map(|(name, bytes)| (name.to_string(), bytes)));
    files(rng, folder, &sample);
    let task = *[TaskKind::Translation, TaskKind::LanguageModelling, TaskKind::Summarization].choose(rng).unwrap();
    let mut config = config(CorpusKind::Text, task);
    if task == TaskKind::LanguageModelling {
        config.window = *[0, 7].choose(rng).unwrap();
        (config.train, config.dev, config.test) =
            (each(folder, &[source]), each(folder, &["dev.en"]), each(folder, &["test.en"]));
    } else {
        config.train = each(folder, &[source, target]);
        (config.dev, config.test) = (each(folder, &["dev.en", "dev.de"]), each(folder, &["test.en", "test.de"]));
        if task == TaskKind::Translation {
            (config.source, config.target) = ("en".into(), "de".into());
        }
    }
    read(&config, task)
}

/// One file of the fixtures as train, mutated, and the same as dev and test.
fn one_of(rng: &mut StdRng, folder: &Path, fixture: &str, config: &mut DataConfig) -> Result<()> {
    let sample = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data").join(fixture))?;
    let mut mutated = bytes(rng, &sample, &[]);
    let packed = rng.random_bool(0.1);
    if packed {
        mutated = gzip(&mutated);
    }
    let name = if packed { "train.gz" } else { "train" };
    std::fs::write(folder.join(name), mutated)?;
    for name in ["dev", "test"] {
        std::fs::write(folder.join(name), &sample)?;
    }
    (config.train, config.dev, config.test) = (each(folder, &[name]), each(folder, &["dev"]), each(folder, &["test"]));
    Ok(())
}

pub fn json_lines(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let task = *[TaskKind::Summarization, TaskKind::LanguageModelling].choose(rng).unwrap();
    let mut config = config(CorpusKind::JsonLines, task);
    let fields: &[&str] = if task == TaskKind::Summarization { &["article", "highlights"] } else { &["article"] };
    config.fields = fields.iter().map(|field| field.to_string()).collect();
    one_of(rng, folder, "news.jsonl", &mut config)?;
    read(&config, task)
}

pub fn parlai(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let mut config = config(CorpusKind::Parlai, TaskKind::Dialogue);
    config.history = rng.random_range(0..4);
    config.personas = rng.random_bool(0.5);
    let fixture = *["dialogue/convai2.txt", "dialogue/personachat.txt"].choose(rng).unwrap();
    one_of(rng, folder, fixture, &mut config)?;
    if rng.random_bool(0.3) {
        let lines: String = (0..9)
            .map(|n| {
                format!(
                    "text:one {n}\\ntwo\tlabels:yes|no {n}\tepisode_done:{}\n",
                    if n % 3 == 2 { "True" } else { "False" }
                )
            })
            .collect();
        std::fs::write(folder.join("train"), bytes(rng, lines.as_bytes(), &[]))?;
    }
    read(&config, TaskKind::Dialogue)
}

pub fn persona_chat(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let mut config = config(CorpusKind::PersonaChat, TaskKind::Dialogue);
    config.history = rng.random_range(0..4);
    one_of(rng, folder, "dialogue/persona_chat.json", &mut config)?;
    (config.dev, config.test) = (Vec::new(), Vec::new());
    read(&config, TaskKind::Dialogue)
}

pub fn stories(rng: &mut StdRng, folder: &Path) -> Result<()> {
    files(rng, folder, &repository("tests/fixtures/data/stories"));
    let mut config = config(CorpusKind::CnnStories, TaskKind::Summarization);
    config.stories = vec![folder.join("one"), folder.join("two")];
    (config.train, config.dev, config.test) =
        (each(folder, &["train.txt"]), each(folder, &["dev.txt"]), each(folder, &["test.txt"]));
    read(&config, TaskKind::Summarization)
}

/// A file of a set, read with and without its labels.
pub fn glue(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let fixtures = repository("tests/fixtures/data/labelled/glue");
    let (name, sample) = fixtures.choose(rng).unwrap();
    let set = glue::set(name.split('/').next().unwrap())?;
    let path = folder.join(Path::new(name).file_name().unwrap());
    std::fs::write(&path, bytes(rng, sample, &[]))?;
    let texts = glue::read_texts(set, &path);
    let rows = glue::read_file(set, &path)?;
    assert!(rows.rows.rows.iter().all(|row| row.texts.len() == rows.rows.columns));
    texts.map(drop)
}

pub fn superglue(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let fixtures = repository("tests/fixtures/data/labelled/superglue");
    let (name, sample) = fixtures.choose(rng).unwrap();
    let set = superglue::set(name.split('/').next().unwrap())?;
    let path = folder.join("val.jsonl");
    std::fs::write(&path, bytes(rng, sample, &[]))?;
    let texts = superglue::read_texts(set, &path);
    let rows = superglue::read_file(set, &path)?;
    assert!(rows.rows.rows.iter().all(|row| row.texts.len() == rows.rows.columns));
    texts.map(drop)
}

pub fn ag_news(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let rows = |count: usize, word: &str| {
        let row =
            |n: usize| format!("\"{}\",\"{word} {n}\",\"Some \"\"text\"\" of {word} {n}\\, and more\"\n", n % 4 + 1);
        (0..count).map(row).collect::<String>().into_bytes()
    };
    files(rng, folder, &[("train.csv".into(), rows(80, "train")), ("test.csv".into(), rows(8, "test"))]);
    let corpus =
        labelled::load(&DataConfig { folder: folder.into(), ..config(CorpusKind::AgNews, TaskKind::Classification) })?;
    all(&corpus.train)
}

pub fn imdb(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let mut sample = Vec::new();
    for split in ["train", "test"] {
        for (label, score) in [("pos", 9), ("neg", 2)] {
            for n in 0..30 {
                let name = format!("{split}/{label}/{n}_{score}.txt");
                sample.push((name, format!("a {label} review {n} of {split}<br /><br />yes").into_bytes()));
            }
        }
    }
    files(rng, folder, &sample);
    let corpus =
        labelled::load(&DataConfig { folder: folder.into(), ..config(CorpusKind::Imdb, TaskKind::Classification) })?;
    all(&corpus.train)
}

pub fn vectors(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let rows: String = (0..12).map(|n| format!("word{n} 0.{n} -1.5e-3 {n}\n")).collect();
    let header = if rng.random_bool(0.3) { "12 3\n" } else { "" };
    let mut content = bytes(rng, format!("{header}{rows}").as_bytes(), &[]);
    let packed = rng.random_bool(0.2);
    if packed {
        content = gzip(&content);
    }
    let path = folder.join(if packed { "vectors.txt.gz" } else { "vectors.txt" });
    std::fs::write(&path, content)?;
    let needed: HashSet<String> = ["word1", "word7"].map(String::from).into();
    let vectors = WordVectors::read(&path, &needed)?;
    if vectors.known() > needed.len() {
        bail!("more vectors than were asked for");
    }
    Ok(())
}
