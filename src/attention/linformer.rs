//! Lin: attention to k mixtures of the positions, softmax(Q (E K)ᵀ/√d_h) (F V) with Q, K, V linear in x and E, F [k, N] learned
//! (Wang et al. 2020, arXiv 2006.04768, equation 7).
//!
//! E and F are cut to the actual L and shared by the heads of a layer (their "headwise sharing"): 2kN parameters. Each of the
//! k keys mixes all positions, so no position can be kept from seeing later ones: an encoder's operator only. Padded positions
//! do not enter the mixtures.

use super::cost::{Cost, Input, Linear as Product, Operations, Table};
use super::fused::{attend, compose, Form, Visibility};
use super::heads::{linear, merge, project, split, xavier};
use super::operator::{clear, Operator};
use super::registry::{Entry, Kind, Parameter, Shape};
use super::{AttentionError, Term};
use crate::native::attention::Part;
use tch::nn::{Linear, Path};
use tch::{Kind as Element, Tensor};

/// `Lin`, `Lin(k=…)`.
pub const ENTRY: Entry = Entry {
    name: "Lin",
    summary: "Linformer: dot product with k learned mixtures of the positions; encoders only",
    weights: "linformer",
    parameters: &[Parameter {
        name: "k",
        minimum: 1,
        summary: "mixtures k of the keys and of the values; default N/4",
    }],
    check: |_, _| Ok(()),
    values: |term, shape| vec![rank(term, shape)],
    cost: |term, shape| Ok(cost(term, shape)),
    kind: Kind::Operator {
        build: |path, term, shape, _| Ok(build(path, term, shape)),
        can_be_causal: false,
        has_projections: true,
        grows_with_sight: false,
        operations,
    },
};

/// k of a term: by default the share of N that the paper has at N 512, k 128.
pub fn rank(term: &Term, shape: &Shape) -> i64 {
    term.get("k").unwrap_or((shape.max_length / 4).max(1))
}

fn cost(term: &Term, shape: &Shape) -> Cost {
    let (wide, length, rank) = (shape.d_model as u128, shape.max_length as u128, rank(term, shape) as u128);
    Cost {
        formula: "2d² + 2lk",
        formula_parameters: 2 * wide * wide + 2 * length * rank,
        linears: vec![Product::new(1, shape.d_model, shape.d_model); 2],
        logit_linears: vec![],
        tables: vec![Table { elements: rank * length, trainable: true }; 2],
        activations: 1, // softmax
        per_logit: 0,
        reads_tokens: true,
    }
}

fn operations(term: &Term, shape: &Shape, input: Input) -> Operations {
    let product = 2 * input.batch as u128 * input.length as u128 * shape.d_model as u128 * rank(term, shape) as u128;
    let logits = input.batch as u128 * shape.heads as u128 * input.length as u128 * rank(term, shape) as u128;
    Operations { projections: 2 * product, logits: product, softmax: 5 * logits, weighted_values: product }
}

#[derive(Debug)]
struct Linformer {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    /// [k, N]
    e: Tensor,
    /// [k, N]
    f: Tensor,
    heads: i64,
}

fn build(path: &Path, term: &Term, shape: &Shape) -> Box<dyn Operator> {
    let Shape { d_model, heads, max_length } = *shape;
    let (own, rank) = (path / ENTRY.weights, rank(term, shape));
    Box::new(Linformer {
        query: linear(&own / "query", d_model, d_model),
        key: linear(&own / "key", d_model, d_model),
        value: linear(path / "value", d_model, d_model),
        output: linear(path / "output", d_model, d_model),
        e: own.var("e", &[rank, max_length], xavier(max_length, rank)),
        f: own.var("f", &[rank, max_length], xavier(max_length, rank)),
        heads,
    })
}

impl Linformer {
    /// E K and F V of x [B, L, d], heads split: [B, h, k, d_h]. As E (X Wᵀ + 1 bᵀ) = (E X) Wᵀ + (E 1) bᵀ, x is mixed first, and
    /// the maps have k rows a sequence to work on instead of L.
    fn keys_and_values(&self, x: &Tensor, padding: Option<&Tensor>) -> (Tensor, Tensor) {
        let (batch, length) = (x.size()[0], x.size()[1]);
        let rank = self.e.size()[0];
        let both = Tensor::cat(&[&self.e, &self.f], 0).narrow(1, 0, length);
        let mixed = both.unsqueeze(0).expand([batch, 2 * rank, length], false).bmm(&clear(x, padding));
        // E 1, over positions that are no padding: [B or 1, 2k, 1]
        let sums = match padding {
            Some(padding) => padding.logical_not().to_kind(both.kind()).matmul(&both.tr()).unsqueeze(-1),
            None => both.sum_dim_intlist(-1, true, None::<Element>).unsqueeze(0),
        };
        let map = |of: &Linear, first: i64| {
            let mapped = mixed.narrow(1, first, rank).matmul(&of.ws.tr());
            let mapped = match &of.bs {
                Some(bias) => mapped + sums.narrow(1, first, rank) * bias,
                None => mapped,
            };
            split(&mapped, self.heads)
        };
        (map(&self.key, 0), map(&self.value, rank))
    }
}

impl Operator for Linformer {
    fn forward(&self, x: &Tensor, padding: Option<&Tensor>, dropout: f64) -> Result<Tensor, AttentionError> {
        let queries = split(&project(&self.query, x), self.heads);
        let (keys, values) = self.keys_and_values(x, padding);
        let scale = 1.0 / (queries.size()[3] as f64).sqrt();
        let form = Form::Auto.resolve(x);
        let product = Part::Product { queries, keys, scale, bias: None };
        let visibility = Visibility { causal: None, padding: None, dropout };
        let context = match form {
            Form::Fused => attend(vec![product], None, values, visibility)?,
            _ => compose(&[product], None, &values, visibility),
        };
        Ok(project(&self.output, &merge(&context)))
    }
}
