//! `synthesizer bench attention`.

use super::csv_file::CsvFile;
use super::{causality, milliseconds, rates};
use crate::attention::Form;
use crate::bench::attention::{measure, Options, Part, Pass, Row};
use crate::bench::sampling::Limits;
use crate::cli::columns::lay_out;
use crate::cli::cost::usual_mixes;
use crate::experiment::Mix;
use crate::train::device::{resolve, DeviceChoice};
use crate::train::memory;
use std::path::PathBuf;

/// The row that the others are compared with.
const BASE: &str = "V";

/// Options of `bench attention`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A mix, such as R+V; may be given many times [default: every function alone, R+D, D+V, R+V]
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// The core or the whole layer; may be given twice [default: both]
    #[arg(long = "part", value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// How attention is computed; operators have one form only
    #[arg(long, value_enum, default_value_t)]
    form: Form,
    /// Lengths, separated by commas
    #[arg(long, value_name = "L,…", value_delimiter = ',', default_value = "64,128,256,512,1024")]
    lengths: Vec<i64>,
    /// Sequences in a batch; several, separated by commas, are measured one after another
    #[arg(long, value_name = "B,…", value_delimiter = ',', default_value = "2")]
    batch: Vec<i64>,
    /// Width d of the layer
    #[arg(long, value_name = "D", default_value_t = 512)]
    d_model: i64,
    /// Heads h, which divide the width
    #[arg(long, value_name = "H", default_value_t = 8)]
    heads: i64,
    /// Most measured runs of each mix, length and pass; 3 at least are made, if this allows
    #[arg(long, value_name = "N", default_value_t = 20)]
    repeats: usize,
    /// Seconds of measured runs of each, after which no further one starts
    #[arg(long, value_name = "S", default_value_t = 0.3)]
    seconds: f64,
    /// Where to run; auto takes CUDA if there is a device
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// LibTorch's threads [default: LibTorch's own choice]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=4096))]
    threads: Option<i32>,
    /// Write the measurements to this CSV file, length by length
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mixes = if args.mixes.is_empty() { usual_mixes()? } else { args.mixes };
    // The runs that measure memory come first, and warm up.
    let limits = Limits { warm_up: 0, least: args.repeats.min(3), most: args.repeats, seconds: args.seconds };
    let device = resolve(args.device)?;
    if let Some(threads) = args.threads {
        tch::set_num_threads(threads);
    }
    memory::keep_freed();
    let parts = if args.parts.is_empty() { vec![Part::Core, Part::Layer] } else { args.parts };
    let of_batch = |&batch: &i64| Options {
        parts: parts.clone(),
        form: args.form,
        mixes: mixes.clone(),
        lengths: args.lengths.clone(),
        batch,
        d_model: args.d_model,
        heads: args.heads,
        limits,
        device,
    };
    let options: Vec<Options> = args.batch.iter().map(of_batch).collect();
    // Before the file is opened, which empties it.
    options.iter().try_for_each(Options::check)?;
    let mut file = CsvFile::create(args.csv.as_deref())?;
    let rows = measure(&options, |rows| {
        for row in rows {
            eprintln!(
                "length {:>5}  batch {:>3}  {:<5}  {:<17} {:<6} {:>9} ms",
                row.length,
                row.batch,
                row.part.name(),
                row.pass.name(),
                row.mix,
                milliseconds(row.median_seconds)
            );
        }
        file.keep(rows)
    })?;
    if rows.is_empty() {
        anyhow::bail!("nothing was measured: these mixes have no core apart from their layer; take --part layer");
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    for options in &options {
        for (&length, &part) in options.lengths.iter().flat_map(|l| options.parts.iter().map(move |part| (l, part))) {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.batch == options.batch).collect();
            print!("{}", table(&rows, part, length));
        }
    }
    println!(
        "time: median, and 10% - 90% quantiles; xV: the median over {BASE}'s; product rate: operations over time, as a share of the\n\
         machine's product rate; MiB: most memory above weights and input."
    );
    print!("{}", rates(rows.iter().map(|row| (row.product_rate, row.copy_rate))));
    Ok(())
}

fn table(rows: &[&Row], part: Part, length: i64) -> String {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.length == length && row.part == part).collect();
    let find = |mix: &str, pass| rows.iter().find(|row| row.mix == mix && row.pass == pass);
    let firsts: Vec<&&Row> = rows.iter().filter(|row| row.pass == Pass::Forward).collect();
    let Some(first) = firsts.first() else { return String::new() };
    let cells: Vec<Vec<String>> = firsts
        .iter()
        .map(|forward| {
            let mut cells = vec![forward.mix.clone()];
            for pass in [Pass::Forward, Pass::Backward] {
                let Some(row) = find(&forward.mix, pass) else { continue };
                let ratio = find(BASE, pass).map(|base| row.median_seconds / base.median_seconds);
                cells.extend([
                    milliseconds(row.median_seconds),
                    format!("{} - {}", milliseconds(row.low_seconds), milliseconds(row.high_seconds)),
                    ratio.map_or("·".into(), |ratio| format!("{ratio:.2}")),
                    format!("{:.0}", row.tokens_per_second()),
                    format!("{:.0}%", row.product_share * 100.0),
                    row.peak_memory_bytes.map_or("·".into(), |bytes| format!("{:.1}", bytes as f64 / 1048576.0)),
                ]);
            }
            cells
        })
        .collect();
    let of_pass =
        |pass: &str| [&format!("{pass} ms"), "10% - 90%", "xV", "tokens/s", "product rate", "MiB"].map(String::from);
    let headings: Vec<String> =
        ["mix".into()].into_iter().chain(of_pass("forward")).chain(of_pass("forward+backward")).collect();
    format!(
        "{}, length {length}: batch {}, d_model {}, heads {}, {}, float32, {}, {} threads\n{}\n",
        part.name(),
        first.batch,
        first.d_model,
        first.heads,
        causality(firsts.iter().map(|row| (row.mix.as_str(), row.causal))),
        first.device,
        first.threads,
        lay_out(&headings.iter().map(String::as_str).collect::<Vec<_>>(), &cells, 1)
    )
}
