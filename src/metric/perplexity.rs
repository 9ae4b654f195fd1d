//! Perplexity: per subword it depends on the vocabulary; per word, the subwords' sum over the number of words, it does not.

/// exp(nll / count), nll in nats; `None` where nothing was counted, and where it is not a finite number (a mean above
/// 709.78, or NaN).
pub fn exp_mean(nll: f64, count: u64) -> Option<f64> {
    let mean = (nll / count as f64).exp();
    (count > 0 && mean.is_finite()).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_guess_has_the_perplexity_of_its_choices() {
        let nll = 10.0 * 32f64.ln();
        assert!((exp_mean(nll, 10).unwrap() - 32.0).abs() < 1e-9);
        // Two subwords a word: 32².
        assert!((exp_mean(nll, 5).unwrap() - 1024.0).abs() < 1e-8);
    }

    #[test]
    fn overflow_and_nothing_counted_have_no_value() {
        assert!(exp_mean(709.0, 1).is_some());
        for (nll, count) in [(710.0, 1), (0.0, 0), (f64::NAN, 3), (f64::INFINITY, 3)] {
            assert_eq!(exp_mean(nll, count), None, "{nll} {count}");
        }
    }
}
