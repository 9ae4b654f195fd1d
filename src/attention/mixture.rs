//! S = Σ wᵢ Sᵢ over the terms of a mix, before masks and softmax, with one learned weight a term and head
//! (paper, "Mixture of Synthesizers"; per head as in v3).

use super::cache::Cache;
use super::registry::{self, Entry, Function, Kind, Shape};
use super::{AttentionError, Mixing, Term};
use crate::native::attention::Part;
use tch::nn::{Init, Linear, Path};
use tch::Tensor;

/// The functions of a layer and how they are weighted.
#[derive(Debug)]
pub struct Mixture {
    functions: Vec<Box<dyn Function>>,
    mixing: Mixing,
    /// [terms, h], starting 0; none for one term and for a plain sum
    alpha: Option<Tensor>,
    /// The terms, those that depend on the input first: the sum then has its full size from the start.
    order: Vec<usize>,
}

impl Mixture {
    /// Makes the weights: each function's under its own sub-path, `alpha` under the path itself.
    pub fn new(path: &Path, terms: &[Term], mixing: Mixing, shape: &Shape) -> Result<Mixture, AttentionError> {
        let entries = registry::entries(terms)?;
        let functions = terms
            .iter()
            .zip(entries)
            .map(|(term, entry)| match entry.kind {
                Kind::Logits(build) => build(&(path / entry.weights), term, shape),
                Kind::Operator { .. } => {
                    Err(AttentionError::Alone { operator: term.clone(), mixed: registry::names(Entry::can_be_mixed) })
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let alpha = (functions.len() > 1 && mixing != Mixing::Sum)
            .then(|| path.var("alpha", &[functions.len() as i64, shape.heads], Init::Const(0.0)));
        let mut order: Vec<usize> = (0..functions.len()).collect();
        order.sort_by_key(|&index| !functions[index].depends_on_input());
        Ok(Mixture { functions, mixing, alpha, order })
    }

    /// Logits of x [B, L, d]: [B or 1, h, L, L]. The same warning as for [`Function::logits`].
    pub fn logits(&self, x: &Tensor) -> Tensor {
        self.mix(|index| self.functions[index].logits(x))
    }

    /// What each function's logits are made of, in the order of the terms and of the rows of [`Mixture::weights`].
    /// `mapped` is x under each of [`Mixture::maps`].
    pub fn parts(&self, x: &Tensor, mapped: &[Tensor]) -> Vec<Part> {
        let mut rest = mapped;
        let mut parts = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let (own, others) = rest.split_at(function.maps().len());
            parts.push(function.part(x, own));
            rest = others;
        }
        parts
    }

    /// The linear maps of the input that the parts are made of, function by function.
    pub fn maps(&self) -> Vec<&Linear> {
        self.functions.iter().flat_map(|function| function.maps()).collect()
    }

    /// The last row of the logits: x [R, 1, d] to [R or 1, h, 1, position + 1]. One cache a function.
    pub fn step(&self, x: &Tensor, position: i64, caches: &mut [Cache]) -> Tensor {
        self.mix(|index| self.functions[index].step(x, position, &mut caches[index]))
    }

    /// Empty caches, one a function.
    pub fn caches(&self) -> Vec<Cache> {
        self.functions.iter().map(|_| Cache::default()).collect()
    }

    /// The functions, in the order of the terms.
    pub fn functions(&self) -> impl Iterator<Item = &dyn Function> {
        self.functions.iter().map(|function| function.as_ref())
    }

    /// Whether the logits differ between the rows of a batch.
    pub fn depends_on_input(&self) -> bool {
        self.functions.iter().any(|function| function.depends_on_input())
    }

    /// The weights wᵢ, [terms, h]; none for one term and for a plain sum.
    pub fn weights(&self) -> Option<Tensor> {
        self.alpha().map(|alpha| self.mixing.weights(alpha))
    }

    /// α [terms, h]; none for one term and for a plain sum.
    pub fn alpha(&self) -> Option<&Tensor> {
        self.alpha.as_ref()
    }

    fn mix(&self, mut term: impl FnMut(usize) -> Tensor) -> Tensor {
        let weights = self.weights().map(|weights| weights.unsqueeze(-1).unsqueeze(-1));
        let weight = |index: usize| weights.as_ref().map(|weights| weights.get(index as i64));
        let mut order = self.order.iter().copied();
        // A mixture has at least one term: `registry::entries` refuses an empty mix.
        let first = order.next().unwrap_or(0);
        let mut sum = match weight(first) {
            Some(weight) => term(first) * weight,
            None => term(first),
        };
        for index in order {
            let logits = term(index);
            sum = match weight(index) {
                Some(weight) => sum.addcmul(&logits, &weight),
                None => sum + logits,
            };
        }
        sum
    }
}
