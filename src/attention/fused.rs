//! softmax(Σ wₜ Sₜ) V without a tensor of [B, h, L, L]: every function's logits are products, tables or outer products
//! (see [`Part`]), and those can be made where they are used.
//!
//! The plain form (`weighted.rs`, from [`super::registry::Function::logits`]) is the definition; tests hold the others against it.

use super::mask::{Causal, Mask};
use super::AttentionError;
use crate::native;
use crate::native::attention::{self, Part, Request};
use tch::Tensor;

/// How attention is computed; all forms give the same values and gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Form {
    /// Fused on the CPU in float32 and float64, composed elsewhere
    #[default]
    Auto,
    /// Logits, mask, softmax, dropout, product, one after the other: the definition
    Plain,
    /// LibTorch's fused attention over concatenated features, for devices that have one
    Composed,
    /// Our kernel for the CPU
    Fused,
}

impl Form {
    /// The form for tensors like `x`: never [`Form::Auto`].
    pub fn resolve(self, x: &Tensor) -> Form {
        match self {
            Form::Auto if crate::native::takes(x.device(), x.kind()) => Form::Fused,
            Form::Auto => Form::Composed,
            form => form,
        }
    }
}

/// Which keys are seen, and which weights survive.
#[derive(Debug, Clone, Copy)]
pub struct Visibility<'a> {
    /// Made once a layer; none where every position sees all.
    pub causal: Option<&'a Causal>,
    /// bool [B, keys], true where nobody may look.
    pub padding: Option<&'a Tensor>,
    /// Dropout on the weights, in [0, 1).
    pub dropout: f64,
}

/// softmax over visible keys of Σ `weights`ₜ Sₜ, times values [B, h, keys, w]: [B, h, queries, w], 0 for a query that sees no
/// key. `weights` [parts, h] or none for 1. Errors: more parts than [`attention::MOST_PARTS`], LibTorch's.
pub fn attend(
    parts: Vec<Part>,
    weights: Option<Tensor>,
    values: Tensor,
    visibility: Visibility,
) -> Result<Tensor, AttentionError> {
    let Visibility { causal, padding, dropout } = visibility;
    // Drawn only where it is used: a step without dropout leaves LibTorch's generator as it is.
    let seed = if dropout > 0.0 { native::random() } else { 0 };
    let request = Request { parts, weights, values, padding, causal: causal.is_some(), dropout, seed };
    attention::attend(request).map_err(|error| AttentionError::Kernel(error.to_string()))
}

/// The same step by step: logits, mask, softmax, dropout, product.
pub(super) fn plain(parts: &[Part], weights: Option<&Tensor>, values: &Tensor, visibility: Visibility) -> Tensor {
    let Visibility { causal, padding, dropout } = visibility;
    let causal = causal.map(|causal| causal.cut(values.size()[2], values.device()));
    let mask = Mask::new(causal, padding);
    let logits = sum(parts.iter().enumerate().map(|(index, part)| weighted(logits(part), weights, index)));
    // Logits of one unweighted table are the table itself.
    let in_place = !parts.iter().all(Part::is_shared);
    apply(Mask::softmax(mask.as_ref(), logits, in_place), values, mask.as_ref(), dropout)
}

/// A tensor [.., h, .., ..] of part `index` times its weight.
fn weighted(tensor: Tensor, weights: Option<&Tensor>, index: usize) -> Tensor {
    match weights {
        Some(weights) => tensor * weights.get(index as i64).unsqueeze(-1).unsqueeze(-1),
        None => tensor,
    }
}

/// The same from LibTorch's operations. A mix that no sequence enters is one product a head for the whole batch. The others
/// are one scaled-dot-product attention over the concatenated features of all products: what kernel runs, and whether it
/// makes a tensor of [B, h, L, L], is LibTorch's choice. Such a tensor does stand in memory for FD (its logits), for the
/// gradient of R in a mix, and where R, Rfix or FR meet dropout or padding without a function of the input.
pub fn compose(parts: &[Part], weights: Option<&Tensor>, values: &Tensor, visibility: Visibility) -> Tensor {
    let is_product = |part: &Part| matches!(part, Part::Product { .. });
    if parts.iter().all(Part::is_shared) || !parts.iter().any(is_product) {
        return plain(parts, weights, values, visibility);
    }
    let Visibility { causal, padding, dropout } = visibility;
    let causal_mask = causal.map(|causal| causal.cut(values.size()[2], values.device()));
    let mask = Mask::new(causal_mask, padding);
    let weighted = |tensor: Tensor, index: usize| weighted(tensor, weights, index);
    let (mut queries, mut keys, mut biases) = (Vec::new(), Vec::new(), Vec::new());
    let size = values.size();
    let wide = |tensor: &Tensor| tensor.expand([size[0], size[1], -1, -1], false);
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Product { queries: left, keys: right, scale, bias } => {
                queries.push(wide(&weighted(left * *scale, index)));
                keys.push(wide(right));
                if let Some(bias) = bias {
                    // One more feature: 1 · bias_j, its weight as the product's.
                    let one = left.ones_like().narrow(3, 0, 1);
                    queries.push(wide(&weighted(one, index)));
                    keys.push(wide(&bias.unsqueeze(0).unsqueeze(-1)));
                }
            }
            other => biases.push(weighted(logits(other), index)),
        }
    }
    let pad = |features: Vec<Tensor>| {
        let features = Tensor::cat(&features, 3);
        // Widths of eight are what fused kernels take.
        let short = (8 - features.size()[3] % 8) % 8;
        if short > 0 {
            features.constant_pad_nd([0, short])
        } else {
            features
        }
    };
    let (queries, keys) = (pad(queries), pad(keys));
    let only_causal = biases.is_empty() && padding.is_none() && causal.is_some();
    let bias = match (biases.is_empty(), only_causal, mask.as_ref()) {
        (_, true, _) | (true, _, None) => None,
        (true, _, Some(mask)) => Some(mask.additive(values.kind())),
        (false, _, mask) => {
            let bias = sum(biases.into_iter());
            Some(match mask {
                Some(mask) => bias + mask.additive(values.kind()),
                None => bias,
            })
        }
    };
    let context =
        Tensor::scaled_dot_product_attention(&queries, &keys, values, bias.as_ref(), dropout, only_causal, 1.0, false);
    Mask::clear_blind(mask.as_ref(), context)
}

/// A part's logits, [B or 1, h, queries, keys].
fn logits(part: &Part) -> Tensor {
    match part {
        Part::Product { queries, keys, scale, bias } => {
            let product = (queries * *scale).matmul(&keys.transpose(2, 3));
            match bias {
                Some(bias) => product + bias.unsqueeze(1),
                None => product,
            }
        }
        Part::Table(table) => table.unsqueeze(0),
        Part::Outer { first, second, columns } => {
            (second.unsqueeze(-1) * first.unsqueeze(-2)).flatten(-2, -1).narrow(-1, 0, *columns)
        }
    }
}

/// Of at least one tensor.
fn sum(terms: impl Iterator<Item = Tensor>) -> Tensor {
    terms.reduce(|sum, term| sum + term).unwrap_or_default()
}

/// Weights [B or 1, h, queries, keys] after the softmax, times values, with dropout.
pub(super) fn apply(weights: Tensor, values: &Tensor, mask: Option<&Mask>, dropout: f64) -> Tensor {
    let mut weights = weights;
    if dropout > 0.0 {
        let size = weights.size();
        // Each row of the batch drops its own.
        weights = weights.expand([values.size()[0], size[1], size[2], size[3]], false).dropout(dropout, true);
    }
    let context = if weights.size()[0] == 1 { shared(&weights, values) } else { weights.matmul(values) };
    Mask::clear_blind(mask, context)
}

/// weights [1, h, L, L] times values [B, h, L, w] to [B, h, L, w], as one [L, L] × [L, B·w] product a head: no copy of the
/// weights for each row of the batch.
fn shared(weights: &Tensor, values: &Tensor) -> Tensor {
    let size = values.size();
    let (batch, heads, length, width) = (size[0], size[1], size[2], size[3]);
    let columns = values.permute([1, 2, 0, 3]).reshape([heads, length, batch * width]);
    weights.squeeze_dim(0).bmm(&columns).view([heads, length, batch, width]).permute([2, 0, 1, 3])
}
