//! Settings that work but are rarely meant: warnings, which change no exit code.

use super::check::Finding;
use super::config::{Run, Schedule, Select};

/// Peak learning rates outside this range rarely train.
const LEARNING_RATES: std::ops::RangeInclusive<f64> = 1e-6..=0.1;

/// Settings of a run that are outside the usual range. `run` has passed [`check`](super::check::check).
pub fn unusual(run: &Run) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut warn = |holds: bool, keys: &[&'static str], text: String, help: &str| {
        if holds {
            found.push(Finding { keys: keys.to_vec(), text, help: help.to_owned() });
        }
    };
    let (train, model) = (&run.train, &run.model);
    let (rate, warmup, steps) = (train.learning_rate, train.warmup, train.steps);
    match train.schedule {
        Schedule::Linear => {
            let text = format!("`learning_rate = {rate}` is outside the usual range, 1e-6 to 0.1");
            warn(
                !LEARNING_RATES.contains(&rate),
                &["train.learning_rate"],
                text,
                "the linear schedule peaks at this rate",
            );
        }
        Schedule::InverseSquareRoot => {
            let last = warmup.min(steps).max(1) as f64;
            let peak = rate / (model.d_model as f64).sqrt() * last * (warmup.max(1) as f64).powf(-1.5);
            let text = format!(
                "`learning_rate = {rate}` gives a peak rate of {peak:.1e} (at step {last}), outside the usual range, 1e-6 to 0.1"
            );
            let help = "the inverse-square-root schedule multiplies it by 1/√(d_model · warmup) at its peak";
            warn(!LEARNING_RATES.contains(&peak), &["train.learning_rate", "train.warmup"], text, help);
            let text = format!("the warm-up never ends: `warmup = {warmup}` is not below `steps = {steps}`");
            warn(warmup >= steps, &["train.warmup", "train.steps"], text, "give fewer warm-up steps, or more steps");
        }
    }
    let (beta1, beta2, epsilon) = (train.beta1, train.beta2, train.epsilon);
    let text = format!("`beta1 = {beta1}` is above 0.99, the usual limit");
    warn(beta1 > 0.99, &["train.beta1"], text, "0.9 is customary");
    let text = format!("`beta2 = {beta2}` is outside the usual range, 0.9 to 0.9999");
    warn(!(0.9..=0.9999).contains(&beta2), &["train.beta2"], text, "0.98 to 0.999 is customary");
    let text = format!("`epsilon = {epsilon}` is outside the usual range, 1e-12 to 1e-3");
    warn(!(1e-12..=1e-3).contains(&epsilon), &["train.epsilon"], text, "1e-9 to 1e-6 is customary");
    let text = format!("`weight_decay = {}` is above 1, the usual limit", train.weight_decay);
    warn(train.weight_decay > 1.0, &["train.weight_decay"], text, "0.01 to 0.1 is customary");
    let text = format!("`clip_norm = {}` leaves next to nothing of a gradient", train.clip_norm);
    warn(
        train.clip_norm > 0.0 && train.clip_norm < 1e-3,
        &["train.clip_norm"],
        text,
        "1.0 is customary, 0 turns it off",
    );
    let text = format!("`label_smoothing = {}` is above 0.4, the usual limit", train.label_smoothing);
    warn(train.label_smoothing > 0.4, &["train.label_smoothing"], text, "0.1 is customary");
    for (key, name, value) in [
        ("model.dropout", "dropout", model.dropout),
        ("model.attention_dropout", "attention_dropout", model.attention_dropout),
        ("model.relu_dropout", "relu_dropout", model.relu_dropout),
    ] {
        let text = format!("`{name} = {value}` is above 0.7, the usual limit");
        warn(value > 0.7, &[key], text, "0.1 to 0.3 is customary");
    }
    let evaluations = steps.div_ceil(train.evaluate_every.max(1));
    let text = format!(
        "`average = {}`, but there are only {evaluations} evaluations in `steps = {steps}`, one every {} steps",
        train.average, train.evaluate_every
    );
    let few = train.select == Select::Average && train.average as u64 > evaluations;
    warn(few, &["train.average", "train.evaluate_every"], text, "the weights of all evaluations are averaged");
    found
}
