//! FFT: the real part of the Fourier transform of positions and channels, without a weight (FNet, Lee-Thorp et al. 2021,
//! arXiv 2105.03824, equation 3).
//!
//! y_pc = 1/√(N d) Σ_n Σ_m x_nm cos 2π(pn/N + cm/d), for p < L. The transform is over N positions, whatever the actual L: beyond
//! L, and at padding, x counts as zero, so that no output depends on what else is in a batch. The factor, which the paper's
//! post-norm layers do without, keeps the size of x: our layers are pre-norm. Neither heads nor dropout on weights act.

use super::cost::{Cost, Input, Operations};
use super::operator::{clear, Operator};
use super::registry::{Entry, Kind, Shape};
use super::{AttentionError, Term};
use tch::{Kind as Element, Tensor};

/// `FFT`
pub const ENTRY: Entry = Entry {
    name: "FFT",
    summary: "FNet: the real part of a Fourier transform, without weights; encoders only",
    weights: "fourier",
    parameters: &[],
    check: |_, _| Ok(()),
    cost: |_, _| {
        Ok(Cost {
            formula: "0",
            formula_parameters: 0,
            linears: vec![],
            logit_linears: vec![],
            tables: vec![],
            activations: 0,
            per_logit: 0,
            reads_tokens: true,
        })
    },
    kind: Kind::Operator {
        build: |_, _, shape, _| Ok(Box::new(Fourier { max_length: shape.max_length })),
        can_be_causal: false,
        has_projections: false,
        grows_with_sight: false,
        operations,
    },
};

/// 5 n log₂ n for n points, the customary count of a fast transform.
fn operations(_term: &Term, shape: &Shape, input: Input) -> Operations {
    let points = shape.max_length as f64 * shape.d_model as f64;
    let transform = (5.0 * points * points.log2()).round() as u128;
    Operations { weighted_values: input.batch as u128 * transform, ..Operations::default() }
}

#[derive(Debug)]
struct Fourier {
    max_length: i64,
}

impl Operator for Fourier {
    fn forward(&self, x: &Tensor, padding: Option<&Tensor>, _dropout: f64) -> Result<Tensor, AttentionError> {
        let (length, width) = (x.size()[1], x.size()[2]);
        let kind = x.kind();
        let x = clear(x, padding);
        // There is no transform of half precision.
        let x = if matches!(kind, Element::Half | Element::BFloat16) { x.to_kind(Element::Float) } else { x };
        Ok(x.fft_fft2(&[self.max_length, width][..], [1, 2], "ortho").real().narrow(1, 0, length).to_kind(kind))
    }
}
