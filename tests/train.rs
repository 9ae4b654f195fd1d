//! Training end to end: a toy that must be learnt, and runs that are stopped and go on.

mod common;

use common::{alone, assert_same, first_run, go, go_with, scratch};
use std::path::Path;
use std::time::Duration;
use synthesizer::attention::SelfAttention;
use synthesizer::error::Outcome;
use synthesizer::experiment::PlannedRun;
use synthesizer::task::attention_view::Histogram;
use synthesizer::task::tokens::TrainingRows;
use synthesizer::task::{self, BatchLoss, DevScore, Scores, Task};
use synthesizer::train::checkpoint;
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::memory::peak_above;
use synthesizer::train::step::TrainingStep;
use tch::{nn, Device, Kind, Tensor};

fn toy(settings: &str, results: &Path) -> PlannedRun {
    let text = format!(
        r#"
task = "translation"
{settings}
[data]
corpus = "reverse"
vocabulary = 270
max_tokens = 24
"#
    );
    first_run(&text, results)
}

fn small(mix: &str, train: &str) -> String {
    format!(
        "mix = \"{mix}\"
[model]
d_model = 32
heads = 4
encoder_layers = 1
decoder_layers = 1
d_ff = 64
max_length = 32
dropout = 0.1
attention_dropout = 0.1
relu_dropout = 0.1
[train]
batch_tokens = 256
schedule = \"linear\"
learning_rate = 3e-3
{train}"
    )
}

#[test]
fn a_toy_is_learnt_exactly() {
    let _alone = alone();
    let folder = scratch();
    let planned = toy(
        r#"mix = "R+V"
[model]
d_model = 64
heads = 4
encoder_layers = 1
decoder_layers = 1
d_ff = 128
max_length = 32
dropout = 0.0
attention_dropout = 0.0
relu_dropout = 0.0
[train]
steps = 800
batch_tokens = 1024
schedule = "linear"
learning_rate = 4e-3
warmup = 50
label_smoothing = 0.0
log_every = 100
evaluate_every = 400"#,
        folder.path(),
    );
    go(&planned, &Interrupt::default()).unwrap();
    let hypotheses = std::fs::read_to_string(planned.folder.join("test.hypotheses.txt")).unwrap();
    let corpus = synthesizer::data::load(&planned.run.data, planned.run.task).unwrap();
    let exact =
        hypotheses.lines().enumerate().filter(|(row, line)| corpus.test.text(*row, 1).unwrap() == *line).count();
    assert_eq!(hypotheses.lines().count(), corpus.test.len());
    assert!(exact * 100 > corpus.test.len() * 95, "{exact} of {} reversed exactly", corpus.test.len());
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bits() {
    let _alone = alone();
    // every way to choose weights; dropout everywhere; an evaluation, a log line and an epoch's end between the stops
    for (select, mix) in [("best", "R+V"), ("average", "Rfix+D"), ("last", "FD")] {
        let average = if select == "average" { "average = 2\n" } else { "" };
        let settings = small(
            mix,
            &format!("steps = 23\nwarmup = 4\naccumulate = 2\nlog_every = 3\nevaluate_every = 5\nselect = \"{select}\"\n{average}"),
        );
        let (straight, stopped) = (scratch(), scratch());
        let whole = toy(&settings, straight.path());
        go(&whole, &Interrupt::default()).unwrap();
        let parts = toy(&settings, stopped.path());
        for steps in [1, 6, 5, 4] {
            let error = go(&parts, &Interrupt::after(steps)).map(|_| ()).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Outcome::Interrupted(_))), "{error}");
        }
        let (trained, _) = go(&parts, &Interrupt::default()).unwrap();
        assert_eq!(trained.steps, 23);
        assert_same(&whole, &parts, &["test.hypotheses.txt", "attention.csv"], select);
    }
}

#[test]
fn accumulated_batches_make_the_step_of_one() {
    let _alone = alone();
    // the first step of the trainer on two accumulated batches, against one gradient of their union
    let folder = scratch();
    let settings = small("V", "steps = 2\nwarmup = 1\naccumulate = 2\nlog_every = 1\nevaluate_every = 2\n");
    let planned = toy(&settings.replace("dropout = 0.1", "dropout = 0.0"), folder.path());
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let batches = task.training().epoch(0);
    let union = [batches[0].clone(), batches[1].clone()].concat();
    let tokens = task.targets(&union);
    let loss = task.loss(0, &union).unwrap().sum / tokens as f64;
    loss.backward();
    let squares = task
        .variables()
        .trainable_variables()
        .iter()
        .map(|x| x.grad().square().sum(Kind::Double).double_value(&[]))
        .sum::<f64>();
    go(&planned, &Interrupt::default()).unwrap();
    let mut log = csv::Reader::from_path(planned.folder.join("log.csv")).unwrap();
    let first = log.records().next().unwrap().unwrap();
    let cell = |at: usize| first[at].parse::<f64>().unwrap();
    assert_eq!((first[0].to_string(), first[5].to_string()), ("1".into(), tokens.to_string()));
    assert!((cell(2) - loss.double_value(&[])).abs() < 1e-5, "loss {} is not {}", cell(2), loss.double_value(&[]));
    assert!((cell(4) - squares.sqrt()).abs() < 1e-4 * cell(4), "gradient norm {} is not {}", cell(4), squares.sqrt());
}

#[test]
fn a_loss_that_is_no_number_stops_and_keeps_the_checkpoint() {
    let _alone = alone();
    let folder = scratch();
    let mut planned = toy(&small("V", "steps = 40\nwarmup = 1\nevaluate_every = 10\n"), folder.path());
    go(&planned, &Interrupt::after(10)).map(|_| ()).unwrap_err();
    planned.run.train.learning_rate = 1e39;
    let error = go(&planned, &Interrupt::default()).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.downcast_ref(), Some(Outcome::Failed(_))), "{text}");
    assert!(text.contains("step 12") || text.contains("step 11"), "{text}");
    assert!(text.contains("the checkpoint of step 10 is kept") && text.contains("learning_rate"), "{text}");
    let last = checkpoint::last_file(&planned.folder);
    assert_eq!(checkpoint::load_state(&last).unwrap().step, 10);
    let store: Box<dyn task::Task> = task::build(&planned.run, Device::Cpu).unwrap();
    checkpoint::load_weights(&last, store.variables()).unwrap();
    for (name, tensor) in store.variables().variables() {
        assert!(bool::try_from(tensor.isfinite().all()).unwrap(), "{name} in the kept checkpoint");
    }
    // Ctrl-C right after the step that spoilt the weights must not save them either
    let error = go(&planned, &Interrupt::after(1)).map(|_| ()).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Outcome::Failed(_))), "{error}");
    assert_eq!(checkpoint::load_state(&last).unwrap().step, 10);
}

/// A task of which something goes wrong, or takes long.
struct Faulty<'a> {
    task: &'a dyn Task,
    loss: fn(&dyn Task, u64, &[u32]) -> anyhow::Result<BatchLoss>,
    dev: fn(&dyn Task) -> anyhow::Result<DevScore>,
}

impl Task for Faulty<'_> {
    fn variables(&self) -> &nn::VarStore {
        self.task.variables()
    }
    fn training(&self) -> &TrainingRows {
        self.task.training()
    }
    fn targets(&self, rows: &[u32]) -> u64 {
        self.task.targets(rows)
    }
    fn loss(&self, epoch: u64, rows: &[u32]) -> anyhow::Result<BatchLoss> {
        (self.loss)(self.task, epoch, rows)
    }
    fn dev(&self) -> anyhow::Result<DevScore> {
        (self.dev)(self.task)
    }
    fn score(&self, dev: &DevScore, folder: &Path) -> anyhow::Result<Scores> {
        self.task.score(dev, folder)
    }
    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.task.attentions()
    }
    fn view_attention(&self) -> anyhow::Result<Vec<Histogram>> {
        self.task.view_attention()
    }
}

/// Cells of log.csv's lines by column name.
fn log_cells(planned: &PlannedRun, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_path(planned.folder.join("log.csv")).unwrap();
    let at = reader.headers().unwrap().iter().position(|column| column == name).unwrap();
    reader.records().map(|record| record.unwrap()[at].to_string()).collect()
}

#[test]
fn the_log_tells_a_run_that_diverged_and_no_other_error() {
    let _alone = alone();
    let loss = |task: &dyn Task, epoch: u64, rows: &[u32]| task.loss(epoch, rows);
    let dev = |task: &dyn Task| task.dev();
    // no batch is as long as the table, so that no loss shows it
    let spoilt = |task: &dyn Task, epoch: u64, rows: &[u32]| {
        for (name, matrix) in task.variables().variables() {
            if name.ends_with(".random.r") {
                let mut last = tch::no_grad(|| matrix.select(1, 31).select(1, 31));
                let _ = tch::no_grad(|| last.fill_(f64::NAN));
            }
        }
        task.loss(epoch, rows)
    };
    for (what, rate, loss, dev, says, line) in [
        (
            "a huge rate",
            "1e39",
            loss as fn(&dyn Task, u64, &[u32]) -> _,
            dev as fn(&dyn Task) -> _,
            "step 1",
            Some("1"),
        ),
        ("a spoilt parameter", "1e-3", spoilt, dev, "a parameter is no number after step 1", Some("1")),
        (
            "a dev loss",
            "1e-3",
            loss,
            |_| Ok(DevScore { nll: f64::NAN, tokens: 1 }),
            "the dev loss is NaN at step 1",
            Some("1"),
        ),
        ("unread data", "1e-3", |_, _, _| anyhow::bail!("cannot read this file"), dev, "cannot read this file", None),
    ] {
        let folder = scratch();
        let settings = small("R", "steps = 4\nwarmup = 1\nevaluate_every = 1\n").replace("3e-3", rate);
        let planned = toy(&settings, folder.path());
        let task = task::build(&planned.run, Device::Cpu).unwrap();
        let faulty = Faulty { task: task.as_ref(), loss, dev };
        let error = go_with(&planned, &faulty, &Interrupt::default()).map(drop).unwrap_err();
        assert!(error.to_string().contains(says), "{what}: {error}");
        assert_eq!(matches!(error.downcast_ref(), Some(Outcome::Failed(_))), line.is_some(), "{what}: {error}");
        assert_eq!(log_cells(&planned, "step"), line.into_iter().collect::<Vec<_>>(), "{what}");
        assert!(log_cells(&planned, "loss").iter().all(|loss| loss == "NaN"), "{what}");
    }
}

#[test]
fn rates_in_the_log_are_of_steps_alone() {
    const PAUSE: f64 = 1.5;
    let _alone = alone();
    let folder = scratch();
    let planned = toy(&small("R", "steps = 2\nwarmup = 1\nevaluate_every = 1\n"), folder.path());
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let slow = |task: &dyn Task| {
        std::thread::sleep(Duration::from_secs_f64(PAUSE));
        task.dev()
    };
    let faulty = Faulty { task: task.as_ref(), loss: |task, epoch, rows| task.loss(epoch, rows), dev: slow };
    let trained = go_with(&planned, &faulty, &Interrupt::default()).unwrap();
    assert!(trained.train_seconds > 2.0 * PAUSE, "{}", trained.train_seconds);
    let numbers = |name| log_cells(&planned, name).iter().map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>();
    for (seen, rate) in numbers("tokens").iter().zip(numbers("tokens_per_second")) {
        assert!(rate * PAUSE > *seen, "{rate} tokens a second of {seen}: the pause is in it");
    }
}

#[test]
fn attention_is_viewed_in_the_memory_of_a_few_rows() {
    let _alone = alone();
    let folder = scratch();
    let text = "the same words again and again \n".repeat(9).replace('\n', "");
    let file = folder.path().join("text.txt");
    std::fs::write(&file, format!("{text}\n").repeat(100)).unwrap();
    let settings = format!(
        r#"task = "language-modelling"
mix = "V"
[data]
corpus = "text"
train = [{file:?}]
dev = [{file:?}]
test = [{file:?}]
vocabulary = 260
max_tokens = 300
[model]
d_model = 16
heads = 4
decoder_layers = 2
d_ff = 16
max_length = 301
[train]
steps = 2
warmup = 1
"#
    );
    let planned = first_run(&settings, folder.path());
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let (histograms, peak) = peak_above(|| task.view_attention()).unwrap();
    // as many tokens are read as are predicted
    let length = task.targets(&[0]);
    assert!(length > text.len() as u64, "{length}: a token is a byte");
    assert_eq!(histograms[1].counts.iter().sum::<u64>(), 64 * 4 * length * (length + 1) / 2);
    // a layer of 64 rows has 64 x 4 x 280 x 280 weights of 4 bytes, 80 MB
    let peak = peak.expect("Linux tells the peak");
    assert!(peak < 48 << 20, "{peak} bytes");
}

#[test]
fn a_checkpoint_of_other_settings_or_data_is_refused() {
    let _alone = alone();
    let folder = scratch();
    let mut planned = toy(&small("V", "steps = 8\nwarmup = 1\nevaluate_every = 4\n"), folder.path());
    go(&planned, &Interrupt::after(4)).map(|_| ()).unwrap_err();
    let hash = std::mem::replace(&mut planned.hash, "0123456789abcdef".into());
    let text = go(&planned, &Interrupt::default()).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("config") && text.contains("0123456789abcdef") && text.contains(&hash), "{text}");

    planned.hash = hash;
    let state = checkpoint::load_state(&checkpoint::last_file(&planned.folder)).unwrap();
    let data_hash = state.data_hash.clone();
    save_last(&planned, checkpoint::State { data_hash: "0123456789abcdef".into(), ..state });
    let text = go(&planned, &Interrupt::default()).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("of other data") && text.contains("0123456789abcdef") && text.contains(&data_hash), "{text}");
}

/// Writes a full checkpoint of fresh weights with this state, alone in the folder.
fn save_last(planned: &PlannedRun, state: checkpoint::State) {
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let step = TrainingStep::new(&planned.run, task.as_ref());
    std::fs::remove_dir_all(planned.folder.join("checkpoint")).unwrap();
    checkpoint::save(&planned.folder, task.variables(), &step.adam, &Default::default(), &state).unwrap();
}

#[test]
fn a_checkpoint_cut_short_is_told() {
    let _alone = alone();
    let folder = scratch();
    let planned = toy(&small("V", "steps = 4\nwarmup = 1\nevaluate_every = 2\n"), folder.path());
    go(&planned, &Interrupt::default()).unwrap();
    let last = checkpoint::last_file(&planned.folder);
    std::fs::remove_file(checkpoint::previous_file(&planned.folder)).unwrap();
    let bytes = std::fs::read(&last).unwrap();
    // in the tensors, by one byte, in the header, in its length; then a length that no file has
    let mut long = bytes.clone();
    long[..8].fill(0xff);
    for broken in [&bytes[..bytes.len() / 2], &bytes[..bytes.len() - 1], &bytes[..100], &bytes[..3], &long[..]] {
        std::fs::write(&last, broken).unwrap();
        let trained = go(&planned, &Interrupt::default()).map(drop);
        let text = format!("{:#}", trained.unwrap_err());
        assert!(text.contains("last.safetensors") && text.contains("--fresh"), "{text}");
    }
}

fn state() -> checkpoint::State {
    checkpoint::State { step: 1, log_loss: checkpoint::Exact(0.1 + 0.2), ..checkpoint::State::default() }
}

#[test]
fn the_mean_of_checkpoints_by_hand() {
    let _alone = alone();
    let folder = scratch();
    let state = state();
    let store = nn::VarStore::new(Device::Cpu);
    let mut variable = store.root().var("x", &[2], nn::Init::Const(0.0));
    let files: Vec<_> = [[1.0f32, 4.0], [2.0, 8.0], [6.0, 0.0]]
        .iter()
        .enumerate()
        .map(|(index, values)| {
            let file = folder.path().join(format!("{index}.safetensors"));
            tch::no_grad(|| variable.copy_(&Tensor::from_slice(values)));
            checkpoint::save_weights(&file, &store, &state).unwrap();
            file
        })
        .collect();
    checkpoint::load_average(&files, &store).unwrap();
    assert_eq!(Vec::<f32>::try_from(&variable).unwrap(), [3.0, 4.0]);
    assert_eq!(checkpoint::load_state(&files[0]).unwrap(), state, "the state survives to the bit");
}

#[test]
fn where_a_checkpoint_stands_is_told_without_its_tensors() {
    let _alone = alone();
    let folder = scratch();
    let store = nn::VarStore::new(Device::Cpu);
    let _large = store.root().var("x", &[8 << 20], nn::Init::Const(1.0));
    let file = folder.path().join("large.safetensors");
    checkpoint::save_weights(&file, &store, &state()).unwrap();
    let (found, peak) = peak_above(|| checkpoint::load_state(&file)).unwrap();
    assert_eq!(found, state(), "the state survives to the bit");
    let peak = peak.expect("Linux tells the peak");
    assert!(peak < 8 << 20, "{peak} bytes for a file of 32 MiB");
}
