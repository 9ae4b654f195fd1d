//! `bench train`: what it measures and dumps, on a toy.

mod common;

use common::scratch;
use common::workplace::{toy, Workplace};
use safetensors::SafeTensors;
use std::path::Path;
use std::process::Output;
use synthesizer::bench::roofline::{training_step, Batch};
use synthesizer::bench::train::Subject;
use synthesizer::experiment::{Experiment, Precision};

/// Dropout stays, as a real file has it.
fn smoothed() -> String {
    toy(r#"["V", "R+V"]"#, 50).replace("warmup = 2", "warmup = 10\nlabel_smoothing = 0.1")
}

fn bench(text: &str, arguments: &[&str]) -> (Workplace, Output) {
    let place = Workplace::new("[]", 1);
    place.write(text);
    let output = place.run(&[&["bench", "train", "toy.toml", "--device", "cpu"], arguments].concat());
    (place, output)
}

#[test]
fn shares_of_the_time_are_whole_and_nothing_else_is_written() {
    let arguments = ["--steps", "4", "--warm-up", "1", "--threads", "1", "--csv", "train.csv"];
    let (place, output) = bench(&smoothed(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let mut reader = csv::Reader::from_path(place.path("train.csv")).unwrap();
    let columns =
        "experiment,mix,parameters,steps,tokens_per_second,median_seconds,low_seconds,high_seconds,data_share,\
                   forward_share,backward_share,optimizer_share,peak_memory_bytes,device,threads,\
                   product_share,least_seconds,product_rate,copy_rate,cpu,version,command";
    assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>().join(","), columns);
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.iter().map(|row| [&row[0], &row[1]]).collect::<Vec<_>>(), [["Toy", "V"], ["Toy", "R+V"]]);
    // R [2, 32, 32] and α [2, 2] in each of two self-attentions
    let parameters = |row: usize| rows[row][2].parse::<u64>().unwrap();
    assert_eq!(parameters(1) - parameters(0), 2 * (2 * 32 * 32 + 4));
    for row in &rows {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        assert_eq!([&row[3], &row[13], &row[14]], ["4", "cpu", "1"]);
        assert!(row[21].starts_with("synthesizer bench train toy.toml"), "{row:?}");
        assert!(
            ((8..12).map(number).sum::<f64>() - 1.0).abs() < 1e-9 && (8..12).all(|share| number(share) > 0.0),
            "{row:?}"
        );
        assert!(number(8) < number(9) + number(10), "batches take longer than the model: {row:?}");
        // A step cannot take less than the least, which is the larger of two bounds.
        assert!(number(15) > 0.0 && number(16) < number(5) && number(17) > 1e8 && number(18) > 1e7, "{row:?}");
        // At most 256 tokens a side and step: rates and seconds must go together.
        let tokens = number(4) * number(5);
        assert!((20.0..256.0 * 3.0).contains(&tokens), "{row:?}");
    }
    let mut there: Vec<_> =
        std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["cache", "toy.toml", "train.csv"]);
}

/// Another program must find the very batches and settings that the trainer uses.
#[test]
fn the_dump_has_the_batches_of_the_first_epoch() {
    // the task that is built here keeps its tokens there
    let _cache = scratch();
    let text = smoothed();
    let (place, output) = bench(&text, &["--mix", "R+V", "--steps", "3", "--dump", "dump.safetensors"]);
    assert!(output.status.success(), "{output:?}");
    let bytes = std::fs::read(place.path("dump.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let ids = |name: &str| -> (Vec<usize>, Vec<i64>) {
        let view = file.tensor(name).unwrap();
        (
            view.shape().to_vec(),
            view.data().chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect(),
        )
    };
    let run =
        Experiment::parse(Path::new("toy.toml"), &text).unwrap().plan(Path::new("results")).unwrap().runs.remove(1).run;
    let task = synthesizer::task::build(&run, tch::Device::Cpu).unwrap();
    for (number, rows) in task.training().epoch(0).iter().take(3).enumerate() {
        let [source, input, target] = ["source", "input", "target"].map(|what| ids(&format!("batch.{number}.{what}")));
        assert_eq!(source.0[0], rows.len());
        let row = |(shape, ids): &(Vec<usize>, Vec<i64>), row: usize| ids[row * shape[1]..][..shape[1]].to_vec();
        for at in 0..rows.len() {
            let real = |ids: Vec<i64>| ids.into_iter().filter(|&id| id != 0).collect::<Vec<_>>();
            let (source, input, target) = (real(row(&source, at)), real(row(&input, at)), real(row(&target, at)));
            // The toy's target is its source backwards, each with an end mark; the input is the target one later.
            let (letters, end) = source.split_at(source.len() - 1);
            let backwards: Vec<i64> = letters.iter().rev().chain(end).copied().collect();
            assert_eq!(target, backwards, "batch {number}, row {at}");
            assert_eq!(input[1..], target[..target.len() - 1]);
        }
    }
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let config: serde_json::Value = serde_json::from_str(&header.metadata().as_ref().unwrap()["config"]).unwrap();
    assert_eq!(config["model"], "encoder-decoder");
    assert_eq!((&config["sizes"]["mix"], &config["sizes"]["d_ff"]), (&"R+V".into(), &32.into()));
    // linear warm-up to 3e-3 in 10 steps; three steps warm up before the measured ones
    let rates: Vec<f64> = serde_json::from_value(config["learning_rates"].clone()).unwrap();
    assert_eq!(rates.len(), 6);
    assert!((rates[0] - 3e-4).abs() < 1e-12 && (rates[5] - 1.8e-3).abs() < 1e-12, "{rates:?}");
    let weights = file.names().into_iter().filter(|name| name.starts_with("weight.")).count();
    assert_eq!(weights, task.variables().variables().len());
}

/// A step's work is that of its batch and model, what fills rows up left out of the logits.
#[test]
fn the_work_of_a_step_is_that_of_its_batch() {
    let _cache = scratch();
    let experiment = Experiment::parse(Path::new("toy.toml"), &smoothed()).unwrap();
    let run = experiment.plan(Path::new("results")).unwrap().runs.remove(0).run;
    let task = synthesizer::task::build(&run, tch::Device::Cpu).unwrap();
    let sizes = synthesizer::task::transformer_config(&run, task.training().tokenizer.size());
    let trained = task.variables().trainable_variables().iter().map(|weight| weight.numel() as u64).sum();
    let mut subject = Subject::new(&run, task.as_ref(), usize::MAX).unwrap();
    let (mut filled, mut all) = (0, Vec::new());
    for rows in task.training().epoch(0) {
        let tokens = task.token_batch(0, &rows).unwrap().unwrap();
        let (count, target) = tokens.input.size2().unwrap();
        let (_, source) = tokens.source.unwrap().size2().unwrap();
        let predictions = tokens.target.ne(0.0).sum(tch::Kind::Int64).int64_value(&[]);
        filled += count * target - predictions;
        let batch = Batch { rows: count, source: Some(source), target, predictions: predictions as u64 };
        let work = training_step(&sizes, batch, trained).unwrap();
        assert_eq!(subject.step().unwrap().work, Some(work));
        all.push(work);
    }
    assert!(filled > 0, "no row is filled up, which shows little");
    // of two batches the products of both, and Adam's bytes once
    let mut two = run.clone();
    two.train.accumulate = 2;
    let work = Subject::new(&two, task.as_ref(), 1).unwrap().step().unwrap().work.unwrap();
    assert_eq!((work.operations, work.bytes), (all[0].operations + all[1].operations, all[0].bytes));
    // rounded products have another rate
    let mut rounded = run.clone();
    rounded.train.precision = Precision::Bfloat16;
    assert_eq!(Subject::new(&rounded, task.as_ref(), 1).unwrap().step().unwrap().work, None);
}

#[test]
fn the_users_faults_are_told() {
    let toy = smoothed();
    let decayed = toy.replace("label_smoothing = 0.1", "weight_decay = 0.1");
    let cases: [(&str, &[&str], &str); 3] = [
        (&toy, &["--mix", "D"], "no run has one of these mixes; there are V, R+V"),
        (&toy, &["--steps", "0"], "0"),
        (&decayed, &["--dump", "dump.safetensors"], "the PyTorch peer has no train.weight_decay"),
    ];
    for (text, arguments, message) in cases {
        let (_place, output) = bench(text, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message) && !text.contains("should not happen"), "{text}");
    }
}
