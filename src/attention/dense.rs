//! D: each position alone says how much it looks at every other, S_i = relu(x_i W₁ᵀ + b₁) W₂ + b₂
//! (paper, Table 1, "Dense"; one W₂ a head).

use super::cache::Cache;
use super::cost::{Cost, Linear as Product};
use super::frozen::Form;
use super::heads::{linear, project, split, xavier};
use super::registry::{Entry, Function, Kind, Parameter, Shape};
use super::{AttentionError, Term};
use crate::native::attention::Part;
use tch::nn::{Init, Linear, Path};
use tch::Tensor;

/// `D`, `D(hidden=m)`.
pub const ENTRY: Entry = Entry {
    name: "D",
    summary: "dense: two layers map a position to its logits",
    weights: "dense",
    parameters: &[Parameter { name: "hidden", minimum: 1, summary: "hidden width m of a head; default d_h" }],
    check: |_, _| Ok(()),
    values: |term, shape| vec![Options::of(term, shape).hidden],
    cost: |term, shape| Ok(cost(term, shape)),
    kind: Kind::Logits(build),
};

/// Parameters of a term, defaults filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// m, the hidden width of a head.
    pub hidden: i64,
}

impl Options {
    /// Those of a term.
    pub fn of(term: &Term, shape: &Shape) -> Options {
        Options { hidden: term.get("hidden").unwrap_or(shape.head_width()) }
    }
}

fn cost(term: &Term, shape: &Shape) -> Cost {
    let Options { hidden } = Options::of(term, shape);
    let Shape { d_model, heads, max_length } = *shape;
    let one_head = Options::of(term, &Shape { heads: 1, ..*shape });
    Cost {
        formula: if term.get("hidden").is_some() { "dm + ml" } else { "d² + dl" },
        formula_parameters: (d_model + max_length) as u128 * one_head.hidden as u128,
        linears: vec![Product::new(1, d_model, heads * hidden)],
        logit_linears: vec![Product::new(heads, hidden, max_length)],
        tables: vec![],
        activations: 1,
        per_logit: 2 * hidden as u128,
        reads_tokens: true,
    }
}

#[derive(Debug)]
struct Dense {
    w1: Linear,
    /// [h, m, N]
    w2: Tensor,
    /// [h, N]
    b2: Tensor,
    heads: i64,
}

fn build(path: &Path, term: &Term, shape: &Shape) -> Result<Box<dyn Function>, AttentionError> {
    let Options { hidden } = Options::of(term, shape);
    let Shape { d_model, heads, max_length } = *shape;
    Ok(Box::new(Dense {
        w1: linear(path / "w1", d_model, heads * hidden),
        w2: path.var("w2", &[heads, hidden, max_length], xavier(hidden, max_length)),
        b2: path.var("b2", &[heads, max_length], Init::Const(0.0)),
        heads,
    }))
}

impl Dense {
    /// relu of x under w1, by heads: [B, h, L, m].
    fn hidden(&self, mapped: &Tensor) -> Tensor {
        split(&mapped.relu(), self.heads)
    }

    /// The first `keys` logits of every position of x: [B, h, L, keys].
    fn scores(&self, x: &Tensor, keys: i64) -> Tensor {
        let mut scores = self.hidden(&project(&self.w1, x)).matmul(&self.w2.narrow(2, 0, keys));
        scores += self.b2.narrow(1, 0, keys).unsqueeze(1);
        scores
    }
}

impl Function for Dense {
    fn maps(&self) -> Vec<&Linear> {
        vec![&self.w1]
    }

    /// Queries are the hidden layer, keys the columns of w2, which all sequences share.
    fn part(&self, x: &Tensor, mapped: &[Tensor]) -> Part {
        let keys = x.size()[1];
        Part::Product {
            queries: self.hidden(&mapped[0]),
            keys: self.w2.narrow(2, 0, keys).transpose(1, 2).unsqueeze(0),
            scale: 1.0,
            bias: Some(self.b2.narrow(1, 0, keys)),
        }
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        self.scores(x, x.size()[1])
    }

    fn form(&self) -> Option<Form<'_>> {
        Some(Form::Dense { w1: &self.w1, w2: &self.w2, b2: &self.b2 })
    }

    fn step(&self, x: &Tensor, position: i64, _cache: &mut Cache) -> Tensor {
        // One position of many rows: as one row of many positions, w2 is not copied for each.
        self.scores(&x.transpose(0, 1), position + 1).permute([2, 1, 0, 3])
    }
}
