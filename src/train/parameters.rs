//! All trainable parameters in one flat buffer, and all gradients in another.

use crate::attention::is_bias_or_mixing;
use crate::native;
use std::collections::BTreeMap;
use tch::{nn, Kind, TchError, Tensor};

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

    /// The gradient's L2 norm, and the factor that makes it at most `limit` (0: no limit). The gradients stay as they are.
    /// Errors: LibTorch's.
    pub fn clip(&self, limit: f64) -> Result<(Scalar, Scalar), TchError> {
        if native::takes(self.gradients.device(), self.gradients.kind()) {
            let norm = native::adam::norm(&self.gradients)?;
            let scale = if limit > 0.0 { (limit / (norm + 1e-6)).min(1.0) } else { 1.0 };
            return Ok((Scalar::Number(norm), Scalar::Number(scale)));
        }
        tch::no_grad(|| {
            let norm = self.gradients.f_norm()?;
            let scale = match limit > 0.0 {
                true => norm.f_add_scalar(1e-6)?.f_reciprocal()?.f_mul_scalar(limit)?.f_clamp_max(1.0)?,
                false => norm.f_ones_like()?,
            };
            Ok((Scalar::Tensor(norm), Scalar::Tensor(scale)))
        })
    }
}

/// A number: here, or still on a device, whose work need not be waited for until somebody reads it.
#[derive(Debug)]
pub enum Scalar {
    /// Known.
    Number(f64),
    /// A tensor of one element.
    Tensor(Tensor),
}

impl Scalar {
    /// Its value; waits for the device. Errors: LibTorch's.
    pub fn value(&self) -> Result<f64, TchError> {
        match self {
            Scalar::Number(value) => Ok(*value),
            Scalar::Tensor(tensor) => tensor.f_double_value(&[]),
        }
    }

    /// Its value, if nothing need be waited for.
    pub fn known(&self) -> Option<f64> {
        match self {
            Scalar::Number(value) => Some(*value),
            Scalar::Tensor(_) => None,
        }
    }

    /// The sum with a tensor of one element, in float64; added up where that is. Errors: LibTorch's.
    pub fn plus(&self, tensor: &Tensor) -> Result<Scalar, TchError> {
        match self {
            Scalar::Number(value) if native::takes(tensor.device(), tensor.kind()) => {
                Ok(Scalar::Number(value + tensor.f_double_value(&[])?))
            }
            Scalar::Number(value) => {
                Ok(Scalar::Tensor(tensor.f_detach()?.f_to_kind(Kind::Double)?.f_add_scalar(*value)?))
            }
            Scalar::Tensor(sum) => Ok(Scalar::Tensor(sum.f_add(&tensor.f_detach()?.f_to_kind(Kind::Double)?)?)),
        }
    }
}

/// The trainable variables by name.
pub fn trainable(variables: &nn::VarStore) -> BTreeMap<String, Tensor> {
    variables.variables().into_iter().filter(|(_, tensor)| tensor.requires_grad()).collect()
}
