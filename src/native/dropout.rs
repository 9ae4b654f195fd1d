//! Dropout by a counter-based generator (`dropout.cpp`): LibTorch's draws one number after the other, on one thread.

use super::{random, record, takes};
use std::ffi::c_void;
use tch::{no_grad, Kind, TchError, Tensor};

#[repr(C)]
struct Task {
    rows: i64,
    columns: i64,
    rate: f64,
    seed: u64,
    x: *const c_void,
    output: *mut c_void,
}

kernels!(kernel(Task): dropout_baseline, dropout_avx2, dropout_avx512);

/// x with each element set to 0 with chance `rate`, in [0, 1), and the others grown by 1/(1 − rate).
///
/// On the CPU what is dropped is a function of one number of LibTorch's generator and the element's place, whatever the
/// threads; elsewhere LibTorch's own dropout is taken.
///
/// # Errors
/// LibTorch's.
pub fn dropout(x: &Tensor, rate: f64) -> Result<Tensor, TchError> {
    if !takes(x.device(), x.kind()) {
        return x.f_dropout(rate, true);
    }
    let seed = random();
    let output = apply(x, rate, seed)?;
    record(&[x], &[&output], move |given, wanted| match (&given[0], wanted[0]) {
        (Some(gradient), true) => Ok(vec![Some(apply(gradient, rate, seed)?)]),
        _ => Ok(vec![None]),
    })?;
    Ok(output)
}

fn apply(x: &Tensor, rate: f64, seed: u64) -> Result<Tensor, TchError> {
    no_grad(|| {
        let x = x.detach().f_contiguous()?;
        let output = x.f_empty_like()?;
        let columns = x.size().last().copied().unwrap_or(1).max(1);
        let task =
            Task { rows: x.numel() as i64 / columns, columns, rate, seed, x: x.data_ptr(), output: output.data_ptr() };
        // SAFETY: both tensors are contiguous, of the kind said, and live.
        unsafe { kernel()(&task, i32::from(x.kind() == Kind::Double)) };
        Ok(output)
    })
}
