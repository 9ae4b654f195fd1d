//! Ours and the peer in turn, A B A B: two processes, of which one waits while the other works.

use super::attention::{Options, Part, Pass, Subject};
use super::peer::{Peer, Unfit};
use super::roofline::Yardstick;
use super::sampling::{in_turn, Limits, Spread};
use super::train::{self, Utilization};
use crate::experiment::{Mix, Run};
use crate::task;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use tch::Device;

/// A form of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Against {
    /// Operation by operation, with the allocator as it comes
    Stock,
    /// Operation by operation, with an allocator that keeps large freed blocks, as ours does
    Eager,
    /// By scaled_dot_product_attention, or one product a head, where PyTorch has that; freed blocks kept
    Fused,
    /// By torch.compile; freed blocks kept
    Compile,
}

impl Against {
    /// Whether its process keeps freed blocks.
    pub fn keeps_freed(self) -> bool {
        self != Against::Stock
    }

    /// What the peer calls the form.
    pub fn form(self) -> &'static str {
        match self {
            Against::Stock | Against::Eager => "eager",
            Against::Fused => "fused",
            Against::Compile => "compile",
        }
    }

    /// For people: `stock`, `eager`, `fused`, `compile`.
    pub fn name(self) -> &'static str {
        if self == Against::Stock {
            "stock"
        } else {
            self.form()
        }
    }

    fn allocator(self) -> &'static str {
        if self.keeps_freed() {
            "kept"
        } else {
            "stock"
        }
    }
}

/// The peer's time over ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median seconds of the peer.
    pub peer: f64,
    /// Median seconds of ours.
    pub ours: f64,
    /// One over the other: above 1, ours is faster.
    pub ratio: f64,
    /// 10% quantile of the ratios of neighbours in time.
    pub low: f64,
    /// 90% quantile of the same.
    pub high: f64,
}

impl Ratio {
    /// Of samples that were taken in turn; none if there is none.
    pub fn of(peer: &[f64], ours: &[f64]) -> Option<Ratio> {
        let pairs: Vec<f64> = peer.iter().zip(ours).map(|(peer, ours)| peer / ours).collect();
        let spread = Spread::of(&pairs)?;
        let (peer, ours) = (Spread::of(peer)?.median, Spread::of(ours)?.median);
        Some(Ratio { peer, ours, ratio: peer / ours, low: spread.low, high: spread.high })
    }
}

/// With what a comparison was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Threads of either.
    pub threads: i32,
    /// PyTorch's version.
    pub torch: String,
}

/// A line of attention.csv, layer.csv and compile.csv of results/bench.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `attention::Row` and `Ratio`, which csv can't flatten
pub struct AttentionRow {
    pub part: Part,
    pub mix: String,
    pub length: i64,
    pub batch: i64,
    pub d_model: i64,
    pub heads: i64,
    pub causal: bool,
    pub pass: Pass,
    /// `eager`, `fused` or `compile`.
    pub peer: &'static str,
    /// Of the peer: `kept`, as ours, or `stock`.
    pub allocator: &'static str,
    pub peer_seconds: f64,
    pub our_seconds: f64,
    pub ratio: f64,
    pub ratio_low: f64,
    pub ratio_high: f64,
    pub rounds: usize,
    /// Of ours.
    pub product_share: f64,
    pub least_seconds: f64,
    pub peer_peak_memory_bytes: u64,
    pub our_peak_memory_bytes: Option<u64>,
    pub product_rate: f64,
    pub copy_rate: f64,
    pub threads: i32,
    pub torch: String,
}

#[derive(Deserialize)]
struct Seconds {
    seconds: Vec<f64>,
}

#[derive(Deserialize)]
struct Bytes {
    bytes: u64,
}

#[derive(Deserialize)]
struct Nothing {}

/// One mix, part and length against one form; no rows where the peer or the operator has no such thing.
///
/// # Errors
/// Those of ours and of the peer.
pub fn attention(
    peer: &mut Peer,
    against: Against,
    options: &Options,
    (part, mix, length): (Part, &Mix, i64),
    yardstick: &mut Yardstick,
    setting: &Setting,
) -> Result<Vec<AttentionRow>> {
    let Some(subject) = Subject::new(options, part, mix, length)? else { return Ok(Vec::new()) };
    let causal = super::attention::causal(mix);
    let wanted = json!({
        "part": part.name(), "mix": mix.to_string(), "form": against.form(), "length": length,
        "batch": options.batch, "d_model": options.d_model, "heads": options.heads, "causal": causal,
    });
    match peer.ask::<Nothing>("attention", wanted) {
        Ok(Nothing {}) => {}
        Err(error) if error.is::<Unfit>() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let mut rows = Vec::new();
    for pass in [Pass::Forward, Pass::Backward] {
        let Bytes { bytes } = peer.ask("memory", json!({"passed": pass.name()}))?;
        let our_peak_memory_bytes = subject.peak_memory(pass)?;
        let before = yardstick.take()?;
        let (ours, theirs) = take_turns(
            options.limits,
            || Ok(subject.seconds(pass)?),
            || {
                let answer: Seconds = peer.ask("seconds", json!({"passed": pass.name(), "count": 1}))?;
                answer.seconds.first().copied().context("the peer gave no seconds")
            },
        )?;
        yardstick.take()?;
        let machine = yardstick.since(before);
        let Some(ratio) = Ratio::of(&theirs, &ours) else { continue };
        let work = subject.work(options, mix, length, pass)?;
        rows.push(AttentionRow {
            part,
            mix: mix.to_string(),
            length,
            batch: options.batch,
            d_model: options.d_model,
            heads: options.heads,
            causal,
            pass,
            peer: against.form(),
            allocator: against.allocator(),
            peer_seconds: ratio.peer,
            our_seconds: ratio.ours,
            ratio: ratio.ratio,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            rounds: ours.len(),
            product_share: work.operations / ratio.ours / machine.product_rate,
            least_seconds: machine.least_seconds(work),
            peer_peak_memory_bytes: bytes,
            our_peak_memory_bytes,
            product_rate: machine.product_rate,
            copy_rate: machine.copy_rate,
            threads: setting.threads,
            torch: setting.torch.clone(),
        });
    }
    Ok(rows)
}

/// Ours, the peer, ours, the peer …, until the limits say that it is enough for both; the seconds of each.
///
/// A turn begins with runs that do not count, for [`SETTLING`]; then one counts.
fn take_turns(
    limits: Limits,
    mut ours: impl FnMut() -> Result<f64>,
    mut peer: impl FnMut() -> Result<f64>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    // As one entry, so that both have as many runs; its seconds are those of the two.
    let mut pairs = Vec::new();
    in_turn(1, limits, |_| {
        let pair = (settled(&mut ours)?, settled(&mut peer)?);
        pairs.push(pair);
        Ok::<_, anyhow::Error>(pair.0 + pair.1)
    })?;
    Ok(pairs.split_off(limits.warm_up.min(pairs.len())).into_iter().unzip())
}

/// Seconds of runs at the beginning of a turn that are left out: OpenMP's threads turn in circles for some 5 milliseconds before they
/// sleep, on the time of the other, whose caches are cold too.
const SETTLING: f64 = 0.015;

fn settled(mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut spent = 0.0;
    while spent < SETTLING {
        spent += run()?;
    }
    run()
}

/// A line of results/bench/train.csv.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `train::Row` and `Ratio`
pub struct TrainRow {
    pub experiment: String,
    pub mix: String,
    pub parameters: u64,
    pub peer: &'static str,
    pub allocator: &'static str,
    /// Median of a step.
    pub peer_seconds: f64,
    pub our_seconds: f64,
    /// Of all measured steps together.
    pub peer_tokens_per_second: f64,
    pub our_tokens_per_second: f64,
    /// The latter over the former.
    pub ratio: f64,
    /// Of single steps on the same batch.
    pub ratio_low: f64,
    pub ratio_high: f64,
    pub steps: usize,
    /// Of ours.
    pub product_share: Option<f64>,
    pub least_seconds: Option<f64>,
    pub peer_peak_memory_bytes: u64,
    pub our_peak_memory_bytes: Option<u64>,
    pub product_rate: f64,
    pub copy_rate: f64,
    pub threads: i32,
    pub torch: String,
}

#[derive(Deserialize)]
struct Loaded {
    parameters: u64,
}

#[derive(Deserialize)]
struct Steps {
    /// Forward, backward, optimizer, all.
    seconds: Vec<[f64; 4]>,
    losses: Vec<f64>,
}

/// Steps of a turn that count. One comes before them, for the reason of [`SETTLING`].
const TURN: u64 = 4;
/// Largest relative difference of a loss that counts as the same.
const SAME_LOSS: f64 = 1e-4;

/// Takes a few steps without dropout with both, from the same weights on the same batches: parameters must be as many, and
/// losses the same. The later ones show that gradients and optimizer are the same too.
///
/// # Errors
/// They are not.
pub fn check_training(peer: &mut Peer, form: &str, run: &Run, dump: &Path) -> Result<()> {
    let mut run = run.clone();
    (run.model.dropout, run.model.attention_dropout, run.model.relu_dropout) = (0.0, 0.0, 0.0);
    let task = task::build(&run, Device::Cpu)?;
    let mut subject = train::Subject::new(&run, task.as_ref(), TURN as usize)?;
    subject.dump(dump, TURN)?;
    let Loaded { parameters } = peer.ask("training", json!({"dump": dump, "form": form}))?;
    let ours = crate::model::count_parameters(task.variables()).1;
    if parameters != ours {
        bail!("{}: the peer's model has {parameters} parameters, ours {ours}", run.mix);
    }
    let theirs: Steps = peer.ask("steps", json!({"count": TURN}))?;
    if theirs.losses.len() as u64 != TURN {
        bail!("{}: the peer was asked for {TURN} steps, and gave {} losses", run.mix, theirs.losses.len());
    }
    for (step, theirs) in theirs.losses.into_iter().enumerate() {
        let ours = subject.step()?.loss;
        let difference = (theirs - ours).abs() / ours.abs();
        if difference.is_nan() || difference > SAME_LOSS {
            bail!(
                "{}: at step {} the peer's loss is {theirs}, ours {ours}: they train different models",
                run.mix,
                step + 1
            );
        }
    }
    Ok(())
}

/// A run's training steps, ours and the peer's in turn on the same batches; the model's weights move apart by dropout alone.
///
/// # Errors
/// Those of ours and of the peer; a dump that can't be written.
pub fn training(
    peer: &mut Peer,
    against: Against,
    (title, run): (&str, &Run),
    turns: u64,
    dump: &Path,
    yardstick: &mut Yardstick,
    setting: &Setting,
) -> Result<TrainRow> {
    let task = task::build(run, Device::Cpu)?;
    let measured = turns * TURN;
    let mut subject = train::Subject::new(run, task.as_ref(), measured as usize)?;
    // The first turn warms up, and one step more is for memory.
    subject.dump(dump, (turns + 1) * (TURN + 1) + 1)?;
    let Loaded { parameters } = peer.ask("training", json!({"dump": dump, "form": against.form()}))?;
    let (mut samples, mut seconds) = (Vec::new(), Vec::new());
    let mut before = yardstick.take()?;
    for turn in 0..=turns {
        let ours = (0..=TURN).map(|_| subject.step()).collect::<Result<Vec<_>>>()?;
        let theirs: Steps = peer.ask("steps", json!({"count": TURN + 1}))?;
        if turn == 0 {
            before = yardstick.take()?;
            continue;
        }
        if theirs.seconds.len() != ours.len() {
            bail!("{}: the peer was asked for {} steps, and took {}", run.mix, ours.len(), theirs.seconds.len());
        }
        samples.extend(ours.into_iter().skip(1));
        seconds.extend(theirs.seconds.into_iter().skip(1).map(|[.., all]| all));
        yardstick.take()?;
    }
    let machine = yardstick.since(before);
    let our_peak_memory_bytes = subject.peak_memory()?;
    let Bytes { bytes } = peer.ask("step_memory", json!({}))?;
    let ours: Vec<f64> = samples.iter().map(|sample| sample.phases.total().as_secs_f64()).collect();
    let tokens = samples.iter().map(|sample| sample.tokens).sum::<u64>() as f64;
    let ratio = Ratio::of(&seconds, &ours).context("no steps were measured")?;
    let utilization = Utilization::of(&samples, &machine);
    let (our_total, peer_total): (f64, f64) = (ours.iter().sum(), seconds.iter().sum());
    Ok(TrainRow {
        experiment: title.to_string(),
        mix: run.mix.to_string(),
        parameters,
        peer: against.form(),
        allocator: against.allocator(),
        peer_seconds: ratio.peer,
        our_seconds: ratio.ours,
        peer_tokens_per_second: tokens / peer_total,
        our_tokens_per_second: tokens / our_total,
        ratio: peer_total / our_total,
        ratio_low: ratio.low,
        ratio_high: ratio.high,
        steps: ours.len(),
        product_share: utilization.map(|utilization| utilization.product_share),
        least_seconds: utilization.map(|utilization| utilization.least_seconds),
        peer_peak_memory_bytes: bytes,
        our_peak_memory_bytes,
        product_rate: machine.product_rate,
        copy_rate: machine.copy_rate,
        threads: setting.threads,
        torch: setting.torch.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_samples_written_out() {
        let ours = [1.0, 2.0, 4.0, 2.0, 1.0];
        let peer = [3.0, 5.0, 8.0, 6.0, 3.0];
        // medians 2 and 5; pairs 3, 2.5, 2, 3, 3
        let ratio = Ratio::of(&peer, &ours).unwrap();
        assert_eq!((ratio.peer, ratio.ours, ratio.ratio), (5.0, 2.0, 2.5));
        assert!((ratio.low - 2.2).abs() < 1e-12 && ratio.high == 3.0, "{ratio:?}");
        assert_eq!(Ratio::of(&[], &[]), None);
    }

    #[test]
    fn turns_alternate_and_begin_with_runs_that_do_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let run = |name: char, first: f64, later: f64| {
            let seconds = if order.borrow().ends_with(name) { later } else { first };
            order.borrow_mut().push(name);
            Ok(seconds)
        };
        // Each turn's first run takes longer. Ours is short, so that three runs pass until the other's threads sleep.
        let limits = Limits { warm_up: 1, least: 2, most: 9, seconds: 0.027 };
        let (ours, peer) = take_turns(limits, || run('a', 0.008, 0.005), || run('b', 100.0, 0.005)).unwrap();
        // 10 ms a pair: the third starts at 20 ms, after it 30 ms are spent
        assert_eq!((ours, peer), (vec![0.005; 3], vec![0.005; 3]));
        assert_eq!(*order.borrow(), "aaaabbaaaabbaaaabbaaaabb");
    }
}
