//! Label-smoothed cross-entropy under a softmax whose logits are a product, without all logits at once (`cross_entropy.cpp`).

use super::{data, record, takes, wants_gradient};
use std::ffi::c_void;
use tch::{no_grad, Kind, TchError, Tensor};

#[repr(C)]
struct Task {
    rows: i64,
    width: i64,
    classes: i64,
    chunk: i64,
    hidden: *const c_void,
    table: *const c_void,
    targets: *const i64,
    smoothing: f64,
    logits: *mut c_void,
    losses: *mut f64,
    hidden_gradient: *mut c_void,
    table_gradient: *mut c_void,
}

kernels!(kernel(Task): cross_entropy_baseline, cross_entropy_avx2, cross_entropy_avx512);

/// Logits that are held at a time: few enough for the cache of a core or two, but not under 256 rows, so that the table's
/// gradient is not read and written for every few.
const LOGITS_AT_A_TIME: i64 = 1 << 19;

/// Rows of a chunk.
pub fn chunk_rows(rows: i64, classes: i64) -> i64 {
    (LOGITS_AT_A_TIME / classes).max(256).min(rows).max(1)
}

/// Σ over rows t of −Σⱼ qⱼ log softmax(hidden_t · tableᵀ)ⱼ with q = (1 − ε)·[j = target_t] + ε/V: a scalar of the inputs' kind.
///
/// hidden [T, d], table [V, d], targets \[T\] in 0..V; float32 or float64 on the CPU. The gradients are made with the loss, chunk
/// by chunk, so that no logit is kept or made twice, and scaled in the backward pass.
///
/// # Errors
/// Shapes and kinds that do not go together, and LibTorch's.
pub fn cross_entropy(
    hidden: &Tensor,
    table: &Tensor,
    targets: &[i64],
    label_smoothing: f64,
) -> Result<Tensor, TchError> {
    let ([rows, width], [classes, _]) = check(hidden, table, targets).map_err(TchError::Kind)?;
    let wanted = [hidden, table].map(|tensor| wants_gradient(&[tensor]));
    let (loss, gradients) = no_grad(|| -> Result<_, TchError> {
        let like = (hidden.kind(), hidden.device());
        let (hidden, table) = (hidden.detach().f_contiguous()?, table.detach().f_contiguous()?);
        let chunk = chunk_rows(rows, classes);
        let logits = Tensor::f_empty([chunk, classes], like)?;
        let mut losses = vec![0.0; targets.len()];
        let make = |wanted: bool, tensor: &Tensor| wanted.then(|| tensor.f_empty_like()).transpose();
        let gradients = [make(wanted[0], &hidden)?, make(wanted[1], &table)?];
        if rows == 0 {
            if let Some(gradient) = &gradients[1] {
                let _ = gradient.shallow_clone().f_zero_()?;
            }
        }
        let task = Task {
            rows,
            width,
            classes,
            chunk,
            hidden: hidden.data_ptr(),
            table: table.data_ptr(),
            targets: targets.as_ptr(),
            smoothing: label_smoothing,
            logits: logits.data_ptr(),
            losses: losses.as_mut_ptr(),
            hidden_gradient: data(gradients[0].as_ref()),
            table_gradient: data(gradients[1].as_ref()),
        };
        // SAFETY: sizes and kinds were checked, targets are below `classes`, and every tensor is contiguous and lives.
        unsafe { kernel()(&task, i32::from(like.0 == Kind::Double)) };
        let sum: f64 = losses.iter().sum();
        Ok((Tensor::from(sum).f_to_kind(like.0)?, gradients))
    })?;
    scaled_later([hidden, table], &loss, gradients)?;
    Ok(loss)
}

/// Makes `loss`, a scalar, a result of `inputs`, whose gradients are known but for the factor that the backward pass brings.
///
/// # Errors
/// LibTorch's.
pub fn scaled_later(inputs: [&Tensor; 2], loss: &Tensor, gradients: [Option<Tensor>; 2]) -> Result<(), TchError> {
    record(&inputs, &[loss], move |given, wanted| {
        let scale = |index: usize| -> Result<Option<Tensor>, TchError> {
            match (&gradients[index], &given[0]) {
                (Some(gradient), Some(factor)) if wanted[index] => {
                    Ok(Some(gradient.f_mul(&factor.f_to_kind(gradient.kind())?)?))
                }
                _ => Ok(None),
            }
        };
        Ok(vec![scale(0)?, scale(1)?])
    })
}

fn check(hidden: &Tensor, table: &Tensor, targets: &[i64]) -> Result<([i64; 2], [i64; 2]), String> {
    let (Ok(rows), Ok(classes)) = (<[i64; 2]>::try_from(hidden.size()), <[i64; 2]>::try_from(table.size())) else {
        return Err(format!("cross-entropy of {:?} under a table {:?}", hidden.size(), table.size()));
    };
    if rows[1] != classes[1] || rows[0] != targets.len() as i64 || classes[0] < 1 {
        return Err(format!("cross-entropy of {rows:?} under a table {classes:?} with {} targets", targets.len()));
    }
    if let Some(wrong) = targets.iter().find(|&&target| target < 0 || target >= classes[0]) {
        return Err(format!("a target is {wrong}, and there are {} classes", classes[0]));
    }
    let kind = hidden.kind();
    if !takes(hidden.device(), kind) || !takes(table.device(), table.kind()) || table.kind() != kind {
        return Err("the cross-entropy kernel takes tensors of one kind, float32 or float64, on the CPU".into());
    }
    Ok((rows, classes))
}
