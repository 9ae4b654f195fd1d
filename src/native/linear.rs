//! Linear maps of one input, with few passes over the threads for all their products, biases and gradients (`linear.cpp`).

use super::{data, record, takes, wants_gradient};
use std::ffi::c_void;
use std::iter::once;
use tch::{no_grad, Kind, TchError, Tensor};

#[repr(C)]
struct ForwardMap {
    outputs: i64,
    weight: *const c_void,
    bias: *const c_void,
    output: *mut c_void,
}

#[repr(C)]
struct Forward {
    rows: i64,
    inputs: i64,
    count: i64,
    x: *const c_void,
    maps: *const ForwardMap,
}

#[repr(C)]
struct BackwardMap {
    outputs: i64,
    weight: *const c_void,
    output_gradient: *const c_void,
    weight_gradient: *mut c_void,
    bias_gradient: *mut c_void,
}

#[repr(C)]
struct Backward {
    rows: i64,
    inputs: i64,
    count: i64,
    x: *const c_void,
    maps: *const BackwardMap,
    x_gradient: *mut c_void,
}

kernels!(forward_kernel(Forward): linear_baseline, linear_avx2, linear_avx512);
kernels!(backward_kernel(Backward): linear_backward_baseline, linear_backward_avx2, linear_backward_avx512);

/// x weightᵀ + bias.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    /// [outputs, inputs]
    pub weight: &'a Tensor,
    /// \[outputs\]
    pub bias: Option<&'a Tensor>,
}

/// Rows under which packing the weights costs more than it gives.
const FEW_ROWS: i64 = 32;

/// Each map of x [.., inputs]: [.., outputs].
///
/// Our kernel makes them where it pays: on the CPU, in float32 or float64, for some tens of rows or more. Else LibTorch does.
///
/// # Errors
/// LibTorch's, for shapes and kinds that do not go together too.
pub fn linear(x: &Tensor, maps: &[Map]) -> Result<Vec<Tensor>, TchError> {
    let inputs: Vec<&Tensor> = once(x).chain(maps.iter().flat_map(|map| once(map.weight).chain(map.bias))).collect();
    let width = x.size().last().copied().unwrap_or(0);
    let of_x = |tensor: &&Tensor| tensor.device() == x.device() && tensor.kind() == x.kind();
    let ours = takes(x.device(), x.kind()) && inputs.iter().all(of_x) && maps.iter().all(|map| fits(map, width));
    let rows = if width > 0 { x.numel() as i64 / width } else { 0 };
    if !ours || rows < FEW_ROWS {
        return maps.iter().map(|map| x.f_linear(map.weight, map.bias)).collect();
    }
    let (outputs, kept) = no_grad(|| forward(x, maps, [rows, width]))?;
    if wants_gradient(&inputs) {
        let made: Vec<&Tensor> = outputs.iter().collect();
        record(&inputs, &made, move |given, wanted| kept.gradients(given, wanted))?;
    }
    Ok(outputs)
}

/// Whether the map's shapes go with inputs of this width.
fn fits(map: &Map, width: i64) -> bool {
    match map.weight.size()[..] {
        [outputs, inputs] => inputs == width && map.bias.is_none_or(|bias| bias.size() == [outputs]),
        _ => false,
    }
}

/// What the backward pass needs.
struct Kept {
    x: Tensor,
    /// Each with whether its map has a bias.
    weights: Vec<(Tensor, bool)>,
    /// Rows and inputs.
    sizes: [i64; 2],
}

fn forward(x: &Tensor, maps: &[Map], [rows, width]: [i64; 2]) -> Result<(Vec<Tensor>, Kept), TchError> {
    let x = x.detach().f_contiguous()?;
    let like = (x.kind(), x.device());
    let (mut weights, mut biases, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for map in maps {
        weights.push((map.weight.detach().f_contiguous()?, map.bias.is_some()));
        biases.push(map.bias.map(|bias| bias.detach().f_contiguous()).transpose()?);
        let mut size = x.size();
        size.pop();
        size.push(map.weight.size()[0]);
        outputs.push(Tensor::f_empty(size, like)?);
    }
    let tasks: Vec<ForwardMap> = (0..maps.len())
        .map(|index| ForwardMap {
            outputs: maps[index].weight.size()[0],
            weight: weights[index].0.data_ptr(),
            bias: data(biases[index].as_ref()),
            output: outputs[index].data_ptr(),
        })
        .collect();
    let count = tasks.len() as i64;
    let task = Forward { rows, inputs: width, count, x: x.data_ptr(), maps: tasks.as_ptr() };
    // SAFETY: shapes and kinds were checked, and every tensor is contiguous and lives.
    unsafe { forward_kernel()(&task, i32::from(like.0 == Kind::Double)) };
    Ok((outputs, Kept { x, weights, sizes: [rows, width] }))
}

impl Kept {
    /// Of x, then of each weight and bias, those that are wanted.
    fn gradients(&self, given: &[Option<Tensor>], wanted: &[bool]) -> Result<Vec<Option<Tensor>>, TchError> {
        let [rows, inputs] = self.sizes;
        let like = (self.x.kind(), self.x.device());
        let make = |is_wanted: bool, size: &[i64]| is_wanted.then(|| Tensor::f_empty(size, like)).transpose();
        let mut places = wanted.iter().copied();
        let mut next = || places.next().unwrap_or(false);
        let mut of_x = make(next(), &self.x.size())?;
        let (mut made, mut held, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for ((weight, has_bias), given) in self.weights.iter().zip(given) {
            // nothing depends on a map whose gradient is not given
            let is_used = given.is_some();
            let of_weight = make(next() && is_used, &weight.size())?;
            let of_bias = if *has_bias { make(next() && is_used, &weight.size()[..1])? } else { None };
            if let Some(given) = given {
                let given = given.f_contiguous()?;
                tasks.push(BackwardMap {
                    outputs: weight.size()[0],
                    weight: weight.data_ptr(),
                    output_gradient: given.data_ptr(),
                    weight_gradient: data(of_weight.as_ref()),
                    bias_gradient: data(of_bias.as_ref()),
                });
                held.push(given);
            }
            made.push(of_weight);
            made.extend(has_bias.then_some(of_bias));
        }
        if tasks.is_empty() {
            of_x = None;
        }
        let task = Backward {
            rows,
            inputs,
            count: tasks.len() as i64,
            x: self.x.data_ptr(),
            maps: tasks.as_ptr(),
            x_gradient: data(of_x.as_ref()),
        };
        // SAFETY: each gradient has its output's shape and kind, as LibTorch sees to, and is held until here; the others were just made,
        // and all are contiguous.
        unsafe { backward_kernel()(&task, i32::from(like.0 == Kind::Double)) };
        Ok(once(of_x).chain(made).collect())
    }
}
