//! `synthesizer bench`: time and memory, one file a kind of work.

mod attention;
mod compare;
mod csv_file;
mod decode;
mod train;

use clap::Subcommand;

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The self-attention layer, forward and forward + backward, over functions and lengths
    #[command(after_long_help = "\
Causal, float32, no dropout, no padding; the layer's maximum length is the length measured. Forward runs without gradients; \
forward+backward gives those of the input and all weights. All mixes of a length are run in turn (V D R … V D R …), so \
that a slow moment of the machine falls on all. Given are the median and the 10% and 90% quantiles; the first runs, which \
warm up, are left out. Memory is the highest resident memory during one pass above what weights and input take, by Linux's \
high-water mark; it is not measured on CUDA.")]
    Attention(attention::Args),
    /// Sentences a second of models that write, greedy and by beam, on the test set
    #[command(after_long_help = "\
All sentences of the test set are decoded, sorted by length, in batches; a run is all of them, the first one, which warms up, is \
left out. On the CPU in float32 every thread decodes batches of its own. With --peer a loop in PyTorch that caches keys and \
values, benches/torch_decode.py, does the same with the same weights, in turn with ours.")]
    Decode(decode::Args),
    /// Training steps of experiment files: tokens a second, and where the time goes
    #[command(after_long_help = "\
Runs the trainer's own step on the first batches of the file's own corpus, and writes nothing but what is asked for: no \
checkpoint, no log. The steps that warm up are left out.")]
    Train(train::Args),
    /// Ours against PyTorch, in turn: ratios of time, and memory
    #[command(after_long_help = "\
Two processes take turns, ours first: one waits while the other works. Both have as many threads, float32, the same masks, no \
dropout in attention (training: the file's), and their first runs left out: those of every turn's first 15 ms (training: \
its first step), while the other's threads go to sleep. Core: on what the projections give, [B, L, heads, width] \
each, with gradients of all of it; layer: from x to the output projection. `make bench` makes the peer and runs all of it.")]
    Compare(compare::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.what {
        What::Attention(args) => attention::run(args),
        What::Decode(args) => decode::run(args),
        What::Train(args) => train::run(args),
        What::Compare(args) => compare::run(args),
    }
}

/// Three digits that mean something, at most.
fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    let places = if milliseconds < 10.0 { 2 } else { usize::from(milliseconds < 100.0) };
    format!("{milliseconds:.places$}")
}

/// `causal`, with the mixes that are not.
fn causality<'a>(mixes: impl Iterator<Item = (&'a str, bool)>) -> String {
    let mut open: Vec<&str> = mixes.filter(|(_, causal)| !causal).map(|(mix, _)| mix).collect();
    open.dedup();
    if open.is_empty() {
        "causal".into()
    } else {
        format!("causal (not: {})", open.join(", "))
    }
}

/// A line on the product rates and copy rates that the machine had while this and that was measured.
fn rates(pairs: impl Iterator<Item = (f64, f64)>) -> String {
    let (products, copies): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let range = |rates: Vec<f64>, places: usize| {
        let (low, high) =
            (rates.iter().copied().fold(f64::NAN, f64::min), rates.iter().copied().fold(f64::NAN, f64::max));
        format!("{:.places$} to {:.places$}", low / 1e9, high / 1e9)
    };
    format!(
        "the machine's product rate was {} GFLOP/s, its copy rate {} GB/s, timed before and after each.\n",
        range(products, 0),
        range(copies, 1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_and_the_fastest_moment_are_named() {
        let line = rates([(150e9, 24.04e9), (182.6e9, 21.5e9), (170e9, 23e9)].into_iter());
        assert!(line.contains("150 to 183 GFLOP/s") && line.contains("21.5 to 24.0 GB/s"), "{line}");
    }
}
