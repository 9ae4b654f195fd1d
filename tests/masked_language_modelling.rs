//! Masked language modelling end to end: the loss of rows made by hand, masks by epoch, runs that go on, gaps that are filled.

mod common;

use common::{alone, assert_same, first_run, go, scratch};
use std::path::Path;
use synthesizer::data::span_corruption::{corrupt, spans, Draw};
use synthesizer::data::tokenizer::{BEGIN, END};
use synthesizer::error::Outcome;
use synthesizer::experiment::PlannedRun;
use synthesizer::model::seq2seq::Seq2Seq;
use synthesizer::model::TransformerConfig;
use synthesizer::task;
use synthesizer::train::checkpoint;
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::outcome::{row, Circumstances};
use tch::{nn, Device, Kind, Tensor};

const WORDS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// Numbers in their order, again and again, in lines of several lengths: a token a word, and a mark at each line's end.
fn numbers() -> String {
    let line =
        |number: usize| (0..23 + number % 7).map(|at| WORDS[(number * 3 + at) % 10]).collect::<Vec<_>>().join(" ");
    (0..60).map(line).collect::<Vec<_>>().join("\n")
}

fn planned(folder: &Path, text: &str, mix: &str, settings: &str) -> PlannedRun {
    let file = folder.join("numbers.txt");
    std::fs::write(&file, text).unwrap();
    let text = format!(
        r#"task = "masked-language-modelling"
mix = "{mix}"
[data]
corpus = "text"
train = [{file:?}]
dev = [{file:?}]
test = [{file:?}]
vocabulary = 300
window = 20
noise_density = 0.3
mean_span = 2.0
[model]
d_model = 32
heads = 4
encoder_layers = 1
decoder_layers = 1
d_ff = 64
max_length = 24
{settings}"#
    );
    first_run(&text, folder)
}

const PLAIN: &str =
    "dropout = 0.0\nattention_dropout = 0.0\nrelu_dropout = 0.0\n[train]\nsteps = 3\nwarmup = 1\nbatch_tokens = 128\n";

#[test]
fn the_loss_is_that_of_the_rows_one_by_one() {
    let _alone = alone();
    let folder = scratch();
    let planned = planned(folder.path(), &numbers(), "R+V", PLAIN);
    let run = &planned.run;
    let task = task::build(run, Device::Cpu).unwrap();
    let tokenizer = &task.training().tokenizer;
    let first = tokenizer.size() as u32;

    // the running text of the file, each line with its end mark, in windows of 20
    let text = std::fs::read_to_string(folder.path().join("numbers.txt")).unwrap();
    let stream: Vec<u32> =
        text.lines().flat_map(|line| [tokenizer.encode(line).unwrap(), vec![END]].concat()).collect();
    let windows: Vec<&[u32]> = stream.chunks(20).collect();
    assert_eq!(task.training().lengths.len(), windows.len());

    // a model of its own with the task's weights; vocabulary: the tokenizer's, the three spans of 20 · 0.3 / 2 and the last sentinel
    let config = TransformerConfig {
        vocabulary: first as i64 + 4,
        d_model: 32,
        heads: 4,
        encoder_layers: 1,
        decoder_layers: 1,
        d_ff: 64,
        max_length: 24,
        dropout: 0.0,
        attention_dropout: 0.0,
        relu_dropout: 0.0,
        terms: run.mix.terms.clone(),
        mixing: run.model.mixing,
    };
    let mut store = nn::VarStore::new(Device::Cpu);
    let model = Seq2Seq::new(&store.root(), &config).unwrap();
    store.copy(task.variables()).unwrap();

    let row_loss = |number: usize, draw: Draw| {
        let window = windows[number];
        let spans = spans(run.data.spans_in(window.len()), draw, number as u64);
        let (source, target) = corrupt(window, &spans, first);
        let ids =
            |ids: Vec<u32>| Tensor::from_slice(&ids.iter().map(|id| i64::from(*id)).collect::<Vec<_>>()).unsqueeze(0);
        let memory = model.encode(&ids([source, vec![END]].concat()), None, false).unwrap();
        let hidden = model.decode(&ids([vec![BEGIN], target.clone()].concat()), &memory, false).unwrap();
        let wanted = ids([target, vec![END]].concat());
        let likely = model.logits(&hidden).log_softmax(-1, Kind::Double).gather(-1, &wanted.unsqueeze(-1), false);
        (-likely.sum(Kind::Double).double_value(&[]), wanted.numel() as u64)
    };
    let last = windows.len() - 1;
    assert!(windows[last].len() < 20, "a short window is padded");
    let rows = [0, 3, last as u32, 5];
    let mut losses = Vec::new();
    for epoch in [0, 4] {
        let draw = Draw::Training { seed: run.seed, epoch };
        let (sums, tokens): (Vec<f64>, Vec<u64>) = rows.iter().map(|&row| row_loss(row as usize, draw)).unzip();
        let loss = task.loss(epoch, &rows).unwrap().sum.double_value(&[]);
        let sum = sums.iter().sum::<f64>();
        assert!((loss - sum).abs() < 1e-4 * sum, "epoch {epoch}: {loss} is not {sum}");
        assert_eq!(task.targets(&rows), tokens.iter().sum::<u64>());
        assert_eq!(loss, task.loss(epoch, &rows).unwrap().sum.double_value(&[]), "the same masks");
        losses.push(loss);
    }
    assert_ne!(losses[0], losses[1], "other masks in another epoch");

    let dev = task.dev().unwrap();
    let held_out: Vec<(f64, u64)> = (0..windows.len()).map(|row| row_loss(row, Draw::HeldOut)).collect();
    let (sum, tokens) = held_out.iter().fold((0.0, 0), |all, row| (all.0 + row.0, all.1 + row.1));
    assert_eq!(dev.tokens, tokens);
    assert!((dev.nll - sum).abs() < 1e-4 * sum, "{} is not {sum}", dev.nll);
    // in the metrics: nats a token, and its exponential
    let metrics = task.score(&dev, folder.path()).unwrap().metrics;
    let value = |name: &str| metrics.iter().find(|metric| metric.0 == name).unwrap().1.as_f64().unwrap();
    for split in ["dev", "test"] {
        assert!((value(&format!("{split}.log_perplexity")) - sum / tokens as f64).abs() < 1e-4);
        assert!((value(&format!("{split}.perplexity")).ln() - sum / tokens as f64).abs() < 1e-4);
    }
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bits() {
    let _alone = alone();
    // 80 windows, six of them a batch: epochs end at steps 7, 14 and 21, each with masks of its own
    let settings = "[train]\nsteps = 23\nwarmup = 4\naccumulate = 2\nbatch_tokens = 128\nlog_every = 3\nevaluate_every = 5\nschedule = \"linear\"\nlearning_rate = 3e-3\n";
    let (straight, stopped) = (scratch(), scratch());
    let whole = planned(straight.path(), &numbers(), "R+V", settings);
    go(&whole, &Interrupt::default()).unwrap();
    let parts = planned(stopped.path(), &numbers(), "R+V", settings);
    let mut stepped = 0.0;
    for steps in [1, 6, 7, 4] {
        let error = go(&parts, &Interrupt::after(steps)).map(|_| ()).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Outcome::Interrupted(_))), "{error}");
        let state = checkpoint::load_state(&checkpoint::last_file(&parts.folder)).unwrap();
        assert!(state.step_seconds > stepped && state.step_seconds < state.seconds, "{state:?}");
        stepped = state.step_seconds;
    }
    assert!(checkpoint::load_state(&checkpoint::last_file(&parts.folder)).unwrap().epoch >= 2, "several epochs");
    let (trained, _) = go(&parts, &Interrupt::default()).unwrap();
    assert!(trained.step_seconds > stepped, "the sessions before count");
    assert_same(&whole, &parts, &["attention.csv"], "masked");
}

#[test]
fn gaps_of_a_learnt_text_are_filled() {
    let _alone = alone();
    let folder = scratch();
    let settings = "dropout = 0.0\nattention_dropout = 0.0\nrelu_dropout = 0.0\n[train]\nsteps = 800\nwarmup = 50\nbatch_tokens = 1024\nschedule = \"linear\"\nlearning_rate = 6e-3\nlog_every = 100\nevaluate_every = 300\n";
    let planned = planned(folder.path(), &WORDS[..9].repeat(180).join(" "), "V", settings);
    let (trained, task) = go(&planned, &Interrupt::default()).unwrap();
    let dev = task.dev().unwrap();
    assert!(dev.loss() < 0.1, "{} nats a token of a text that says itself", dev.loss());

    let mut generator = task::build_generator(&planned.run, &planned.folder, Device::Cpu).unwrap();
    checkpoint::load_weights(&checkpoint::final_file(&planned.folder), generator.variables_mut()).unwrap();
    // a line of 18 words, of which four are missing; then one that ends with a gap
    let lines = [
        "two three <mask> six seven eight nine <mask> three four five six seven eight nine one",
        "five six <mask> nine one two three <mask> six seven eight nine one two three four <mask>",
    ];
    let answers = generator.generate(&lines.map(String::from)).unwrap();
    let whole = "two three four five six seven eight nine one two three four five six seven eight nine one";
    assert_eq!((answers[0].text.as_str(), answers[0].cut), (whole, None));
    let whole = "five six seven eight nine one two three four five six seven eight nine one two three four five";
    assert!(answers[1].text.starts_with(whole), "{}", answers[1].text);
    let long = format!("{} two three four five six seven eight nine one two three", lines[0]);
    let cut = generator.generate(&[long]).unwrap()[0].cut.expect("14 words, two gaps and 11 more words");
    assert_eq!((cut.tokens, cut.taken, cut.from_end), (27, 22, false));
    // a gap that was cut off stays, and the one before is filled
    let nine = WORDS[..9].join(" ");
    let answers =
        generator.generate(&[format!("two three <mask> six seven eight nine {nine} {nine} <mask> two three")]);
    let text = &answers.unwrap()[0].text;
    assert!(text.starts_with("two three four five six") && text.ends_with("nine <mask> two three"), "{text}");
    // Blank lines stay blank, among others and alone.
    let answers = generator.generate(&["", lines[0], "\u{2003}\t"].map(String::from)).unwrap();
    assert_eq!(answers.iter().map(|answer| answer.text.is_empty()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(generator.generate(&[String::new()]).unwrap()[0].text, "");
    let error = |line: &str| generator.generate(&[line.to_string()]).unwrap_err().to_string();
    assert!(error("no gap").contains("write <mask> where words are missing"));
    let text = error("<mask> two <mask> four <mask> six");
    assert!(text.starts_with("3 gaps in a line are too many: the model was trained on 3"), "{text}");

    // the row: steps alone, and the operations of a step
    let circumstances = Circumstances {
        trainable_parameters: 1,
        total_parameters: 1,
        forward_flops: task::forward_flops(&planned.run, planned.run.data.vocabulary).unwrap(),
        data_hash: String::new(),
        device: "cpu".into(),
        threads: 1,
        command: String::new(),
    };
    let row = row(&planned, &trained, &circumstances);
    let rate = row["steps_per_second"].as_f64().unwrap();
    assert!((rate - 800.0 / trained.step_seconds).abs() < 1e-3, "{rate}");
    assert!(trained.step_seconds < trained.train_seconds);
    assert_eq!(row["forward_tflops"].as_f64(), circumstances.forward_flops.map(|operations| operations as f64 / 1e12));
}
