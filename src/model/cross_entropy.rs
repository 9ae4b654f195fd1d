//! The loss of a softmax over a table's rows: label-smoothed cross-entropy of logits that are never all in memory.

use crate::native::{self, wants_gradient};
use tch::{no_grad, Kind, Reduction, TchError, Tensor};

/// Σ over rows t of −Σⱼ qⱼ log softmax(hidden_t · tableᵀ)ⱼ with q = (1 − ε)·[j = target_t] + ε/V, in nats: a scalar.
///
/// hidden [T, d], table [V, d], targets \[T\] in 0..V. [`plain`] is the definition; on the CPU our own kernel gives it, elsewhere
/// [`chunked`].
///
/// # Errors
/// Shapes that do not go together, and LibTorch's.
pub fn cross_entropy(
    hidden: &Tensor,
    table: &Tensor,
    targets: &[i64],
    label_smoothing: f64,
) -> Result<Tensor, TchError> {
    let of_one_kind = hidden.kind() == table.kind();
    if of_one_kind && native::takes(hidden.device(), hidden.kind()) && native::takes(table.device(), table.kind()) {
        return native::cross_entropy::cross_entropy(hidden, table, targets, label_smoothing);
    }
    let targets = Tensor::from_slice(targets);
    chunked(hidden, table, &native::device::to_device(&targets, hidden.device()), label_smoothing)
}

/// The definition, from LibTorch's operations; keeps several copies of the logits [T, V].
///
/// # Errors
/// LibTorch's.
pub fn plain(hidden: &Tensor, table: &Tensor, targets: &Tensor, label_smoothing: f64) -> Result<Tensor, TchError> {
    let logits = widened(&hidden.f_matmul(&table.f_tr()?)?)?;
    logits.f_cross_entropy_loss::<Tensor>(targets, None, Reduction::Sum, -100, label_smoothing)
}

/// The same with the logits of some rows at a time. The gradients are made with the loss, so that no logit is made twice, and
/// scaled in the backward pass.
///
/// # Errors
/// LibTorch's.
pub fn chunked(hidden: &Tensor, table: &Tensor, targets: &Tensor, label_smoothing: f64) -> Result<Tensor, TchError> {
    let wanted = [hidden, table].map(|tensor| wants_gradient(&[tensor]));
    let (loss, gradients) = no_grad(|| -> Result<_, TchError> {
        let (hidden, table) = (hidden.detach(), table.detach());
        let (rows, _) = hidden.size2()?;
        let (classes, _) = table.size2()?;
        let mut loss: Option<Tensor> = None;
        let mut of_hidden = Vec::new();
        let mut of_table = if wanted[1] { Some(table.f_zeros_like()?) } else { None };
        let chunk = native::cross_entropy::chunk_rows(rows, classes);
        for first in (0..rows).step_by(chunk as usize) {
            let count = chunk.min(rows - first);
            let (hidden, targets) = (hidden.f_narrow(0, first, count)?, targets.f_narrow(0, first, count)?);
            let logits = widened(&hidden.f_matmul(&table.f_tr()?)?)?.f_log_softmax(-1, None::<Kind>)?;
            let part = smoothed(&logits, &targets, label_smoothing)?;
            loss = Some(match loss {
                Some(sum) => sum.f_add(&part)?,
                None => part,
            });
            if !wanted[0] && !wanted[1] {
                continue;
            }
            let targets = targets.f_unsqueeze(1)?;
            let mut gradient = logits.f_exp()?;
            let _ = gradient.f_sub_scalar_(label_smoothing / classes as f64)?;
            let less = Tensor::f_full([count, 1], label_smoothing - 1.0, (gradient.kind(), gradient.device()))?;
            let gradient = gradient.f_scatter_add_(1, &targets, &less)?;
            if wanted[0] {
                // its kind is that of hidden, whatever autocast makes of the product
                let product = gradient.f_to_kind(table.kind())?.f_matmul(&table)?;
                of_hidden.push(product.f_to_kind(hidden.kind())?);
            }
            if let Some(sum) = &mut of_table {
                let product = gradient.f_tr()?.f_matmul(&hidden.f_to_kind(gradient.kind())?)?;
                let _ = sum.f_add_(&product.f_to_kind(sum.kind())?)?;
            }
        }
        let of_hidden = match of_hidden.len() {
            0 if wanted[0] => Some(hidden.f_zeros_like()?),
            0 => None,
            _ => Some(Tensor::f_cat(&of_hidden, 0)?),
        };
        let loss = match loss {
            Some(loss) => loss,
            None => widened(&hidden.f_sum(None::<Kind>)?)?.f_zeros_like()?,
        };
        Ok((loss, [of_hidden, of_table]))
    })?;
    native::cross_entropy::scaled_later([hidden, table], &loss, gradients)?;
    Ok(loss)
}

/// Of log-probabilities [T, V].
fn smoothed(log_probabilities: &Tensor, targets: &Tensor, label_smoothing: f64) -> Result<Tensor, TchError> {
    let wanted = log_probabilities.f_gather(1, &targets.f_unsqueeze(1)?, false)?.f_sum(None::<Kind>)?;
    let mut loss = wanted.f_mul_scalar(label_smoothing - 1.0)?;
    if label_smoothing > 0.0 {
        let classes = log_probabilities.size2()?.1 as f64;
        loss = loss.f_sub(&log_probabilities.f_sum(None::<Kind>)?.f_mul_scalar(label_smoothing / classes)?)?;
    }
    Ok(loss)
}

/// float32, or float64 as it is: a softmax of fewer bits is too coarse.
fn widened(logits: &Tensor) -> Result<Tensor, TchError> {
    match logits.kind() {
        Kind::Double => Ok(logits.shallow_clone()),
        _ => logits.f_to_kind(Kind::Float),
    }
}
