//! The paper's subject: multi-head self-attention whose logits are any mix of functions.

pub mod cost;
pub mod registry;

use serde::{Deserialize, Serialize};

/// One term of a mix: a function's name and the parameters that were given, in the order typed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// The function's name in the registry, such as `FR`.
    pub name: String,
    /// Parameters given, such as `("k", 16)`.
    pub parameters: Vec<(String, i64)>,
}

/// How the terms of a mix are weighted: S = Σ wᵢ Sᵢ, one α per term and head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mixing {
    /// softmax over the terms (the paper, v3)
    #[default]
    Softmax,
    /// σ(αᵢ) for each term
    Sigmoid,
    /// plain sum, no α
    Sum,
}
