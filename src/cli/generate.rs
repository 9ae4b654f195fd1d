//! `synthesizer generate`.

use crate::experiment::Run;
use crate::task;
use crate::train::checkpoint;
use crate::train::device::{self, DeviceChoice};
use anyhow::{bail, Context, Result};
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Options of `generate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of a finished run, such as results/mini/table2/ende/R+V-s1
    run_dir: PathBuf,
    /// Where to compute
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Lines taken together; 1 answers each line at once
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=65536))]
    batch: u64,
    /// Print JSON lines with `input` and `output`
    #[arg(long)]
    json: bool,
}

/// Reads lines from stdin, writes one line for each.
pub fn run(args: Args) -> Result<()> {
    let config = args.run_dir.join("config.toml");
    let text = std::fs::read_to_string(&config)
        .with_context(|| format!("{}: cannot read; give the folder of a run", config.display()))?;
    let run = Run::from_toml(&text).with_context(|| format!("{}: not a resolved run", config.display()))?;
    let weights = checkpoint::final_file(&args.run_dir);
    if !weights.exists() {
        bail!("{}: there are no weights; train the run first (checkpoints are not committed)", weights.display());
    }
    let device = device::resolve(args.device)?;
    let mut generator = task::build_generator(&run, &args.run_dir, device)?;
    checkpoint::load_weights(&weights, generator.variables_mut())?;
    let stdin = std::io::stdin().lock();
    let mut batch = Vec::new();
    for (index, line) in stdin.lines().enumerate() {
        let line = line.with_context(|| format!("line {} of stdin is not UTF-8 text", index + 1))?;
        batch.push(line.trim_end_matches('\r').to_string());
        if batch.len() as u64 == args.batch {
            answer(generator.as_ref(), &mut batch, args.json)?;
        }
    }
    answer(generator.as_ref(), &mut batch, args.json)
}

fn answer(generator: &dyn task::Generator, batch: &mut Vec<String>, json: bool) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    for (input, output) in batch.iter().zip(generator.generate(batch)?) {
        let written = if json {
            writeln!(stdout, "{}", serde_json::json!({ "input": input, "output": output }))
        } else {
            writeln!(stdout, "{}", output.replace('\n', " "))
        };
        match written {
            // whoever read us has seen enough
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("cannot write to stdout")?,
        }
    }
    stdout.flush().context("cannot write to stdout")?;
    batch.clear();
    Ok(())
}
