//! The feed-forward block with one pass over memory between its two products (`feed_forward.cpp`).

use super::{random, record, takes, wants_gradient};
use std::ffi::c_void;
use tch::{no_grad, Kind, TchError, Tensor};

#[repr(C)]
struct Forward {
    rows: i64,
    width: i64,
    rate: f64,
    seed: u64,
    hidden: *mut c_void,
    bias: *const c_void,
}

#[repr(C)]
struct Backward {
    rows: i64,
    width: i64,
    rate: f64,
    hidden: *const c_void,
    gradient: *mut c_void,
    parts: i64,
    partial_bias: *mut c_void,
    bias_gradient: *mut c_void,
}

kernels!(forward_kernel(Forward): feed_forward_baseline, feed_forward_avx2, feed_forward_avx512);
kernels!(backward_kernel(Backward): feed_forward_backward_baseline, feed_forward_backward_avx2, feed_forward_backward_avx512);

/// Weights of the block: w1 [m, d], b1 \[m\], w2 [d', m], b2 [d'].
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// [m, d]
    pub w1: &'a Tensor,
    /// \[m\]
    pub b1: &'a Tensor,
    /// [d', m]
    pub w2: &'a Tensor,
    /// [d']
    pub b2: &'a Tensor,
}

/// dropout(relu(x w1ᵀ + b1)) w2ᵀ + b2 of x [.., d]; float32 or float64 on the CPU, `rate` in [0, 1).
///
/// # Errors
/// Shapes and kinds that do not go together, and LibTorch's.
pub fn feed_forward(x: &Tensor, weights: Weights, rate: f64) -> Result<Tensor, TchError> {
    let Weights { w1, b1, w2, b2 } = weights;
    let inputs = [x, w1, b1, w2, b2];
    check(x, &weights).map_err(TchError::Kind)?;
    let differentiable = wants_gradient(&inputs);
    let (output, kept) = no_grad(|| -> Result<_, TchError> {
        let flat = x.detach().f_reshape([-1, w1.size()[1]])?;
        let (w1, w2) = (w1.detach(), w2.detach());
        let hidden = flat.f_mm(&w1.f_tr()?)?;
        let b1 = b1.detach().f_contiguous()?;
        let task = Forward {
            rows: hidden.size()[0],
            width: hidden.size()[1],
            rate,
            seed: if rate > 0.0 { random() } else { 0 },
            hidden: hidden.data_ptr(),
            bias: b1.data_ptr(),
        };
        // SAFETY: shapes and kinds were checked; the product is new and contiguous, and so is the bias.
        unsafe { forward_kernel()(&task, i32::from(hidden.kind() == Kind::Double)) };
        let output = b2.f_addmm(&hidden, &w2.f_tr()?)?;
        let mut size = x.size();
        if let Some(last) = size.last_mut() {
            *last = w2.size()[0];
        }
        Ok((output.f_view(size.as_slice())?, Kept { x: flat, w1, w2, hidden, rate }))
    })?;
    if differentiable {
        let size = x.size();
        record(&inputs, &[&output], move |given, wanted| match &given[0] {
            Some(gradient) => kept.gradients(gradient, wanted, &size),
            None => Ok((0..5).map(|_| None).collect()),
        })?;
    }
    Ok(output)
}

fn check(x: &Tensor, weights: &Weights) -> Result<(), String> {
    let Weights { w1, b1, w2, b2 } = weights;
    let sizes = [x, w1, b1, w2, b2].map(|tensor| tensor.size());
    let fits = match (sizes[0].last(), &sizes[1][..], &sizes[2][..], &sizes[3][..], &sizes[4][..]) {
        (Some(d), [m, from], [m1], [to, m2], [to2]) => d == from && m == m1 && m == m2 && to == to2,
        _ => false,
    };
    if !fits {
        return Err(format!("x, w1, b1, w2 and b2 of a feed-forward block have the shapes {sizes:?}"));
    }
    let same = |tensor: &&Tensor| takes(tensor.device(), tensor.kind()) && tensor.kind() == x.kind();
    if ![x, w1, b1, w2, b2].iter().all(same) {
        return Err("the feed-forward kernel takes tensors of one kind, float32 or float64, on the CPU".into());
    }
    Ok(())
}

/// What the backward pass needs.
struct Kept {
    x: Tensor,
    w1: Tensor,
    w2: Tensor,
    hidden: Tensor,
    rate: f64,
}

impl Kept {
    /// Of x, w1, b1, w2, b2.
    fn gradients(&self, gradient: &Tensor, wanted: &[bool], size: &[i64]) -> Result<Vec<Option<Tensor>>, TchError> {
        let gradient = gradient.f_reshape([-1, self.w2.size()[0]])?;
        let over_rows: &[i64] = &[0];
        let of_w2 = wanted[3].then(|| gradient.f_tr()?.f_mm(&self.hidden)).transpose()?;
        let of_b2 = wanted[4].then(|| gradient.f_sum_dim_intlist(over_rows, false, None::<Kind>)).transpose()?;
        let of_product = gradient.f_mm(&self.w2)?;
        let (rows, width) = self.hidden.size2()?;
        let like = (self.hidden.kind(), self.hidden.device());
        let parts = i64::from(tch::get_num_threads().max(1)).min((rows * width / 16384).max(1));
        let partial = Tensor::f_empty([parts, width], like)?;
        let of_b1 = Tensor::f_empty([width], like)?;
        let task = Backward {
            rows,
            width,
            rate: self.rate,
            hidden: self.hidden.data_ptr(),
            gradient: of_product.data_ptr(),
            parts,
            partial_bias: partial.data_ptr(),
            bias_gradient: of_b1.data_ptr(),
        };
        // SAFETY: the product is new, contiguous and of the shape of `hidden`; the others were just made.
        unsafe { backward_kernel()(&task, i32::from(like.0 == Kind::Double)) };
        let of_w1 = wanted[1].then(|| of_product.f_tr()?.f_mm(&self.x)).transpose()?;
        let of_x = wanted[0].then(|| of_product.f_mm(&self.w1)?.f_view(size)).transpose()?;
        Ok(vec![of_x, of_w1, Some(of_b1), of_w2, of_b2])
    }
}
