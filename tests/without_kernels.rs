//! The code that a GPU takes, on the CPU with its kernels off: against the kernels, and by itself.

mod common;

use common::{alone, assert_same, first_run, go, go_with, scratch};
use std::path::Path;
use synthesizer::attention::fused::{compose, Form, Visibility};
use synthesizer::attention::mask::Causal;
use synthesizer::attention::SelfAttention;
use synthesizer::error::Outcome;
use synthesizer::experiment::PlannedRun;
use synthesizer::native::attention::Part;
use synthesizer::native::{self, device};
use synthesizer::task::attention_view::Histogram;
use synthesizer::task::tokens::TrainingRows;
use synthesizer::task::{self, BatchLoss, DevScore, Scores, Task};
use synthesizer::train::checkpoint;
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::parameters::{trainable, FlatParameters, Scalar};
use synthesizer::train::step::TrainingStep;
use tch::{nn, Device, Kind, Tensor};

/// The kernels off, and on again at the end.
struct Off;

fn off() -> Off {
    native::use_kernels(false);
    Off
}

impl Drop for Off {
    fn drop(&mut self) {
        native::use_kernels(true);
    }
}

const WORDS: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

/// Lines of several lengths.
fn lines(seed: usize) -> String {
    let line =
        |row: usize| (0..2 + (row * 5 + seed) % 9).map(|at| WORDS[(row * 3 + at * seed) % 8]).collect::<Vec<_>>();
    (0..60).map(|row| line(row).join(" ") + "\n").collect()
}

/// A small run of each task: its name, and the text of its experiment.
fn tasks(folder: &Path, mix: &str) -> Vec<(&'static str, String)> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let (source, target) = (file("a.txt", &lines(1)), file("b.txt", &lines(3)));
    let news: String = (0..60).map(|row| format!("\"{}\",\"{}\",\"two one\"\n", row % 4 + 1, WORDS[row % 8])).collect();
    file("news/train.csv", &news);
    file("news/test.csv", &news);
    let header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
    let pair = |row: usize| format!("{row}\tg\tf\t2012\t{row}\ts\ts\t{}\tone two\t{}.5\n", WORDS[row % 8], row % 5);
    let pairs = header.to_string() + &(0..40).map(pair).collect::<String>();
    file("glue/STS-B/train.tsv", &pairs);
    file("glue/STS-B/dev.tsv", &pairs);

    let files = |texts: &[&Path]| {
        format!("corpus = \"text\"\ntrain = {texts:?}\ndev = {texts:?}\ntest = {texts:?}\nvocabulary = 280\n")
    };
    let parallel = files(&[&source, &target]);
    let single = files(&[&source]);
    let both = "encoder_layers = 1\ndecoder_layers = 1\n";
    let made = |task: &str, data: &str, model: &str, train: &str| {
        format!(
            "task = \"{task}\"\nmix = \"{mix}\"\n[data]\n{data}[model]\nd_model = 32\nheads = 4\nd_ff = 48\nmax_length = 48\n{model}\
             [train]\nschedule = \"linear\"\nlearning_rate = 3e-3\nbatch_tokens = 256\n{train}"
        )
    };
    let train = "steps = 40\nwarmup = 4\nlog_every = 4\nevaluate_every = 10\n";
    vec![
        (
            "translation",
            made(
                "translation",
                &(parallel.clone() + "source = \"en\"\ntarget = \"de\"\nmax_tokens = 40\n"),
                both,
                train,
            ),
        ),
        (
            "language modelling",
            made("language-modelling", &(single.clone() + "max_tokens = 40\n"), "decoder_layers = 2\n", train),
        ),
        (
            "masked language modelling",
            made(
                "masked-language-modelling",
                &(single + "window = 20\nnoise_density = 0.3\nmean_span = 2.0\n"),
                both,
                train,
            ),
        ),
        ("summarization", made("summarization", &(parallel.clone() + "max_tokens = 40\n"), both, train)),
        ("dialogue", made("dialogue", &(parallel + "max_tokens = 40\n"), both, train)),
        (
            "classification",
            made(
                "classification",
                &format!(
                    "corpus = \"ag-news\"\nfolder = {:?}\nvocabulary = 280\nmax_tokens = 40\n",
                    folder.join("news")
                ),
                "encoder_layers = 2\n",
                train,
            ),
        ),
        (
            "a score",
            made(
                "classification",
                &format!(
                    "corpus = \"glue\"\nset = \"STS-B\"\nfolder = {:?}\nvocabulary = 280\nmax_tokens = 40\n",
                    folder.join("glue")
                ),
                "encoder_layers = 2\n",
                train,
            ),
        ),
    ]
}

const NO_DROPOUT: &str = "dropout = 0.0\nattention_dropout = 0.0\nrelu_dropout = 0.0\n";
const DROPOUT: &str = "dropout = 0.1\nattention_dropout = 0.1\nrelu_dropout = 0.1\n";

fn planned(text: &str, dropout: &str, results: &Path) -> PlannedRun {
    first_run(&text.replace("[train]\n", &format!("{dropout}[train]\n")), results)
}

/// Loss, gradients by name, and parameters after one step of Adam with clipping; float64 if `kind` says so.
fn one_step(planned: &PlannedRun, kind: Kind) -> (f64, Vec<(String, Tensor)>, Tensor) {
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    for (_, mut variable) in task.variables().variables() {
        // The same numbers in each pass; the layers hold the same tensors.
        let wider = variable.detach().to_kind(kind);
        variable.set_data(&wider);
    }
    let mut step = TrainingStep::new(&planned.run, task.as_ref());
    let batches: Vec<_> = task.training().epoch(0).into_iter().take(2).map(|rows| (0, rows)).collect();
    let stepped = step.step(&batches, 1).unwrap();
    assert_eq!(matches!(stepped.loss, Scalar::Number(_)), native::kernels_are_on(), "where the loss stays");
    assert_eq!(matches!(stepped.gradient_norm, Scalar::Number(_)), native::kernels_are_on());
    let gradients = trainable(task.variables()).into_iter().map(|(name, tensor)| (name, tensor.grad().copy()));
    (stepped.loss.value().unwrap(), gradients.collect(), step.parameters.values.copy())
}

fn largest(a: &Tensor, b: &Tensor) -> f64 {
    let (a, b) = (a.to_kind(Kind::Double), b.to_kind(Kind::Double));
    (a - &b).abs().max().double_value(&[]) / b.abs().max().double_value(&[]).max(1e-3)
}

#[test]
fn a_step_of_every_task_is_that_of_the_kernels() {
    let _alone = alone();
    for mix in ["R+V", "D+V", "FR+FD", "Rfix"] {
        let folder = scratch();
        for (name, text) in tasks(folder.path(), mix) {
            let text = text.replace("steps = 40", "clip_norm = 0.5\nsteps = 40");
            let planned = planned(&text, NO_DROPOUT, folder.path());
            for (kind, bound) in [(Kind::Double, 1e-9), (Kind::Float, 2e-4)] {
                let (loss, gradients, _) = one_step(&planned, kind);
                let _off = off();
                let (loss_off, gradients_off, values_off) = one_step(&planned, kind);
                let what = format!("{name}, {mix}, {kind:?}");
                assert!((loss - loss_off).abs() <= bound * loss.abs(), "{what}: loss {loss}, off {loss_off}");
                assert_eq!(gradients.len(), gradients_off.len());
                for ((name, ours), (_, theirs)) in gradients.iter().zip(&gradients_off) {
                    assert!(
                        largest(ours, theirs) <= bound,
                        "{what}: gradient of {name} differs by {}",
                        largest(ours, theirs)
                    );
                }
                assert!(bool::try_from(values_off.isfinite().all()).unwrap(), "{what}");
            }
        }
    }
}

#[test]
fn adam_and_clipping_on_the_device_are_those_of_the_kernels() {
    let _alone = alone();
    let folder = scratch();
    let (_, text) = tasks(folder.path(), "V").remove(0);
    for clip in ["0.0", "0.01"] {
        let text = text.replace("steps = 40", &format!("clip_norm = {clip}\nweight_decay = 0.1\nsteps = 40"));
        let planned = planned(&text, NO_DROPOUT, folder.path());
        let (_, _, values) = one_step(&planned, Kind::Double);
        let _off = off();
        let (_, _, values_off) = one_step(&planned, Kind::Double);
        assert!(largest(&values, &values_off) < 1e-9, "{clip}: {}", largest(&values, &values_off));
    }
    // The factor itself: gradients (3, 4) have the norm 5.
    let store = nn::VarStore::new(Device::Cpu);
    let variable = store.root().var("x", &[2], nn::Init::Const(0.0));
    let parameters = FlatParameters::new(&store);
    (&variable * Tensor::from_slice(&[3f32, 4.0])).sum(Kind::Float).backward();
    let _off = off();
    for (limit, wanted) in [(0.0, 1.0), (2.0, 0.4), (10.0, 1.0)] {
        let (norm, scale) = parameters.clip(limit).unwrap();
        assert!(norm.known().is_none() && scale.known().is_none(), "nobody waits for them");
        let (norm, scale) = (norm.value().unwrap(), scale.value().unwrap());
        assert!((norm - 5.0).abs() < 1e-6 && (scale - wanted).abs() < 1e-6, "{limit}: {norm} {scale}");
    }
}

/// Uniform weights over visible keys: the output is the share of them that survived, times 1/(1 − rate).
fn dropped_uniform(length: i64, causal: bool, rate: f64, product: bool) -> Tensor {
    let size = [4, 2, length, 8];
    let zeros = |size: &[i64]| Tensor::zeros(size, (Kind::Float, Device::Cpu));
    let parts = match product {
        true => vec![Part::Product { queries: zeros(&size), keys: zeros(&size), scale: 1.0, bias: None }],
        false => vec![Part::Table(zeros(&[2, length, length]))],
    };
    let values = Tensor::ones(size, (Kind::Float, Device::Cpu));
    let mask = causal.then(Causal::default);
    compose(&parts, None, &values, Visibility { causal: mask.as_ref(), padding: None, dropout: rate })
}

#[test]
fn the_composed_form_drops_its_share_and_keeps_the_mean() {
    let _alone = alone();
    for product in [true, false] {
        for causal in [false, true] {
            for rate in [0.1, 0.5] {
                let length = 200;
                tch::manual_seed(3);
                let first = dropped_uniform(length, causal, rate, product);
                let second = dropped_uniform(length, causal, rate, product);
                tch::manual_seed(3);
                let what = format!("product {product}, causal {causal}, rate {rate}");
                assert!(dropped_uniform(length, causal, rate, product).equal(&first), "{what}: the seed decides");
                assert!(!first.equal(&second), "{what}: a mask for each call");
                // The last query sees every key in both cases: its output is kept / ((1 − rate) · length), over 8 masks.
                let outputs = first.select(2, length - 1).select(2, 0);
                let mean = outputs.mean(Kind::Double).double_value(&[]);
                let deviation = (rate / (1.0 - rate) / (8.0 * length as f64)).sqrt();
                assert!((mean - 1.0).abs() < 5.0 * deviation, "{what}: mean {mean}");
                let kept = (outputs * (1.0 - rate) * length as f64).to_kind(Kind::Double);
                let whole = (&kept - kept.round()).abs().max().double_value(&[]);
                assert!(whole < 1e-2, "{what}: each weight is kept or dropped, and grows by 1/(1 - rate)");
                let rows = first.select(3, 0).mean_dim(&[-1i64][..], false, Kind::Double);
                assert!(
                    (rows.get(0).get(0).double_value(&[]) - rows.get(1).get(0).double_value(&[])).abs() > 0.0,
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn whole_steps_with_dropout_repeat_by_the_seed() {
    let _alone = alone();
    let folder = scratch();
    let _off = off();
    for (name, text) in tasks(folder.path(), "R+V") {
        let planned = planned(&text, DROPOUT, folder.path());
        let (loss, gradients, values) = one_step(&planned, Kind::Float);
        let (again, gradients_again, values_again) = one_step(&planned, Kind::Float);
        assert!(loss == again && values.equal(&values_again), "{name}");
        assert!(gradients.iter().zip(&gradients_again).all(|(a, b)| a.1.equal(&b.1)), "{name}");
        let without = one_step(&self::planned(&text, NO_DROPOUT, folder.path()), Kind::Float).0;
        assert!(loss != without && (loss / without - 1.0).abs() < 0.5, "{name}: {loss}, without dropout {without}");
    }
}

#[test]
fn stopped_runs_resume_to_the_same_bits() {
    let _alone = alone();
    let _off = off();
    let folder = scratch();
    for (name, text) in tasks(folder.path(), "R+V") {
        if ["summarization", "dialogue", "a score"].contains(&name) {
            continue; // the model and the loss of another one
        }
        let (straight, stopped) = (scratch(), scratch());
        let whole = planned(&text, DROPOUT, straight.path());
        go(&whole, &Interrupt::default()).unwrap();
        let parts = planned(&text, DROPOUT, stopped.path());
        // at a log line, and between two
        for steps in [20, 3] {
            let error = go(&parts, &Interrupt::after(steps)).map(|_| ()).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Outcome::Interrupted(_))), "{error}");
        }
        go(&parts, &Interrupt::default()).unwrap();
        assert_same(&whole, &parts, &["attention.csv"], name);
    }
}

/// A task whose loss becomes NaN, or whose gradients do, from some call on.
struct Spoilt<'a> {
    task: &'a dyn Task,
    calls: std::cell::Cell<u64>,
    first: u64,
    gradient_alone: bool,
}

impl Task for Spoilt<'_> {
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
        let loss = self.task.loss(epoch, rows)?;
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() < self.first {
            return Ok(loss);
        }
        let sum = match self.gradient_alone {
            // √x has the slope ∞ at 0, and ∞ · 0 is NaN
            true => {
                let weight = trainable(self.task.variables()).into_values().next().unwrap();
                loss.sum + (weight * 0.0).sum(Kind::Float).sqrt()
            }
            false => loss.sum * f64::NAN,
        };
        Ok(BatchLoss { sum, ..loss })
    }
    fn dev(&self) -> anyhow::Result<DevScore> {
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
fn a_late_nan_stops_within_a_step_and_names_the_first_bad_one() {
    let _alone = alone();
    let folder = scratch();
    let text = tasks(folder.path(), "V").remove(1).1.replace("log_every = 4", "log_every = 1000");
    for kernels_off in [false, true] {
        for gradient_alone in [false, true] {
            // between evaluations, and at one
            for first in [14, 20] {
                let _off = kernels_off.then(off);
                let results = scratch();
                let planned = planned(&text, NO_DROPOUT, results.path());
                let task = task::build(&planned.run, Device::Cpu).unwrap();
                let spoilt = Spoilt { task: task.as_ref(), calls: 0.into(), first, gradient_alone };
                let error = go_with(&planned, &spoilt, &Interrupt::default()).map(drop).unwrap_err();
                let what = format!("kernels off {kernels_off}, gradient {gradient_alone}, step {first}: {error}");
                assert!(matches!(error.downcast_ref(), Some(Outcome::Failed(_))), "{what}");
                let wanted = if gradient_alone { "the gradient's norm is" } else { "the loss is NaN" };
                assert!(error.to_string().contains(wanted), "{what}");
                assert!(error.to_string().contains(&format!("at step {first};")), "{what}");
                assert!(spoilt.calls.get() <= first + 1, "{what}: {} steps", spoilt.calls.get());
                let last = checkpoint::last_file(&planned.folder);
                assert_eq!(checkpoint::load_state(&last).unwrap().step, 10 * ((first - 1) / 10), "{what}");
                checkpoint::load_weights(&last, task.variables()).unwrap();
                for (name, tensor) in task.variables().variables() {
                    assert!(bool::try_from(tensor.isfinite().all()).unwrap(), "{what}: {name} in the checkpoint");
                }
            }
        }
    }
}

#[test]
fn an_interrupt_right_after_a_bad_step_saves_nothing_of_it() {
    let _alone = alone();
    let folder = scratch();
    let text = tasks(folder.path(), "V").remove(1).1;
    let _off = off();
    let planned = planned(&text, NO_DROPOUT, folder.path());
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let spoilt = Spoilt { task: task.as_ref(), calls: 0.into(), first: 13, gradient_alone: true };
    let error = go_with(&planned, &spoilt, &Interrupt::after(13)).map(drop).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Outcome::Failed(_))), "{error}");
    assert_eq!(checkpoint::load_state(&checkpoint::last_file(&planned.folder)).unwrap().step, 10);
}

#[test]
fn decoding_by_tensors_writes_what_the_kernels_write() {
    let _alone = alone();
    let folder = scratch();
    for mix in ["R+V", "D"] {
        let (_, text) = tasks(folder.path(), mix).remove(0);
        let results = scratch();
        let planned = planned(&text, NO_DROPOUT, results.path());
        let (_, task) = go(&planned, &Interrupt::default()).unwrap();
        drop(task);
        let written = |kernels: bool| {
            native::use_kernels(kernels);
            let _on = Off;
            let mut generator = task::build_generator(&planned.run, &planned.folder, Device::Cpu).unwrap();
            checkpoint::load_weights(&checkpoint::final_file(&planned.folder), generator.variables_mut()).unwrap();
            let lines: Vec<String> = lines(5).lines().map(str::to_string).collect();
            generator.generate(&lines).unwrap().into_iter().map(|answer| answer.text).collect::<Vec<_>>()
        };
        let (ours, theirs) = (written(true), written(false));
        let same = ours.iter().zip(&theirs).filter(|(a, b)| a == b).count();
        // Scores that are equal to float32's last digits may change places.
        assert!(same * 100 >= ours.len() * 95, "{mix}: {same} of {}", ours.len());
    }
}

#[test]
fn the_switch_reaches_every_choice() {
    let _alone = alone();
    let x = Tensor::ones([2, 3], (Kind::Float, Device::Cpu));
    assert!(native::takes(Device::Cpu, Kind::Float));
    assert_eq!(Form::Auto.resolve(&x), Form::Fused);
    let _off = off();
    assert!(!native::takes(Device::Cpu, Kind::Float));
    assert_eq!(Form::Auto.resolve(&x), Form::Composed);
}

#[test]
fn attention_never_takes_cudnn_and_only_the_plain_kernel_repeats() {
    let _alone = alone();
    device::choose_attention(false);
    let chosen = device::attention_kernels();
    assert!(!chosen.cudnn && chosen.flash && chosen.memory_efficient && chosen.plain, "{chosen:?}");
    device::choose_attention(true);
    let chosen = device::attention_kernels();
    assert!(!chosen.cudnn && !chosen.flash && !chosen.memory_efficient && chosen.plain, "{chosen:?}");
    device::choose_attention(false);
    assert!(device::only_deterministic(true, device::is_only_deterministic) && !device::is_only_deterministic());
    assert!(!device::only_deterministic(false, device::is_only_deterministic));
    // Without a device there is no pinned memory: none, and no abort.
    if tch::Cuda::device_count() == 0 {
        assert!(device::pinned(&Tensor::from(1.0)).is_none());
    }
    assert_eq!(device::memory(Device::Cpu), None);
}

#[test]
fn a_run_that_is_to_repeat_says_so_in_its_settings_alone_where_it_is_asked_for() {
    let folder = scratch();
    let (_, text) = tasks(folder.path(), "V").remove(0);
    let plain = first_run(&text, folder.path());
    assert!(!plain.run.to_toml().contains("deterministic"), "old hashes stay");
    let asked = first_run(&text.replace("steps = 40", "deterministic = true\nsteps = 40"), folder.path());
    assert!(asked.run.train.deterministic && asked.run.to_toml().contains("deterministic = true"));
    assert_ne!(asked.hash, plain.hash);
}

#[test]
fn a_run_is_not_resumed_by_other_code_unless_asked() {
    let place = common::workplace::Workplace::new(r#"["V"]"#, 8);
    place.said(&["run", "toy.toml", "--stop-after", "3"], 130);
    let off = |arguments: &[&str]| {
        let output = place.command(arguments).env(native::KERNELS_VARIABLE, "off").output().unwrap();
        (output.status.code(), common::workplace::text(&output))
    };
    let (code, said) = off(&["run", "toy.toml"]);
    assert!(code == Some(2) && said.contains("kernels on, now off"), "{said}");
    let (code, said) = off(&["run", "toy.toml", "--resume-anyway"]);
    assert_eq!(code, Some(0), "{said}");
    let output = place.command(&["cost"]).env(native::KERNELS_VARIABLE, "maybe").output().unwrap();
    let said = common::workplace::text(&output);
    assert!(output.status.code() == Some(2) && said.contains("takes `on` or `off`"), "{said}");
}
