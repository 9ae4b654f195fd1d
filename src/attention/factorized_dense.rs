//! FD: two short vectors a position, whose products are its logits, S_ij = A_i[j mod a] · B_i[j div a], a·b = N
//! (paper, Table 1, "Factorized Dense").

use super::cache::Cache;
use super::cost::{Cost, Linear as Product};
use super::heads::{linear, project, split, xavier};
use super::registry::{Entry, Function, Kind, Parameter, Shape};
use super::{AttentionError, Term};
use crate::native::attention::Part;
use tch::nn::{Init, Linear, Path};
use tch::Tensor;

/// `FD`, `FD(hidden=m, a=…, b=…)`.
pub const ENTRY: Entry = Entry {
    name: "FD",
    summary: "factorized dense: a·b products of two short vectors a position",
    weights: "factorized_dense",
    parameters: &[
        Parameter { name: "hidden", minimum: 0, summary: "hidden width m of a head, 0 for none; default d_h" },
        Parameter { name: "a", minimum: 1, summary: "first factor; default the largest divisor of N up to √N" },
        Parameter { name: "b", minimum: 1, summary: "second factor; default N / a" },
    ],
    check: |term, shape| Options::of(term, shape).map(|_| ()),
    values: |term, shape| Options::of(term, shape).map_or(vec![], |options| vec![options.hidden, options.a, options.b]),
    cost,
    kind: Kind::Logits(build),
};

/// Parameters of a term, defaults filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// m, the hidden width of a head; 0 if A and B come straight from x.
    pub hidden: i64,
    /// Length of A.
    pub a: i64,
    /// Length of B.
    pub b: i64,
}

impl Options {
    /// Those of a term. Error: a·b is not N.
    pub fn of(term: &Term, shape: &Shape) -> Result<Options, AttentionError> {
        let n = shape.max_length;
        let (a, b) = match (term.get("a"), term.get("b")) {
            (Some(a), Some(b)) => (a, b),
            (Some(a), None) => (a, n / a),
            (None, Some(b)) => (n / b, b),
            (None, None) => {
                let a = (1..=n).take_while(|a| a * a <= n).filter(|a| n % a == 0).last().unwrap_or(1);
                (a, n / a)
            }
        };
        if a.checked_mul(b) != Some(n) {
            return Err(AttentionError::Factors { term: term.clone(), a, b, max_length: n });
        }
        Ok(Options { hidden: term.get("hidden").unwrap_or(shape.head_width()), a, b })
    }
}

fn cost(term: &Term, shape: &Shape) -> Result<Cost, AttentionError> {
    let Options { hidden, a, b } = Options::of(term, shape)?;
    let one_head = Options::of(term, &Shape { heads: 1, ..*shape })?;
    let Shape { d_model, heads, .. } = *shape;
    let (wide, sum, m) = (d_model as u128, (a + b) as u128, one_head.hidden as u128);
    let (first, inputs) = match hidden {
        0 => (None, d_model),
        hidden => (Some(Product::new(1, d_model, heads * hidden)), hidden),
    };
    let (formula, formula_parameters) = match term.get("hidden") {
        None => ("d² + d(a+b)", wide * m + m * sum),
        Some(0) => ("d(a+b)", wide * sum),
        Some(_) => ("dm + m(a+b)", wide * m + m * sum),
    };
    Ok(Cost {
        formula,
        formula_parameters,
        activations: u128::from(first.is_some()),
        linears: first.into_iter().chain([a, b].map(|outputs| Product::new(heads, inputs, outputs))).collect(),
        logit_linears: vec![],
        tables: vec![],
        per_logit: 1,
        reads_tokens: true,
    })
}

#[derive(Debug)]
struct FactorizedDense {
    /// d -> h·m; none if hidden = 0
    w0: Option<Linear>,
    /// [h, m or d, a]
    wa: Tensor,
    /// [h, a]
    ba: Tensor,
    /// [h, m or d, b]
    wb: Tensor,
    /// [h, b]
    bb: Tensor,
    heads: i64,
}

fn build(path: &Path, term: &Term, shape: &Shape) -> Result<Box<dyn Function>, AttentionError> {
    let Options { hidden, a, b } = Options::of(term, shape)?;
    let Shape { d_model, heads, .. } = *shape;
    let (w0, inputs) = match hidden {
        0 => (None, d_model),
        hidden => (Some(linear(path / "w0", d_model, heads * hidden)), hidden),
    };
    Ok(Box::new(FactorizedDense {
        w0,
        wa: path.var("wa", &[heads, inputs, a], xavier(inputs, a)),
        ba: path.var("ba", &[heads, a], Init::Const(0.0)),
        wb: path.var("wb", &[heads, inputs, b], xavier(inputs, b)),
        bb: path.var("bb", &[heads, b], Init::Const(0.0)),
        heads,
    }))
}

impl FactorizedDense {
    /// A [B, h, L, a] and as much of B, [B, h, L, b'], as the first `keys` columns need.
    /// `mapped` is x under w0, if there is one.
    fn factors(&self, x: &Tensor, mapped: Option<&Tensor>, keys: i64) -> (Tensor, Tensor) {
        let a = self.ba.size()[1];
        // Column j needs B[j div a]: no more of B than the columns ask for.
        let b = (keys + a - 1) / a;
        let hidden = mapped.map(|mapped| split(&mapped.relu(), self.heads));
        let map = |weight: &Tensor, bias: &Tensor| match &hidden {
            Some(hidden) => hidden.matmul(weight) + bias.unsqueeze(1),
            None => per_head(x, weight) + bias.unsqueeze(1),
        };
        let first = map(&self.wa, &self.ba);
        (first, map(&self.wb.narrow(2, 0, b), &self.bb.narrow(1, 0, b)))
    }

    /// The first `keys` logits of every position of x: [B, h, L, keys].
    fn scores(&self, x: &Tensor, keys: i64) -> Tensor {
        let mapped = self.w0.as_ref().map(|w0| project(w0, x));
        let (first, second) = self.factors(x, mapped.as_ref(), keys);
        (second.unsqueeze(-1) * first.unsqueeze(-2)).flatten(-2, -1).narrow(-1, 0, keys)
    }
}

/// x [B, L, d] times each head's weight [h, d, w]: [B, h, L, w].
fn per_head(x: &Tensor, weight: &Tensor) -> Tensor {
    let size = weight.size();
    split(&x.matmul(&weight.transpose(0, 1).reshape([size[1], size[0] * size[2]])), size[0])
}

impl Function for FactorizedDense {
    fn maps(&self) -> Vec<&Linear> {
        self.w0.iter().collect()
    }

    fn part(&self, x: &Tensor, mapped: &[Tensor]) -> Part {
        let columns = x.size()[1];
        let (first, second) = self.factors(x, mapped.first(), columns);
        Part::Outer { first, second, columns }
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        self.scores(x, x.size()[1])
    }

    fn step(&self, x: &Tensor, position: i64, _cache: &mut Cache) -> Tensor {
        self.scores(&x.transpose(0, 1), position + 1).permute([2, 1, 0, 3])
    }
}
