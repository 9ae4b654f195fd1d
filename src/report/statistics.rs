//! Mean and spread over seeds.

/// Mean and sample standard deviation of a few values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divided by n - 1); none for a single value.
    pub std: Option<f64>,
    /// Values.
    pub n: usize,
}

impl Summary {
    /// Of all finite values; none when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let std = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        Some(Summary { mean, std, n })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_by_n_minus_one() {
        // 2, 4, 9: mean 5, squares 9 + 1 + 16 = 26, 26 / 2 = 13.
        let summary = Summary::of([2.0, 4.0, 9.0]).unwrap();
        assert_eq!((summary.mean, summary.n), (5.0, 3));
        assert!((summary.std.unwrap() - 13f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_spread_and_nan_is_left_out() {
        assert_eq!(Summary::of([7.0, f64::NAN]), Some(Summary { mean: 7.0, std: None, n: 1 }));
        assert_eq!(Summary::of([f64::NAN, f64::INFINITY]), None);
    }
}
