//! Adam (Kingma and Ba, 2015) with decoupled weight decay, on flat buffers.

use super::parameters::{FlatParameters, Scalar};
use crate::experiment::TrainConfig;
use crate::native::{
    self,
    adam::{Buffers, Numbers},
};
use tch::{TchError, Tensor};

/// First and second moments of every parameter.
#[derive(Debug)]
pub struct Adam {
    /// m `[n]`.
    pub first: Tensor,
    /// v `[n]`.
    pub second: Tensor,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
}

impl Adam {
    /// Moments of zero.
    pub fn new(parameters: &FlatParameters, config: &TrainConfig) -> Self {
        Self {
            first: parameters.values.zeros_like(),
            second: parameters.values.zeros_like(),
            beta1: config.beta1,
            beta2: config.beta2,
            epsilon: config.epsilon,
            weight_decay: config.weight_decay,
        }
    }

    /// θ ← θ − lr·(m̂/(√v̂ + ε) + decay·θ), with m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ), t = `step` from 1. The gradients count
    /// as if multiplied by `clip`, a scalar. Errors: LibTorch's.
    pub fn step(
        &mut self,
        parameters: &mut FlatParameters,
        clip: &Scalar,
        learning_rate: f64,
        step: u64,
    ) -> Result<(), TchError> {
        let correction = |beta: f64| 1.0 - beta.powi(step.min(i32::MAX as u64) as i32);
        let numbers = Numbers {
            gradient_scale: 1.0,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            rate: learning_rate / correction(self.beta1),
            correction: correction(self.beta2).powf(-0.5),
            decay: learning_rate * self.weight_decay,
        };
        let buffers = Buffers {
            values: &mut parameters.values,
            gradients: &parameters.gradients,
            first: &mut self.first,
            second: &mut self.second,
            decayed: &parameters.decayed,
        };
        match clip {
            Scalar::Number(scale) => native::adam::step(buffers, Numbers { gradient_scale: *scale, ..numbers }),
            Scalar::Tensor(scale) => plain_step(buffers, scale, numbers),
        }
    }
}

/// The same from LibTorch's operations, for other devices than the CPU, where `scale`'s value is not waited for.
fn plain_step(buffers: Buffers, scale: &Tensor, numbers: Numbers) -> Result<(), TchError> {
    let Buffers { values, gradients, first, second, decayed } = buffers;
    tch::no_grad(|| {
        let gradients = gradients.f_mul(scale)?;
        let _ = first.f_lerp_(&gradients, 1.0 - numbers.beta1)?;
        let _ = second.f_lerp_(&gradients.f_square()?, 1.0 - numbers.beta2)?;
        if numbers.decay > 0.0 {
            let decay = values.f_mul(decayed)?.f_mul_scalar(numbers.decay)?;
            let _ = values.f_sub_(&decay)?;
        }
        let mut denominator = second.f_sqrt()?;
        let _ = denominator.f_mul_scalar_(numbers.correction)?;
        let _ = denominator.f_add_scalar_(numbers.epsilon)?;
        let mut update = first.f_div(&denominator)?;
        let _ = update.f_mul_scalar_(numbers.rate)?;
        let _ = values.f_sub_(&update)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::schedule::tests::settings;
    use super::*;
    use crate::experiment::Schedule;
    use tch::nn::OptimizerConfig;
    use tch::{nn, Device, Kind};

    fn variables(bias_shape: &[i64]) -> (nn::VarStore, Tensor, Tensor) {
        let mut store = nn::VarStore::new(Device::Cpu);
        store.set_kind(Kind::Double);
        let matrix = store.root().var("matrix", &[2, 3], nn::Init::Const(0.5));
        let name = if bias_shape.len() > 1 { "row" } else { "bias" };
        let bias = store.root().var(name, bias_shape, nn::Init::Const(-0.25));
        (store, matrix, bias)
    }

    fn loss(matrix: &Tensor, bias: &Tensor, step: i64) -> Tensor {
        let x = Tensor::from_slice(&[1.0, -2.0 * step as f64]).view([1, 2]);
        (x.matmul(matrix) + bias).sin().square().sum(Kind::Double)
    }

    /// LibTorch's own AdamW is the reference. Its decay acts on all parameters and ours on matrices, so with decay the
    /// bias is a matrix of one row.
    #[test]
    fn agrees_with_libtorch() {
        for weight_decay in [0.0, 0.1] {
            let mut config = settings(Schedule::Linear, 1.0, 2, 6);
            config.weight_decay = weight_decay;
            let bias_shape: &[i64] = if weight_decay > 0.0 { &[1, 3] } else { &[3] };
            let (ours, matrix, bias) = variables(bias_shape);
            let mut parameters = FlatParameters::new(&ours);
            let mut adam = Adam::new(&parameters, &config);
            let (reference, matrix_r, bias_r) = variables(bias_shape);
            let mut optimizer = nn::adamw(config.beta1, config.beta2, weight_decay).build(&reference, 0.1).unwrap();
            for step in 1..=5 {
                parameters.zero_gradients();
                loss(&matrix, &bias, step).backward();
                adam.step(&mut parameters, &Scalar::Number(1.0), 0.1, step as u64).unwrap();
                optimizer.zero_grad();
                loss(&matrix_r, &bias_r, step).backward();
                optimizer.step();
            }
            let difference = (&matrix - &matrix_r).abs().max().double_value(&[]);
            assert!(difference < 1e-6, "matrices differ by {difference} at decay {weight_decay}");
            assert!((&bias - &bias_r).abs().max().double_value(&[]) < 1e-6, "biases differ at decay {weight_decay}");
        }
    }

    /// On several threads, with clipping and decay, in both kinds: what LibTorch's operations make of the same numbers.
    #[test]
    fn the_kernel_is_the_definition() {
        for (kind, bound) in [(tch::Kind::Double, 1e-12), (tch::Kind::Float, 1e-6)] {
            let numbers = |seed: f64| {
                let x = Tensor::arange(100_003, (tch::Kind::Double, Device::Cpu));
                ((x * 12.9898 + seed * 78.233).sin() * 43758.5453).sin().to_kind(kind)
            };
            let mut ours = [numbers(1.0), numbers(2.0), numbers(3.0).square()];
            let mut theirs = [numbers(1.0), numbers(2.0), numbers(3.0).square()];
            let (gradients, decayed) = (numbers(4.0) * 3.0, numbers(5.0).gt(0.0).to_kind(kind));
            let settings = Numbers {
                gradient_scale: 0.37,
                beta1: 0.9,
                beta2: 0.997,
                epsilon: 1e-9,
                rate: 0.02,
                correction: 1.7,
                decay: 0.01,
            };
            fn buffers<'a>(of: &'a mut [Tensor; 3], gradients: &'a Tensor, decayed: &'a Tensor) -> Buffers<'a> {
                let [values, first, second] = of;
                Buffers { values, gradients, first, second, decayed }
            }
            native::adam::step(buffers(&mut ours, &gradients, &decayed), settings).unwrap();
            let scale = Tensor::from(0.37).to_kind(kind);
            plain_step(buffers(&mut theirs, &gradients, &decayed), &scale, settings).unwrap();
            for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                let difference = (ours - theirs).abs().max().double_value(&[]);
                assert!(difference < bound, "{kind:?} {index}: differ by {difference}");
            }
        }
    }
}
