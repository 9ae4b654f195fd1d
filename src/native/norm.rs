//! Residual, dropout and layer norm in one pass over memory (`norm.cpp`).

use super::{data, random, record, takes};
use std::ffi::c_void;
use tch::{no_grad, Kind, TchError, Tensor};

#[repr(C)]
struct Forward {
    rows: i64,
    width: i64,
    epsilon: f64,
    rate: f64,
    seed: u64,
    x: *const c_void,
    branch: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    sum: *mut c_void,
    output: *mut c_void,
    means: *mut c_void,
    scales: *mut c_void,
}

#[repr(C)]
struct Backward {
    rows: i64,
    width: i64,
    rate: f64,
    seed: u64,
    sum: *const c_void,
    sum_gradient: *const c_void,
    output_gradient: *const c_void,
    weight: *const c_void,
    means: *const c_void,
    scales: *const c_void,
    gradient: *mut c_void,
    branch_gradient: *mut c_void,
    parts: i64,
    partial_weight: *mut c_void,
    partial_bias: *mut c_void,
    weight_gradient: *mut c_void,
    bias_gradient: *mut c_void,
}

kernels!(forward_kernel(Forward): norm_baseline, norm_avx2, norm_avx512);
kernels!(backward_kernel(Backward): norm_backward_baseline, norm_backward_avx2, norm_backward_avx512);

/// Weight and bias \[d\] of a layer norm, and its ε.
#[derive(Debug, Clone, Copy)]
pub struct Affine<'a> {
    /// γ
    pub weight: &'a Tensor,
    /// β
    pub bias: &'a Tensor,
    /// ε
    pub epsilon: f64,
}

/// What the backward pass needs.
struct Kept {
    sum: Tensor,
    weight: Tensor,
    means: Tensor,
    scales: Tensor,
    rate: f64,
    seed: u64,
}

/// (s, y) with s = x + dropout(branch) and y = γ·(s − mean)/√(variance + ε) + β over the last dimension.
///
/// x and branch [.., d], float32 or float64 on the CPU; `rate` in [0, 1), the chance that an element of the branch is dropped.
///
/// # Errors
/// Shapes and kinds that do not go together, and LibTorch's.
pub fn residual_norm(x: &Tensor, branch: &Tensor, rate: f64, affine: Affine) -> Result<(Tensor, Tensor), TchError> {
    let (sum, output, kept) = no_grad(|| forward(x, Some(branch), rate, affine))?;
    record(&[x, branch, affine.weight, affine.bias], &[&sum, &output], move |given, wanted| {
        let Some(output_gradient) = &given[1] else {
            // Nothing depends on the norm, and the branch's gradient is the sum's, dropped.
            let zero = kept.sum.f_zeros_like()?;
            return kept.gradients(given[0].as_ref(), &zero, Some(wanted));
        };
        kept.gradients(given[0].as_ref(), output_gradient, Some(wanted))
    })?;
    Ok((sum, output))
}

/// γ·(x − mean)/√(variance + ε) + β over the last dimension.
///
/// # Errors
/// Shapes and kinds that do not go together, and LibTorch's.
pub fn norm(x: &Tensor, affine: Affine) -> Result<Tensor, TchError> {
    let (_, output, kept) = no_grad(|| forward(x, None, 0.0, affine))?;
    record(&[x, affine.weight, affine.bias], &[&output], move |given, _| match &given[0] {
        Some(gradient) => kept.gradients(None, gradient, None),
        None => Ok(vec![None, None, None]),
    })?;
    Ok(output)
}

fn forward(x: &Tensor, branch: Option<&Tensor>, rate: f64, affine: Affine) -> Result<(Tensor, Tensor, Kept), TchError> {
    let width = check(x, branch, affine).map_err(TchError::Kind)?;
    let x = x.detach().f_contiguous()?;
    let branch = branch.map(|branch| branch.detach().f_contiguous()).transpose()?;
    let weight = affine.weight.detach().f_contiguous()?;
    let bias = affine.bias.detach().f_contiguous()?;
    let rows = x.numel() as i64 / width;
    let sum = match &branch {
        Some(_) => x.f_empty_like()?,
        None => x.shallow_clone(),
    };
    let output = x.f_empty_like()?;
    let statistics = || Tensor::f_empty([rows], (x.kind(), x.device()));
    let (means, scales) = (statistics()?, statistics()?);
    let seed = if rate > 0.0 { random() } else { 0 };
    let task = Forward {
        rows,
        width,
        epsilon: affine.epsilon,
        rate,
        seed,
        x: x.data_ptr(),
        branch: data(branch.as_ref()),
        weight: weight.data_ptr(),
        bias: bias.data_ptr(),
        sum: sum.data_ptr(),
        output: output.data_ptr(),
        means: means.data_ptr(),
        scales: scales.data_ptr(),
    };
    // SAFETY: shapes and kinds were checked, and every tensor is contiguous and lives.
    unsafe { forward_kernel()(&task, i32::from(x.kind() == Kind::Double)) };
    let kept = Kept { sum: sum.detach(), weight, means, scales, rate, seed };
    Ok((sum, output, kept))
}

fn check(x: &Tensor, branch: Option<&Tensor>, affine: Affine) -> Result<i64, String> {
    let Some(&width) = x.size().last().filter(|&&width| width > 0) else {
        return Err(format!("layer norm of a tensor of shape {:?}", x.size()));
    };
    if affine.weight.size() != [width] || affine.bias.size() != [width] {
        return Err(format!("layer norm of {:?} with a weight {:?}", x.size(), affine.weight.size()));
    }
    if let Some(branch) = branch.filter(|branch| branch.size() != x.size()) {
        return Err(format!("a branch {:?} is added to {:?}", branch.size(), x.size()));
    }
    let fits = |tensor: &Tensor| takes(tensor.device(), tensor.kind()) && tensor.kind() == x.kind();
    if ![x, affine.weight, affine.bias].into_iter().chain(branch).all(fits) {
        return Err("the norm kernel takes tensors of one kind, float32 or float64, on the CPU".into());
    }
    Ok(width)
}

impl Kept {
    /// Of x, of the branch if there is one (`branch`: what is wanted), of weight and bias.
    fn gradients(
        &self,
        sum_gradient: Option<&Tensor>,
        output_gradient: &Tensor,
        branch: Option<&[bool]>,
    ) -> Result<Vec<Option<Tensor>>, TchError> {
        let sum_gradient = sum_gradient.map(|gradient| gradient.f_contiguous()).transpose()?;
        let output_gradient = output_gradient.f_contiguous()?;
        let width = self.weight.numel() as i64;
        let rows = self.sum.numel() as i64 / width;
        let like = (self.sum.kind(), self.sum.device());
        let parts = super::parts(rows * width);
        let dropped = branch.is_some_and(|wanted| wanted[1]) && self.rate > 0.0;
        let gradient = self.sum.f_empty_like()?;
        let branch_gradient = dropped.then(|| self.sum.f_empty_like()).transpose()?;
        let partial = Tensor::f_empty([2, parts, width], like)?;
        let (weight_gradient, bias_gradient) = (self.weight.f_empty_like()?, self.weight.f_empty_like()?);
        let task = Backward {
            rows,
            width,
            rate: self.rate,
            seed: self.seed,
            sum: self.sum.data_ptr(),
            sum_gradient: data(sum_gradient.as_ref()),
            output_gradient: output_gradient.data_ptr(),
            weight: self.weight.data_ptr(),
            means: self.means.data_ptr(),
            scales: self.scales.data_ptr(),
            gradient: gradient.data_ptr(),
            branch_gradient: data(branch_gradient.as_ref()),
            parts,
            partial_weight: partial.data_ptr(),
            partial_bias: partial.get(1).data_ptr(),
            weight_gradient: weight_gradient.data_ptr(),
            bias_gradient: bias_gradient.data_ptr(),
        };
        // SAFETY: gradients have the shapes of what they are of, and every tensor is contiguous and lives.
        unsafe { backward_kernel()(&task, i32::from(like.0 == Kind::Double)) };
        let of_branch = branch.map(|_| Some(branch_gradient.unwrap_or_else(|| gradient.shallow_clone())));
        let last = [Some(weight_gradient), Some(bias_gradient)];
        Ok([Some(gradient)].into_iter().chain(of_branch).chain(last).collect())
    }
}
