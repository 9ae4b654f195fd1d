//! Dialogue corpora: ParlAI's text form, PersonaChat's JSON, ChatterBot's YAML, on small made-up files.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use synthesizer::data::rows::{split_at, Split};
use synthesizer::data::{chatterbot, load, source_of_line, Corpus, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::defaults;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data/dialogue").join(name)
}

fn config(corpus: CorpusKind, train: &Path) -> DataConfig {
    let files = |path: &Path| vec![vec![path.to_path_buf()]];
    let mut config = DataConfig { corpus, train: files(train), ..defaults::data(TaskKind::Dialogue) };
    if corpus == CorpusKind::Parlai {
        config.dev = files(&fixture("personachat.txt"));
        config.test = files(&fixture("convai2.txt"));
    }
    config
}

fn read(config: &DataConfig) -> anyhow::Result<Corpus> {
    load(config, TaskKind::Dialogue)
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

const SKI: &str = "your persona: i like to ski.\nyour persona: my wife does not like me anymore.\n\
                   partner's persona: i have four children.\n";

#[test]
fn parlai_rows_are_replies_with_all_before_them() {
    let corpus = read(&config(CorpusKind::Parlai, &fixture("convai2.txt"))).unwrap();
    let first = "hi , how are you doing ?";
    let second = format!(
        "{first}\ni am fine , thanks . you ?\ngreat . 2 kids and 1 cat at home .\noh nice ! i'm off to the slopes ."
    );
    let expected = [
        (&format!("{SKI}{first}")[..], "i am fine , thanks . you ?"),
        (
            &format!("{SKI}{first}\ni am fine , thanks . you ?\ngreat . 2 kids and 1 cat at home .")[..],
            "oh nice ! i'm off to the slopes .",
        ),
        (&format!("{SKI}{second}\nhave fun | be safe")[..], "i will ."),
        ("your persona: i read a lot.\nhello there", "hi"),
    ];
    assert_eq!(pairs(corpus.train.as_ref()), strings(&expected));
    // The second column is the reply, whatever the candidates are.
    let expected = [
        ("hello", "hi ."),
        ("hello\nhi .\nwhat do you do ?", "i am a baker ."),
        ("good morning", "good morning to you ."),
    ];
    assert_eq!(pairs(corpus.dev.as_ref()), strings(&expected));
    assert_eq!(corpus.name, "parlai (convai2.txt …)");
    assert_eq!(corpus.notes[..2], ["dialogues: 2 train, 2 dev, 2 test", "persona lines: 8"]);
}

#[test]
fn history_and_personas_are_as_the_user_says() {
    let mut config = config(CorpusKind::Parlai, &fixture("convai2.txt"));
    let whole = read(&config).unwrap();
    config.history = 2;
    let two = read(&config).unwrap();
    let expected = format!("{SKI}oh nice ! i'm off to the slopes .\nhave fun | be safe");
    assert_eq!(two.train.text(2, 0).unwrap(), expected);
    config.personas = false;
    let bare = read(&config).unwrap();
    assert_eq!(bare.train.text(2, 0).unwrap(), "oh nice ! i'm off to the slopes .\nhave fun | be safe");
    assert_eq!(bare.train.text(0, 0).unwrap(), "hi , how are you doing ?");
    assert!(bare.notes[1].ends_with("left out (data.personas = false)"), "{:?}", bare.notes);
    assert!(whole.hash != two.hash && two.hash != bare.hash);
}

/// The rows of a file, with the notes.
fn parlai(text: &str) -> (Vec<(String, String)>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.txt");
    std::fs::write(&path, text).unwrap();
    let corpus = read(&config(CorpusKind::Parlai, &path)).unwrap();
    (pairs(corpus.train.as_ref()), corpus.notes)
}

#[test]
fn a_backslash_and_an_n_are_a_line_break_in_every_field() {
    let text = "1 your persona: i ski.\\ni bake.\n\
                2 hello ,\\nand good day\\n \tyes ,\\n it is\t\tno\\n|yes\n\
                3 C:\\temp\\nothing\tfine\n\
                1 your persona: i read.\\npartner's persona: i run.\\nhi\thello\n\
                1 your persona: i swim.\tgood morning\n";
    let expected = [
        ("your persona: i ski.\ni bake.\nhello ,\nand good day", "yes ,\nit is"),
        ("your persona: i ski.\ni bake.\nhello ,\nand good day\nyes ,\nit is\nC:\\temp\nothing", "fine"),
        ("your persona: i read.\npartner's persona: i run.\nhi", "hello"),
        ("your persona: i swim.", "good morning"),
    ];
    let (rows, notes) = parlai(text);
    assert_eq!(rows, strings(&expected));
    assert_eq!(notes[..2], ["dialogues: 3 train, 2 dev, 2 test", "persona lines: 9"]);
}

#[test]
fn the_first_of_several_labels_is_the_reply() {
    let text = "1 a | b ?\t yes .|sure it is . |yes\t\tno|yes .\n2 and now\t |no\n3 bye\tbye |\n4 \tsee you\n5 __SILENCE__\tbye\n";
    let expected = [
        ("a | b ?", "yes ."),
        ("a | b ?\nyes .\nand now", "no"),
        ("a | b ?\nyes .\nand now\nno\nbye", "bye"),
        ("a | b ?\nyes .\nand now\nno\nbye\nbye", "see you"),
        ("a | b ?\nyes .\nand now\nno\nbye\nbye\nsee you\n__SILENCE__", "bye"),
    ];
    let (rows, notes) = parlai(text);
    assert_eq!(rows, strings(&expected));
    assert!(notes.iter().any(|note| note.starts_with("1 turns have several replies (`a|b`)")), "{notes:?}");
    // Nothing is said where no turn has several.
    assert!(!parlai("1 a|b\tc\t\td|e\n").1.iter().any(|note| note.contains("several")));
}

#[test]
fn a_line_of_input_is_the_source_that_training_makes() {
    for (corpus, file) in [
        (CorpusKind::Parlai, "convai2.txt"),
        (CorpusKind::Parlai, "personachat.txt"),
        (CorpusKind::PersonaChat, "persona_chat.json"),
    ] {
        let mut config = config(corpus, &fixture(file));
        let whole = read(&config).unwrap();
        for (history, personas) in [(0, true), (1, true), (2, true), (3, false)] {
            (config.history, config.personas) = (history, personas);
            let trained = read(&config).unwrap();
            for row in 0..whole.train.len() {
                let line = whole.train.text(row, 0).unwrap().replace('\n', " \\n");
                let source = source_of_line(&config, &line).unwrap();
                assert_eq!(source, trained.train.text(row, 0).unwrap(), "{history} {personas} {line}");
            }
        }
    }
    // A turn of two lines counts as two, in training as in a line of input.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.txt");
    std::fs::write(&path, "1 hi\\nyou\tyes\\n?\n2 bye\tbye\n").unwrap();
    let mut config = config(CorpusKind::Parlai, &path);
    for (history, expected) in [(0, "hi\nyou\nyes\n?\nbye"), (1, "bye"), (2, "?\nbye"), (4, "you\nyes\n?\nbye")] {
        config.history = history;
        assert_eq!(read(&config).unwrap().train.text(1, 0).unwrap(), expected);
        assert_eq!(source_of_line(&config, "hi\\nyou\\nyes\\n?\\nbye").unwrap(), expected);
    }
    assert_eq!(source_of_line(&config, " \\n\u{a0}\\n").unwrap(), "");
    for (line, expected) in [
        ("hi\\nyour persona: i ski.", "persona lines begin a dialogue"),
        ("hi\thello", "separated by \\n (a backslash and an n)"),
    ] {
        let error = message(source_of_line(&config, line));
        assert!(error.contains(expected), "{error}");
    }
    // Chatterbot has no persona lines; plain files are taken as they are.
    let of = |corpus| DataConfig { corpus, history: 2, ..defaults::data(TaskKind::Dialogue) };
    let source = source_of_line(&of(CorpusKind::Chatterbot), "your persona: a\\nb\\nc").unwrap();
    assert_eq!(source, "b\nc");
    assert_eq!(source_of_line(&of(CorpusKind::Text), "a\\nb\tc ").unwrap(), "a\\nb\tc ");
}

#[test]
fn broken_parlai_files_end_in_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.txt");
    for (text, expected) in [
        ("1 hi\thello\n2 cut", "x.txt, line 2: 0 tabs; a turn is an utterance, a tab and its reply"),
        ("1 a\tb\tc\td\te\n", "x.txt, line 1: 4 tabs"),
        ("1 hi\thello\n2 hi\t \n", "x.txt, line 2: the reply to \"hi\" is empty"),
        ("1 hi\thello\n3 hi\tyes\n", "x.txt, line 2: number 3 follows 1;"),
        ("4 hi\thello\n", "x.txt, line 1: number 4 follows 0;"),
        ("1 hi\thello\nhow are\tyou\n", "x.txt, line 2: a line begins with its number in the dialogue and a blank"),
        ("1 hi\thello\n2 your persona: x\n", "x.txt, line 2: a persona line after a turn"),
        ("1 hi\thello\n2 your persona: x\\nhi\thello\n", "x.txt, line 2: a persona line after a turn"),
        ("1 hi\t|\\n\n", "x.txt, line 1: the reply to \"hi\" is empty"),
        ("1 Sam went out.\n2 Where is Sam?\toutside\n", "x.txt, line 1: 0 tabs"),
        ("text:hi\tlabels:hello\tepisode_done:True\n", "x.txt, line 1: a line begins with its number"),
        ("1 your persona: x\n", "data.train: there is no turn in "),
        ("", "data.train: there is no turn in "),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = message(read(&config(CorpusKind::Parlai, &path)));
        assert!(error.contains(expected), "{error}");
    }
    std::fs::write(&path, b"1 hi\thello\n2 caf\xe9\tyes\n").unwrap();
    let error = message(read(&config(CorpusKind::Parlai, &path)));
    assert!(error.contains("x.txt, line 2: invalid UTF-8"), "{error}");
    let missing = message(read(&config(CorpusKind::Parlai, &folder.path().join("none.txt"))));
    assert!(missing.starts_with("data.train: there is no file ") && missing.ends_with("none.txt"), "{missing}");
    let mut two = config(CorpusKind::Parlai, &path);
    two.train[0].push(path.clone());
    let error = message(read(&two));
    assert!(error.contains("an entry has 2 files") && error.contains("it needs one, dialogues in"), "{error}");
}

#[test]
fn persona_chat_json_gives_the_rows_of_the_text_form() {
    let corpus = read(&config(CorpusKind::PersonaChat, &fixture("persona_chat.json"))).unwrap();
    // Which dialogue is held out was computed with Python's hashlib when the file was made.
    let ski = "your persona: i like to ski.\nyour persona: i have four children.\n";
    let hello = corpus.train.text(0, 0).unwrap().rsplit_once('\n').unwrap().1.to_string();
    let expected = [
        (&format!("{ski}{hello}")[..], "hi there"),
        (&format!("{ski}{hello}\nhi there\nwhy ski ?")[..], "because it's été"),
        ("your persona: i read a lot.\nhi", "hello"),
        // This history does not go on from the one before, and stands for itself.
        ("your persona: i read a lot.\nother", "a cut history"),
    ];
    assert_eq!(pairs(corpus.train.as_ref()), strings(&expected));
    assert_eq!(corpus.dev.len(), 1);
    assert_eq!(corpus.dev.text(0, 1).unwrap(), "held out");
    assert_eq!(pairs(corpus.test.as_ref()), strings(&[("your persona: i bake.\nwhat do you bake ?", "bread")]));

    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("x.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&std::fs::read(fixture("persona_chat.json")).unwrap()).unwrap();
    let bytes = gzip.finish().unwrap();
    std::fs::write(&packed, &bytes).unwrap();
    assert_eq!(read(&config(CorpusKind::PersonaChat, &packed)).unwrap().hash, corpus.hash);
    std::fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
    let error = message(read(&config(CorpusKind::PersonaChat, &packed)));
    assert!(error.contains("x.json.gz: the gzip data is cut short or damaged"), "{error}");
}

#[test]
fn broken_persona_chat_json_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let whole = std::fs::read_to_string(fixture("persona_chat.json")).unwrap();
    let turn =
        |turn: &str| format!("{{\"train\": [\n{{\"personality\": [], \"utterances\": [{turn}]}}], \"valid\": []}}");
    for (text, expected) in [
        (whole[..whole.len() - 40].to_string(), "or is cut short: EOF while parsing"),
        (turn("{\"history\": [\"a\"], \"candidates\": []}"), "an utterance has no candidates, so no reply at line 2"),
        (turn("{\"history\": [\"a\"]}"), "missing field `candidates` at line 2"),
        (turn("{\"history\": \"a\"}"), "expected a sequence at line 2"),
        (turn("{\"history\": [\"a\"], \"candidates\": [\"b\"]}"), "there is no dialogue in \"valid\""),
        ("[]".into(), "invalid type: sequence, expected an object with \"train\" and \"valid\" at line 1"),
        (whole.clone() + "}", "trailing characters at line 1"),
        ("{}".into(), "there is no dialogue in \"train\""),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = message(read(&config(CorpusKind::PersonaChat, &path)));
        assert!(error.contains("x.json") && error.contains(expected), "{error}");
    }
    let mut more = config(CorpusKind::PersonaChat, &path);
    more.test = more.train.clone();
    assert!(message(read(&more)).contains("one file with all splits: name it in data.train alone"));
}

fn wheel(path: &Path, files: &[(&str, &str)]) {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        let name = format!("chatterbot_corpus/data/{name}");
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    std::fs::write(path, zip.finish().unwrap().into_inner()).unwrap();
}

/// A conversation that begins with a question of that split.
fn asked(split: Split) -> String {
    let first = (0..).map(|n| format!("question {n}")).find(|first| split_at(first, 10, 10) == split).unwrap();
    format!("conversations:\n- - {first}?\n  - {split:?}\n")
}

#[test]
fn chatterbot_conversations_are_read_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.whl");
    let english = std::fs::read_to_string(fixture("english.yml")).unwrap();
    let [dev, test] = [Split::Dev, Split::Test].map(asked);
    let files = [
        ("english/b.yml", &test[..]),
        ("english/a.yml", &english),
        ("english/c.yml", &dev),
        ("german/a.yml", "conversations: [[Hallo, Hi]]"),
        ("english/notes.txt", "[not: yaml"),
    ];
    wheel(&path, &files);
    let corpus = chatterbot::read(&path, 0).unwrap();
    let all: Vec<_> =
        [&corpus.train, &corpus.dev, &corpus.test].into_iter().flat_map(|rows| pairs(rows.as_ref())).collect();
    for (history, reply) in [
        ("What is AI?", "A field: ``` build() ```"),
        ("what is ai", "It's \"intelligence\"."),
        ("22", "yes"),
        ("It goes on over two lines", "null"),
        ("It goes on over two lines\nnull", "tabs\tand café"),
        ("It goes on over two lines\nnull\ntabs\tand café", "folded text"),
    ] {
        assert!(all.contains(&(history.into(), reply.into())), "{history:?} -> {reply:?} is not in {all:?}");
    }
    assert_eq!(all.len(), 8);
    let has = |rows: &dyn Examples, reply: &str| pairs(rows).iter().any(|(_, found)| found == reply);
    assert!(has(corpus.dev.as_ref(), "Dev") && has(corpus.test.as_ref(), "Test"));
    assert_eq!(corpus.notes[0], "7 conversations in 3 topics");
    assert!(corpus.notes[1].starts_with("1 items dropped") && corpus.notes[2].starts_with("1 exchanges dropped"));
    // Questions that differ in case and marks alone are in one split.
    let with =
        |rows: &dyn Examples| pairs(rows).iter().filter(|(history, _)| history.to_lowercase().contains("ai")).count();
    assert!([&corpus.train, &corpus.dev, &corpus.test].into_iter().any(|rows| with(rows.as_ref()) == 2));
    // The order of the files in the archive is nothing to go by.
    wheel(&path, &[files[2], files[1], files[0]]);
    assert_eq!(chatterbot::read(&path, 0).unwrap().hash, corpus.hash);
    // A shorter history.
    let short = chatterbot::read(&path, 1).unwrap();
    let last =
        pairs(short.train.as_ref()).into_iter().chain(pairs(short.dev.as_ref())).chain(pairs(short.test.as_ref()));
    assert!(last.into_iter().any(|pair| pair == ("tabs\tand café".into(), "folded text".into())));
}

#[test]
fn broken_yaml_is_told_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.whl");
    for (text, expected) in [
        ("conversations:\n- - a\n  - \"b\n", "english/a.yml in "),
        ("conversations:\n- - a\n  - \"b\n", "x.whl, line 3: broken YAML: "),
        ("conversations:\n- - a\n  - b: c\n", "line 3: an utterance is not a text (a colon wants quotes)"),
        ("conversations:\n- a: b\n", "line 2: a conversation is not a list of utterances"),
        ("conversations: a\n", "line 1: `conversations` is not a list"),
        ("- a\n", "line 1: not a YAML mapping with `conversations`"),
        ("categories:\n- a\n", "there is no `conversations`"),
        ("", "a.yml in "),
    ] {
        wheel(&path, &[("english/a.yml", text)]);
        let error = message(chatterbot::read(&path, 0));
        assert!(error.contains(expected), "{error}");
    }
    wheel(&path, &[("german/a.yml", "conversations: []")]);
    assert!(message(chatterbot::read(&path, 0)).contains("x.whl has no file chatterbot_corpus/data/english/*.yml"));
    std::fs::write(&path, "no zip").unwrap();
    assert!(message(chatterbot::read(&path, 0)).contains("x.whl is not a zip archive, or is damaged"));
}
