//! The paper's subject: multi-head self-attention whose logits are any mix of functions.
//!
//! x [B, L, d] with h heads of width d_h = d / h: logits S [B, h, L, L] from the [`mixture`] of the functions named in
//! [`registry::FUNCTIONS`], then the masks, softmax, dropout, times the values, and the output projection. An [`operator`],
//! such as a convolution, makes no logits: it stands alone, in the place of all of this.

pub mod cache;
pub mod convolution;
mod core_attention;
pub mod cost;
pub mod cross;
pub mod dense;
pub mod dot_product;
mod error;
pub mod factorized_dense;
pub mod factorized_random;
pub mod fourier;
pub mod frozen;
pub mod fused;
mod heads;
pub mod linformer;
pub mod mask;
pub mod mixer;
pub mod mixture;
pub mod operator;
pub mod random;
pub mod registry;
mod weighted;

pub use core_attention::CoreAttention;
pub use cross::{CrossAttention, CrossState};
pub use error::AttentionError;

use cache::Cache;
pub use fused::Form;
pub(crate) use heads::linear;
use operator::Operator;
use registry::{Entry, Kind, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;
use tch::nn::Path;
use tch::{no_grad, Tensor};
use weighted::Weighted;

/// One term of a mix: a function's name and the parameters that were given, in the order typed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// The function's name in the registry, such as `FR`.
    pub name: String,
    /// Parameters given, such as `("k", 16)`.
    pub parameters: Vec<(String, i64)>,
}

impl Term {
    /// A term without parameters.
    pub fn new(name: &str) -> Term {
        Term { name: name.to_string(), parameters: Vec::new() }
    }

    /// The value given for a parameter.
    pub fn get(&self, parameter: &str) -> Option<i64> {
        self.parameters.iter().find(|(name, _)| name == parameter).map(|(_, value)| *value)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)?;
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "(" } else { "," })?;
        }
        f.write_str(if self.parameters.is_empty() { "" } else { ")" })
    }
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

impl Mixing {
    /// wᵢ from α [terms, h]; there is no α for a plain sum.
    fn weights(self, alpha: &Tensor) -> Tensor {
        match self {
            Mixing::Softmax => alpha.softmax(0, None),
            Mixing::Sigmoid | Mixing::Sum => alpha.sigmoid(),
        }
    }
}

/// What a self-attention layer is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionConfig {
    /// Width d.
    pub d_model: i64,
    /// Heads h; divides d.
    pub heads: i64,
    /// N, the longest sequence.
    pub max_length: i64,
    /// The functions, at least one.
    pub terms: Vec<Term>,
    /// How they are weighted.
    pub mixing: Mixing,
    /// Dropout on attention weights when training, in [0, 1).
    pub dropout: f64,
    /// Whether a position is kept from seeing later ones.
    pub causal: bool,
}

impl AttentionConfig {
    /// The sizes on which weights depend.
    pub fn shape(&self) -> Shape {
        Shape { d_model: self.d_model, heads: self.heads, max_length: self.max_length }
    }

    /// Everything that can be checked without making a tensor.
    pub fn check(&self) -> Result<(), AttentionError> {
        check_heads(self.d_model, self.heads, self.dropout)?;
        at_least_one("max_length", self.max_length)?;
        for (term, entry) in self.terms.iter().zip(registry::entries(&self.terms)?) {
            (entry.check)(term, &self.shape())?;
            if self.causal && !entry.can_be_causal() {
                return Err(AttentionError::EncoderOnly {
                    term: term.clone(),
                    causal: registry::names(Entry::can_be_causal),
                });
            }
        }
        Ok(())
    }
}

fn at_least_one(what: &str, value: i64) -> Result<(), AttentionError> {
    if value < 1 {
        return Err(AttentionError::TooSmall { what: what.to_string(), value, minimum: 1 });
    }
    Ok(())
}

fn check_heads(d_model: i64, heads: i64, dropout: f64) -> Result<(), AttentionError> {
    at_least_one("d_model", d_model)?;
    at_least_one("heads", heads)?;
    if d_model % heads != 0 {
        return Err(AttentionError::Heads { d_model, heads });
    }
    if !(0.0..1.0).contains(&dropout) {
        return Err(AttentionError::Dropout(dropout));
    }
    Ok(())
}

/// The batch and length of `x` [B, L, d].
fn check_input(what: &'static str, x: &Tensor, d_model: i64) -> Result<(i64, i64), AttentionError> {
    match x.size()[..] {
        [batch, length, width] if width == d_model => Ok((batch, length)),
        _ => Err(AttentionError::Shape { what, found: x.size(), wanted: format!("[batch, length, {d_model}]") }),
    }
}

fn check_padding(padding: Option<&Tensor>, batch: i64, keys: i64) -> Result<(), AttentionError> {
    match padding {
        Some(padding) if padding.size() != [batch, keys] => Err(AttentionError::Shape {
            what: "the padding mask",
            found: padding.size(),
            wanted: format!("[{batch}, {keys}]"),
        }),
        _ => Ok(()),
    }
}

/// Multi-head self-attention by a mix of functions, or by the operator that stands in its place.
#[derive(Debug)]
pub struct SelfAttention {
    config: AttentionConfig,
    body: Body,
    form: Form,
}

#[derive(Debug)]
enum Body {
    /// Weights from logits, times values.
    Weighted(Box<Weighted>),
    /// Anything else.
    Operator(Box<dyn Operator>),
}

/// What [`SelfAttention::step`] keeps of the positions so far: every row's values, and each function's own cache. An
/// operator keeps what it needs in the place of the values.
#[derive(Debug)]
pub struct AttentionState {
    length: i64,
    values: Cache,
    functions: Vec<Cache>,
}

impl AttentionState {
    /// Positions so far.
    pub fn len(&self) -> i64 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Row i becomes what row `rows[i]` was (int64 [R']).
    pub fn reorder(&mut self, rows: &Tensor) {
        self.values.reorder(rows);
        for cache in &mut self.functions {
            cache.reorder(rows);
        }
    }
}

impl SelfAttention {
    /// Makes the weights under `path`: `value`, `output`, `alpha` and a sub-path a function, of the path's kind and device.
    /// Errors: those of [`AttentionConfig::check`], and want of memory.
    pub fn new(path: &Path, config: &AttentionConfig) -> Result<SelfAttention, AttentionError> {
        config.check()?;
        let body = match registry::entries(&config.terms)?[..] {
            [Entry { kind: Kind::Operator { build, .. }, .. }] => {
                Body::Operator(build(path, &config.terms[0], &config.shape(), config.causal)?)
            }
            _ => Body::Weighted(Box::new(Weighted::new(path, config)?)),
        };
        Ok(SelfAttention { config: config.clone(), body, form: Form::Auto })
    }

    /// The same layer computed in another form, which tests and benchmarks want. An operator has one form only.
    pub fn with_form(mut self, form: Form) -> SelfAttention {
        self.form = form;
        self
    }

    /// x [B, L, d] to [B, L, d]. `padding` (bool [B, L]) is true at keys that nobody may see; a query that sees no key
    /// gets the output of values 0. Dropout acts if `train`. Errors: L > N, wrong shapes.
    pub fn forward(&self, x: &Tensor, padding: Option<&Tensor>, train: bool) -> Result<Tensor, AttentionError> {
        self.check_input(x, padding)?;
        let dropout = if train { self.config.dropout } else { 0.0 };
        match &self.body {
            Body::Weighted(weighted) => weighted.forward(x, padding, dropout, self.form),
            Body::Operator(operator) => operator.forward(x, padding, dropout),
        }
    }

    /// The layer without its projections, on what these give for x [B, L, d]; none for an operator. Errors: as `forward`.
    pub fn core(&self, x: &Tensor) -> Result<Option<CoreAttention>, AttentionError> {
        self.check_input(x, None)?;
        Ok(match &self.body {
            Body::Weighted(weighted) => Some(weighted.core(x, self.config.mixing, self.form)),
            Body::Operator(_) => None,
        })
    }

    /// The weights by which each head adds up the values of x [B, L, d], without dropout: [B, h, L, L]. They are those of
    /// the softmax, or the matrix that an operator comes to. Errors: as `forward`; an operator that comes to none.
    pub fn weights(&self, x: &Tensor, padding: Option<&Tensor>) -> Result<Tensor, AttentionError> {
        self.check_input(x, padding)?;
        match &self.body {
            Body::Weighted(weighted) => Ok(weighted.weights(x, padding)),
            Body::Operator(operator) => operator
                .weights(x, padding)
                .ok_or_else(|| AttentionError::NoWeights { term: self.config.terms[0].clone() }),
        }
    }

    /// Whether [`SelfAttention::weights`] are shares of attention: none is negative, and those of a query sum to 1 at most.
    pub fn has_shares(&self) -> bool {
        match &self.body {
            Body::Weighted(_) => true,
            Body::Operator(operator) => operator.has_shares(),
        }
    }

    fn check_input(&self, x: &Tensor, padding: Option<&Tensor>) -> Result<(), AttentionError> {
        let (batch, length) = check_input("the input of self-attention", x, self.config.d_model)?;
        if length > self.config.max_length {
            return Err(AttentionError::TooLong { length, max_length: self.config.max_length });
        }
        check_padding(padding, batch, length)
    }

    /// The state before the first position.
    pub fn start(&self) -> AttentionState {
        let functions = match &self.body {
            Body::Weighted(weighted) => weighted.mixture.caches(),
            Body::Operator(_) => Vec::new(),
        };
        AttentionState { length: 0, values: Cache::default(), functions }
    }

    /// The output at the next position, [R, 1, d], of its input x [R, 1, d], as `forward` would give it for the whole
    /// sequence; without gradients or dropout. Errors: more than N steps, wrong shapes, a layer that is not causal.
    pub fn step(&self, x: &Tensor, state: &mut AttentionState) -> Result<Tensor, AttentionError> {
        if !self.config.causal {
            return Err(AttentionError::NotCausal);
        }
        let (rows, length) = check_input("the input of a step of self-attention", x, self.config.d_model)?;
        if length != 1 || state.values.rows().is_some_and(|before| before != rows) {
            return Err(AttentionError::Shape {
                what: "the input of a step of self-attention",
                found: x.size(),
                wanted: format!("[{}, 1, {}]", state.values.rows().unwrap_or(rows), self.config.d_model),
            });
        }
        let (position, max_length) = (state.length, self.config.max_length);
        if position >= max_length {
            return Err(AttentionError::TooLong { length: position + 1, max_length });
        }
        state.length += 1;
        no_grad(|| match &self.body {
            Body::Weighted(weighted) => Ok(weighted.step(x, position, &mut state.values, &mut state.functions)),
            Body::Operator(operator) => operator.step(x, position, &mut state.values),
        })
    }

    /// The weight of each term in each head, [terms, heads], detached; none for one term and for a plain sum.
    pub fn mixing_weights(&self) -> Option<Tensor> {
        match &self.body {
            Body::Weighted(weighted) => weighted.mixture.weights().map(|weights| weights.detach()),
            Body::Operator(_) => None,
        }
    }

    /// The terms as typed, such as `FR(k=16)`: the rows of [`SelfAttention::mixing_weights`].
    pub fn term_names(&self) -> Vec<String> {
        self.config.terms.iter().map(Term::to_string).collect()
    }
}

/// Whether a variable is, by its name, a bias or a mixture's weights α: these add to logits or weigh them, whatever their
/// rank (`b2` is [h, N], α [terms, h]), and are no matrices or tables.
pub fn is_bias_or_mixing(name: &str) -> bool {
    matches!(name.rsplit('.').next(), Some("bias" | "b2" | "ba" | "bb" | "alpha"))
}
