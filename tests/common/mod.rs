//! What tests that train share.
#![allow(dead_code)] // each test file uses its part

pub mod workplace;

use std::collections::BTreeMap;
use std::path::Path;
use synthesizer::experiment::{Experiment, PlannedRun};
use synthesizer::task::{self, Task};
use synthesizer::train::checkpoint;
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::progress::Progress;
use synthesizer::train::trainer::{train, Job, Trained};
use tch::{Device, Kind, Tensor};

/// Tests that train go one at a time: LibTorch's generator belongs to the whole process, and a run is the only user of its own.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static GENERATOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
    GENERATOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A folder for data and results; token files go to the target folder, not to the user's cache.
pub fn scratch() -> tempfile::TempDir {
    static CACHE: std::sync::Once = std::sync::Once::new();
    CACHE.call_once(|| std::env::set_var("SYNTHESIZER_CACHE", env!("CARGO_TARGET_TMPDIR")));
    tempfile::tempdir().unwrap()
}

/// The first run of an experiment file's text.
pub fn first_run(text: &str, results: &Path) -> PlannedRun {
    let experiment = Experiment::parse(Path::new("toy.toml"), text).unwrap_or_else(|problems| panic!("{problems}"));
    experiment.plan(results).unwrap_or_else(|problems| panic!("{problems}")).runs.remove(0)
}

/// Trains a task that is there already.
pub fn go_with(planned: &PlannedRun, task: &dyn Task, interrupt: &Interrupt) -> anyhow::Result<Trained> {
    std::fs::create_dir_all(&planned.folder)?;
    task.save_assets(&planned.folder)?;
    train(&Job {
        name: &planned.name,
        run: &planned.run,
        config_hash: &planned.hash,
        folder: &planned.folder,
        task,
        interrupt,
        progress: &Progress::Silent,
        resume_anyway: false,
    })
}

/// Builds the task and trains it.
pub fn go(planned: &PlannedRun, interrupt: &Interrupt) -> anyhow::Result<(Trained, Box<dyn Task>)> {
    let task = task::build(&planned.run, Device::Cpu)?;
    Ok((go_with(planned, task.as_ref(), interrupt)?, task))
}

/// Everything that a run leaves must be equal to the bit, but for the time it took; `files` beside log and weights.
pub fn assert_same(a: &PlannedRun, b: &PlannedRun, files: &[&str], what: &str) {
    let log = |planned: &PlannedRun| {
        let mut reader = csv::Reader::from_path(planned.folder.join("log.csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        let timed = ["tokens_per_second", "data_wait"];
        let kept: Vec<usize> = (0..header.len()).filter(|at| !timed.contains(&&header[*at])).collect();
        let records = reader.records().map(Result::unwrap);
        records.map(|record| kept.iter().map(|at| record[*at].to_string()).collect()).collect::<Vec<Vec<String>>>()
    };
    assert_eq!(log(a), log(b), "{what}: logs");
    for file in files {
        let bytes = |planned: &PlannedRun| std::fs::read(planned.folder.join(file)).unwrap();
        assert_eq!(bytes(a), bytes(b), "{what}: {file}");
    }
    let weights = |planned: &PlannedRun, file: &Path| {
        let task = task::build(&planned.run, Device::Cpu).unwrap();
        checkpoint::load_weights(file, task.variables()).unwrap();
        let names: BTreeMap<_, _> = task.variables().variables().into_iter().collect();
        Tensor::cat(&names.values().map(|tensor| tensor.flatten(0, -1).to_kind(Kind::Float)).collect::<Vec<_>>(), 0)
    };
    for file in [checkpoint::last_file, checkpoint::final_file] {
        assert!(weights(a, &file(&a.folder)).equal(&weights(b, &file(&b.folder))), "{what}: weights");
    }
}
