//! The feed-forward block with what lies between its two products kept in a thread's cache (`feed_forward.cpp`).

use super::{data, random, record, takes, wants_gradient};
use std::ffi::c_void;
use tch::{no_grad, Kind, TchError, Tensor};

#[repr(C)]
struct Forward {
    rows: i64,
    inputs: i64,
    width: i64,
    outputs: i64,
    rate: f64,
    seed: u64,
    x: *const c_void,
    w1: *const c_void,
    b1: *const c_void,
    w2: *const c_void,
    b2: *const c_void,
    hidden: *mut c_void,
    output: *mut c_void,
}

#[repr(C)]
struct Backward {
    rows: i64,
    inputs: i64,
    width: i64,
    outputs: i64,
    rate: f64,
    x: *const c_void,
    w1: *const c_void,
    w2: *const c_void,
    hidden: *const c_void,
    output_gradient: *const c_void,
    hidden_gradient: *mut c_void,
    x_gradient: *mut c_void,
    w1_gradient: *mut c_void,
    b1_gradient: *mut c_void,
    w2_gradient: *mut c_void,
    b2_gradient: *mut c_void,
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
        let [x, w1, b1, w2, b2] = inputs.map(|input| input.detach().f_contiguous());
        let (x, w1, b1, w2, b2) = (x?, w1?, b1?, w2?, b2?);
        let ((width, from), (to, _)) = (w1.size2()?, w2.size2()?);
        let rows = x.numel() as i64 / from.max(1);
        let mut size = x.size();
        size.pop();
        size.push(to);
        let like = (x.kind(), x.device());
        let (hidden, output) = (Tensor::f_empty([rows, width], like)?, Tensor::f_empty(size, like)?);
        let task = Forward {
            rows,
            inputs: from,
            width,
            outputs: to,
            rate,
            seed: if rate > 0.0 { random() } else { 0 },
            x: x.data_ptr(),
            w1: w1.data_ptr(),
            b1: b1.data_ptr(),
            w2: w2.data_ptr(),
            b2: b2.data_ptr(),
            hidden: hidden.data_ptr(),
            output: output.data_ptr(),
        };
        // SAFETY: shapes and kinds were checked, and every tensor is contiguous and lives.
        unsafe { forward_kernel()(&task, i32::from(like.0 == Kind::Double)) };
        Ok((output, Kept { x, w1, w2, hidden, rate }))
    })?;
    if differentiable {
        record(&inputs, &[&output], move |given, wanted| match &given[0] {
            Some(gradient) => kept.gradients(gradient, wanted),
            None => Ok((0..5).map(|_| None).collect()),
        })?;
    }
    Ok(output)
}

fn check(x: &Tensor, weights: &Weights) -> Result<(), String> {
    let Weights { w1, b1, w2, b2 } = weights;
    let sizes = [x, w1, b1, w2, b2].map(|tensor| tensor.size());
    let fits = match (sizes[0].last(), &sizes[1][..], &sizes[2][..], &sizes[3][..], &sizes[4][..]) {
        (Some(d), [m, from], [m1], [to, m2], [to2]) => *d > 0 && d == from && m == m1 && m == m2 && to == to2,
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
    /// Of x, w1, b1, w2, b2, those that are wanted.
    fn gradients(&self, gradient: &Tensor, wanted: &[bool]) -> Result<Vec<Option<Tensor>>, TchError> {
        let gradient = gradient.f_contiguous()?;
        let ((rows, width), (outputs, _)) = (self.hidden.size2()?, self.w2.size2()?);
        let like = (self.hidden.kind(), self.hidden.device());
        let of_hidden = self.hidden.f_empty_like()?;
        let sizes = [&self.x.size(), &self.w1.size(), &vec![width], &self.w2.size(), &vec![outputs]];
        let made = sizes
            .iter()
            .zip(wanted)
            .map(|(size, &wanted)| wanted.then(|| Tensor::f_empty(size.as_slice(), like)).transpose());
        let made = made.collect::<Result<Vec<Option<Tensor>>, TchError>>()?;
        let place = |index: usize| data(made[index].as_ref());
        let task = Backward {
            rows,
            inputs: self.w1.size2()?.1,
            width,
            outputs,
            rate: self.rate,
            x: self.x.data_ptr(),
            w1: self.w1.data_ptr(),
            w2: self.w2.data_ptr(),
            hidden: self.hidden.data_ptr(),
            output_gradient: gradient.data_ptr(),
            hidden_gradient: of_hidden.data_ptr(),
            x_gradient: place(0),
            w1_gradient: place(1),
            b1_gradient: place(2),
            w2_gradient: place(3),
            b2_gradient: place(4),
        };
        // SAFETY: the gradient has the output's shape and kind, as LibTorch sees to; the others were just made, and all are contiguous.
        unsafe { backward_kernel()(&task, i32::from(like.0 == Kind::Double)) };
        Ok(made)
    }
}
