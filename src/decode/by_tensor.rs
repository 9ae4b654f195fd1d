//! The likeliest tokens of a model that gives all log-probabilities as a tensor.

use super::beam::BeamError;
use super::{Likeliest, Proposer, Stepper};
use tch::{Device, Kind, TchError, Tensor};

/// Asks a [`Stepper`].
pub(super) struct ByTensor<'a>(pub(super) &'a mut dyn Stepper);

impl Proposer for ByTensor<'_> {
    fn propose(
        &mut self,
        tokens: &[u32],
        bans: &[[u32; 2]],
        count: usize,
        position: usize,
    ) -> Result<Likeliest, BeamError> {
        let last: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
        let scores = self.0.step(&Tensor::from_slice(&last));
        let scores = scores.map_err(|source| BeamError::Model { position, source })?.detach();
        match scores.size()[..] {
            [r, v] if r == tokens.len() as i64 && v > 0 => likeliest(&without(scores, bans)?, count),
            _ => Err(BeamError::Shape { rows: tokens.len(), got: scores.size() }),
        }
    }

    fn reorder(&mut self, rows: &[usize]) {
        let rows: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
        self.0.reorder(&Tensor::from_slice(&rows));
    }
}

/// Log-probabilities [R, vocabulary] with -inf for the banned pairs (row, token).
fn without(log_probabilities: Tensor, bans: &[[u32; 2]]) -> Result<Tensor, TchError> {
    if bans.is_empty() {
        return Ok(log_probabilities);
    }
    let vocabulary = log_probabilities.size()[1];
    let places: Vec<i64> = bans.iter().map(|&[row, token]| i64::from(row) * vocabulary + i64::from(token)).collect();
    let places = Tensor::from_slice(&places).f_to_device(log_probabilities.device())?;
    // A copy: what the model gave may be its own.
    let flat = log_probabilities.f_reshape([-1])?.f_index_fill(0, &places, f64::NEG_INFINITY)?;
    flat.f_reshape(log_probabilities.size())
}

/// The `count` likeliest tokens of each row of `scores` [R, vocabulary].
fn likeliest(scores: &Tensor, count: usize) -> Result<Likeliest, BeamError> {
    let rows = scores.size()[0] as usize;
    let vocabulary = scores.size()[1] as usize;
    let count = count.min(vocabulary);
    if count == 1 {
        // Of equal values max takes the first.
        let (values, tokens) = scores.f_max_dim(1, true)?;
        return fetch(&values, &tokens, 1);
    }
    // topk picks any of equal values. One value more tells whether that matters: then a stable sort decides.
    let seen = (count + 1).min(vocabulary);
    let (values, tokens) = scores.f_topk(seen as i64, 1, true, true)?;
    let mut found = fetch(&values, &tokens, seen)?;
    let tied = (0..rows).any(|row| {
        let values = &found.log_probabilities[row * seen..][..seen];
        seen > count && values[count - 1] == values[count] && values[count] > f64::NEG_INFINITY
    });
    if tied {
        let (values, tokens) = scores.f_sort_stable(true, 1, true)?;
        found = fetch(&values.f_narrow(1, 0, seen as i64)?, &tokens.f_narrow(1, 0, seen as i64)?, seen)?;
    }
    Ok(found)
}

/// Values and token ids [R, count] on the host, in one transfer: ids below 2^53 are exact in float64.
fn fetch(values: &Tensor, tokens: &Tensor, count: usize) -> Result<Likeliest, BeamError> {
    let both = Tensor::f_stack(&[values.f_to_kind(Kind::Double)?, tokens.f_to_kind(Kind::Double)?], 0)?;
    let mut log_probabilities = Vec::<f64>::try_from(both.f_to_device(Device::Cpu)?.f_reshape([-1])?)?;
    let tokens = log_probabilities.split_off(log_probabilities.len() / 2).into_iter().map(|id| id as u32).collect();
    Ok(Likeliest { count, log_probabilities, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_banned_is_lost_and_the_models_tensor_stays() {
        let given = Tensor::from_slice(&[-1.0f32, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0]).reshape([2, 4]);
        let masked = without(given.shallow_clone(), &[[1, 0], [1, 3], [1, 3]]).unwrap();
        let never = f32::NEG_INFINITY;
        let expected = [-1.0, -2.0, -3.0, -4.0, never, -6.0, -7.0, never];
        assert_eq!(Vec::<f32>::try_from(masked.reshape([-1])).unwrap(), expected);
        assert_eq!(given.sum(Kind::Float).double_value(&[]), -36.0);
    }
}
