//! Small pieces that the functions and layers share: linear maps, and the cut into heads.

use crate::native::{self, linear::Map};
use tch::nn::{Init, Linear, LinearConfig, Path};
use tch::Tensor;

/// Xavier's uniform distribution for a map from `inputs` to `outputs`.
pub fn xavier(inputs: i64, outputs: i64) -> Init {
    let bound = (6.0 / (inputs + outputs) as f64).sqrt();
    Init::Uniform { lo: -bound, up: bound }
}

/// x Wᵀ + b with W [outputs, inputs] Xavier, b 0; weights `weight`, `bias` under the path.
pub fn linear(path: Path, inputs: i64, outputs: i64) -> Linear {
    let config = LinearConfig { ws_init: xavier(inputs, outputs), bs_init: Some(Init::Const(0.0)), bias: true };
    tch::nn::linear(path, inputs, outputs, config)
}

/// x [.., inputs] under each map, [.., outputs], all at once ([`native::linear`]).
///
/// # Panics
/// Where LibTorch's own operations would: for shapes, kinds and devices that do not go together.
pub fn project_all(linears: &[&Linear], x: &Tensor) -> Vec<Tensor> {
    let maps: Vec<Map> = linears.iter().map(|linear| Map { weight: &linear.ws, bias: linear.bs.as_ref() }).collect();
    native::linear::linear(x, &maps).unwrap_or_else(|error| panic!("linear maps: {error}"))
}

/// The same of as many as the caller names.
pub fn project_each<const N: usize>(linears: [&Linear; N], x: &Tensor) -> [Tensor; N] {
    let made = project_all(&linears, x);
    made.try_into().unwrap_or_else(|_| unreachable!("one output a map"))
}

/// The same of one.
pub fn project(linear: &Linear, x: &Tensor) -> Tensor {
    let [made] = project_each([linear], x);
    made
}

/// [B, L, h·w] to [B, h, L, w]: head i is the i-th slice of width w (a view).
pub fn split(x: &Tensor, heads: i64) -> Tensor {
    let size = x.size();
    x.view([size[0], size[1], heads, size[2] / heads]).transpose(1, 2)
}

/// [B, h, L, w] to [B, L, h·w].
pub fn merge(x: &Tensor) -> Tensor {
    let size = x.size();
    x.transpose(1, 2).reshape([size[0], size[2], size[1] * size[3]])
}
