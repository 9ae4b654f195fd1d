//! Small pieces that the functions and layers share: linear maps, and the cut into heads.

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
