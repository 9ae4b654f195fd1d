//! Adam's step and the gradient's norm on flat buffers, each in one pass over memory (`adam.cpp`).

use super::takes;
use std::ffi::c_void;
use tch::{Kind, TchError, Tensor};

#[repr(C)]
struct Task {
    count: i64,
    values: *mut c_void,
    gradients: *const c_void,
    first: *mut c_void,
    second: *mut c_void,
    decayed: *const c_void,
    gradient_scale: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    rate: f64,
    correction: f64,
    decay: f64,
}

#[repr(C)]
struct NormTask {
    count: i64,
    values: *const c_void,
    parts: i64,
    sums: *mut f64,
}

kernels!(adam_kernel(Task): adam_baseline, adam_avx2, adam_avx512);
kernels!(norm_kernel(NormTask): squared_norm_baseline, squared_norm_avx2, squared_norm_avx512);

/// The flat buffers `[n]`: contiguous, of one kind, float32 or float64, on the CPU.
#[derive(Debug)]
pub struct Buffers<'a> {
    /// θ
    pub values: &'a mut Tensor,
    /// g
    pub gradients: &'a Tensor,
    /// m
    pub first: &'a mut Tensor,
    /// v
    pub second: &'a mut Tensor,
    /// 1 where decay acts, 0 elsewhere
    pub decayed: &'a Tensor,
}

/// Numbers of a step.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// Factor of the gradient: what clipping leaves of it.
    pub gradient_scale: f64,
    /// β₁
    pub beta1: f64,
    /// β₂
    pub beta2: f64,
    /// ε
    pub epsilon: f64,
    /// lr/(1 − β₁ᵗ)
    pub rate: f64,
    /// 1/√(1 − β₂ᵗ)
    pub correction: f64,
    /// lr · weight decay
    pub decay: f64,
}

/// m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← θ − decay·θ − rate · m/(√v · correction + ε), g scaled first.
///
/// # Errors
/// Buffers that do not go together.
pub fn step(buffers: Buffers, numbers: Numbers) -> Result<(), TchError> {
    let Buffers { values, gradients, first, second, decayed } = buffers;
    check(&[values, gradients, first, second, decayed]).map_err(TchError::Kind)?;
    let task = Task {
        count: values.numel() as i64,
        values: values.data_ptr(),
        gradients: gradients.data_ptr(),
        first: first.data_ptr(),
        second: second.data_ptr(),
        decayed: decayed.data_ptr(),
        gradient_scale: numbers.gradient_scale,
        beta1: numbers.beta1,
        beta2: numbers.beta2,
        epsilon: numbers.epsilon,
        rate: numbers.rate,
        correction: numbers.correction,
        decay: numbers.decay,
    };
    // SAFETY: the buffers are contiguous, of one length and kind, and live.
    unsafe { adam_kernel()(&task, i32::from(values.kind() == Kind::Double)) };
    Ok(())
}

/// √Σ x² of a flat buffer.
///
/// # Errors
/// A buffer that the kernel does not take.
pub fn norm(values: &Tensor) -> Result<f64, TchError> {
    check(&[values]).map_err(TchError::Kind)?;
    let count = values.numel() as i64;
    let parts = super::parts(count);
    let mut sums = vec![0.0; parts as usize];
    let task = NormTask { count, values: values.data_ptr(), parts, sums: sums.as_mut_ptr() };
    // SAFETY: the buffer is contiguous and lives, and there is a sum for each part.
    unsafe { norm_kernel()(&task, i32::from(values.kind() == Kind::Double)) };
    Ok(sums.iter().sum::<f64>().sqrt())
}

fn check(buffers: &[&Tensor]) -> Result<(), String> {
    let (size, kind) = (buffers[0].size(), buffers[0].kind());
    let fits = |buffer: &&Tensor| {
        buffer.size() == size && buffer.kind() == kind && takes(buffer.device(), kind) && buffer.is_contiguous()
    };
    match size.len() == 1 && buffers.iter().all(fits) {
        true => Ok(()),
        false => Err("Adam's buffers are flat, contiguous, and of one length and kind on the CPU".into()),
    }
}
