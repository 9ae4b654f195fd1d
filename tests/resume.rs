//! Runs of which files were damaged while they were stopped: they come to the bits of an uninterrupted run, or say what is lost.

mod common;

use common::{alone, assert_same, first_run, go, go_with, scratch};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use synthesizer::attention::SelfAttention;
use synthesizer::error::Outcome;
use synthesizer::experiment::PlannedRun;
use synthesizer::task::attention_view::Histogram;
use synthesizer::task::tokens::TrainingRows;
use synthesizer::task::{self, BatchLoss, DevScore, Scores, Task};
use synthesizer::train::checkpoint::recover::Resuming;
use synthesizer::train::checkpoint::{self, Exact, State};
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::step::TrainingStep;
use tch::{nn, Device, Tensor};

/// 23 steps with evaluations after 5, 10, … and log lines between them; `select` with its own keys.
fn toy(select: &str, results: &Path) -> PlannedRun {
    let text = format!(
        r#"task = "translation"
mix = "R+V"
[data]
corpus = "reverse"
vocabulary = 270
max_tokens = 24
[model]
d_model = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
d_ff = 32
max_length = 32
[train]
batch_tokens = 256
schedule = "linear"
learning_rate = 3e-3
steps = 23
warmup = 4
log_every = 3
evaluate_every = 5
select = {select}
"#
    );
    first_run(&text, results)
}

fn stop(planned: &PlannedRun, steps: u64) {
    go(planned, &Interrupt::after(steps)).map(drop).unwrap_err();
}

/// A run that was stopped after step 17, and one that never was. Evaluations were at 5, 10 and 15.
fn stopped_and_whole(select: &str) -> (tempfile::TempDir, PlannedRun, PlannedRun) {
    let folder = scratch();
    let whole = toy(select, &folder.path().join("whole"));
    go(&whole, &Interrupt::default()).unwrap();
    let parts = toy(select, &folder.path().join("parts"));
    stop(&parts, 17);
    (folder, parts, whole)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// The same run in a folder of its own, which may be damaged.
fn clone_of(planned: &PlannedRun, name: &str) -> PlannedRun {
    let mut clone = planned.clone();
    clone.folder = planned.folder.with_file_name(format!("{name}-s1"));
    let _ = std::fs::remove_dir_all(&clone.folder);
    copy(&planned.folder, &clone.folder);
    clone
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Where a safetensors file's tensors begin.
fn header_end(bytes: &[u8]) -> usize {
    8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize
}

const FILES: [&str; 2] = ["test.hypotheses.txt", "attention.csv"];

#[test]
fn a_flip_of_any_byte_of_a_checkpoint_is_found() {
    let _alone = alone();
    let folder = scratch();
    let store = nn::VarStore::new(Device::Cpu);
    let _x = store.root().var("x", &[3], nn::Init::Const(0.5));
    let file = folder.path().join("x.safetensors");
    checkpoint::save_weights(&file, &store, &State { step: 7, ..State::default() }).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for at in 0..whole.len() {
        // 0x29 turns the blanks that pad the header into tabs, which JSON passes over too
        for mask in [0x01, 0x29, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            std::fs::write(&file, bytes).unwrap();
            let error = checkpoint::load_weights(&file, &store).unwrap_err();
            assert!(error.is::<checkpoint::Damaged>(), "byte {at} ^ {mask:#x}: {error:#}");
            assert!(error.to_string().starts_with(&format!("{}: ", file.display())), "{error}");
            let header_is_damaged = at < header_end(&whole);
            assert_eq!(checkpoint::load_state(&file).is_err(), header_is_damaged, "byte {at} ^ {mask:#x}");
        }
        std::fs::write(&file, &whole[..at]).unwrap();
        assert!(
            checkpoint::load_weights(&file, &store).is_err() && checkpoint::load_state(&file).is_err(),
            "cut at {at}"
        );
    }
    std::fs::write(&file, [&whole[..], b"\0"].concat()).unwrap();
    assert!(checkpoint::load_weights(&file, &store).is_err(), "a byte more");
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(checkpoint::load_weights(&file, &store).unwrap().step, 7);
}

/// What [`Resuming::find`] comes to, and what it says.
fn find(planned: &PlannedRun) -> (Result<Option<u64>, String>, String) {
    let said = RefCell::new(String::new());
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let found = Resuming {
        folder: &planned.folder,
        run: &planned.run,
        config_hash: &planned.hash,
        data_hash: &task.training().hash,
        assets: &BTreeMap::new(),
        batches: &|epoch| task.training().epoch(epoch).len(),
        say: &|line| *said.borrow_mut() += &format!("{line}\n"),
    }
    .find();
    (found.map(|found| found.map(|found| found.state.step)).map_err(|error| format!("{error:#}")), said.into_inner())
}

#[test]
fn wherever_the_last_checkpoint_is_damaged_the_previous_one_is_used() {
    let _alone = alone();
    let (_folder, parts, _) = stopped_and_whole("\"best\"");
    let [last, previous] = [checkpoint::last_file(&parts.folder), checkpoint::previous_file(&parts.folder)];
    let [whole, before] = [&last, &previous].map(|path| std::fs::read(path).unwrap());
    let (end, length) = (header_end(&whole), whole.len());
    let places = (0..16).chain((16..end).step_by(end / 40)).chain((end..length).step_by((length - end) / 20));
    for at in places.chain([length - 1]) {
        std::fs::write(&previous, &before).unwrap();
        std::fs::write(&last, &whole).unwrap();
        flip(&last, at);
        let (found, said) = find(&parts);
        assert_eq!(found, Ok(Some(15)), "byte {at}: {said}");
        assert!(said.contains("last.safetensors: ") && said.contains("previous checkpoint, of step 15"), "{said}");
        assert!(std::fs::read(&last).unwrap() == before, "it is the last one now");
        assert_eq!(find(&parts), (Ok(Some(15)), String::new()), "and told once");
    }
    // neither is whole
    std::fs::write(&last, &whole[..100]).unwrap();
    flip(&previous, before.len() - 1);
    let (found, _) = find(&parts);
    let error = found.unwrap_err();
    assert!(error.contains("last.safetensors: it was cut off"), "{error}");
    assert!(error.contains("previous.safetensors: it is damaged (checksum ") && error.contains("--fresh"), "{error}");
    let error = checkpoint::standing(&parts.folder).map(|state| state.map(|state| state.step));
    assert_eq!(error.unwrap(), Some(15), "by its header alone");
}

#[test]
fn a_run_resumed_from_the_previous_checkpoint_comes_to_the_same_bits() {
    let _alone = alone();
    for select in ["\"best\"", "\"average\"\naverage = 2", "\"last\""] {
        let (_folder, parts, whole) = stopped_and_whole(select);
        let damaged = clone_of(&parts, "damaged");
        flip(&checkpoint::last_file(&damaged.folder), 2000);
        go(&damaged, &Interrupt::default()).unwrap();
        assert_same(&whole, &damaged, &FILES, select);
        // stopped between the checkpoint that is lost and the evaluation that follows
        let damaged = clone_of(&parts, "stopped");
        std::fs::remove_file(checkpoint::last_file(&damaged.folder)).unwrap();
        stop(&damaged, 1);
        go(&damaged, &Interrupt::default()).unwrap();
        assert_same(&whole, &damaged, &FILES, select);
    }
}

#[test]
fn a_crash_at_any_point_of_saving_leaves_a_checkpoint() {
    let _alone = alone();
    let (_folder, parts, whole) = stopped_and_whole("\"best\"");
    let files = |planned: &PlannedRun| {
        let names = ["last", "previous", "next"];
        names.map(|name| planned.folder.join(format!("checkpoint/{name}.safetensors")))
    };
    type Crash = fn([PathBuf; 3]);
    let crashes: [(&str, Crash); 5] = [
        ("the next is half written", |[last, _, next]| {
            let bytes = std::fs::read(last).unwrap();
            std::fs::write(next, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("the next is whole, nothing is renamed", |[last, _, next]| {
            std::fs::copy(last, next).unwrap();
        }),
        ("both names are those of the last", |[last, previous, next]| {
            std::fs::copy(&last, next).unwrap();
            std::fs::remove_file(&previous).unwrap();
            std::fs::hard_link(last, previous).unwrap();
        }),
        ("without hard links: the last is the previous one already", |[last, previous, next]| {
            std::fs::copy(&last, next).unwrap();
            std::fs::rename(last, previous).unwrap();
        }),
        ("before there was a previous one", |[last, previous, next]| {
            std::fs::copy(&last, next).unwrap();
            std::fs::remove_file(previous).unwrap();
            std::fs::hard_link(&last, last.with_extension("link")).unwrap();
        }),
    ];
    for (what, crash) in crashes {
        let crashed = clone_of(&parts, "crashed");
        crash(files(&crashed));
        assert_eq!(checkpoint::standing(&crashed.folder).unwrap().unwrap().step, 17, "{what}");
        go(&crashed, &Interrupt::default()).unwrap();
        assert_same(&whole, &crashed, &FILES, what);
        let [last, previous, next] = files(&crashed);
        let steps = [last, previous].map(|path| checkpoint::load_state(&path).unwrap().step);
        assert_eq!((steps, next.exists()), ([23, 20], false), "{what}");
    }
}

#[test]
fn damaged_weights_are_made_again_from_a_checkpoint() {
    let _alone = alone();
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("flipped", |path| flip(path, std::fs::metadata(path).unwrap().len() as usize - 3)),
        ("missing", |path| std::fs::remove_file(path).unwrap()),
        ("empty", |path| std::fs::write(path, "").unwrap()),
        ("of another step", |path| {
            let task = task::build(&toy("\"last\"", path).run, Device::Cpu).unwrap();
            checkpoint::save_weights(path, task.variables(), &State { step: 1, ..State::default() }).unwrap();
        }),
    ];
    for (select, name) in [("\"best\"", "best"), ("\"average\"\naverage = 2", "step-15")] {
        let (_folder, parts, whole) = stopped_and_whole(select);
        for (what, damage) in damages {
            let damaged = clone_of(&parts, "damaged");
            damage(&damaged.folder.join(format!("checkpoint/{name}.safetensors")));
            go(&damaged, &Interrupt::default()).unwrap();
            assert_same(&whole, &damaged, &FILES, &format!("{name} is {what}"));
        }
    }
    // older than both checkpoints: named, and nothing is trained
    let (_folder, parts, _) = stopped_and_whole("\"average\"\naverage = 3");
    let oldest = checkpoint::step_file(&parts.folder, 5);
    flip(&oldest, std::fs::metadata(&oldest).unwrap().len() as usize - 3);
    let error = format!("{:#}", go(&parts, &Interrupt::default()).map(drop).unwrap_err());
    assert!(error.contains("step-5.safetensors: it is damaged (checksum ") && error.contains("--fresh"), "{error}");
    // damaged when all is trained
    let (_folder, parts, whole) = stopped_and_whole("\"best\"");
    stop(&parts, 5);
    let best = checkpoint::best_file(&parts.folder);
    assert_eq!(checkpoint::load_state(&best).unwrap().step, 20, "the toy gets better and better");
    go(&parts, &Interrupt::default()).unwrap();
    flip(&best, 3000);
    go(&parts, &Interrupt::default()).unwrap();
    assert_same(&whole, &parts, &FILES, "trained again");
}

/// A task that does something before each evaluation.
struct Saboteur<'a> {
    task: &'a dyn Task,
    act: &'a dyn Fn(),
}

impl Task for Saboteur<'_> {
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
        self.task.loss(epoch, rows)
    }
    fn dev(&self) -> anyhow::Result<DevScore> {
        (self.act)();
        self.task.dev()
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

#[test]
fn files_that_are_damaged_while_a_run_trains_are_restored_or_named() {
    let _alone = alone();
    let (_folder, parts, whole) = stopped_and_whole("\"average\"\naverage = 2");
    let task = task::build(&parts.run, Device::Cpu).unwrap();
    let weights = checkpoint::step_file(&parts.folder, 20);
    let act = || {
        // the evaluation after the last step, when the weights of step 20 wait for their mean with it
        if weights.exists() {
            std::fs::write(&weights, "damaged").unwrap();
            std::fs::remove_file(parts.folder.join("log.csv")).unwrap();
            std::fs::write(parts.folder.join("attention.csv"), "damaged").unwrap();
        }
    };
    let saboteur = Saboteur { task: task.as_ref(), act: &act };
    let error = go_with(&parts, &saboteur, &Interrupt::default()).map(drop).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Outcome::Failed(_))), "{error}");
    let error = error.to_string();
    assert!(error.contains("step-20.safetensors: it was cut off") && error.contains("The same command"), "{error}");
    go(&parts, &Interrupt::default()).unwrap();
    assert_same(&whole, &parts, &FILES, "after a second call");

    // a log that is gone at the end is written again from memory
    let (_folder, parts, whole) = stopped_and_whole("\"last\"");
    let act = || {
        let _ = std::fs::remove_file(parts.folder.join("log.csv"));
        std::fs::write(parts.folder.join("attention.csv"), "damaged").unwrap();
    };
    let task = task::build(&parts.run, Device::Cpu).unwrap();
    go_with(&parts, &Saboteur { task: task.as_ref(), act: &act }, &Interrupt::default()).unwrap();
    assert_same(&whole, &parts, &FILES, "in one call");
}

#[test]
fn a_file_in_place_of_the_checkpoints_folder_is_named_before_anything_is_trained() {
    let _alone = alone();
    let folder = scratch();
    let planned = toy("\"last\"", folder.path());
    std::fs::create_dir_all(&planned.folder).unwrap();
    std::fs::write(planned.folder.join("checkpoint"), "").unwrap();
    let error = format!("{:#}", go(&planned, &Interrupt::default()).map(drop).unwrap_err());
    assert!(error.contains("checkpoint: cannot make this folder"), "{error}");
    assert!(!planned.folder.join("log.csv").exists());
}

#[test]
fn impossible_states_are_refused_though_their_checksum_is_right() {
    let _alone = alone();
    let folder = scratch();
    let planned = toy("\"best\"", folder.path());
    stop(&planned, 7);
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let step = TrainingStep::new(&planned.run, task.as_ref());
    let good = checkpoint::load_state(&checkpoint::last_file(&planned.folder)).unwrap();
    let write = |state: &State| {
        let _ = std::fs::remove_file(checkpoint::previous_file(&planned.folder));
        let _ = std::fs::remove_file(checkpoint::last_file(&planned.folder));
        checkpoint::save(&planned.folder, task.variables(), &step.adam, &BTreeMap::new(), state).unwrap();
    };
    write(&good);
    assert_eq!(find(&planned).0, Ok(Some(7)));
    let state = || good.clone();
    for (what, state) in [
        ("step 1000000000 of 23", State { step: 1_000_000_000, ..state() }),
        ("step 24 of 23", State { step: 24, ..state() }),
        ("evaluation at step 8", State { best: Some((8, Exact(1.0))), ..state() }),
        ("evaluation at step 9", State { kept: vec![5, 9], ..state() }),
        ("evaluations in the order", State { kept: vec![5, 5], ..state() }),
        ("a loss", State { best: Some((5, Exact(f64::NAN))), ..state() }),
        ("a loss", State { log_loss: Exact(f64::INFINITY), ..state() }),
        ("a training time of inf s", State { seconds: 1e308 * 10.0, ..state() }),
        ("a training time of -1 s", State { seconds: -1.0, ..state() }),
        ("tokens since", State { log_tokens: state().tokens + 1, ..state() }),
        ("batch 6 of epoch 0 after 7", State { batch: 6, ..state() }),
        ("epoch 8 after 7", State { epoch: 8, ..state() }),
        ("batch 1000000 of epoch 1, which has", State { epoch: 1, batch: 1_000_000, ..state() }),
    ] {
        write(&state);
        let error = find(&planned).0.unwrap_err();
        let named = error.contains("last.safetensors: it holds an impossible state") && error.contains(what);
        // JSON knows no infinity
        assert!(named || error.contains("its state cannot be read"), "{what}: {error}");
    }
}

#[test]
fn a_damaged_log_is_restored_from_the_checkpoint() {
    let _alone = alone();
    let (_folder, parts, whole) = stopped_and_whole("\"best\"");
    let log = std::fs::read_to_string(parts.folder.join("log.csv")).unwrap();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let mut damages: Vec<(String, Option<Vec<u8>>)> = vec![
        ("missing".into(), None),
        ("empty".into(), Some(Vec::new())),
        ("without its header".into(), Some(lines[1..].concat().into())),
        ("without a line".into(), Some([&lines[..2], &lines[3..]].concat().concat().into())),
        ("with lines exchanged".into(), Some([lines[0], lines[2], lines[1]].concat().into())),
        ("with a later line cut short".into(), Some((log.clone() + "18,0,5.1").into())),
        ("with lines of another run".into(), Some((log.clone() + &lines[1..].concat()).into())),
        ("with other line ends".into(), Some(log.replace('\n', "\r\n").into())),
        ("zeros".into(), Some(vec![0; log.len()])),
    ];
    for at in (0..log.len()).step_by(log.len() / 12) {
        let mut bytes = log.clone().into_bytes();
        bytes[at] ^= 1;
        damages.push((format!("flipped at {at}"), Some(bytes)));
        damages.push((format!("cut at {at}"), Some(log[..at].into())));
    }
    for (what, bytes) in damages {
        let damaged = clone_of(&parts, "damaged");
        match bytes {
            None => std::fs::remove_file(damaged.folder.join("log.csv")).unwrap(),
            Some(bytes) => std::fs::write(damaged.folder.join("log.csv"), bytes).unwrap(),
        }
        go(&damaged, &Interrupt::default()).unwrap();
        assert_same(&whole, &damaged, &FILES, &what);
    }
}

#[test]
fn side_files_are_written_again_and_withhold_no_metrics() {
    let _alone = alone();
    let (_folder, parts, whole) = stopped_and_whole("\"best\"");
    let attention = std::fs::read(parts.folder.join("attention.csv")).unwrap();
    for (what, bytes) in [
        ("missing", None),
        ("empty", Some(Vec::new())),
        ("cut", Some(attention[..attention.len() / 2].to_vec())),
        ("not UTF-8", Some(vec![0xff; 100])),
        ("another table", Some(b"when,x\nstart,1,2\n".to_vec())),
    ] {
        let damaged = clone_of(&parts, "damaged");
        match bytes {
            None => std::fs::remove_file(damaged.folder.join("attention.csv")).unwrap(),
            Some(bytes) => std::fs::write(damaged.folder.join("attention.csv"), bytes).unwrap(),
        }
        go(&damaged, &Interrupt::default()).unwrap();
        assert_same(&whole, &damaged, &FILES, what);
    }
    // a folder where the file should be: it cannot be written, and the metrics are there
    let damaged = clone_of(&parts, "folder");
    std::fs::remove_file(damaged.folder.join("attention.csv")).unwrap();
    std::fs::create_dir_all(damaged.folder.join("attention.csv/x")).unwrap();
    let (trained, _) = go(&damaged, &Interrupt::default()).unwrap();
    assert!(trained.metrics.iter().any(|(name, _)| name == "test.bleu"));
    assert_same(&whole, &damaged, &FILES[..1], "without attention.csv");
}

#[test]
fn a_checkpoint_of_a_version_without_checksums_is_resumed_with_a_note() {
    let _alone = alone();
    let (_folder, parts, whole) = stopped_and_whole("\"last\"");
    let last = checkpoint::last_file(&parts.folder);
    let bytes = std::fs::read(&last).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    // as such a version wrote it: fewer fields, no digest, no texts
    let state = &header.metadata().as_ref().unwrap()["state"];
    let mut state: serde_json::Map<String, serde_json::Value> = serde_json::from_str(state).unwrap();
    for later in ["numerics", "assets", "notes"] {
        state.remove(later).unwrap();
    }
    let metadata = [("state".to_string(), serde_json::to_string(&state).unwrap())].into();
    let tensors: Vec<_> = file.tensors().into_iter().filter(|(name, _)| !name.starts_with("text.")).collect();
    std::fs::write(&last, safetensors::serialize(tensors, Some(metadata)).unwrap()).unwrap();
    let (trained, _) = go(&parts, &Interrupt::default()).unwrap();
    assert_same(&whole, &parts, &FILES, "an old checkpoint");
    assert_eq!(trained.notes.len(), 1);
    assert!(trained.notes[0].contains("from a checkpoint of an earlier version"), "{:?}", trained.notes);
}

#[test]
fn weights_of_text_are_text() {
    // the log's text is no tensor of the model: the mean of checkpoints takes weights alone
    let _alone = alone();
    let (_folder, parts, _) = stopped_and_whole("\"last\"");
    let task = task::build(&parts.run, Device::Cpu).unwrap();
    checkpoint::load_weights(&checkpoint::last_file(&parts.folder), task.variables()).unwrap();
    let before: Vec<Tensor> = task.variables().trainable_variables().iter().map(Tensor::copy).collect();
    checkpoint::load_average(&[checkpoint::last_file(&parts.folder)], task.variables()).unwrap();
    for (before, after) in before.iter().zip(task.variables().trainable_variables()) {
        assert!(before.equal(&after));
    }
}
