//! Repeating a measurement, and what to say of the repeats.

/// How often something is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Runs that are made first and left out.
    pub warm_up: usize,
    /// Measured runs at least, whatever time they take.
    pub least: usize,
    /// Measured runs at most.
    pub most: usize,
    /// Seconds of measured runs after which no further one starts.
    pub seconds: f64,
}

/// Runs every entry in turn, A B C A B C …, so that a slow moment of the machine falls on all of them; returns the seconds of
/// each entry's measured runs.
///
/// `run` makes one run of the entry with that number and returns its seconds. An entry ends on its own when it has `most`
/// runs, or `least` and its seconds.
///
/// # Errors
/// The first error of `run`.
pub fn in_turn<E>(
    entries: usize,
    limits: Limits,
    mut run: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Vec<Vec<f64>>, E> {
    for entry in 0..entries {
        for _ in 0..limits.warm_up {
            run(entry)?;
        }
    }
    let mut samples = vec![Vec::new(); entries];
    loop {
        let mut ran = false;
        for (entry, seconds) in samples.iter_mut().enumerate() {
            let spent: f64 = seconds.iter().sum();
            if seconds.len() < limits.least || (seconds.len() < limits.most && spent < limits.seconds) {
                seconds.push(run(entry)?);
                ran = true;
            }
        }
        if !ran {
            return Ok(samples);
        }
    }
}

/// Where the repeats lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// 10% quantile.
    pub low: f64,
    /// 50% quantile.
    pub median: f64,
    /// 90% quantile.
    pub high: f64,
}

impl Spread {
    /// Of at least one sample, in any order; quantiles between two samples lie on the straight line between them.
    pub fn of(samples: &[f64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            sorted[below] + (sorted[above] - sorted[below]) * place.fract()
        };
        Some(Spread { low: quantile(0.1), median: quantile(0.5), high: quantile(0.9) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_hand() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[2.0]), Some(Spread { low: 2.0, median: 2.0, high: 2.0 }));
        let samples: Vec<f64> = (0..=10).rev().map(f64::from).collect();
        assert_eq!(Spread::of(&samples), Some(Spread { low: 1.0, median: 5.0, high: 9.0 }));
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert!((spread.median - 2.5).abs() < 1e-12);
        assert!((spread.low - 1.3).abs() < 1e-12 && (spread.high - 3.7).abs() < 1e-12, "{spread:?}");
    }

    #[test]
    fn entries_take_turns_and_warm_up_is_left_out() {
        let limits = Limits { warm_up: 2, least: 2, most: 4, seconds: 10.0 };
        let mut order = Vec::new();
        // Entry 0 takes 1 s, entry 1 takes 6 s, in every measured run; warm-up takes 100 s.
        let samples = in_turn(2, limits, |entry| {
            order.push(entry);
            Ok::<_, ()>(if order.len() <= 4 { 100.0 } else { [1.0, 6.0][entry] })
        });
        assert_eq!(samples.unwrap(), [vec![1.0; 4], vec![6.0; 2]]);
        assert_eq!(order, [0, 0, 1, 1, 0, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn the_least_number_is_run_whatever_it_takes() {
        let limits = Limits { warm_up: 0, least: 3, most: 50, seconds: 0.0 };
        assert_eq!(in_turn(1, limits, |_| Ok::<_, ()>(9.0)).unwrap(), [vec![9.0; 3]]);
        assert_eq!(in_turn(1, limits, |_| Err::<f64, _>("stop")), Err("stop"));
    }
}
