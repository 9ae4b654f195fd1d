//! Encoder-decoder attention: always the dot product; the paper synthesizes self-attention only.

use super::fused::{apply, attend, compose, Form, Visibility};
use super::heads::{linear, merge, project, project_each, split};
use super::mask::Mask;
use super::{check_heads, check_input, check_padding, AttentionError};
use crate::native::attention::Part;
use tch::nn::{Linear, Path};
use tch::{no_grad, Tensor};

/// Multi-head attention of x [B, T, d] to a memory [B, S, d]: softmax(Q Kᵀ/√d_h) V.
#[derive(Debug)]
pub struct CrossAttention {
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) output: Linear,
    pub(super) d_model: i64,
    pub(super) heads: i64,
    dropout: f64,
    form: Form,
}

/// Keys and values of a memory, made once, for rows that are decoded step by step: row i reads memory i div `group`, so
/// the beams of a sentence share its memory.
#[derive(Debug)]
pub struct CrossState {
    /// [B, h, S, d_h]
    keys: Tensor,
    /// [B, h, S, d_h]
    values: Tensor,
    /// bool [B, S]
    padding: Option<Tensor>,
    group: i64,
}

impl CrossAttention {
    /// Makes the weights `query`, `key`, `value`, `output` under `path`.
    pub fn new(path: &Path, d_model: i64, heads: i64, dropout: f64) -> Result<CrossAttention, AttentionError> {
        check_heads(d_model, heads, dropout)?;
        Ok(CrossAttention {
            query: linear(path / "query", d_model, d_model),
            key: linear(path / "key", d_model, d_model),
            value: linear(path / "value", d_model, d_model),
            output: linear(path / "output", d_model, d_model),
            d_model,
            heads,
            dropout,
            form: Form::Auto,
        })
    }

    /// The same layer computed in another form.
    pub fn with_form(mut self, form: Form) -> CrossAttention {
        self.form = form;
        self
    }

    /// x [B, T, d], memory [B, S, d] to [B, T, d]. `padding` (bool [B, S]) is true where the memory is padding. Dropout on the
    /// weights acts if `train`. Errors: wrong shapes.
    pub fn forward(
        &self,
        x: &Tensor,
        memory: &Tensor,
        padding: Option<&Tensor>,
        train: bool,
    ) -> Result<Tensor, AttentionError> {
        let (batch, _) = check_input("the input of cross-attention", x, self.d_model)?;
        let (rows, keys) = check_input("the memory of cross-attention", memory, self.d_model)?;
        check_padding(padding, rows, keys)?;
        if batch != rows {
            let wanted = format!("[{batch}, length, {}]", self.d_model);
            return Err(AttentionError::Shape { what: "the memory of cross-attention", found: memory.size(), wanted });
        }
        let [keys, values] = self.keys_and_values(memory);
        let dropout = if train { self.dropout } else { 0.0 };
        self.attend(x, &keys, &values, padding, dropout)
    }

    /// [R, h, S, d_h] of a memory [R, S, d].
    fn keys_and_values(&self, memory: &Tensor) -> [Tensor; 2] {
        project_each([&self.key, &self.value], memory).map(|mapped| split(&mapped, self.heads))
    }

    fn attend(
        &self,
        x: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        padding: Option<&Tensor>,
        dropout: f64,
    ) -> Result<Tensor, AttentionError> {
        let queries = split(&project(&self.query, x), self.heads);
        let scale = 1.0 / ((self.d_model / self.heads) as f64).sqrt();
        let visibility = Visibility { causal: None, padding, dropout };
        let part = |queries: Tensor| Part::Product { queries, keys: keys.shallow_clone(), scale, bias: None };
        let context = match self.form.resolve(x) {
            Form::Plain | Form::Auto => {
                let mask = Mask::new(None, padding);
                let logits = (queries * scale).matmul(&keys.transpose(2, 3));
                apply(Mask::softmax(mask.as_ref(), logits, true), values, mask.as_ref(), dropout)
            }
            Form::Composed => compose(&[part(queries)], None, values, visibility),
            Form::Fused => attend(vec![part(queries)], None, values.shallow_clone(), visibility)?,
        };
        Ok(project(&self.output, &merge(&context)))
    }

    /// Makes the keys and values of a memory [R, S, d] once, for R rows. `padding` as in `forward`. Errors: wrong shapes.
    pub fn start(&self, memory: &Tensor, padding: Option<&Tensor>) -> Result<CrossState, AttentionError> {
        let (rows, keys) = check_input("the memory of cross-attention", memory, self.d_model)?;
        check_padding(padding, rows, keys)?;
        Ok(no_grad(|| {
            let [keys, values] = self.keys_and_values(memory).map(|tensor| tensor.contiguous());
            CrossState { keys, values, padding: padding.map(Tensor::shallow_clone), group: 1 }
        }))
    }

    /// One position of every row: x [R, 1, d] to [R, 1, d], without gradients or dropout. Errors: wrong shapes.
    pub fn step(&self, x: &Tensor, state: &CrossState) -> Result<Tensor, AttentionError> {
        let memories = state.keys.size()[0];
        if x.size() != [memories * state.group, 1, self.d_model] {
            return Err(AttentionError::Shape {
                what: "the input of a step of cross-attention",
                found: x.size(),
                wanted: format!("[{}, 1, {}]", memories * state.group, self.d_model),
            });
        }
        no_grad(|| {
            // The rows of one memory are to it what positions are in `forward`.
            let x = x.reshape([memories, state.group, self.d_model]);
            let output = self.attend(&x, &state.keys, &state.values, state.padding.as_ref(), 0.0)?;
            Ok(output.view([-1, 1, self.d_model]))
        })
    }
}

impl CrossState {
    /// Row i reads what row `rows[i]` read (int64 [R']). Copies nothing while the rows of a memory stay together.
    pub fn reorder(&mut self, rows: &Tensor) {
        // Of one dimension and int64 by contract; anything else is a bug of the caller, and leaves the state as it is.
        let Ok(rows) = Vec::<i64>::try_from(rows.to_kind(tch::Kind::Int64).view([-1])) else { return };
        let read: Vec<i64> = rows.iter().map(|row| row / self.group).collect();
        let together = read.iter().take_while(|memory| **memory == read[0]).count().max(1);
        let alike = read.len().is_multiple_of(together)
            && read.chunks(together).all(|chunk| chunk.iter().all(|memory| *memory == chunk[0]));
        let group = if alike { together } else { 1 };
        let memories: Vec<i64> = read.iter().step_by(group).copied().collect();
        self.group = group as i64;
        if memories.iter().copied().eq(0..self.keys.size()[0]) {
            return;
        }
        let memories = Tensor::from_slice(&memories).to_device(self.keys.device());
        self.keys = self.keys.index_select(0, &memories);
        self.values = self.values.index_select(0, &memories);
        self.padding = self.padding.as_ref().map(|padding| padding.index_select(0, &memories));
    }
}
