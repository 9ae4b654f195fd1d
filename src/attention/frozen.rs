//! A layer as kernels for generation read it: its weights as they are, the weights of the mix multiplied into them.

use super::registry::Function;
use super::weighted::Weighted;
use super::{Body, CrossAttention, SelfAttention};
use tch::nn::Linear;
use tch::{no_grad, Tensor};

/// What a function's logits are made of, for kernels that know these forms.
#[derive(Debug)]
pub enum Form<'a> {
    /// (x W_q + b_q)(x W_k + b_k)ᵀ · scale, a head at a time
    DotProduct {
        /// To h · r.
        query: &'a Linear,
        /// To h · r.
        key: &'a Linear,
        /// 1/√r.
        scale: f64,
    },
    /// relu(x W₁ + b₁) w₂ + b₂
    Dense {
        /// To h · m.
        w1: &'a Linear,
        /// [h, m, N]
        w2: &'a Tensor,
        /// [h, N]
        b2: &'a Tensor,
    },
    /// The same [h, N, N] for every input.
    Table(Tensor),
}

/// A linear map: weight [outputs, inputs], bias \[outputs\].
#[derive(Debug)]
pub struct Map {
    /// [outputs, inputs]
    pub weight: Tensor,
    /// \[outputs\]
    pub bias: Tensor,
}

/// The logits of a mix: the sum of what is there.
#[derive(Debug, Default)]
pub struct FrozenLogits {
    /// Queries, scaled, and keys: d to h · r each.
    pub dot_product: Option<(Map, Map)>,
    /// d to h · m before the relu; then of each head m to N.
    pub dense: Option<(Map, Vec<Map>)>,
    /// [h, N, N]
    pub table: Option<Tensor>,
}

/// A layer, its weights detached.
#[derive(Debug)]
pub struct Frozen {
    /// d to h · d_h.
    pub value: Map,
    /// h · d_h to d.
    pub output: Map,
    /// h.
    pub heads: i64,
    /// N.
    pub max_length: i64,
    /// What the softmax is taken of.
    pub logits: FrozenLogits,
}

/// Encoder-decoder attention, its weights detached.
#[derive(Debug)]
pub struct FrozenCross {
    /// Scaled by 1/√d_h.
    pub query: Map,
    /// Of the memory.
    pub key: Map,
    /// Of the memory.
    pub value: Map,
    /// h · d_h to d.
    pub output: Map,
    /// h.
    pub heads: i64,
}

impl Map {
    /// A layer's weights, detached.
    pub fn of(linear: &Linear) -> Map {
        let bias = linear
            .bs
            .as_ref()
            .map_or_else(|| linear.ws.new_zeros([linear.ws.size()[0]], like(&linear.ws)), Tensor::detach);
        Map { weight: linear.ws.detach(), bias }
    }

    /// Every head's outputs times `factors` [h, 1].
    fn scaled(&self, factors: &Tensor) -> Map {
        let (outputs, inputs) = (self.weight.size()[0], self.weight.size()[1]);
        let heads = factors.size()[0];
        Map {
            weight: (self.weight.view([heads, -1, inputs]) * factors.unsqueeze(-1)).view([outputs, inputs]),
            bias: (self.bias.view([heads, -1]) * factors).view([outputs]),
        }
    }
}

fn like(tensor: &Tensor) -> (tch::Kind, tch::Device) {
    (tensor.kind(), tensor.device())
}

impl CrossAttention {
    /// The layer as it stands now.
    pub fn frozen(&self) -> FrozenCross {
        no_grad(|| {
            let scale = ((self.d_model / self.heads) as f64).powf(-0.5);
            let scales = Tensor::full([self.heads, 1], scale, like(&self.query.ws));
            FrozenCross {
                query: Map::of(&self.query).scaled(&scales),
                key: Map::of(&self.key),
                value: Map::of(&self.value),
                output: Map::of(&self.output),
                heads: self.heads,
            }
        })
    }
}

impl SelfAttention {
    /// The layer as it stands now; none if a function of its mix has no [`Form`], or two have the same, and for an operator.
    pub fn frozen(&self) -> Option<Frozen> {
        let Body::Weighted(weighted) = &self.body else { return None };
        let heads = self.config.heads;
        no_grad(|| {
            Some(Frozen {
                value: Map::of(&weighted.value),
                output: Map::of(&weighted.output),
                heads,
                max_length: self.config.max_length,
                logits: weighted.frozen_logits(heads)?,
            })
        })
    }
}

impl Weighted {
    fn frozen_logits(&self, heads: i64) -> Option<FrozenLogits> {
        let weights = self.mixture.weights();
        let ones = Tensor::ones([heads, 1], like(&self.value.ws));
        let mut logits = FrozenLogits::default();
        for (index, function) in self.mixture.functions().enumerate() {
            let weight =
                weights.as_ref().map_or_else(|| ones.shallow_clone(), |all| all.get(index as i64).view([heads, 1]));
            let taken = match Function::form(function)? {
                Form::DotProduct { query, key, scale } => {
                    let maps = (Map::of(query).scaled(&(&weight * scale)), Map::of(key));
                    logits.dot_product.replace(maps).is_some()
                }
                Form::Dense { w1, w2, b2 } => {
                    let (w2, b2) = (w2.detach() * weight.unsqueeze(-1), b2.detach() * &weight);
                    let second = |head| Map { weight: w2.get(head).transpose(0, 1), bias: b2.get(head) };
                    logits.dense.replace((Map::of(w1), (0..heads).map(second).collect())).is_some()
                }
                Form::Table(table) => {
                    let table = table.detach() * weight.unsqueeze(-1);
                    logits.table = Some(logits.table.take().map_or_else(|| table.shallow_clone(), |sum| sum + &table));
                    false
                }
            };
            if taken {
                return None;
            }
        }
        Some(logits)
    }
}
