//! Learning-rate schedules.

use crate::experiment::{Schedule, TrainConfig};

/// The learning rate of step `step` (from 1).
///
/// `inverse-square-root`: learning_rate · d^-½ · min(step^-½, step · warmup^-1.5).
/// `linear`: learning_rate · step/warmup, then from learning_rate at `warmup` straight to 0 just after the last step.
pub fn learning_rate(train: &TrainConfig, d_model: i64, step: u64) -> f64 {
    let (at, warmup) = (step as f64, train.warmup as f64);
    match train.schedule {
        Schedule::InverseSquareRoot => {
            let rising = if train.warmup == 0 { f64::INFINITY } else { at * warmup.powf(-1.5) };
            train.learning_rate * (d_model as f64).powf(-0.5) * at.powf(-0.5).min(rising)
        }
        Schedule::Linear if step <= train.warmup => train.learning_rate * at / warmup,
        Schedule::Linear => {
            let left = (train.steps + 1).saturating_sub(step) as f64;
            train.learning_rate * left / (train.steps + 1 - train.warmup.min(train.steps)) as f64
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::experiment::{Precision, Select};

    /// Settings with only a schedule to speak of.
    pub(crate) fn settings(schedule: Schedule, learning_rate: f64, warmup: u64, steps: u64) -> TrainConfig {
        TrainConfig {
            steps,
            batch_tokens: 1,
            accumulate: 1,
            schedule,
            learning_rate,
            warmup,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.0,
            label_smoothing: 0.0,
            clip_norm: 0.0,
            precision: Precision::Float32,
            tf32: false,
            deterministic: false,
            log_every: 1,
            evaluate_every: 1,
            select: Select::Last,
            average: 1,
        }
    }

    #[test]
    fn the_papers_schedule() {
        // d 512, warm-up 8000, factor 2: the peak at step 8000 is 2 / √(512 · 8000) = 0.000988211768802619
        let paper = settings(Schedule::InverseSquareRoot, 2.0, 8000, 250_000);
        assert!((learning_rate(&paper, 512, 8000) - 0.000988211768802619).abs() < 1e-15);
        assert!((learning_rate(&paper, 512, 4000) - 0.000988211768802619 / 2.0).abs() < 1e-15);
        assert!((learning_rate(&paper, 512, 32000) - 0.000988211768802619 / 2.0).abs() < 1e-15);
    }

    #[test]
    fn linear_by_hand() {
        let linear = settings(Schedule::Linear, 1.0, 2, 6);
        let rates: Vec<f64> = (1..=6).map(|step| learning_rate(&linear, 64, step)).collect();
        for (rate, expected) in rates.iter().zip([0.5, 1.0, 0.8, 0.6, 0.4, 0.2]) {
            assert!((rate - expected).abs() < 1e-12, "{rates:?}");
        }
    }
}
