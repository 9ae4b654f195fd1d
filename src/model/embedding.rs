//! Token embedding, tied with the softmax, and sinusoid positions.

use super::layers::dropout;
use super::ModelError;
use tch::{nn, IndexOp, Kind, Tensor};

/// E [vocabulary, d], used by encoder, decoder and softmax alike.
#[derive(Debug)]
pub struct Embedding {
    pub(super) table: Tensor,
    pub(super) positions: Tensor,
    pub(super) scale: f64,
    dropout: f64,
}

impl Embedding {
    /// Rows start N(0, 1/d); the sum is scaled by √d so that tokens and positions have like size.
    pub fn new(path: &nn::Path, vocabulary: i64, d_model: i64, max_length: i64, dropout: f64) -> Self {
        let deviation = (d_model as f64).powf(-0.5);
        let table = path.var("table", &[vocabulary, d_model], nn::Init::Randn { mean: 0.0, stdev: deviation });
        let positions = sinusoids(max_length, d_model).to_device(path.device()).to_kind(table.kind());
        Self { table, positions, scale: (d_model as f64).sqrt(), dropout }
    }

    /// Tokens [B, L] (int64) standing at `offset..offset+L` -> `√d·E[token] + position`, [B, L, d].
    pub fn forward(&self, tokens: &Tensor, offset: i64, train: bool) -> Result<Tensor, ModelError> {
        let (length, limit) = (tokens.size()[1], self.positions.size()[0]);
        if offset + length > limit {
            return Err(ModelError::TooLong { length: offset + length, max_length: limit });
        }
        let x = Tensor::embedding(&self.table, tokens, -1, false, false) * self.scale;
        Ok(dropout(x + self.positions.i(offset..offset + length), self.dropout, train)?)
    }

    /// E [vocabulary, d], of which the softmax's logits are products.
    pub fn table(&self) -> &Tensor {
        &self.table
    }

    /// Hidden [.., d] -> logits [.., vocabulary] = hidden·Eᵀ.
    pub fn logits(&self, hidden: &Tensor) -> Tensor {
        hidden.matmul(&self.table.tr())
    }
}

/// [length, d]: sin in the first half of the columns, cos in the second, wavelengths from 2π to 10000·2π (Tensor2Tensor).
pub fn sinusoids(length: i64, d_model: i64) -> Tensor {
    let half = d_model / 2;
    let last = (half - 1).max(1) as f64;
    let rates = (Tensor::arange(half, (Kind::Double, tch::Device::Cpu)) * (-(1e4f64.ln()) / last)).exp();
    let angles = Tensor::arange(length, (Kind::Double, tch::Device::Cpu)).unsqueeze(1) * rates.unsqueeze(0);
    Tensor::cat(&[angles.sin(), angles.cos()], 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_by_hand() {
        let table = sinusoids(3, 4);
        // rates are 1 and 1/10000
        let expected = [[0.0, 0.0, 1.0, 1.0], [1f64.sin(), 1e-4f64.sin(), 1f64.cos(), 1e-4f64.cos()]];
        for (row, values) in expected.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let got = table.double_value(&[row as i64, column as i64]);
                assert!((got - value).abs() < 1e-12, "row {row} column {column}: {got} is not {value}");
            }
        }
    }
}
