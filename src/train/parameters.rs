//! All trainable parameters in one flat buffer, and all gradients in another.

use crate::attention::is_bias_or_mixing;
use std::collections::BTreeMap;
use tch::{nn, Kind, Tensor};

/// Two flat tensors of which every trainable variable and its gradient are views.
///
/// One tensor to step, to clip and to save, whatever the number of layers.
#[derive(Debug)]
pub struct FlatParameters {
    /// Parameters `[n]`.
    pub values: Tensor,
    /// Gradients `[n]`.
    pub gradients: Tensor,
    /// 1 where weight decay applies (matrices and tables), 0 elsewhere (biases, norms, α), `[n]`.
    pub decayed: Tensor,
}

impl FlatParameters {
    /// Moves the trainable variables into the flat buffer, in the order of their names.
    pub fn new(variables: &nn::VarStore) -> Self {
        let _guard = tch::no_grad_guard();
        let mut trainable: Vec<(String, Tensor)> = trainable(variables).into_iter().collect();
        let values = Tensor::cat(&trainable.iter().map(|(_, tensor)| tensor.flatten(0, -1)).collect::<Vec<_>>(), 0);
        let gradients = values.zeros_like();
        let decayed = values.zeros_like();
        let mut offset = 0;
        for (name, tensor) in &mut trainable {
            let (size, count) = (tensor.size(), tensor.numel() as i64);
            // A backward pass makes the gradient exist; it is then pointed at its slice, into which later ones accumulate.
            tch::with_grad(|| (&*tensor * 0.0).sum(None::<Kind>).backward());
            let mut gradient = tensor.grad();
            gradient.set_data(&gradients.narrow(0, offset, count).view(size.as_slice()));
            let _ = gradient.zero_();
            tensor.set_data(&values.narrow(0, offset, count).view(size.as_slice()));
            if size.len() > 1 && !is_bias_or_mixing(name) {
                let _ = decayed.narrow(0, offset, count).fill_(1.0);
            }
            offset += count;
        }
        Self { values, gradients, decayed }
    }

    /// Sets all gradients to 0.
    pub fn zero_gradients(&mut self) {
        let _ = self.gradients.zero_();
    }

    /// Whether every parameter is a finite number.
    pub fn all_finite(&self) -> bool {
        // a sum is finite only if every term is, but for an overflow that float64 rules out
        self.values.sum(Kind::Double).double_value(&[]).is_finite()
    }

    /// Scales the gradients so that their L2 norm is at most `limit` (0: no limit); the norm before, as a tensor.
    pub fn clip(&mut self, limit: f64) -> Tensor {
        let _guard = tch::no_grad_guard();
        let norm = self.gradients.norm();
        if limit > 0.0 {
            let _ = self.gradients.g_mul_(&(limit / (&norm + 1e-6)).clamp_max(1.0));
        }
        norm
    }
}

/// The trainable variables by name.
pub fn trainable(variables: &nn::VarStore) -> BTreeMap<String, Tensor> {
    variables.variables().into_iter().filter(|(_, tensor)| tensor.requires_grad()).collect()
}
