//! FR: a learned matrix of low rank, S = R₁ R₂ᵀ (paper, Table 1, "Factorized Random").

use super::cache::Cache;
use super::cost::{Cost, Table};
use super::frozen::Form;
use super::registry::{Entry, Function, Kind, Parameter, Shape};
use super::{AttentionError, Term};
use crate::native::attention::Part;
use tch::nn::{Init, Path};
use tch::Tensor;

/// `FR`, `FR(k=…)`.
pub const ENTRY: Entry = Entry {
    name: "FR",
    summary: "factorized random: a learned matrix of rank k a head",
    weights: "factorized_random",
    parameters: &[Parameter { name: "k", minimum: 1, summary: "rank; default 8" }],
    check: |_, _| Ok(()),
    values: |term, _| vec![Options::of(term).k],
    cost: |term, shape| Ok(cost(term, shape)),
    kind: Kind::Logits(build),
};

/// Parameters of a term, defaults filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The rank.
    pub k: i64,
}

impl Options {
    /// Those of a term.
    pub fn of(term: &Term) -> Options {
        Options { k: term.get("k").unwrap_or(8) }
    }
}

fn cost(term: &Term, shape: &Shape) -> Cost {
    let Options { k } = Options::of(term);
    let half = shape.max_length as u128 * k as u128;
    Cost {
        formula: "2lk",
        formula_parameters: 2 * half,
        linears: vec![],
        logit_linears: vec![],
        tables: vec![Table { elements: shape.heads as u128 * half, trainable: true }; 2],
        activations: 0,
        per_logit: 2 * k as u128,
        reads_tokens: false,
    }
}

#[derive(Debug)]
struct FactorizedRandom {
    /// [h, N, k]
    r1: Tensor,
    /// [h, N, k]
    r2: Tensor,
}

fn build(path: &Path, term: &Term, shape: &Shape) -> Result<Box<dyn Function>, AttentionError> {
    let Options { k } = Options::of(term);
    // A sum of k products of entries of variance k^-½ has variance 1.
    let init = Init::Randn { mean: 0.0, stdev: (k as f64).powf(-0.25) };
    let size = [shape.heads, shape.max_length, k];
    Ok(Box::new(FactorizedRandom { r1: path.var("r1", &size, init), r2: path.var("r2", &size, init) }))
}

impl FactorizedRandom {
    /// Rows `first .. first + rows`, columns `.. columns`: [1, h, rows, columns].
    fn cut(&self, first: i64, rows: i64, columns: i64) -> Tensor {
        let r2 = self.r2.narrow(1, 0, columns);
        self.r1.narrow(1, first, rows).matmul(&r2.transpose(1, 2)).unsqueeze(0)
    }
}

impl Function for FactorizedRandom {
    fn logits(&self, x: &Tensor) -> Tensor {
        let length = x.size()[1];
        self.cut(0, length, length)
    }

    fn part(&self, x: &Tensor, _mapped: &[Tensor]) -> Part {
        let cut = |factor: &Tensor| factor.narrow(1, 0, x.size()[1]).unsqueeze(0);
        Part::Product { queries: cut(&self.r1), keys: cut(&self.r2), scale: 1.0, bias: None }
    }

    fn form(&self) -> Option<Form<'_>> {
        Some(Form::Table(self.r1.matmul(&self.r2.transpose(1, 2))))
    }

    fn step(&self, _x: &Tensor, position: i64, _cache: &mut Cache) -> Tensor {
        self.cut(position, 1, position + 1)
    }

    fn depends_on_input(&self) -> bool {
        false
    }
}
