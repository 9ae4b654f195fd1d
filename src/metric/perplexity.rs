//! Perplexity per subword and per word.

/// Sums over a text, from which both perplexities come.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Perplexity {
    /// Negative log-likelihood of all predicted tokens, in nats.
    pub nll: f64,
    /// Predicted tokens: subwords and end marks.
    pub subwords: u64,
    /// Words of the text, as split at white space.
    pub words: u64,
}

impl Perplexity {
    /// Adds the sums of another part of the text.
    pub fn add(&mut self, nll: f64, subwords: u64, words: u64) {
        self.nll += nll;
        self.subwords += subwords;
        self.words += words;
    }

    /// Mean loss in nats per subword; NaN without subwords.
    pub fn loss(&self) -> f64 {
        self.nll / self.subwords as f64
    }

    /// exp(nll / subwords): depends on the vocabulary. See [`exp_mean`].
    pub fn per_subword(&self) -> f64 {
        exp_mean(self.nll, self.subwords)
    }

    /// exp(nll / words): the subwords' sum over the number of words, comparable between vocabularies. See [`exp_mean`].
    pub fn per_word(&self) -> f64 {
        exp_mean(self.nll, self.words)
    }
}

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
        let mut sums = Perplexity::default();
        sums.add(6.0 * 32f64.ln(), 6, 2);
        sums.add(4.0 * 32f64.ln(), 4, 3);
        assert!((sums.loss() - 32f64.ln()).abs() < 1e-12);
        assert!((sums.per_subword() - 32.0).abs() < 1e-9);
        // Two subwords a word: 32².
        assert!((sums.per_word() - 1024.0).abs() < 1e-8);
    }

    #[test]
    fn overflow_is_infinite_and_nothing_counted_is_nan() {
        assert_eq!(exp_mean(710.0, 1), f64::INFINITY);
        assert!(exp_mean(709.0, 1).is_finite());
        assert!(exp_mean(0.0, 0).is_nan());
        assert!(exp_mean(f64::NAN, 3).is_nan());
        assert_eq!(Perplexity { nll: f64::INFINITY, subwords: 3, words: 1 }.per_word(), f64::INFINITY);
    }
}
