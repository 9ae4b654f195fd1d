//! Scores of texts that a metric cannot see, of parts of a test set, and without a value: blank cells and notes, never a
//! silent 0. The models are untrained; what is checked does not depend on what they write.

mod common;

use common::workplace::Workplace;
use common::{alone, first_run, scratch};
use serde_json::Value;
use std::path::Path;
use synthesizer::experiment::{Experiment, PlannedRun};
use synthesizer::task::{self, Scores};
use tch::Device;

const HINDI: [&str; 4] = ["दरवाज़ा खुलने पर बत्ती जलाओ", "वह घर जा रहा है", "आज मौसम अच्छा है", "मुझे पानी दो"];
const CHINESE: [&str; 4] = ["前门打开时请开灯", "我不知道他们在说什么", "第一季度价格上涨了", "他来自华盛顿"];
const JAPANESE: [&str; 4] =
    ["日本語の文章です", "ラーメンを食べました", "ドアを開けてください", "とても楽しい一日でした"];
const ENGLISH: [&str; 4] =
    ["turn on the red lamp", "he goes home by bus", "the weather is fine today", "give me the blue pump"];

/// The sections that all runs here share.
fn settings(task: &str, data: &str) -> String {
    let layers = match task {
        "classification" => "encoder_layers = 1",
        _ => "encoder_layers = 1\ndecoder_layers = 1",
    };
    format!(
        "title = \"Case\"\ntask = {task:?}\nmix = \"V\"\n[data]\nvocabulary = 300\nmax_tokens = 60\n{data}\n[model]\nd_model = 8\nheads = 2\n{layers}\nd_ff = 8\n\
         max_length = 64\n[train]\nsteps = 1\nwarmup = 0\nschedule = \"linear\"\nbatch_tokens = 256\nlog_every = 1\n\
         evaluate_every = 1\n"
    )
}

/// A corpus of the same rows in every split.
fn pairs(folder: &Path, task: &str, targets: &[&str], more: &str) -> PlannedRun {
    let write = |name: &str, lines: &[&str]| std::fs::write(folder.join(name), lines.join("\n") + "\n").unwrap();
    let sources: Vec<&str> = ENGLISH.iter().cycle().take(targets.len()).copied().collect();
    write("a.src", &sources);
    write("a.tgt", targets);
    let files = format!("[{:?}, {:?}]", folder.join("a.src"), folder.join("a.tgt"));
    let data = format!("corpus = \"text\"\ntrain = {files}\ndev = {files}\ntest = {files}\n{more}");
    first_run(&settings(task, &data), &folder.join("results"))
}

fn scored(planned: &PlannedRun) -> Scores {
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    std::fs::create_dir_all(&planned.folder).unwrap();
    task.score(&task.dev().unwrap(), &planned.folder).unwrap()
}

fn of<'a>(scores: &'a Scores, name: &str) -> &'a Value {
    let metric = scores.metrics.iter().find(|metric| metric.0 == name);
    &metric.unwrap_or_else(|| panic!("no {name} in {scores:?}")).1
}

#[track_caller]
fn blank(scores: &Scores, names: &[&str]) {
    for name in names {
        assert!(of(scores, name).is_null(), "{name}: {scores:?}");
        assert!(scores.notes.iter().any(|note| note.contains(name) && note.contains("blank")), "{name}: {scores:?}");
    }
}

#[track_caller]
fn noted(scores: &Scores, part: &str) {
    assert!(scores.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", scores.notes);
    // so that a cell of notes can be split again
    assert!(scores.notes.iter().all(|note| note.ends_with('.') && !note.contains(". ")), "{:?}", scores.notes);
}

#[track_caller]
fn signed(scores: &Scores, name: &str, part: &str) {
    let signature = of(scores, &format!("{name}.signature")).as_str().unwrap();
    assert!(signature.contains(part), "{signature}");
}

#[test]
fn rouge_of_another_script_is_blank_or_of_declared_words() {
    let _alone = alone();
    let folder = scratch();
    let scores = scored(&pairs(folder.path(), "summarization", &HINDI, ""));
    blank(&scores, &["dev.rouge1", "test.rouge1", "test.rouge2", "test.rougel", "test.rougelsum"]);
    noted(&scores, "ROUGE cannot score 4 of 4 references: they have no Latin letters (a to z) or digits");
    signed(&scores, "test.rouge", "rouge-score|f1|stem:porter-nltk|");

    let scores = scored(&pairs(folder.path(), "summarization", &HINDI, "target = \"hi\""));
    assert!(of(&scores, "test.rouge1").is_f64() && scores.notes.is_empty(), "{scores:?}");
    signed(&scores, "test.rouge", "rouge-score|f1|tok:unicode|stem:none|");

    // half of the references, and fewer letters of the others
    let mixed = [ENGLISH[0], HINDI[0], ENGLISH[1], "🙂 👍"];
    let scores = scored(&pairs(folder.path(), "summarization", &mixed, ""));
    assert!(of(&scores, "test.rouge1").is_f64());
    noted(&scores, "ROUGE cannot score 2 of 4 references");
    noted(&scores, "of the letters of the test references: it keeps Latin letters (a to z) or digits only.");

    // Latin text keeps rouge-score's words whatever is declared
    for target in ["", "target = \"en\"", "target = \"hi\""] {
        let scores = scored(&pairs(folder.path(), "summarization", &ENGLISH, target));
        signed(&scores, "test.rouge", "rouge-score|f1|stem:porter-nltk|");
        assert!(scores.notes.is_empty(), "{scores:?}");
    }
    // one word each: no pair of words
    let scores = scored(&pairs(folder.path(), "summarization", &["lamp", "bus", "pump", "door"], ""));
    blank(&scores, &["test.rouge2"]);
    assert!(of(&scores, "test.rouge1").is_f64());
}

#[test]
fn translations_are_scored_as_sacrebleu_does_for_their_language() {
    let _alone = alone();
    let folder = scratch();
    let to = |target: &str, lines: &[&str]| {
        let languages = format!("source = \"en\"\ntarget = {target:?}");
        scored(&pairs(folder.path(), "translation", lines, &languages))
    };
    let chinese = to("zh", &CHINESE);
    signed(&chinese, "test.bleu", "|tok:zh|smooth:exp|");
    signed(&chinese, "dev.bleu", "|tok:zh|");
    assert!(of(&chinese, "test.bleu").is_f64());
    blank(&chinese, &["test.bleu_tokenized"]);
    assert!(!chinese.metrics.iter().any(|metric| metric.0 == "test.bleu_tokenized.signature"));

    let japanese = to("ja", &JAPANESE);
    signed(&japanese, "test.bleu", "|tok:char|smooth:exp|");
    noted(&japanese, "sacreBLEU splits Japanese with MeCab (ja-mecab), which this program does not have.");

    // the wrong language is declared
    let german = to("de", &CHINESE);
    signed(&german, "test.bleu", "|tok:13a|");
    blank(&german, &["test.bleu", "test.bleu_tokenized"]);
    noted(&german, "split words at blanks, but 100 % of the letters of the test references");
    noted(&german, "data.target is \"de\"");

    let plain = to("fr", &ENGLISH);
    assert!(of(&plain, "test.bleu").is_f64() && plain.notes.is_empty(), "{plain:?}");
    let short = to("fr", &["oui", "non merci", "ici", "la porte"]);
    blank(&short, &["dev.bleu", "test.bleu"]);
    noted(&short, "no reference has four words");
}

#[test]
fn replies_are_scored_by_the_words_of_their_language() {
    let _alone = alone();
    let folder = scratch();
    let metrics = ["test.bleu1", "test.rougel", "test.meteor", "test.cider"];
    let vectors = folder.path().join("vectors.txt");
    std::fs::write(&vectors, "the 1 0\nlamp 0 1\n").unwrap();
    let with_vectors = format!("vectors = {vectors:?}");

    let chinese = scored(&pairs(folder.path(), "dialogue", &CHINESE, &format!("target = \"zh\"\n{with_vectors}")));
    metrics.iter().for_each(|name| signed(&chinese, name, "|tok:zh|"));
    assert!(metrics.iter().all(|name| of(&chinese, name).is_f64()));
    blank(&chinese, &["test.embedding_average"]);
    noted(&chinese, "no word of the references has a vector in data.vectors");

    let undeclared = scored(&pairs(folder.path(), "dialogue", &CHINESE, ""));
    metrics.iter().for_each(|name| signed(&undeclared, name, "|tok:13a|"));
    noted(&undeclared, "BLEU-1, BLEU-4, ROUGE-L, METEOR and CIDEr split words at blanks, but 100 %");
    noted(&undeclared, "data.target is not declared");

    let thai = scored(&pairs(folder.path(), "dialogue", &["สวัสดีครับ", "ประตูเปิด", "ไม่รู้", "ขอบคุณ"], "target = \"th\""));
    signed(&thai, "test.bleu1", "|tok:char|");
    noted(&thai, "compare characters (tok:char), not words");

    let english = scored(&pairs(folder.path(), "dialogue", &ENGLISH, &with_vectors));
    assert!(of(&english, "test.embedding_average").is_f64());
    noted(&english, "of the words of the test references for the mean of all vectors");

    let one = scored(&pairs(folder.path(), "dialogue", &["turn it on now"], ""));
    blank(&one, &["dev.cider", "test.cider"]);
    noted(&one, "test.cider is blank: the document frequencies of a single exchange");
    let same = scored(&pairs(folder.path(), "dialogue", &["yes", "yes"], ""));
    blank(&same, &["test.cider", "test.bleu4"]);
    noted(&same, "all references have the same n-grams");
}

#[test]
fn cut_sources_and_missing_rows_are_counted() {
    let _alone = alone();
    let folder = scratch();
    let long = format!("{} and so on", "the red lamp is on ".repeat(40));
    for (task, more) in [("translation", "source = \"en\"\ntarget = \"fr\""), ("summarization", "")] {
        let planned = pairs(folder.path(), task, &ENGLISH, more);
        std::fs::write(folder.path().join("a.src"), format!("{long}\nis it\n{long}\nso\n")).unwrap();
        let mut run = planned.run.clone();
        run.data.too_long = synthesizer::experiment::config::TooLong::Cut;
        let scores = scored(&PlannedRun { run, ..planned });
        noted(&scores, "2 of 4 test sources are cut to 60 tokens");
        assert_eq!(of(&scores, "test.scored_share"), 1.0, "{task}");
    }
    // a listed story without a file
    let stories = folder.path().join("stories");
    std::fs::create_dir_all(&stories).unwrap();
    let file = |url: &str| {
        use sha1::Digest;
        let digest = sha1::Sha1::digest(url.as_bytes());
        stories.join(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + ".story")
    };
    for url in ["http://a", "http://b", "http://c"] {
        std::fs::write(file(url), "The red lamp is on.\n\n@highlight\n\nThe lamp is on\n").unwrap();
    }
    for (name, urls) in [("train", "http://a"), ("dev", "http://b"), ("test", "http://c\nhttp://d\nhttp://a\nhttp://e")]
    {
        std::fs::write(folder.path().join(name), format!("{urls}\n")).unwrap();
    }
    let lists = ["train", "dev", "test"].map(|name| format!("{name} = {:?}\n", folder.path().join(name))).concat();
    let data = format!("corpus = \"cnn-stories\"\nstories = {stories:?}\n{lists}");
    let scores = scored(&first_run(&settings("summarization", &data), &folder.path().join("results")));
    assert_eq!(of(&scores, "test.scored_share"), 0.5);
    noted(&scores, "The test scores cover 2 of 4 rows (50 %).");
}

/// A task of GLUE, whose dev set is scored as the test set.
fn glue(folder: &Path, set: &str, header: &str, train: &[String], dev: &[String]) -> Scores {
    for (name, rows) in [("train.tsv", train), ("dev.tsv", dev)] {
        let path = folder.join("glue").join(set);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(name), format!("{header}{}\n", rows.join("\n"))).unwrap();
    }
    let data = format!("corpus = \"glue\"\nset = {set:?}\nfolder = {:?}", folder.join("glue"));
    scored(&first_run(&settings("classification", &data), &folder.join("results")))
}

#[test]
fn metrics_of_constant_labels_are_blank_and_so_is_the_suites_part() {
    let _alone = alone();
    let folder = scratch();
    let cola =
        |label: &str, rows: usize| (0..rows).map(|row| format!("x\t{label}\t\tso it is {row}")).collect::<Vec<_>>();
    let both = [cola("1", 300), cola("0", 300)].concat();
    let scores = glue(folder.path(), "CoLA", "", &both, &cola("1", 4));
    blank(&scores, &["test.matthews", "test.score"]);
    noted(&scores, "all labels or all predictions are of one class");

    let header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
    let stsb = |score: fn(usize) -> f64, rows: usize| {
        let row = |row: usize| format!("{row}\tg\tf\t2012\t{row}\ta\tb\tso it is {row}\tit is {row}\t{}", score(row));
        (0..rows).map(row).collect::<Vec<_>>()
    };
    let varied = stsb(|row| (row % 6) as f64, 300);
    let scores = glue(folder.path(), "STS-B", header, &varied, &stsb(|_| 2.5, 4));
    blank(&scores, &["test.pearson", "test.spearman", "test.score"]);
    noted(&scores, "test.pearson and test.spearman are blank: the scores or the predictions do not vary.");
    let scores = glue(folder.path(), "STS-B", header, &varied, &stsb(|_| 2.5, 1));
    blank(&scores, &["test.pearson", "test.spearman"]);
}

#[test]
fn rows_that_a_reader_skips_are_not_covered() {
    let _alone = alone();
    let folder = scratch();
    let row = |row: usize| format!("{row}\t1\t2\tis it {row} ?\tis this {row} ?\t{}", row % 2);
    let rows = |count: usize| (0..count).map(row).collect::<Vec<_>>();
    let header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
    let dev = [rows(3), vec!["7\t1\t2\tis it ?\t\t1".into()]].concat();
    let scores = glue(folder.path(), "QQP", header, &rows(300), &dev);
    assert_eq!(of(&scores, "test.scored_share"), 0.75);
    noted(&scores, "The test scores cover 3 of 4 rows (75 %).");
    // a text that does not fit
    let long = format!("9\t1\t2\t{}\tis this ?\t1", "is it so ".repeat(60));
    let scores = glue(folder.path(), "QQP", header, &rows(300), &[rows(3), vec![long]].concat());
    noted(&scores, "1 of 4 test rows are cut to 64 tokens");
}

#[test]
fn only_texts_that_the_user_names_have_a_language_to_declare() {
    let problems = |text: &str| {
        let experiment = Experiment::parse(Path::new("x.toml"), text).unwrap();
        experiment.plan(Path::new("results")).map(|_| ()).unwrap_err().to_string()
    };
    for (task, why) in
        [("summarization", "this corpus is English"), ("language-modelling", "this task writes no target")]
    {
        let text = format!("task = {task:?}\nmix = \"V\"\n[data]\ntarget = \"zh\"\n");
        let message = problems(&text);
        assert!(message.contains("`target` has no effect") && message.contains(why), "{message}");
    }
}

#[test]
fn a_note_is_in_the_log_the_csv_and_every_table() {
    let place = Workplace::new("\"V\"", 1);
    std::fs::write(place.path("a.src"), ENGLISH.join("\n") + "\n").unwrap();
    std::fs::write(place.path("a.tgt"), HINDI.join("\n") + "\n").unwrap();
    // Another order, since a test set that is the training set is refused.
    let backwards = |lines: &[&str]| lines.iter().rev().map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(place.path("b.src"), backwards(&ENGLISH)).unwrap();
    std::fs::write(place.path("b.tgt"), backwards(&HINDI)).unwrap();
    let files = "corpus = \"text\"\ntrain = [\"a.src\", \"a.tgt\"]\ndev = [\"a.src\", \"a.tgt\"]\ntest = [\"b.src\", \"b.tgt\"]";
    place.write(&settings("summarization", files));
    let note = "ROUGE cannot score 4 of 4 references";
    assert!(place.said(&["run", "toy.toml"], 0).contains(note));
    let csv = std::fs::read_to_string(place.path("results/custom/toy.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let row: std::collections::HashMap<String, String> = reader.deserialize().next().unwrap().unwrap();
    assert!(row["notes"].contains(note) && row["test.rouge1"].is_empty(), "{row:?}");
    assert_eq!(row["test.scored_share"], "1.0");
    let shown = place.said(&["report", "toy.toml"], 0);
    let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped(&shown).contains("Case, V, seed 1: dev.rouge1") && unwrapped(&shown).contains(note), "{shown}");
    for table in ["results/custom/custom.md", "results/custom/custom.tex", "plots/custom/index.html"] {
        let text = std::fs::read_to_string(place.path(table)).unwrap();
        assert!(unwrapped(&text).contains(note), "{table}: {text}");
    }
}
