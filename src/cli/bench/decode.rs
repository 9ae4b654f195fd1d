//! `synthesizer bench decode`.

use super::csv_file::CsvFile;
use crate::bench::decode::{evenly, measure, Options, Row, Subject};
use crate::bench::decode_peer::{Case, Peer};
use crate::bench::sampling::Limits;
use crate::cli::columns::lay_out;
use crate::cli::mixes::{is_wanted, none_wanted};
use crate::cli::run_folder;
use crate::data::{self, tokenizer::Tokenizer};
use crate::experiment::{self, Mix, Run};
use crate::task::writer::Writer;
use crate::terminal::tell;
use crate::train::checkpoint;
use crate::train::device::{self, resolve, DeviceChoice};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use tch::Device;

/// Options of `bench decode`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of finished runs, or experiment files: of their runs the trained weights are taken where results/ has them, else
    /// those that training starts from
    #[arg(required = true, value_name = "RUN_DIR|EXPERIMENT.toml")]
    paths: Vec<PathBuf>,
    /// Only runs of this mix; may be given many times [default: all]
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// Beams, separated by commas; 1 is greedy search
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    beam: Vec<u64>,
    /// Sentences decoded together [default: the run's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    batch: Option<u64>,
    /// Sentences of the test set, taken evenly [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sentences: Option<u64>,
    /// Steps by LibTorch's operations one by one, which CUDA has anyway
    #[arg(long)]
    plain: bool,
    /// Most measured runs of each beam; 3 at least are made, if this allows
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
    /// Seconds of measured runs of each, after which no further one starts
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// Run the PyTorch peer in turn with ours
    #[arg(long)]
    peer: bool,
    /// A Python with torch and safetensors
    #[arg(long, value_name = "PATH", default_value = "python3", requires = "peer")]
    python: PathBuf,
    /// The peer's program
    #[arg(long, value_name = "PATH", default_value = "benches/torch_decode.py", requires = "peer")]
    script: PathBuf,
    /// Write what the peer reads (model, sentences, batches) to this JSON file, and measure nothing
    #[arg(long, value_name = "PATH", conflicts_with_all = ["peer", "csv", "json"])]
    dump: Option<PathBuf>,
    /// Where to run; auto takes CUDA if there is a device
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Threads [default: LibTorch's own choice]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=4096))]
    threads: Option<i32>,
    /// Write the measurements to this CSV file, model by model
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// A model to measure, by where it comes from.
struct Model {
    name: String,
    run: Run,
    /// The run's folder and its weights; none for weights that training starts from.
    trained: Option<(PathBuf, PathBuf)>,
}

/// Measures, or writes what the peer reads.
pub fn run(args: Args) -> Result<()> {
    let device = resolve(args.device)?;
    if let Some(threads) = args.threads {
        tch::set_num_threads(threads);
    }
    let options = Options {
        beams: args.beam.iter().map(|&beam| beam as usize).collect(),
        batch: args.batch.map(|batch| batch as usize),
        plain: args.plain,
        limits: Limits {
            warm_up: 1,
            least: args.repeats.min(3) as usize,
            most: args.repeats as usize,
            seconds: args.seconds,
        },
        device: device::name(device),
    };
    let models = models(&args.paths, &args.mixes)?;
    if let Some(path) = &args.dump {
        let [model] = &models[..] else { bail!("--dump writes one model; {} were given", models.len()) };
        let subject = subject(model, device, args.sentences)?;
        let weights = weights(model, &subject, &path.with_extension("safetensors"))?;
        return Case::new(&model.run, &subject, &weights, &options)?.write(path);
    }
    let mut file = CsvFile::create(args.csv.as_deref())?;
    let mut all: Vec<Row> = Vec::new();
    for model in &models {
        let subject = subject(model, device, args.sentences)?;
        let folder = tempfile()?;
        let mut peer = None;
        if args.peer {
            let weights = weights(model, &subject, &folder.0.join("weights.safetensors"))?;
            match Case::new(&model.run, &subject, &weights, &options) {
                Ok(case) => {
                    let path = folder.0.join("case.json");
                    case.write(&path)?;
                    peer = Some(Peer::start(&args.python, &args.script, &path)?);
                }
                Err(lacking) => tell(&format!("{} is measured alone: {lacking:#}", model.name)),
            }
        }
        let rows = measure(&subject, &options, peer.as_mut()).with_context(|| format!("in {}", model.name))?;
        for row in &rows {
            let ratio = row.ratio.map_or(String::new(), |ratio| format!("  {ratio:.2} times the peer"));
            eprintln!("{:<12} beam {:<3} {:>8.1} sentences/s{ratio}", row.run, row.beam, row.sentences_per_second);
        }
        file.keep(&rows)?;
        all.extend(rows);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!("{}", table(&all));
    }
    Ok(())
}

fn models(paths: &[PathBuf], mixes: &[Mix]) -> Result<Vec<Model>> {
    let mut models = Vec::new();
    for path in paths {
        if path.extension().is_some_and(|extension| extension == "toml") {
            let plans = experiment::plan_all(std::slice::from_ref(path), Path::new("results"))?;
            let runs = plans.into_iter().flat_map(|(_, plan)| plan.runs);
            for planned in runs {
                let weights = checkpoint::final_file(&planned.folder);
                let trained = weights.exists().then_some((planned.folder, weights));
                models.push(Model { name: planned.name, run: planned.run, trained });
            }
        } else {
            let (run, weights) = run_folder::read(path)?;
            let name =
                path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
            models.push(Model { name, run, trained: Some((path.clone(), weights)) });
        }
    }
    if !models.iter().any(|model| is_wanted(mixes, &model.run)) {
        return Err(none_wanted(models.iter().map(|model| &model.run.mix)));
    }
    models.retain(|model| is_wanted(mixes, &model.run));
    if let Some(model) = models.iter().find(|model| model.run.decode.is_none()) {
        bail!("{} writes no text: nothing is decoded in a run without a [decode] section", model.name);
    }
    Ok(models)
}

fn subject(model: &Model, device: Device, sentences: Option<u64>) -> Result<Subject> {
    let corpus = data::load(&model.run.data, model.run.task)?;
    let prepared = data::prepare(&corpus, &model.run.data, model.run.task)?;
    let test = &prepared.test;
    let sources: Vec<Vec<u32>> = (0..test.len()).map(|row| test.tokens(row, 0)).collect::<Result<_>>()?;
    let sources = evenly(&sources, sentences.unwrap_or(u64::MAX) as usize);
    let writer = match &model.trained {
        Some((folder, weights)) => {
            run_folder::check(folder, weights)?;
            let writer = Writer::new(&model.run, Tokenizer::load(&folder.join("tokenizer.json"))?, device)?;
            run_folder::load_weights(weights, writer.variables())?;
            writer
        }
        None => Writer::new(&model.run, prepared.tokenizer, device)?,
    };
    Ok(Subject {
        name: model.name.clone(),
        mix: model.run.mix.to_string(),
        trained: model.trained.is_some(),
        writer,
        sources,
    })
}

/// The file of the model's weights: the run's own, or `fresh`, made for a model that was not trained.
fn weights(model: &Model, subject: &Subject, fresh: &Path) -> Result<PathBuf> {
    Ok(match &model.trained {
        Some((_, weights)) => weights.clone(),
        None => {
            subject.writer.variables().save(fresh).with_context(|| format!("cannot write {}", fresh.display()))?;
            fresh.to_path_buf()
        }
    })
}

/// A folder of this process, removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempfile() -> Result<Scratch> {
    let folder = std::env::temp_dir().join(format!("synthesizer-bench-decode-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(Scratch(folder))
}

fn table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let with_peer = rows.iter().any(|row| row.ratio.is_some());
    let mut headings = vec![
        "run",
        "trained",
        "beam",
        "sentences/s",
        "tokens/s",
        "seconds",
        "10% - 90%",
        "steps",
        "rows/step",
        "encoder",
        "start",
        "steps",
        "search",
    ];
    if with_peer {
        headings.extend(["peer s", "10% - 90%", "peer steps", "ratio", "differing"]);
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let spent = row.encoder_seconds + row.start_seconds + row.step_seconds + row.search_seconds;
            let share = |seconds: f64| format!("{:.0}%", 100.0 * seconds / spent);
            let mut cells = vec![
                row.run.clone(),
                if row.trained { "yes" } else { "no" }.into(),
                row.beam.to_string(),
                format!("{:.1}", row.sentences_per_second),
                format!("{:.0}", row.tokens_per_second),
                format!("{:.3}", row.median_seconds),
                format!("{:.3} - {:.3}", row.low_seconds, row.high_seconds),
                row.steps.to_string(),
                format!("{:.1}", row.stepped as f64 / row.steps as f64),
                share(row.encoder_seconds),
                share(row.start_seconds),
                share(row.step_seconds),
                share(row.search_seconds),
            ];
            if with_peer {
                let seconds = |value: Option<f64>| value.map_or("·".to_string(), |value| format!("{value:.3}"));
                cells.extend([
                    seconds(row.peer_median_seconds),
                    format!("{} - {}", seconds(row.peer_low_seconds), seconds(row.peer_high_seconds)),
                    row.peer_steps.map_or("·".into(), |steps| steps.to_string()),
                    row.ratio.map_or("·".into(), |ratio| format!("{ratio:.2}")),
                    row.differing.map_or("·".into(), |count| count.to_string()),
                ]);
            }
            cells
        })
        .collect();
    format!(
        "{} sentences, batches of {}, {}, {} threads\n{}\
         seconds: median of all sentences; rows/step: hypotheses alive; encoder to search: shares of the threads' time{}.\n",
        first.sentences,
        first.batch,
        first.device,
        first.threads,
        lay_out(&headings, &cells, 1),
        if with_peer { ";\nratio: the peer's time over ours; differing: sentences of which the peer makes something else" } else { "" }
    )
}
