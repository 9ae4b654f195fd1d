//! V, the Transformer's own: S = Q Kᵀ / √r with Q, K linear in x, r = d_h unless a lower rank is asked for
//! (paper, Table 1, "Dot product").

use super::cache::Cache;
use super::cost::{Cost, Linear as Product};
use super::frozen::Form;
use super::heads::{linear, project, split};
use super::registry::{Entry, Function, Kind, Parameter, Shape};
use super::{AttentionError, Term};
use crate::native::attention::Part;
use tch::nn::{Linear, Path};
use tch::Tensor;

/// `V`, `V(rank=r)`.
pub const ENTRY: Entry = Entry {
    name: "V",
    summary: "dot product of queries and keys, the Transformer's own",
    weights: "dot_product",
    parameters: &[Parameter { name: "rank", minimum: 1, summary: "width of a head's queries and keys; default d_h" }],
    check: |_, _| Ok(()),
    values: |term, shape| vec![Options::of(term, shape).rank],
    cost: |term, shape| Ok(cost(term, shape)),
    kind: Kind::Logits(build),
};

/// Parameters of a term, defaults filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// r, the width of a head's queries and keys.
    pub rank: i64,
}

impl Options {
    /// Those of a term.
    pub fn of(term: &Term, shape: &Shape) -> Options {
        Options { rank: term.get("rank").unwrap_or(shape.head_width()) }
    }
}

fn cost(term: &Term, shape: &Shape) -> Cost {
    let Options { rank } = Options::of(term, shape);
    let Shape { d_model, heads, .. } = *shape;
    let one_head = Options::of(term, &Shape { heads: 1, ..*shape });
    Cost {
        formula: if term.get("rank").is_some() { "2dr" } else { "2d²" },
        formula_parameters: 2 * d_model as u128 * one_head.rank as u128,
        linears: vec![Product::new(1, d_model, heads * rank); 2],
        logit_linears: vec![],
        tables: vec![],
        activations: 0,
        per_logit: 2 * rank as u128,
        reads_tokens: true,
    }
}

#[derive(Debug)]
struct DotProduct {
    query: Linear,
    key: Linear,
    heads: i64,
    scale: f64,
}

fn build(path: &Path, term: &Term, shape: &Shape) -> Result<Box<dyn Function>, AttentionError> {
    let Options { rank } = Options::of(term, shape);
    Ok(Box::new(DotProduct {
        query: linear(path / "query", shape.d_model, shape.heads * rank),
        key: linear(path / "key", shape.d_model, shape.heads * rank),
        heads: shape.heads,
        scale: 1.0 / (rank as f64).sqrt(),
    }))
}

impl DotProduct {
    /// [B, h, L, r], scaled: cheaper than scaling the logits when L > r.
    fn queries(&self, x: &Tensor) -> Tensor {
        split(&(project(&self.query, x) * self.scale), self.heads)
    }

    /// [B, h, L, r]
    fn keys(&self, x: &Tensor) -> Tensor {
        split(&project(&self.key, x), self.heads)
    }
}

impl Function for DotProduct {
    fn maps(&self) -> Vec<&Linear> {
        vec![&self.query, &self.key]
    }

    fn part(&self, _x: &Tensor, mapped: &[Tensor]) -> Part {
        let [queries, keys] = [0, 1].map(|index: usize| split(&mapped[index], self.heads));
        Part::Product { queries, keys, scale: self.scale, bias: None }
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        self.queries(x).matmul(&self.keys(x).transpose(2, 3))
    }

    fn form(&self) -> Option<Form<'_>> {
        Some(Form::DotProduct { query: &self.query, key: &self.key, scale: self.scale })
    }

    fn step(&self, x: &Tensor, _position: i64, cache: &mut Cache) -> Tensor {
        let keys = cache.push(&self.keys(x));
        self.queries(x).matmul(&keys.transpose(2, 3))
    }
}
