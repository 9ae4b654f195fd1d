//! LC and DC: each head adds up the gated values around a position by a short kernel that a softmax makes sum to 1; the
//! kernel is a weight (LC) or a linear map of the position (DC) (Wu et al. 2019, arXiv 1901.10430, sections 3 and 4).
//!
//! With the gated linear unit in front of it, as in their blocks: g = value(x) ⊙ σ(gate(x)) [B, L, d], and for channel c of
//! head h
//!
//! y_ic = Σ_j softmax_j(w)_j · g_(i+j-before)c, j < K, with w = `kernel`_h of LC, and w = (`kernel` g_i)_h of DC
//!
//! (DC's kernels are a map of what the convolution reads, so of g). Causal: before = K - 1; otherwise K is centred, before =
//! (K-1)/2. Beyond the ends and at padding g is 0, and the softmax is over all K taps wherever the position stands, so the
//! weights of a position near an end sum to less than 1. `gate` costs d² + d parameters, LC's kernels hK, DC's dhK.

use super::cache::Cache;
use super::cost::{Cost, Input, Linear as Product, Operations, Table};
use super::heads::{linear, merge, project, project_each, split, xavier};
use super::operator::{clear, Operator};
use super::registry::{Entry, Kind, Parameter, Shape};
use super::{AttentionError, Term};
use tch::nn::{Linear, LinearConfig, Path};
use tch::Tensor;

/// `LC`, `LC(kernel=K)`.
pub const LIGHTWEIGHT_ENTRY: Entry = Entry {
    name: "LC",
    summary: "lightweight convolution: one kernel a head, softmax over its taps",
    weights: "lightweight_convolution",
    parameters: &[KERNEL],
    check,
    values: |term, _| vec![kernel_of(term)],
    cost: |term, shape| Ok(cost(term, shape, false)),
    kind: Kind::Operator {
        build: |path, term, shape, causal| Ok(Box::new(Convolution::new(path, term, shape, causal, false))),
        can_be_causal: true,
        has_projections: true,
        grows_with_sight: false,
        operations: |term, shape, input| operations(term, shape, input, false),
    },
};

/// `DC`, `DC(kernel=K)`.
pub const DYNAMIC_ENTRY: Entry = Entry {
    name: "DC",
    summary: "dynamic convolution: each position makes its own kernels",
    weights: "dynamic_convolution",
    cost: |term, shape| Ok(cost(term, shape, true)),
    kind: Kind::Operator {
        build: |path, term, shape, causal| Ok(Box::new(Convolution::new(path, term, shape, causal, true))),
        can_be_causal: true,
        has_projections: true,
        grows_with_sight: false,
        operations: |term, shape, input| operations(term, shape, input, true),
    },
    ..LIGHTWEIGHT_ENTRY
};

/// The paper's kernels grow over the layers, 3, 7, 15, then 31 to the last. Our layers are alike, so they all get the widest.
const DEFAULT_KERNEL: i64 = 31;

const KERNEL: Parameter =
    Parameter { name: "kernel", minimum: 1, summary: "taps K of the kernel, an odd number; default 31" };

/// Positions that are convolved by one product, at least: few enough that the product has little to do beyond the taps (of a
/// block of C positions C/(C+K-1) is theirs), and large enough to be fast. 32 was the fastest of 32, 64 and 128 for K = 31.
const BLOCK: i64 = 32;

fn kernel_of(term: &Term) -> i64 {
    term.get("kernel").unwrap_or(DEFAULT_KERNEL)
}

fn check(term: &Term, _shape: &Shape) -> Result<(), AttentionError> {
    let kernel = kernel_of(term);
    if kernel % 2 == 0 {
        return Err(AttentionError::EvenKernel { term: term.clone(), kernel });
    }
    Ok(())
}

fn cost(term: &Term, shape: &Shape, dynamic: bool) -> Cost {
    let kernel = kernel_of(term);
    let Shape { d_model, heads, .. } = *shape;
    let (wide, taps) = (d_model as u128, kernel as u128);
    let gate = Product::new(1, d_model, d_model);
    let (formula, own) = if dynamic { ("d² + dw", wide * taps) } else { ("d² + w", taps) };
    Cost {
        formula,
        formula_parameters: wide * wide + own,
        linears: if dynamic { vec![gate, Product::unbiased(1, d_model, heads * kernel)] } else { vec![gate] },
        logit_linears: vec![],
        tables: if dynamic { vec![] } else { vec![Table { elements: heads as u128 * taps, trainable: true }] },
        activations: 2, // gate and softmax
        per_logit: 0,
        reads_tokens: dynamic,
    }
}

fn operations(term: &Term, shape: &Shape, input: Input, dynamic: bool) -> Operations {
    let tokens = input.batch as u128 * input.length as u128;
    let taps = kernel_of(term) as u128;
    let kernels = shape.heads as u128 * if dynamic { tokens } else { 1 };
    Operations {
        softmax: 5 * kernels * taps,
        weighted_values: 2 * tokens * taps * shape.d_model as u128,
        ..Operations::default()
    }
}

/// Where the logits of the taps come from.
#[derive(Debug)]
enum Kernels {
    /// [h, K]
    Lightweight(Tensor),
    /// d -> h·K, without a bias
    Dynamic(Linear),
}

#[derive(Debug)]
struct Convolution {
    value: Linear,
    gate: Linear,
    output: Linear,
    kernels: Kernels,
    heads: i64,
    /// K
    kernel: i64,
    causal: bool,
}

/// The taps of a kernel that reach anything in a sequence.
struct Reach {
    /// The first of them.
    first: i64,
    count: i64,
    /// How many of them lie before the position itself.
    before: i64,
}

impl Convolution {
    fn new(path: &Path, term: &Term, shape: &Shape, causal: bool, dynamic: bool) -> Convolution {
        let kernel = kernel_of(term);
        let Shape { d_model, heads, .. } = *shape;
        let own = path / if dynamic { DYNAMIC_ENTRY.weights } else { LIGHTWEIGHT_ENTRY.weights };
        let kernels = if dynamic {
            let ws_init = xavier(d_model, heads * kernel);
            let config = LinearConfig { ws_init, bs_init: None, bias: false };
            Kernels::Dynamic(tch::nn::linear(&own / "kernel", d_model, heads * kernel, config))
        } else {
            Kernels::Lightweight(own.var("kernel", &[heads, kernel], xavier(kernel, heads * kernel)))
        };
        Convolution {
            value: linear(path / "value", d_model, d_model),
            gate: linear(&own / "gate", d_model, d_model),
            output: linear(path / "output", d_model, d_model),
            kernels,
            heads,
            kernel,
            causal,
        }
    }

    /// g [B, L, d], zero at padding.
    fn gated(&self, x: &Tensor, padding: Option<&Tensor>) -> Tensor {
        let [values, gates] = project_each([&self.value, &self.gate], x);
        clear(&(values * gates.sigmoid()), padding)
    }

    /// The weights of all taps for g [B, L, d]: [B, L, h, K], or [1, 1, h, K] where every position has the same.
    fn taps(&self, gated: &Tensor) -> Tensor {
        let logits = match &self.kernels {
            Kernels::Lightweight(kernel) => kernel.unsqueeze(0).unsqueeze(0),
            Kernels::Dynamic(map) => {
                let size = gated.size();
                project(map, gated).view([size[0], size[1], self.heads, self.kernel])
            }
        };
        logits.softmax(-1, None)
    }

    fn reach(&self, length: i64) -> Reach {
        if self.causal {
            let count = self.kernel.min(length);
            return Reach { first: self.kernel - count, count, before: count - 1 };
        }
        let before = (self.kernel / 2).min(length - 1);
        Reach { first: self.kernel / 2 - before, count: 2 * before + 1, before }
    }

    /// y [B, L, d] of g [B, L, d] and the weights of all taps. A block of C positions reads C + K - 1: one product of the
    /// kernels, each row one further to the right, with those values. Nothing is as large as L × L, nor as d × L × K.
    fn convolve(&self, gated: &Tensor, taps: &Tensor) -> Tensor {
        let (batch, length, width) = (gated.size()[0], gated.size()[1], gated.size()[2]);
        let Reach { first, count, before } = self.reach(length);
        // A block's values end in the next block, so it must be as long as what it reads there.
        let block = BLOCK.min(length).max(count - 1);
        let blocks = (length + block - 1) / block;
        let after = (blocks + 1) * block - length - before;
        let padded = gated.constant_pad_nd([0, 0, before, after]);
        let padded = padded.view([batch, blocks + 1, block, self.heads, width / self.heads]).transpose(2, 3);
        let next = padded.narrow(1, 1, blocks).narrow(3, 0, count - 1);
        let read = Tensor::cat(&[padded.narrow(1, 0, blocks), next], 3);

        let taps = taps.narrow(-1, first, count);
        let taps = match self.kernels {
            Kernels::Lightweight(_) => taps.view([self.heads, 1, count]).expand([self.heads, block, count], false),
            Kernels::Dynamic(_) => taps
                .constant_pad_nd([0, 0, 0, 0, 0, blocks * block - length])
                .view([batch, blocks, block, self.heads, count])
                .transpose(2, 3),
        };
        let sums = shift_rows(&taps).matmul(&read);
        sums.transpose(2, 3).reshape([batch, blocks * block, width]).narrow(1, 0, length)
    }
}

/// rows [.., C, K] to [.., C, C + K - 1]: row i moved i to the right, zeros elsewhere.
fn shift_rows(rows: &Tensor) -> Tensor {
    let mut size = rows.size();
    let (count, width) = (size[size.len() - 2], size[size.len() - 1]);
    // Rows of C + K numbers, read again as rows of C + K - 1: each starts one later in its own.
    let flat = rows.constant_pad_nd([0, count]).flatten(-2, -1).narrow(-1, 0, count * (count + width - 1));
    *size.last_mut().unwrap_or(&mut 0) = count + width - 1;
    flat.view(&size[..])
}

impl Operator for Convolution {
    fn forward(&self, x: &Tensor, padding: Option<&Tensor>, dropout: f64) -> Result<Tensor, AttentionError> {
        let gated = self.gated(x, padding);
        let mut taps = self.taps(&gated);
        if dropout > 0.0 {
            taps = taps.dropout(dropout, true);
        }
        Ok(project(&self.output, &self.convolve(&gated, &taps)))
    }

    fn weights(&self, x: &Tensor, padding: Option<&Tensor>) -> Option<Tensor> {
        let (batch, length) = (x.size()[0], x.size()[1]);
        let Reach { first, count, before } = self.reach(length);
        let taps = self.taps(&self.gated(x, padding)).narrow(-1, first, count).transpose(1, 2);
        let rows = taps.expand([batch, self.heads, length, count], false);
        let weights = shift_rows(&rows).narrow(-1, before, length);
        Some(match padding {
            Some(padding) => weights.masked_fill(&padding.unsqueeze(1).unsqueeze(1), 0.0),
            None => weights,
        })
    }

    fn has_shares(&self) -> bool {
        true
    }

    fn step(&self, x: &Tensor, position: i64, cache: &mut Cache) -> Result<Tensor, AttentionError> {
        let gated = self.gated(x, None);
        let read = cache.push_within(&split(&gated, self.heads), self.kernel);
        let Reach { first, count, .. } = self.reach(position + 1);
        let taps = self.taps(&gated).narrow(-1, first, count).transpose(1, 2);
        Ok(project(&self.output, &merge(&taps.matmul(&read))))
    }
}
