//! `synthesizer bench train`.

use super::csv_file::CsvFile;
use super::{milliseconds, rates};
use crate::bench::roofline::Yardstick;
use crate::bench::train::{Row, Subject};
use crate::cli::columns::lay_out;
use crate::cli::mixes::{is_wanted, none_wanted};
use crate::experiment::{self, Mix, Run};
use crate::task;
use crate::train::device::{resolve, DeviceChoice};
use crate::train::memory;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Options of `bench train`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiment files, or folders of them
    #[arg(required = true, value_name = "EXPERIMENT")]
    paths: Vec<PathBuf>,
    /// Only runs of this mix; may be given many times [default: all of the file]
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// Measured steps of each run
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Steps that come first and are left out
    #[arg(long, value_name = "N", default_value_t = 3)]
    warm_up: u64,
    /// Where to run; auto takes CUDA if there is a device
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// LibTorch's threads [default: LibTorch's own choice]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=4096))]
    threads: Option<i32>,
    /// Write weights and batches of the first run to this safetensors file, for another program, and stop
    #[arg(long, value_name = "PATH", conflicts_with_all = ["csv", "json"])]
    dump: Option<PathBuf>,
    /// Write the measurements to this CSV file, run by run
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let runs = runs(&args.paths, &args.mixes)?;
    let device = resolve(args.device)?;
    if let Some(threads) = args.threads {
        tch::set_num_threads(threads);
    }
    memory::keep_freed();
    if let Some(path) = &args.dump {
        // There is at least one run, or `runs` had said so.
        let Some((title, run)) = runs.first() else { return Ok(()) };
        let task = task::build(run, device).with_context(|| format!("{title}, {}", run.mix))?;
        return Subject::new(run, task.as_ref(), args.steps as usize)?.dump(path, args.warm_up + args.steps);
    }
    let mut file = CsvFile::create(args.csv.as_deref())?;
    let mut yardstick = Yardstick::new(device)?;
    let mut rows: Vec<Row> = Vec::new();
    for (title, run) in &runs {
        let task = task::build(run, device).with_context(|| format!("{title}, {}", run.mix))?;
        let mut subject = Subject::new(run, task.as_ref(), args.steps as usize)?;
        for _ in 0..args.warm_up {
            subject.step()?;
        }
        let peak = subject.peak_memory()?;
        let before = yardstick.take()?;
        let samples = (0..args.steps).map(|_| subject.step()).collect::<Result<Vec<_>>>()?;
        yardstick.take()?;
        // There is at least one sample, by the option's range.
        let Some(row) = subject.row(title, &samples, peak, &yardstick.since(before)) else { continue };
        eprintln!("{title}  {}  {:.0} tokens/s", row.mix, row.tokens_per_second);
        file.keep(std::slice::from_ref(&row))?;
        rows.push(row);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", table(&rows));
    }
    Ok(())
}

/// The runs of some experiment files, one a mix (its first seed, no variants), with the files' titles.
pub(super) fn runs(paths: &[PathBuf], mixes: &[Mix]) -> Result<Vec<(String, Run)>> {
    let mut runs: Vec<(String, Run)> = Vec::new();
    let mut there: Vec<Mix> = Vec::new();
    for (experiment, plan) in experiment::plan_all(paths, Path::new("results"))? {
        let missing = experiment.missing_files();
        if !missing.is_empty() {
            return Err(experiment::Problems(missing).into());
        }
        for planned in plan.runs {
            let is_again = runs.iter().any(|(title, run)| *title == plan.title && run.mix == planned.run.mix);
            there.push(planned.run.mix.clone());
            if is_wanted(mixes, &planned.run) && !is_again {
                runs.push((plan.title.clone(), planned.run));
            }
        }
    }
    if runs.is_empty() {
        return Err(none_wanted(&there));
    }
    Ok(runs)
}

fn table(rows: &[Row]) -> String {
    let share = |share: f64| format!("{:.0}%", share * 100.0);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.experiment.clone(),
                row.mix.clone(),
                format!("{:.0}", row.tokens_per_second),
                milliseconds(row.median_seconds),
                format!("{} - {}", milliseconds(row.low_seconds), milliseconds(row.high_seconds)),
                share(row.data_share),
                share(row.forward_share),
                share(row.backward_share),
                share(row.optimizer_share),
                row.product_share.map_or("·".into(), share),
                row.peak_memory_bytes.map_or("·".into(), |bytes| format!("{:.1}", bytes as f64 / 1048576.0)),
            ]
        })
        .collect();
    let headings = [
        "experiment",
        "mix",
        "tokens/s",
        "step ms",
        "10% - 90%",
        "data",
        "forward",
        "backward",
        "optimizer",
        "product rate",
        "MiB",
    ];
    let device = rows.first().map_or(String::new(), |row| format!("{}, {} threads\n", row.device, row.threads));
    format!(
        "{device}{}{}tokens/s: predicted tokens of all measured steps over their time; product rate: operations that the model's products and attention \
         need over the time, as a share of the machine's product rate; MiB: most memory of a step above model and optimizer.\n",
        lay_out(&headings, &cells, 2),
        rates(rows.iter().map(|row| (row.product_rate, row.copy_rate)))
    )
}
