//! Mean and spread over seeds; how fast something grows.

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

/// The exponent e of y ≈ c·xᵉ: the least-squares slope of ln y on ln x, over pairs of positive numbers; none for fewer than two
/// different x.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let is_fit = |value: f64| value > 0.0 && value.is_finite();
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| is_fit(*x) && is_fit(*y)).map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (x_mean, y_mean) = (logs.iter().map(|l| l.0).sum::<f64>() / n, logs.iter().map(|l| l.1).sum::<f64>() / n);
    let squares: f64 = logs.iter().map(|(x, _)| (x - x_mean) * (x - x_mean)).sum();
    let products: f64 = logs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (squares > 1e-12).then(|| products / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_written_out() {
        assert!((exponent(&[(1.0, 3.0), (2.0, 12.0), (4.0, 48.0)]).unwrap() - 2.0).abs() < 1e-12);
        // ln x = 0, 1, 3 and ln y = 0, 1, 5: means 4/3 and 2, products 8/3 + 1/3 + 5 = 8, squares 16/9 + 1/9 + 25/9 = 42/9.
        let e = std::f64::consts::E;
        let points = [(1.0, 1.0), (e, e), (e.powi(3), e.powi(5))];
        assert!((exponent(&points).unwrap() - 72.0 / 42.0).abs() < 1e-12);
        // What has no logarithm is left out.
        let with_others = [&points[..], &[(5.0, 0.0), (7.0, f64::NAN)]].concat();
        assert_eq!(exponent(&with_others), exponent(&points));
    }

    #[test]
    fn one_place_has_no_exponent() {
        assert_eq!(exponent(&[]), None);
        assert_eq!(exponent(&[(2.0, 1.0), (2.0, 3.0)]), None);
    }

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
