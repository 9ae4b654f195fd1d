//! Training end to end: a toy that must be learnt, and runs that are stopped and go on.

use std::path::Path;
use synthesizer::error::Outcome;
use synthesizer::experiment::{Experiment, PlannedRun};
use synthesizer::task;
use synthesizer::train::checkpoint;
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::progress::Progress;
use synthesizer::train::trainer::{train, Job, Trained};
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
    let experiment = Experiment::parse(Path::new("toy.toml"), &text).unwrap_or_else(|problems| panic!("{problems}"));
    experiment.plan(results).unwrap_or_else(|problems| panic!("{problems}")).runs.remove(0)
}

fn go(planned: &PlannedRun, interrupt: &Interrupt) -> anyhow::Result<(Trained, Box<dyn task::Task>)> {
    let task = task::build(&planned.run, Device::Cpu)?;
    let job = Job {
        name: &planned.name,
        run: &planned.run,
        config_hash: &planned.hash,
        folder: &planned.folder,
        task: task.as_ref(),
        interrupt,
        progress: &Progress::Silent,
    };
    let trained = train(&job)?;
    Ok((trained, task))
}

/// Tests here go one at a time: LibTorch's generator belongs to the whole process, and a run is the only user of its own.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static GENERATOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
    GENERATOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A folder for results; token files go to the target folder, not to the user's cache.
fn scratch() -> tempfile::TempDir {
    static CACHE: std::sync::Once = std::sync::Once::new();
    CACHE.call_once(|| std::env::set_var("SYNTHESIZER_CACHE", env!("CARGO_TARGET_TMPDIR")));
    tempfile::tempdir().unwrap()
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

/// Everything that a run leaves must be equal to the bit, but for the time it took.
fn assert_same(a: &PlannedRun, b: &PlannedRun, what: &str) {
    let read = |planned: &PlannedRun| {
        let mut reader = csv::Reader::from_path(planned.folder.join("log.csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        let timed = ["tokens_per_second", "data_wait"];
        let kept: Vec<usize> = (0..header.len()).filter(|at| !timed.contains(&&header[*at])).collect();
        reader
            .records()
            .map(|record| {
                let record = record.unwrap();
                kept.iter().map(|at| record[*at].to_string()).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(read(a), read(b), "{what}: logs");
    for file in ["test.hypotheses.txt", "attention.csv"] {
        let bytes = |planned: &PlannedRun| std::fs::read(planned.folder.join(file)).unwrap();
        assert_eq!(bytes(a), bytes(b), "{what}: {file}");
    }
    let weights = |planned: &PlannedRun, file: &Path| {
        let task = task::build(&planned.run, Device::Cpu).unwrap();
        checkpoint::load_weights(file, task.variables()).unwrap();
        let names = task.variables().variables().into_iter().collect::<std::collections::BTreeMap<_, _>>();
        Tensor::cat(&names.values().map(|tensor| tensor.flatten(0, -1).to_kind(Kind::Float)).collect::<Vec<_>>(), 0)
    };
    for file in [checkpoint::last_file, checkpoint::final_file] {
        assert!(weights(a, &file(&a.folder)).equal(&weights(b, &file(&b.folder))), "{what}: weights");
    }
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
        assert_same(&whole, &parts, select);
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
    let loss = task.loss(&union).unwrap().sum / tokens as f64;
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

#[test]
fn a_checkpoint_of_other_settings_or_data_is_refused() {
    let _alone = alone();
    let folder = scratch();
    let mut planned = toy(&small("V", "steps = 8\nwarmup = 1\nevaluate_every = 4\n"), folder.path());
    go(&planned, &Interrupt::after(4)).map(|_| ()).unwrap_err();
    let hash = std::mem::replace(&mut planned.hash, "0123456789abcdef".into());
    let text = go(&planned, &Interrupt::default()).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("config") && text.contains("0123456789abcdef") && text.contains(&hash), "{text}");
}

#[test]
fn a_checkpoint_cut_short_is_told() {
    let _alone = alone();
    let folder = scratch();
    let planned = toy(&small("V", "steps = 4\nwarmup = 1\nevaluate_every = 2\n"), folder.path());
    go(&planned, &Interrupt::default()).unwrap();
    let last = checkpoint::last_file(&planned.folder);
    let bytes = std::fs::read(&last).unwrap();
    std::fs::write(&last, &bytes[..bytes.len() / 2]).unwrap();
    let error = go(&planned, &Interrupt::default()).map(|_| ()).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("last.safetensors") && text.contains("--fresh"), "{text}");
}

#[test]
fn the_mean_of_checkpoints_by_hand() {
    let _alone = alone();
    let folder = scratch();
    let state = checkpoint::State {
        step: 1,
        epoch: 0,
        batch: 0,
        best: None,
        kept: vec![],
        log_loss: checkpoint::Exact(0.1 + 0.2),
        log_tokens: 0,
        tokens: 0,
        seconds: 0.0,
        config_hash: String::new(),
        data_hash: String::new(),
    };
    let store = nn::VarStore::new(Device::Cpu);
    let mut variable = store.root().var("x", &[2], nn::Init::Const(0.0));
    let files: Vec<_> = [[1.0f32, 4.0], [2.0, 8.0], [6.0, 0.0]]
        .iter()
        .enumerate()
        .map(|(index, values)| {
            let file = folder.path().join(format!("{index}.safetensors"));
            tch::no_grad(|| variable.copy_(&Tensor::from_slice(values)));
            checkpoint::save(&file, &store, None, &state).unwrap();
            file
        })
        .collect();
    checkpoint::load_average(&files, &store).unwrap();
    assert_eq!(Vec::<f32>::try_from(&variable).unwrap(), [3.0, 4.0]);
    assert_eq!(checkpoint::load_state(&files[0]).unwrap(), state, "the state survives to the bit");
}
