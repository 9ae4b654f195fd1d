//! R and Rfix: S is a matrix that knows nothing of the input, learned (R) or left as it was drawn (Rfix)
//! (paper, Table 1, "Random" and "Fixed Random").

use super::cache::Cache;
use super::cost::{Cost, Table};
use super::frozen::Form;
use super::registry::{Entry, Function, Kind, Shape};
use super::AttentionError;
use crate::native::attention::Part;
use tch::nn::Path;
use tch::Tensor;

/// `R`
pub const ENTRY: Entry = Entry {
    name: "R",
    summary: "random: one learned matrix of logits a head",
    weights: "random",
    parameters: &[],
    check: |_, _| Ok(()),
    values: |_, _| vec![],
    cost: |_, shape| Ok(cost(shape, true)),
    kind: Kind::Logits(|path, _, shape| build(path, shape, true)),
};

/// `Rfix`
pub const FIXED_ENTRY: Entry = Entry {
    name: "Rfix",
    summary: "fixed random: the same, never trained",
    cost: |_, shape| Ok(cost(shape, false)),
    kind: Kind::Logits(|path, _, shape| build(path, shape, false)),
    ..ENTRY
};

fn cost(shape: &Shape, trainable: bool) -> Cost {
    let square = (shape.max_length as u128).pow(2);
    Cost {
        formula: "l²",
        formula_parameters: square,
        linears: vec![],
        logit_linears: vec![],
        tables: vec![Table { elements: shape.heads as u128 * square, trainable }],
        activations: 0,
        per_logit: 0,
        reads_tokens: false,
    }
}

#[derive(Debug)]
struct Random {
    /// [h, N, N], starting N(0, 1)
    r: Tensor,
}

fn build(path: &Path, shape: &Shape, trained: bool) -> Result<Box<dyn Function>, AttentionError> {
    let size = [shape.heads, shape.max_length, shape.max_length];
    // The only weight that grows with N²: the first for which memory may not do.
    let r = Tensor::f_randn(size, (path.kind(), path.device())).map_err(|error| AttentionError::Weights {
        what: "the random logits [heads, max_length, max_length] =",
        size: size.to_vec(),
        reason: error.to_string().lines().next().unwrap_or_default().to_string(),
    })?;
    Ok(Box::new(Random { r: path.add("r", r, trained) }))
}

impl Random {
    /// [h, L, L]
    fn cut(&self, length: i64) -> Tensor {
        self.r.narrow(1, 0, length).narrow(2, 0, length)
    }
}

impl Function for Random {
    fn logits(&self, x: &Tensor) -> Tensor {
        self.cut(x.size()[1]).unsqueeze(0)
    }

    fn part(&self, x: &Tensor, _mapped: &[Tensor]) -> Part {
        Part::Table(self.cut(x.size()[1]))
    }

    fn form(&self) -> Option<Form<'_>> {
        Some(Form::Table(self.r.shallow_clone()))
    }

    fn step(&self, _x: &Tensor, position: i64, _cache: &mut Cache) -> Tensor {
        self.r.narrow(1, position, 1).narrow(2, 0, position + 1).unsqueeze(0)
    }

    fn depends_on_input(&self) -> bool {
        false
    }
}
