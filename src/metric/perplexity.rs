//! Perplexity: per subword it depends on the vocabulary; per word, the subwords' sum over the number of words, it does not.

/// exp(nll / count), nll in nats. Beyond float64 (a mean above 709.78) it is infinite; without anything counted there is
/// no perplexity, and it is NaN.
pub fn exp_mean(nll: f64, count: u64) -> f64 {
    if count == 0 {
        return f64::NAN;
    }
    (nll / count as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_guess_has_the_perplexity_of_its_choices() {
        let nll = 10.0 * 32f64.ln();
        assert!((exp_mean(nll, 10) - 32.0).abs() < 1e-9);
        // Two subwords a word: 32².
        assert!((exp_mean(nll, 5) - 1024.0).abs() < 1e-8);
    }

    #[test]
    fn overflow_is_infinite_and_nothing_counted_is_nan() {
        assert_eq!(exp_mean(710.0, 1), f64::INFINITY);
        assert!(exp_mean(709.0, 1).is_finite());
        assert!(exp_mean(0.0, 0).is_nan());
        assert!(exp_mean(f64::NAN, 3).is_nan());
        assert_eq!(exp_mean(f64::INFINITY, 3), f64::INFINITY);
    }
}
