//! Correlations of predicted and wanted scores; equal to SciPy's on `tests/fixtures/classification`.
//!
//! Where one side does not vary (or has under two rows) the correlation is undefined: `None` here, NaN in SciPy.

/// Pearson's: covariance over the product of the standard deviations.
pub fn pearson(predicted: &[f64], wanted: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_predicted, mean_wanted) = (mean(predicted), mean(wanted));
    let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
    for (predicted, wanted) in predicted.iter().zip(wanted) {
        let (x, y) = (predicted - mean_predicted, wanted - mean_wanted);
        both += x * y;
        first += x * x;
        second += y * y;
    }
    // the mean of equal numbers may miss them by a rounding: what varies less than that does not vary
    let varies = |sum: f64, mean: f64| sum > (f64::EPSILON * mean).powi(2) * predicted.len() as f64;
    (varies(first, mean_predicted) && varies(second, mean_wanted))
        .then(|| (both / first.sqrt() / second.sqrt()).clamp(-1.0, 1.0))
}

/// Spearman's: [`pearson`] of the ranks, equal values sharing the mean of theirs.
pub fn spearman(predicted: &[f64], wanted: &[f64]) -> Option<f64> {
    pearson(&ranks(predicted), &ranks(wanted))
}

/// The rank of each value, from 1.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        // ranks first+1 ..= first+n
        let mean = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&row| ranks[row] = mean);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_mean_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, -0.0, 0.0, 3.0]), [5.0, 3.0, 5.0, 1.5, 1.5, 5.0]);
    }

    #[test]
    fn what_does_not_vary_has_no_correlation() {
        for constant in [0.1, 1e9 / 3.0, -1e-9, 0.0] {
            assert_eq!(pearson(&[constant; 7], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5]), None, "{constant}");
            assert_eq!(spearman(&[1.0, 2.0, 3.0], &[constant; 3]), None, "{constant}");
        }
        assert_eq!((pearson(&[], &[]), pearson(&[1.0], &[2.0]), spearman(&[], &[])), (None, None, None));
    }

    #[test]
    fn a_line_by_hand() {
        // deviations −1 0 1 and −2 −1 3: covariance 5, √2 and √14
        let expected = 5.0 / 28f64.sqrt();
        assert!((pearson(&[1.0, 2.0, 3.0], &[0.0, 1.0, 5.0]).unwrap() - expected).abs() < 1e-15);
        assert!((spearman(&[1.0, 2.0, 3.0], &[0.0, 1.0, 5.0]).unwrap() - 1.0).abs() < 1e-15);
    }
}
