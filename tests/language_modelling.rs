//! Language modelling end to end: perplexities of long and blank lines, against the plain model row by row.

mod common;

use common::{alone, first_run, scratch};
use std::path::Path;
use synthesizer::data::tokenizer::{Tokenizer, BEGIN, END};
use synthesizer::experiment::PlannedRun;
use synthesizer::model::language_model::LanguageModel;
use synthesizer::task::{self, Scores, Task};
use tch::{nn, Device, Kind, Tensor};

const WORDS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// Lines of 0 to 12 words, every fourth one blank or of white space.
fn lines() -> Vec<String> {
    let line = |number: usize| match number % 8 {
        3 => String::new(),
        7 => " ".to_string(),
        _ => (0..1 + number * 5 % 12).map(|at| WORDS[(number * 3 + at) % 10]).collect::<Vec<_>>().join(" "),
    };
    (0..40).map(line).collect()
}

fn planned(folder: &Path, text: &[String], settings: &str) -> PlannedRun {
    let file = folder.join("lines.txt");
    std::fs::write(&file, text.join("\n") + "\n").unwrap();
    let text = format!(
        r#"task = "language-modelling"
mix = "R+V"
[data]
corpus = "text"
train = [{file:?}]
dev = [{file:?}]
test = [{file:?}]
vocabulary = 300
{settings}
[model]
d_model = 16
heads = 2
decoder_layers = 1
d_ff = 32
max_length = 32
[train]
steps = 2
warmup = 1
batch_tokens = 96
"#
    );
    first_run(&text, folder)
}

fn scored(planned: &PlannedRun) -> (Box<dyn Task>, Scores) {
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let scores = task.score(&task.dev().unwrap(), &planned.folder).unwrap();
    (task, scores)
}

fn number(scores: &Scores, name: &str) -> f64 {
    let metric = scores.metrics.iter().find(|metric| metric.0 == name);
    metric.unwrap_or_else(|| panic!("{name}: {scores:?}")).1.as_f64().unwrap_or_else(|| panic!("{name}: {scores:?}"))
}

/// The model with the task's weights; -log p of the tokens of `row` after the first `context` ones.
fn plain(planned: &PlannedRun, task: &dyn Task) -> impl Fn(&[u32], usize) -> f64 {
    let config = task::transformer_config(&planned.run, task.training().tokenizer.size());
    let mut store = nn::VarStore::new(Device::Cpu);
    let model = LanguageModel::new(&store.root(), &config).unwrap();
    store.copy(task.variables()).unwrap();
    move |row, context| {
        let _store = &store;
        let ids = |ids: Vec<u32>| Tensor::from_slice(&ids.iter().map(|id| i64::from(*id)).collect::<Vec<_>>());
        let input = [&[BEGIN], &row[..row.len() - 1]].concat();
        let hidden = model.forward(&ids(input).unsqueeze(0), false).unwrap();
        let likely = model.logits(&hidden).log_softmax(-1, Kind::Double).squeeze_dim(0);
        let likely = likely.gather(-1, &ids(row.to_vec()).unsqueeze(-1), false).squeeze_dim(1);
        -likely.slice(0, context as i64, None, 1).sum(Kind::Double).double_value(&[])
    }
}

fn encoded(tokenizer: &Tokenizer, line: &str) -> Vec<u32> {
    let ids = if line.trim().is_empty() { vec![] } else { tokenizer.encode(line).unwrap() };
    [ids, vec![END]].concat()
}

#[test]
fn every_token_of_long_and_blank_lines_counts_once() {
    let _alone = alone();
    let folder = scratch();
    let planned = planned(folder.path(), &lines(), "max_tokens = 5\ntoo_long = \"cut\"");
    let (task, scores) = scored(&planned);
    let loss = plain(&planned, task.as_ref());
    let (mut nll, mut tokens, mut long) = (0.0, 0, 0);
    for line in lines() {
        let ids = encoded(&task.training().tokenizer, &line);
        tokens += ids.len();
        // six tokens (five and the end mark), then three more at a time, after three
        nll += loss(&ids[..ids.len().min(6)], 0);
        let mut at = 6;
        while at < ids.len() {
            let to = (at + 3).min(ids.len());
            nll += loss(&ids[to - 6..to], at - (to - 6));
            at = to;
        }
        long += usize::from(ids.len() > 6);
    }
    assert!(long > 10 && task.training().notes.iter().any(|note| note.starts_with(&format!("test: {long} lines are"))));
    let words = lines().iter().map(|line| line.split_whitespace().count() + 1).sum::<usize>();
    for split in ["dev", "test"] {
        let close = |name: &str, count: usize| {
            let got = number(&scores, &format!("{split}.{name}"));
            assert!((got.ln() - nll / count as f64).abs() < 1e-5, "{split}.{name}: {got}");
        };
        close("perplexity", tokens);
        close("word_perplexity", words);
    }
    assert_eq!(number(&scores, "test.scored_share"), 1.0);
    assert!(scores.notes.is_empty(), "{:?}", scores.notes);
    let signature = scores.metrics.iter().find(|metric| metric.0 == "test.word_perplexity.signature").unwrap();
    assert!(signature.1.as_str().unwrap().contains("|rows:lines|long-lines:chunks-of-6-after-half|"), "{signature:?}");
}

#[test]
fn max_tokens_does_not_change_lines_that_fit() {
    let _alone = alone();
    let folder = scratch();
    let bits = |settings: &str| {
        let planned = planned(folder.path(), &lines(), settings);
        let (_, scores) = scored(&planned);
        number(&scores, "test.perplexity").to_bits()
    };
    assert_eq!(bits("max_tokens = 25"), bits("max_tokens = 31"));
}

#[test]
fn windows_count_every_line_too() {
    let _alone = alone();
    let folder = scratch();
    let planned = planned(folder.path(), &lines(), "window = 8");
    let (task, scores) = scored(&planned);
    let stream: Vec<u32> = lines().iter().flat_map(|line| encoded(&task.training().tokenizer, line)).collect();
    let loss = plain(&planned, task.as_ref());
    let nll: f64 = stream.chunks(8).map(|window| loss(window, 0)).sum();
    let got = number(&scores, "test.perplexity");
    assert!((got.ln() - nll / stream.len() as f64).abs() < 1e-5, "{got}");
    // training reads the same text
    assert_eq!(task.training().lengths.iter().sum::<u32>() as usize, stream.len());
}

#[test]
fn words_of_scripts_without_blanks_have_no_perplexity() {
    let _alone = alone();
    let folder = scratch();
    let chinese = |every: usize| -> Vec<String> {
        (0..24).map(|row| if row % every == 0 { "前门打开时请开灯".into() } else { "so it is".into() }).collect()
    };
    let (_, scores) = scored(&planned(folder.path(), &chinese(1), "max_tokens = 31"));
    let blank = |name: &str| scores.metrics.iter().any(|metric| metric.0 == name && metric.1.is_null());
    assert!(blank("test.word_perplexity") && blank("dev.word_perplexity") && number(&scores, "test.perplexity") > 1.0);
    let reason = "100 % of the letters are of scripts written without blanks between words.";
    let of = |split: &str| format!("{split}.word_perplexity is blank: {reason}");
    assert_eq!(scores.notes, [of("dev"), of("test")]);
    // 8 · 2 of 16 + 6 · 22 letters: noted, not blank
    let (_, scores) = scored(&planned(folder.path(), &chinese(12), "max_tokens = 31"));
    assert!(number(&scores, "test.word_perplexity") > 1.0);
    assert!(scores.notes[0].contains("11 % of the letters of the test text"), "{:?}", scores.notes);
}

#[test]
fn a_test_set_of_blank_lines_is_refused() {
    let _alone = alone();
    let folder = scratch();
    let planned = planned(folder.path(), &[String::new(), " ".into()], "max_tokens = 31");
    let error = task::build(&planned.run, Device::Cpu).map(|_| ()).unwrap_err();
    assert!(format!("{error:#}").contains("are empty or longer than data.max_tokens"), "{error:#}");
}
