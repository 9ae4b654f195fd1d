//! Mixer: one learned matrix W [N, N] mixes positions, the same for every channel, y = W value(x): R without its softmax, and
//! MLP-Mixer's mixing of tokens (Tolstikhin et al. 2021, arXiv 2105.01601) as one linear map.
//!
//! W is cut to the actual L; causal, only what is on and below its diagonal counts; what stands at padding counts as zero.

use super::cache::Cache;
use super::cost::{Cost, Input, Operations, Table};
use super::heads::{linear, project, xavier};
use super::operator::{clear, Operator};
use super::registry::{Entry, Kind, Shape};
use super::{AttentionError, Term};
use tch::nn::{Linear, Path};
use tch::Tensor;

/// `Mixer`
pub const ENTRY: Entry = Entry {
    name: "Mixer",
    summary: "one learned matrix of weights for all channels, no softmax",
    weights: "mixer",
    parameters: &[],
    check: |_, _| Ok(()),
    values: |_, _| vec![],
    cost: |_, shape| Ok(cost(shape)),
    kind: Kind::Operator {
        build: |path, _, shape, causal| Ok(build(path, shape, causal)),
        can_be_causal: true,
        has_projections: true,
        grows_with_sight: true,
        operations,
    },
};

fn cost(shape: &Shape) -> Cost {
    let square = (shape.max_length as u128).pow(2);
    Cost {
        formula: "l²",
        formula_parameters: square,
        linears: vec![],
        logit_linears: vec![],
        tables: vec![Table { elements: square, trainable: true }],
        activations: 0,
        per_logit: 0,
        reads_tokens: false,
    }
}

fn operations(_term: &Term, shape: &Shape, input: Input) -> Operations {
    let square = (input.length as u128).pow(2);
    Operations { weighted_values: 2 * input.batch as u128 * square * shape.d_model as u128, ..Operations::default() }
}

#[derive(Debug)]
struct Mixer {
    value: Linear,
    output: Linear,
    /// [N, N]
    w: Tensor,
    heads: i64,
    causal: bool,
}

fn build(path: &Path, shape: &Shape, causal: bool) -> Box<dyn Operator> {
    let Shape { d_model, heads, max_length } = *shape;
    let own = path / ENTRY.weights;
    Box::new(Mixer {
        value: linear(path / "value", d_model, d_model),
        output: linear(path / "output", d_model, d_model),
        w: own.var("w", &[max_length, max_length], xavier(max_length, max_length)),
        heads,
        causal,
    })
}

impl Mixer {
    /// [L, L]
    fn matrix(&self, length: i64) -> Tensor {
        let cut = self.w.narrow(0, 0, length).narrow(1, 0, length);
        if self.causal {
            cut.tril(0)
        } else {
            cut
        }
    }
}

impl Operator for Mixer {
    fn forward(&self, x: &Tensor, padding: Option<&Tensor>, dropout: f64) -> Result<Tensor, AttentionError> {
        let (batch, length) = (x.size()[0], x.size()[1]);
        let values = clear(&project(&self.value, x), padding);
        let mut matrix = self.matrix(length);
        if dropout > 0.0 {
            matrix = matrix.dropout(dropout, true);
        }
        Ok(project(&self.output, &matrix.unsqueeze(0).expand([batch, length, length], false).bmm(&values)))
    }

    fn weights(&self, x: &Tensor, padding: Option<&Tensor>) -> Option<Tensor> {
        let (batch, length) = (x.size()[0], x.size()[1]);
        let matrix = self.matrix(length).expand([batch, self.heads, length, length], false);
        Some(match padding {
            Some(padding) => matrix.masked_fill(&padding.unsqueeze(1).unsqueeze(1), 0.0),
            None => matrix,
        })
    }

    fn step(&self, x: &Tensor, position: i64, cache: &mut Cache) -> Result<Tensor, AttentionError> {
        let values = cache.push(&project(&self.value, x).unsqueeze(1)).squeeze_dim(1);
        let row = self.w.narrow(0, position, 1).narrow(1, 0, position + 1);
        Ok(project(&self.output, &row.unsqueeze(0).expand([x.size()[0], 1, position + 1], false).bmm(&values)))
    }
}
