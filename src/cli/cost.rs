//! `synthesizer cost`: parameters and floating-point operations.

use super::columns::lay_out;
use crate::attention::cost::{Flops, Input, Layer, Parameters, Readme, Thousands, FLOPS_DEFINITION};
use crate::attention::registry::{Shape, FUNCTIONS};
use crate::attention::{AttentionConfig, Mixing, SelfAttention};
use crate::experiment::Mix;
use crate::files::write_atomically;
use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use std::path::PathBuf;
use tch::{nn, Device};

/// The mixtures of the paper's Table 2.
const MIXTURES: [&str; 3] = ["R+D", "D+V", "R+V"];
/// The README's seven modules in its order: vanilla, dense, random, random fixed, factorized random, factorized dense, mixture.
const README_MIXES: [&str; 7] = ["V", "D(hidden=32)", "R", "Rfix", "V(rank=8)", "FD(hidden=0, a=4, b=8)", "R+V"];
/// Above this many parameters, no one-head layer is built to count them.
const LARGEST_BUILT: u64 = 1 << 28;

/// Whose counting rule is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rules {
    /// Every parameter, and operations as defined below
    Ours,
    /// The rule of a public PyTorch README beside ours: parameters without an output projection, and as "flops" inputs x
    /// outputs of every Linear once, plus 1 for every relu or softmax module
    Readme,
}

/// Options of `cost`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = FLOPS_DEFINITION)]
pub struct Args {
    /// A mix, such as R+V or "FD(hidden=0, a=4, b=8)"; may be given many times [default: every function alone, R+D, D+V,
    /// R+V; with --rules readme: the README's seven]
    #[arg(long = "mix", value_name = "MIX")]
    mixes: Vec<Mix>,
    /// Width d of the layer [default: 512; with --rules readme: 1024]
    #[arg(long, value_name = "D")]
    d_model: Option<i64>,
    /// Heads h, which divide the width [default: 8; with --rules readme: 1]
    #[arg(long, value_name = "H")]
    heads: Option<i64>,
    /// N: the longest sequence that synthesized logits cover [default: 256; with --rules readme: 32]
    #[arg(long, value_name = "N")]
    max_length: Option<i64>,
    /// Tokens of each sequence that operations are counted for [default: max-length]
    #[arg(long, value_name = "L")]
    length: Option<i64>,
    /// Sequences that operations are counted for [default: 1; with --rules readme: 2]
    #[arg(long, value_name = "B")]
    batch: Option<i64>,
    /// How the terms of a mix are weighted: softmax, sigmoid or sum [default: softmax; with --rules readme: sum]
    #[arg(long, value_name = "MIXING", value_parser = mixing)]
    mixing: Option<Mixing>,
    /// Whose counting rule is shown
    #[arg(long, value_enum, default_value = "ours")]
    rules: Rules,
    /// Write the counts to this CSV file too
    #[arg(long, value_name = "PATH")]
    csv: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn mixing(text: &str) -> Result<Mixing, String> {
    match text {
        "softmax" => Ok(Mixing::Softmax),
        "sigmoid" => Ok(Mixing::Sigmoid),
        "sum" => Ok(Mixing::Sum),
        _ => Err("expected softmax, sigmoid or sum".into()),
    }
}

/// A line of cost.csv.
#[derive(Debug, Serialize)]
struct Line {
    mix: String,
    d_model: i64,
    heads: i64,
    max_length: i64,
    trainable_parameters: u64,
    total_parameters: u64,
    formula: String,
    formula_parameters: u64,
    counted_one_head_no_bias: Option<u64>,
    forward_flops: u64,
}

/// A line as JSON, with the counts that have no column.
#[derive(Debug, Serialize)]
struct Detail<'a> {
    #[serde(flatten)]
    line: &'a Line,
    logit_parameters: u64,
    batch: i64,
    length: i64,
    flops: Flops,
    readme: Readme,
}

/// One mix, counted.
struct Counted {
    line: Line,
    parameters: Parameters,
    flops: Flops,
    readme: Readme,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<()> {
    let readme = args.rules == Rules::Readme;
    let or = |given: Option<i64>, ours: i64, theirs: i64| given.unwrap_or(if readme { theirs } else { ours });
    let max_length = or(args.max_length, 256, 32);
    let shape = Shape { d_model: or(args.d_model, 512, 1024), heads: or(args.heads, 8, 1), max_length };
    let input = Input { batch: or(args.batch, 1, 2), length: args.length.unwrap_or(max_length) };
    let mixing = args.mixing.unwrap_or(if readme { Mixing::Sum } else { Mixing::Softmax });
    let mixes = match (args.mixes.is_empty(), readme) {
        (false, _) => args.mixes,
        (true, true) => parse(&README_MIXES)?,
        (true, false) => usual_mixes()?,
    };
    let counted = mixes.iter().map(|mix| count(mix, shape, input, mixing)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = &args.csv {
        write_csv(path, &counted).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&details(&counted, input))?);
        return Ok(());
    }
    println!(
        "one layer: d_model {}, heads {}, max_length {}; FLOPs of {} x {} tokens forward; mixing by {}\n",
        shape.d_model,
        shape.heads,
        max_length,
        input.batch,
        input.length,
        format!("{mixing:?}").to_lowercase()
    );
    print!("{}", if readme { readme_table(&counted) } else { table(&counted) });
    Ok(())
}

/// Every function of the registry alone, then the mixtures of the paper's Table 2.
pub(super) fn usual_mixes() -> anyhow::Result<Vec<Mix>> {
    let names: Vec<&str> = FUNCTIONS.iter().map(|entry| entry.name).chain(MIXTURES).collect();
    parse(&names)
}

/// Parses mixes that the program itself names.
fn parse(mixes: &[&str]) -> anyhow::Result<Vec<Mix>> {
    mixes.iter().map(|mix| mix.parse::<Mix>().map_err(anyhow::Error::from)).collect()
}

fn count(mix: &Mix, shape: Shape, input: Input, mixing: Mixing) -> anyhow::Result<Counted> {
    let layer = Layer::new(&mix.terms, shape, mixing).with_context(|| format!("cannot count {mix}"))?;
    let flops = layer.flops(input).with_context(|| format!("cannot count {mix}"))?;
    let parameters = layer.parameters();
    let line = Line {
        mix: mix.to_string(),
        d_model: shape.d_model,
        heads: shape.heads,
        max_length: shape.max_length,
        trainable_parameters: parameters.trainable,
        total_parameters: parameters.total,
        formula: layer.formula(),
        formula_parameters: layer.formula_parameters(),
        counted_one_head_no_bias: count_one_head(mix, shape, mixing)?,
        forward_flops: flops.total,
    };
    Ok(Counted { line, parameters, flops, readme: layer.readme() })
}

/// Builds the layer with one head and counts the weights that make logits, biases and α left out; none if it is very large.
fn count_one_head(mix: &Mix, shape: Shape, mixing: Mixing) -> anyhow::Result<Option<u64>> {
    let shape = Shape { heads: 1, ..shape };
    if Layer::new(&mix.terms, shape, mixing)?.parameters().total > LARGEST_BUILT {
        return Ok(None);
    }
    let store = nn::VarStore::new(Device::Cpu);
    let config = AttentionConfig {
        d_model: shape.d_model,
        heads: 1,
        max_length: shape.max_length,
        terms: mix.terms.clone(),
        mixing,
        dropout: 0.0,
        causal: false,
    };
    SelfAttention::new(&store.root(), &config)?;
    Ok(Some(crate::attention::cost::count_logit_weights(&store.variables())))
}

fn table(counted: &[Counted]) -> String {
    let rows: Vec<Vec<String>> = counted
        .iter()
        .map(|Counted { line, parameters, flops, .. }| {
            let outside = flops.value + flops.output;
            vec![
                line.mix.clone(),
                line.formula.clone(),
                Thousands(line.formula_parameters).to_string(),
                line.counted_one_head_no_bias.map_or("not built".into(), |count| Thousands(count).to_string()),
                Thousands(parameters.logits).to_string(),
                Thousands(parameters.trainable).to_string(),
                Thousands(parameters.total).to_string(),
                Thousands(flops.total - outside).to_string(),
                Thousands(flops.total).to_string(),
            ]
        })
        .collect();
    let headings = [
        "mix",
        "paper, a head",
        "= number",
        "counted",
        "logits",
        "trainable",
        "total",
        "attention FLOPs",
        "layer FLOPs",
    ];
    let mut text = lay_out(&headings, &rows, 2);
    text.push_str(
        "\npaper, a head: the paper's Table 1 (l = max_length, d = width; m = hidden, r = rank, w = kernel), without biases, for\n\
         one head as wide as the layer; LC, DC, Lin, FFT and Mixer are counted likewise. counted: the same, counted in a real layer of one\n\
         head. logits: parameters that make logits in this layer (LC to Mixer: their own), all heads and biases. trainable, total: the whole\n\
         layer with value, output and alpha; total has fixed ones too.\n\
         attention FLOPs: layer FLOPs without the value and output projections. `synthesizer cost --help` defines FLOPs.\n",
    );
    text
}

fn readme_table(counted: &[Counted]) -> String {
    let rows: Vec<Vec<String>> = counted
        .iter()
        .map(|Counted { line, parameters, flops, readme }| {
            let counts = [readme.parameters, readme.flops, parameters.trainable, parameters.total, flops.total];
            std::iter::once(line.mix.clone()).chain(counts.map(|count| Thousands(count).to_string())).collect()
        })
        .collect();
    let headings = ["mix", "README params", "README \"flops\"", "our trainable", "our total", "our FLOPs"];
    let mut text = lay_out(&headings, &rows, 1);
    text.push_str(
        "\nREADME params: weights and biases of value and logits, fixed ones too; its layer has no output projection, ours has.\n\
         README \"flops\": inputs x outputs of every Linear once, whatever the number of tokens, plus 1 for every relu or softmax\n\
         module. `synthesizer cost --help` defines our FLOPs.\n",
    );
    text
}

fn details<'a>(counted: &'a [Counted], input: Input) -> Vec<Detail<'a>> {
    let detail = |counted: &'a Counted| Detail {
        line: &counted.line,
        logit_parameters: counted.parameters.logits,
        batch: input.batch,
        length: input.length,
        flops: counted.flops,
        readme: counted.readme,
    };
    counted.iter().map(detail).collect()
}

fn write_csv(path: &std::path::Path, counted: &[Counted]) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for counted in counted {
        writer.serialize(&counted.line)?;
    }
    write_atomically(path, &writer.into_inner()?)
}
