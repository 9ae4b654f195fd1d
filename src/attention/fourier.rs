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
use crate::native::record;
use tch::{no_grad, Kind as Element, TchError, Tensor};

/// `FFT`
pub const ENTRY: Entry = Entry {
    name: "FFT",
    summary: "FNet: the real part of a Fourier transform, without weights; encoders only",
    weights: "fourier",
    parameters: &[],
    check: |_, _| Ok(()),
    values: |_, _| vec![],
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
        let kind = x.kind();
        let x = clear(x, padding);
        // There is no transform of half precision.
        let x = if matches!(kind, Element::Half | Element::BFloat16) { x.to_kind(Element::Float) } else { x };
        Ok(differentiable(&x, self.max_length)?.to_kind(kind))
    }
}

/// [`transform`] and its gradient, which is the transform of the gradient: entry (k, l; n, m) of the linear map,
/// cos 2π(kn/N + lm/d) / √(Nd), is entry (n, m; k, l) too.
fn differentiable(x: &Tensor, rows: i64) -> Result<Tensor, AttentionError> {
    let made = no_grad(|| transform(x, rows)).and_then(|made| {
        record(&[x], &[&made], move |given, _| {
            Ok(vec![given[0].as_ref().map(|gradient| transform(gradient, rows)).transpose()?])
        })?;
        Ok(made)
    });
    made.map_err(|error| AttentionError::Kernel(error.to_string()))
}

/// Re F(x)/√(rows·d) of x [B, L, d] with zeros up to `rows` rows, of which the first L are kept.
///
/// x is real, so that Re F(-k, -l) = Re F(k, l): half of the columns are transformed, the others are their mirror image.
fn transform(x: &Tensor, rows: i64) -> Result<Tensor, TchError> {
    let (_, length, width) = x.size3()?;
    let half = x.f_fft_rfft2(&[rows, width][..], [1, 2], "ortho")?.f_real()?;
    let mirrored = width - half.size()[2];
    let opposite = (Tensor::f_arange(length, (Element::Int64, x.device()))?.f_neg()?).f_remainder(rows)?;
    let rest = half.f_narrow(2, 1, mirrored)?.f_index_select(1, &opposite)?.f_flip([2])?;
    Tensor::f_cat(&[half.f_narrow(1, 0, length)?, rest], 2)
}
