//! What a layer costs: parameters, the paper's formulas (Table 1), and floating-point operations of a forward pass.
//!
//! Everything is derived from one inventory of [`Linear`]s and [`Table`]s a function, which the function's own file gives;
//! tests hold it against the weights of a real layer.

use super::registry::{self, Entry, Kind, Shape};
use super::{is_bias_or_mixing, AttentionConfig, AttentionError, Mixing, Term};
use std::collections::HashMap;
use std::fmt;
use tch::Tensor;

/// The largest width, length, batch or parameter of a function that can be counted: keeps every product within 128 bits.
pub const LARGEST: i64 = 1 << 20;

/// What counts as a floating-point operation here, for `--help` and tables.
pub const FLOPS_DEFINITION: &str = "\
FLOPs are those of one forward pass of the layer over `batch` sequences of `length` tokens, by its definition (not by how \
it is run). Counted: every matrix product, a multiply-add being 2 (projections of the functions, value and output; \
logits; weighted values); FD's product of two factors, 1 a logit; mixing n terms, n multiplications and n-1 additions a \
logit (plain sum: n-1); softmax, 5 a logit (compare, subtract, exponential, add, divide). Logits that read no token (R, \
Rfix, FR, and mixes of them) and their softmax are counted once a layer, all others once a sequence. All length x length \
logits count, with or without a causal mask. Operators: LC and DC, every tap of the kernel, also beyond the ends, as \
weighted values, and softmax, 5 a tap, LC's once a layer, DC's once a position; Lin, the products of E and F as \
projections, and k logits a query; FFT, 5 n log2 n a sequence of n = max-length x width points; Mixer, length x length \
weights. Not counted: biases, relu, gates, the scale 1/sqrt(d_h), masks, dropout, and the weights of the mixture.";

/// Why a cost cannot be given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CostError {
    /// There is no such layer.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// A size below 1 or above [`LARGEST`].
    #[error("{name} = {value}, but it must be between 1 and {LARGEST}")]
    Size {
        /// What has that size.
        name: String,
        /// The size.
        value: i64,
    },
    /// More operations than 64 bits hold.
    #[error("the forward pass takes more than 2^64 floating-point operations; use a smaller shape")]
    TooMany,
}

/// The input that a forward pass is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// Sequences B.
    pub batch: i64,
    /// Tokens L of each.
    pub length: i64,
}

/// `copies` products x Wᵀ + b, W [outputs, inputs]; some are without b.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// How many of them, each on the same tokens.
    pub copies: u128,
    /// Width read.
    pub inputs: u128,
    /// Width written.
    pub outputs: u128,
    /// Whether they have biases.
    pub biased: bool,
}

impl Linear {
    /// `copies` maps from `inputs` to `outputs`, with biases.
    pub fn new(copies: i64, inputs: i64, outputs: i64) -> Self {
        Linear { copies: copies as u128, inputs: inputs as u128, outputs: outputs as u128, biased: true }
    }

    /// The same without biases.
    pub fn unbiased(copies: i64, inputs: i64, outputs: i64) -> Self {
        Linear { biased: false, ..Linear::new(copies, inputs, outputs) }
    }

    /// Elements of the matrices, biases left out.
    pub fn weights(&self) -> u128 {
        self.copies * self.inputs * self.outputs
    }

    /// Elements of the biases.
    pub fn biases(&self) -> u128 {
        u128::from(self.biased) * self.copies * self.outputs
    }
}

/// A tensor of numbers that no token enters: R, R₁, R₂.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its size, all heads.
    pub elements: u128,
    /// Whether training moves it.
    pub trainable: bool,
}

/// What one function of a mix costs in a layer: each function's file gives its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The paper's count of parameters a head, biases left out: l = max_length, d = width.
    pub formula: &'static str,
    /// The formula's value for one head as wide as the layer.
    pub formula_parameters: u128,
    /// Products whose parameters count, and whose operations count for every token.
    pub linears: Vec<Linear>,
    /// Products whose parameters count, and whose operations are in `per_logit`.
    pub logit_linears: Vec<Linear>,
    /// What is there without tokens.
    pub tables: Vec<Table>,
    /// relu modules; of an operator, softmax and gates too.
    pub activations: u128,
    /// Operations a logit, `linears` left out.
    pub per_logit: u128,
    /// Whether the logits depend on the tokens, and so on the sequence.
    pub reads_tokens: bool,
}

impl Cost {
    fn all_linears(&self) -> impl Iterator<Item = &Linear> {
        self.linears.iter().chain(&self.logit_linears)
    }

    fn trainable(&self) -> u128 {
        let linears: u128 = self.all_linears().map(|linear| linear.weights() + linear.biases()).sum();
        linears + self.tables.iter().filter(|table| table.trainable).map(|table| table.elements).sum::<u128>()
    }

    fn frozen(&self) -> u128 {
        self.tables.iter().filter(|table| !table.trainable).map(|table| table.elements).sum()
    }
}

fn size(name: &str, value: i64) -> Result<(), CostError> {
    if !(1..=LARGEST).contains(&value) {
        return Err(CostError::Size { name: name.into(), value });
    }
    Ok(())
}

/// Operations of an operator in a forward pass, `linears` and the value and output projections left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations {
    /// Other products that lead from tokens to queries, keys and values.
    pub projections: u128,
    /// What the weights come from.
    pub logits: u128,
    /// Softmax.
    pub softmax: u128,
    /// Weights times values, or a transform.
    pub weighted_values: u128,
}

/// Operations of a forward pass, by [`FLOPS_DEFINITION`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Flops {
    /// From tokens to queries, keys, hidden layers and factors.
    pub projections: u64,
    /// From those to the logits of each function.
    pub logits: u64,
    /// Weighing and adding the functions' logits.
    pub mixing: u64,
    /// Softmax over keys.
    pub softmax: u64,
    /// The value projection.
    pub value: u64,
    /// Attention weights times values.
    pub weighted_values: u64,
    /// The output projection.
    pub output: u64,
    /// All of them.
    pub total: u64,
}

/// Parameters of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Parameters {
    /// Those that training moves: logits, α, value and output, biases included.
    pub trainable: u64,
    /// With the fixed ones of Rfix.
    pub total: u64,
    /// Of the total, those that make logits, or an operator's own (value, output and α left out).
    pub logits: u64,
}

/// The count of a public PyTorch re-implementation's README (its layer has no output projection).
///
/// Parameters: every weight and bias of the value and logit layers, trained or not. "flops": inputs × outputs of every
/// Linear once, whatever the number of tokens, and 1 for every relu or softmax module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Readme {
    /// Parameters.
    pub parameters: u64,
    /// "flops".
    pub flops: u64,
}

/// A mix in a layer: what it is made of.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Its shape.
    pub shape: Shape,
    /// How the terms are weighted.
    pub mixing: Mixing,
    /// One a term, in order.
    pub functions: Vec<Cost>,
    /// The term that stands alone, if it is an operator, and its entry.
    operator: Option<(Term, &'static Entry)>,
}

impl Layer {
    /// Describes a layer.
    ///
    /// # Errors
    /// A mix or shape that no layer can have, sizes above [`LARGEST`].
    pub fn new(terms: &[Term], shape: Shape, mixing: Mixing) -> Result<Layer, CostError> {
        let Shape { d_model, heads, max_length } = shape;
        let config =
            AttentionConfig { d_model, heads, max_length, terms: terms.to_vec(), mixing, dropout: 0.0, causal: false };
        for (name, value) in [("d_model", d_model), ("heads", heads), ("max_length", max_length)] {
            size(name, value)?;
        }
        for term in terms {
            for (name, value) in term.parameters.iter().filter(|(_, value)| *value > LARGEST) {
                size(&format!("{}({name})", term.name), *value)?;
            }
        }
        config.check()?;
        let entries = registry::entries(terms)?;
        let pairs = terms.iter().zip(&entries);
        let functions = pairs.map(|(term, entry)| (entry.cost)(term, &shape)).collect::<Result<_, _>>()?;
        let operator = entries.iter().position(|entry| !entry.can_be_mixed());
        let operator = operator.map(|index| (terms[index].clone(), entries[index]));
        Ok(Layer { shape, mixing, functions, operator })
    }

    /// The paper's count of parameters a head, such as `d² + dl`: biases, value, output and α left out.
    pub fn formula(&self) -> String {
        let terms: Vec<&str> = self.functions.iter().map(|function| function.formula).collect();
        terms.join(" + ")
    }

    /// The formula's value for one head as wide as the layer.
    pub fn formula_parameters(&self) -> u64 {
        narrow(self.functions.iter().map(|function| function.formula_parameters).sum())
    }

    /// Elements of α [terms, h]: none for a single function and for the plain sum.
    fn alpha(&self) -> u128 {
        if self.functions.len() < 2 || self.mixing == Mixing::Sum {
            return 0;
        }
        self.functions.len() as u128 * self.shape.heads as u128
    }

    /// The value projection; the output projection has the same shape. Some operators have neither.
    fn value(&self) -> Linear {
        match self.operator {
            Some((_, Entry { kind: Kind::Operator { has_projections: false, .. }, .. })) => Linear::new(0, 0, 0),
            _ => Linear::new(1, self.shape.d_model, self.shape.d_model),
        }
    }

    /// Operations from logits to weighted values, with those of the mixing: all but `linears`, value and output.
    fn mixing_operations(&self, input: Input) -> (Operations, u128) {
        if let Some((term, Entry { kind: Kind::Operator { operations, .. }, .. })) = &self.operator {
            return (operations(term, &self.shape, input), 0);
        }
        let (batch, length, wide) = (input.batch as u128, input.length as u128, self.shape.d_model as u128);
        let layer_logits = self.shape.heads as u128 * length * length;
        let sequences = |reads_tokens: bool| if reads_tokens { batch } else { 1 };
        let all_logits = layer_logits * sequences(self.functions.iter().any(|function| function.reads_tokens));
        let of_function = |function: &Cost| layer_logits * sequences(function.reads_tokens) * function.per_logit;
        let terms = self.functions.len() as u128;
        let mixing = match (terms, self.mixing) {
            (1, _) => 0,
            (_, Mixing::Sum) => terms - 1,
            _ => 2 * terms - 1,
        };
        let operations = Operations {
            projections: 0,
            logits: self.functions.iter().map(of_function).sum(),
            softmax: 5 * all_logits,
            weighted_values: 2 * batch * length * length * wide,
        };
        (operations, mixing * all_logits)
    }

    /// Counts parameters, biases included.
    pub fn parameters(&self) -> Parameters {
        let trainable: u128 = self.functions.iter().map(Cost::trainable).sum();
        let frozen: u128 = self.functions.iter().map(Cost::frozen).sum();
        let around = self.alpha() + 2 * (self.value().weights() + self.value().biases());
        Parameters {
            trainable: narrow(trainable + around),
            total: narrow(trainable + frozen + around),
            logits: narrow(trainable + frozen),
        }
    }

    /// Whether a causal mask hides half of the products.
    pub fn grows_with_sight(&self) -> bool {
        !matches!(self.operator, Some((_, Entry { kind: Kind::Operator { grows_with_sight: false, .. }, .. })))
    }

    /// Whether logits have a gradient: not where all of them are fixed.
    pub fn trains_logits(&self) -> bool {
        self.operator.is_some() || self.alpha() > 0 || self.functions.iter().any(|function| function.trainable() > 0)
    }

    /// Counts the operations of a forward pass by [`FLOPS_DEFINITION`].
    ///
    /// # Errors
    /// Sizes out of bounds, a length above the maximum, more than 2^64 operations.
    pub fn flops(&self, input: Input) -> Result<Flops, CostError> {
        size("batch", input.batch)?;
        size("length", input.length)?;
        if input.length > self.shape.max_length {
            let (length, max_length) = (input.length, self.shape.max_length);
            return Err(AttentionError::TooLong { length, max_length }.into());
        }
        let tokens = input.batch as u128 * input.length as u128;
        let linears = self.functions.iter().flat_map(|function| &function.linears);
        let linears: u128 = linears.map(|linear| 2 * tokens * linear.weights()).sum();
        let (Operations { projections, logits, softmax, weighted_values }, mixing) = self.mixing_operations(input);
        let projections = linears + projections;
        let value = 2 * tokens * self.value().weights();
        let total = projections + logits + mixing + softmax + 2 * value + weighted_values;
        let fits = |operations: u128| u64::try_from(operations).map_err(|_| CostError::TooMany);
        Ok(Flops {
            projections: fits(projections)?,
            logits: fits(logits)?,
            mixing: fits(mixing)?,
            softmax: fits(softmax)?,
            value: fits(value)?,
            weighted_values: fits(weighted_values)?,
            output: fits(value)?,
            total: fits(total)?,
        })
    }

    /// Counts by the rule of the PyTorch README.
    pub fn readme(&self) -> Readme {
        let linears = || self.functions.iter().flat_map(Cost::all_linears).copied().chain([self.value()]);
        let tables: u128 =
            self.functions.iter().flat_map(|function| &function.tables).map(|table| table.elements).sum();
        // An operator counts its own.
        let softmax = u128::from(self.operator.is_none());
        let modules = self.functions.iter().map(|function| function.activations).sum::<u128>() + softmax;
        Readme {
            parameters: narrow(
                linears().map(|linear| linear.weights() + linear.biases()).sum::<u128>() + tables + self.alpha(),
            ),
            flops: narrow(linears().map(|linear| linear.weights()).sum::<u128>() + modules),
        }
    }
}

/// Sizes are at most [`LARGEST`], and no count of parameters has more than three of them as factors.
fn narrow(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Counts the elements of a real layer's weights (by their names under the layer's path) that make logits, biases left out:
/// what the paper's formula counts for one head.
pub fn count_logit_weights(weights: &HashMap<String, Tensor>) -> u64 {
    let outside = |name: &str| name.starts_with("value.") || name.starts_with("output.");
    let counted = weights.iter().filter(|(name, _)| !is_bias_or_mixing(name) && !outside(name));
    counted.map(|(_, weight)| weight.numel() as u64).sum()
}

/// A count with a comma at every third digit.
#[derive(Debug, Clone, Copy)]
pub struct Thousands(pub u64);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}
