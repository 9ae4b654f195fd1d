//! The functions and operators that a mix may name. To add one: write its file, declare the file in `mod.rs`, and add a line
//! to [`FUNCTIONS`].

use super::cache::Cache;
use super::cost::{Cost, Input, Operations};
use super::frozen::Form;
use super::operator;
use super::{
    convolution, dense, dot_product, factorized_dense, factorized_random, fourier, linformer, mixer, random,
    AttentionError, Term,
};
use crate::native::attention::Part;
use std::fmt::Debug;
use tch::nn::{Linear, Path};
use tch::Tensor;

/// Every attention function and operator, in the order in which they are listed to people.
pub const FUNCTIONS: &[Entry] = &[
    dot_product::ENTRY,
    dense::ENTRY,
    random::ENTRY,
    random::FIXED_ENTRY,
    factorized_random::ENTRY,
    factorized_dense::ENTRY,
    convolution::LIGHTWEIGHT_ENTRY,
    convolution::DYNAMIC_ENTRY,
    linformer::ENTRY,
    fourier::ENTRY,
    mixer::ENTRY,
];

/// One attention function or operator as the grammar, the layer and the tools see it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in a mix, such as `FR`.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The sub-path of its weights; two functions of one mix can't share it.
    pub weights: &'static str,
    /// What may stand in its parentheses.
    pub parameters: &'static [Parameter],
    /// Checks a term against a shape, without making a tensor.
    pub check: fn(&Term, &Shape) -> Result<(), AttentionError>,
    /// The value of each of `parameters`, defaults filled in; its check has passed.
    pub values: fn(&Term, &Shape) -> Vec<i64>,
    /// What a term costs in a layer; its check has passed.
    pub cost: fn(&Term, &Shape) -> Result<Cost, AttentionError>,
    /// What it makes, and how it is made.
    pub kind: Kind,
}

impl Entry {
    /// Whether it may stand beside others in a mix.
    pub fn can_be_mixed(&self) -> bool {
        matches!(self.kind, Kind::Logits(_))
    }

    /// Whether it can keep a position from seeing later ones.
    pub fn can_be_causal(&self) -> bool {
        !matches!(self.kind, Kind::Operator { can_be_causal: false, .. })
    }
}

/// What an entry makes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A function: logits, which can be mixed with others'. Made under a path that ends in the entry's `weights` already.
    Logits(Build),
    /// An operator: a layer's output, alone.
    Operator {
        /// Makes it under the layer's path.
        build: operator::Build,
        /// Whether it can keep a position from seeing later ones.
        can_be_causal: bool,
        /// Whether it has the layer's value and output projections.
        has_projections: bool,
        /// Whether a position's products grow with the positions that it sees, so that a causal mask hides half of them.
        grows_with_sight: bool,
        /// Operations of a forward pass; its check has passed.
        operations: fn(&Term, &Shape, Input) -> Operations,
    },
}

/// How a function is made.
pub type Build = fn(&Path, &Term, &Shape) -> Result<Box<dyn Function>, AttentionError>;

/// A parameter of a function: a whole number.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its key, such as `k`.
    pub name: &'static str,
    /// The smallest value that is allowed: 0 or 1.
    pub minimum: i64,
    /// What it is, and its default, for people.
    pub summary: &'static str,
}

/// The sizes on which a function's weights depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Width d.
    pub d_model: i64,
    /// Heads h; divides d.
    pub heads: i64,
    /// N, the longest sequence.
    pub max_length: i64,
}

impl Shape {
    /// d_h = d / h.
    pub fn head_width(&self) -> i64 {
        self.d_model / self.heads
    }
}

/// An attention function with its weights: input to logits, before mixing, masks and softmax.
pub trait Function: Debug + Send {
    /// Logits S of x [B, L, d], L ≤ N: [B, h, L, L], or [1, h, L, L] if they are the same for every row of the batch.
    /// They may be a view of a weight, so nobody changes them in place unless [`Function::depends_on_input`].
    fn logits(&self, x: &Tensor) -> Tensor;

    /// The last row of the logits of the sequence so far: x [R, 1, d] is its input at `position` (0-based); the result
    /// is [R or 1, h, 1, position + 1]. What a later step needs of x is put into the cache, which a function may leave empty.
    fn step(&self, x: &Tensor, position: i64, cache: &mut Cache) -> Tensor;

    /// The linear maps of its input that [`Function::part`] asks for: the layer makes them together with its values.
    fn maps(&self) -> Vec<&Linear> {
        vec![]
    }

    /// What those logits are made of, for the forms of [`super::fused`]: they never stand in memory for all heads and rows.
    /// `mapped` is x under each of [`Function::maps`], [B, L, outputs].
    fn part(&self, x: &Tensor, mapped: &[Tensor]) -> Part;

    /// Its weights in a form that the kernels for generation know; none if it has another.
    fn form(&self) -> Option<Form<'_>> {
        None
    }

    /// Whether the logits differ between the rows of a batch.
    fn depends_on_input(&self) -> bool {
        true
    }
}

/// The names of the entries of which something holds.
pub fn names(holds: fn(&Entry) -> bool) -> Vec<&'static str> {
    FUNCTIONS.iter().filter(|entry| holds(entry)).map(|entry| entry.name).collect()
}

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    FUNCTIONS.iter().find(|entry| entry.name == name)
}

/// The entry of each term, or what is wrong with the mix at any shape: an unknown name or parameter, a value below its
/// minimum, two terms that share a name for their weights, an operator that is not alone.
pub fn entries(terms: &[Term]) -> Result<Vec<&'static Entry>, AttentionError> {
    if terms.is_empty() {
        return Err(AttentionError::NoTerms);
    }
    let mut entries: Vec<&'static Entry> = Vec::with_capacity(terms.len());
    for term in terms {
        let entry = find(&term.name).ok_or_else(|| AttentionError::UnknownFunction {
            name: term.name.clone(),
            names: FUNCTIONS.iter().map(|entry| entry.name).collect(),
        })?;
        for (index, (name, value)) in term.parameters.iter().enumerate() {
            let Some(parameter) = entry.parameters.iter().find(|parameter| parameter.name == name) else {
                return Err(AttentionError::UnknownParameter {
                    term: term.clone(),
                    name: term.name.clone(),
                    parameter: name.clone(),
                    allowed: entry.parameters.iter().map(|parameter| parameter.name).collect(),
                });
            };
            if term.parameters[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(AttentionError::RepeatedParameter { term: term.clone(), parameter: name.clone() });
            }
            if *value < parameter.minimum {
                let what = format!("{}({name})", term.name);
                return Err(AttentionError::TooSmall { what, value: *value, minimum: parameter.minimum });
            }
        }
        if let Some(index) = entries.iter().position(|earlier| earlier.weights == entry.weights) {
            return Err(AttentionError::SameWeights {
                first: terms[index].clone(),
                second: term.clone(),
                weights: entry.weights,
            });
        }
        entries.push(entry);
    }
    if let Some(index) = entries.iter().position(|entry| entries.len() > 1 && !entry.can_be_mixed()) {
        return Err(AttentionError::Alone { operator: terms[index].clone(), mixed: names(Entry::can_be_mixed) });
    }
    Ok(entries)
}
