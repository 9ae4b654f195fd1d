//! `synthesizer bench compare`: ours against PyTorch, in turn.

use super::csv_file::CsvFile;
use super::train::runs;
use super::{causality, milliseconds, rates};
use crate::attention::Form;
use crate::bench::attention::{Options, Part, Pass};
use crate::bench::compare::{self, Against, AttentionRow, Setting, TrainRow};
use crate::bench::peer::{Launch, Peer, Unfit};
use crate::bench::roofline::Yardstick;
use crate::bench::sampling::Limits;
use crate::cli::columns::lay_out;
use crate::cli::cost::usual_mixes;
use crate::experiment::{Mix, Run};
use crate::origin::cpu;
use crate::train::memory;
use anyhow::{bail, Context, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tch::Device;

/// Options of `bench compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The attention core and layer, over functions and lengths
    Attention(AttentionArgs),
    /// Training steps of experiment files
    Train(TrainArgs),
}

/// What every comparison needs to know.
#[derive(Debug, clap::Args)]
struct Common {
    /// The Python that runs the peer; PYTHONPATH says where it finds PyTorch
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// The peer's program
    #[arg(long, value_name = "PATH", default_value = "benches/torch_peer.py")]
    script: PathBuf,
    /// Threads of either [default: LibTorch's own choice]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=4096))]
    threads: Option<i32>,
    /// Forms of the peer, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORM,…", default_value = "stock,eager,fused")]
    against: Vec<Against>,
    /// Write the measurements to this CSV file, as soon as they are there
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct AttentionArgs {
    #[command(flatten)]
    common: Common,
    /// A mix, such as R+V; may be given many times [default: every function alone, R+D, D+V, R+V]
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// The core or the whole layer; may be given twice [default: both]
    #[arg(long = "part", value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// How ours is computed
    #[arg(long, value_enum, default_value_t)]
    form: Form,
    /// Lengths, separated by commas
    #[arg(long, value_name = "L,…", value_delimiter = ',', default_value = "64,256,1024")]
    lengths: Vec<i64>,
    /// Sequences in a batch, at most
    #[arg(long, value_name = "B", default_value_t = 16)]
    batch: i64,
    /// Tokens in a batch, at most: long sequences come in smaller batches
    #[arg(long, value_name = "N", default_value_t = 4096)]
    tokens: i64,
    /// Width d of the layer
    #[arg(long, value_name = "D", default_value_t = 512)]
    d_model: i64,
    /// Heads h, which divide the width
    #[arg(long, value_name = "H", default_value_t = 8)]
    heads: i64,
    /// Most rounds of each comparison; 3 at least are made, if this allows
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// Measured seconds of each, after which no further round starts
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
}

#[derive(Debug, clap::Args)]
struct TrainArgs {
    #[command(flatten)]
    common: Common,
    /// Experiment files, or folders of them
    #[arg(required = true, value_name = "EXPERIMENT")]
    paths: Vec<PathBuf>,
    /// Only runs of this mix; may be given many times [default: all of the file]
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// Turns of four steps each, after one that is left out; one turn more comes first and is left out
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    match args.what {
        What::Attention(args) => attention(args),
        What::Train(args) => train(args),
    }
}

/// The peers, of which a comparison needs one or two: with the allocator as it comes, and with that of ours.
struct Peers {
    common: Common,
    running: HashMap<bool, Peer>,
    setting: Setting,
    file: CsvFile,
}

impl Peers {
    /// Starts all that will be needed, before anything is measured.
    fn start(common: Common) -> Result<Peers> {
        if let Some(threads) = common.threads {
            tch::set_num_threads(threads);
        }
        memory::keep_freed();
        let threads = tch::get_num_threads();
        let mut running = HashMap::new();
        let mut torch = String::new();
        for against in &common.against {
            let keeps_freed = against.keeps_freed();
            if running.contains_key(&keeps_freed) {
                continue;
            }
            let peer = Peer::start(&Launch {
                python: common.python.clone(),
                script: common.script.clone(),
                threads,
                keeps_freed,
            })?;
            torch.clone_from(&peer.about.torch);
            running.insert(keeps_freed, peer);
        }
        eprintln!("{}, {threads} threads, PyTorch {torch}", cpu());
        // What is there from before is given up when there is something to compare with, and not before.
        let file = CsvFile::create(common.csv.as_deref())?;
        Ok(Peers { common, running, setting: Setting { threads, torch }, file })
    }
}

/// The running peer of a form: started with the others.
fn of(running: &mut HashMap<bool, Peer>, against: Against) -> Result<&mut Peer> {
    running.get_mut(&against.keeps_freed()).context("no such peer was started")
}

fn attention(args: AttentionArgs) -> Result<()> {
    let mixes = if args.mixes.is_empty() { usual_mixes()? } else { args.mixes };
    let parts = if args.parts.is_empty() { vec![Part::Core, Part::Layer] } else { args.parts };
    let mut options = Options {
        parts,
        form: args.form,
        mixes,
        lengths: args.lengths,
        batch: args.batch,
        d_model: args.d_model,
        heads: args.heads,
        limits: Limits { warm_up: 0, least: args.rounds.min(3), most: args.rounds, seconds: args.seconds },
        device: Device::Cpu,
    };
    options.check()?;
    let mut peers = Peers::start(args.common)?;
    let mut yardstick = Yardstick::new(Device::Cpu)?;
    let mut rows: Vec<AttentionRow> = Vec::new();
    for length in options.lengths.clone() {
        options.batch = args.batch.min(args.tokens / length).max(1);
        for part in options.parts.clone() {
            for mix in options.mixes.clone() {
                let first = rows.len();
                for against in peers.common.against.clone() {
                    let peer = of(&mut peers.running, against)?;
                    let setting = &peers.setting;
                    match compare::attention(peer, against, &options, (part, &mix, length), &mut yardstick, setting) {
                        Ok(found) => rows.extend(found),
                        // What torch.compile cannot do takes nothing from the other forms.
                        Err(error) if against == Against::Compile => {
                            eprintln!("{} {mix} length {length}: torch.compile failed: {error:#}", part.name());
                        }
                        Err(error) => return Err(error.context(format!("{} {mix} at length {length}", part.name()))),
                    }
                }
                for row in &rows[first..] {
                    eprintln!("length {length:>5}  {:<5}  {mix:<6} {}", part.name(), brief(row));
                }
                peers.file.keep(&rows[first..])?;
            }
        }
    }
    if rows.is_empty() {
        bail!("nothing was measured: PyTorch has no such form of these mixes, or they have no such part (FFT, say, has no core)");
    }
    for &length in &options.lengths {
        for &part in &options.parts {
            print!("{}", attention_table(&rows, part, length, &peers.common.against));
        }
    }
    print!("{}{LEGEND}", rates(rows.iter().map(|row| (row.product_rate, row.copy_rate))));
    Ok(())
}

const LEGEND: &str = "\
xSTOCK, xEAGER, xFUSED, xCOMPILE: PyTorch's time over ours, medians of runs in turn: above 1, ours is faster. stock: operation by
operation, as PyTorch comes; eager: the same, freed blocks kept as ours keeps them; fused: what PyTorch has
ready (scaled_dot_product_attention; for R and FR one product a head), freed blocks kept; compile: torch.compile, freed blocks kept.
product rate: our operations over our time, as a share of the machine's product rate. MiB: most memory above inputs and weights, ours / eager.\n";

fn brief(row: &AttentionRow) -> String {
    let (peer, ours) = (milliseconds(row.peer_seconds), milliseconds(row.our_seconds));
    let name = if row.allocator == "stock" { "stock" } else { row.peer };
    let spread = format!("{:.2} - {:.2}", row.ratio_low, row.ratio_high);
    format!("{:<17} {name:<7} {peer:>8} ms / {ours:>8} ms = {:.2} ({spread})", row.pass.name(), row.ratio)
}

fn attention_table(rows: &[AttentionRow], part: Part, length: i64, against: &[Against]) -> String {
    let rows: Vec<&AttentionRow> = rows.iter().filter(|row| row.part == part && row.length == length).collect();
    let Some(first) = rows.first() else { return String::new() };
    let mut mixes: Vec<&str> = Vec::new();
    for row in &rows {
        if !mixes.contains(&row.mix.as_str()) {
            mixes.push(&row.mix);
        }
    }
    let mut headings = vec!["mix".to_string()];
    for pass in [Pass::Forward, Pass::Backward] {
        headings.push(format!("{} ms", pass.name()));
        headings.extend(against.iter().map(|against| format!("x{}", against.name().to_uppercase())));
        headings.extend(["product rate".to_string(), "MiB".to_string()]);
    }
    let cells = mixes.iter().map(|mix| {
        let mut cells = vec![mix.to_string()];
        for pass in [Pass::Forward, Pass::Backward] {
            let of = |against: &Against| {
                rows.iter().find(|row| {
                    let is_kept = (row.allocator == "kept") == against.keeps_freed();
                    row.mix == *mix && row.pass == pass && row.peer == against.form() && is_kept
                })
            };
            let any = against.iter().find_map(of);
            cells.push(any.map_or("·".into(), |row| milliseconds(row.our_seconds)));
            cells.extend(
                against.iter().map(|against| of(against).map_or("·".into(), |row| format!("{:.2}", row.ratio))),
            );
            cells.push(any.map_or("·".into(), |row| format!("{:.0}%", row.product_share * 100.0)));
            let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1048576.0);
            let peak = of(&Against::Eager).or(any).map_or("·".into(), |row| {
                let ours = row.our_peak_memory_bytes.map_or("·".into(), mebibytes);
                format!("{ours} / {}", mebibytes(row.peer_peak_memory_bytes))
            });
            cells.push(peak);
        }
        cells
    });
    let cells: Vec<Vec<String>> = cells.collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    format!(
        "{}, length {length}: batch {}, d_model {}, heads {}, {}, float32, {} threads\n{}\n",
        part.name(),
        first.batch,
        first.d_model,
        first.heads,
        causality(rows.iter().map(|row| (row.mix.as_str(), row.causal))),
        first.threads,
        lay_out(&headings, &cells, 1)
    )
}

fn train(args: TrainArgs) -> Result<()> {
    let runs = runs(&args.paths, &args.mixes)?;
    let mut peers = Peers::start(args.common)?;
    let mut yardstick = Yardstick::new(Device::Cpu)?;
    let folder = std::env::temp_dir().join(format!("synthesizer-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let done = train_all(&runs, args.turns, &mut peers, &mut yardstick, &folder.join("dump.safetensors"));
    // What stays in the temporary folder costs disk and nothing else.
    let _ = std::fs::remove_dir_all(&folder);
    let rows = done?;
    if rows.is_empty() {
        bail!("nothing was measured: PyTorch has no such form of these mixes");
    }
    print!("{}", train_table(&rows));
    Ok(())
}

fn train_all(
    runs: &[(String, Run)],
    turns: u64,
    peers: &mut Peers,
    yardstick: &mut Yardstick,
    dump: &Path,
) -> Result<Vec<TrainRow>> {
    let mut rows = Vec::new();
    for (title, run) in runs {
        for against in peers.common.against.clone() {
            let peer = of(&mut peers.running, against)?;
            let measured = compare::check_training(peer, against.form(), run, dump)
                .and_then(|()| compare::training(peer, against, (title, run), turns, dump, yardstick, &peers.setting));
            let row = match measured {
                Ok(row) => row,
                Err(error) if error.is::<Unfit>() => continue,
                Err(error) => return Err(error.context(format!("{title}, {}", run.mix))),
            };
            eprintln!("{title}  {:<4} {:<7} {:.2}", row.mix, against.name(), row.ratio);
            peers.file.keep(std::slice::from_ref(&row))?;
            rows.push(row);
        }
    }
    Ok(rows)
}

const TRAIN_LEGEND: &str = "\
ratio: our tokens/s over PyTorch's, steps in turn on the same batches; 10% - 90%: of single steps; product rate: our operations (those that
the model's products and attention need) over our time, as a share of the machine's product rate.\n";

fn train_table(rows: &[TrainRow]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1048576.0);
            vec![
                row.experiment.clone(),
                row.mix.clone(),
                if row.allocator == "stock" { "stock" } else { row.peer }.to_string(),
                format!("{:.0}", row.our_tokens_per_second),
                format!("{:.0}", row.peer_tokens_per_second),
                format!("{:.2}", row.ratio),
                format!("{:.2} - {:.2}", row.ratio_low, row.ratio_high),
                row.product_share.map_or("·".into(), |share| format!("{:.0}%", share * 100.0)),
                row.our_peak_memory_bytes.map_or("·".into(), mebibytes),
                mebibytes(row.peer_peak_memory_bytes),
            ]
        })
        .collect();
    let headings = [
        "experiment",
        "mix",
        "peer",
        "our tokens/s",
        "its tokens/s",
        "ratio",
        "10% - 90%",
        "product rate",
        "our MiB",
        "its MiB",
    ];
    format!(
        "{}{}{TRAIN_LEGEND}",
        lay_out(&headings, &cells, 3),
        rates(rows.iter().map(|row| (row.product_rate, row.copy_rate)))
    )
}
