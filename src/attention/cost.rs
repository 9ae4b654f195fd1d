//! What a layer costs: parameters, the paper's formulas (Table 1), and floating-point operations of a forward pass.
//!
//! Everything is derived from one inventory of [`Linear`]s and [`Table`]s a function; tests hold it against the weights
//! of a real layer.

use super::{Mixing, Term};
use std::fmt;

/// The largest width, length, batch or parameter of a function that can be counted: keeps every product within 128 bits.
pub const LARGEST: i64 = 1 << 20;

/// What counts as a floating-point operation here, for `--help` and tables.
pub const FLOPS_DEFINITION: &str = "\
FLOPs are those of one forward pass of the layer over `batch` sequences of `length` tokens, by its definition (not by how \
it is run). Counted: every matrix product, a multiply-add being 2 (projections of the functions, value and output; \
logits; weighted values); FD's product of two factors, 1 a logit; mixing n terms, n multiplications and n-1 additions a \
logit (plain sum: n-1); softmax, 5 a logit (compare, subtract, exponential, add, divide). Logits that read no token (R, \
Rfix, FR, and mixes of them) and their softmax are counted once a layer, all others once a sequence. All length x length \
logits count, with or without a causal mask. Not counted: biases, relu, the scale 1/sqrt(d_h), masks, dropout, and the \
weights of the mixture.";

/// Why a cost cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// A size below 1 or above [`LARGEST`].
    #[error("{name} is {value}, and must be between {least} and {LARGEST}")]
    Size {
        /// What has that size.
        name: String,
        /// The size.
        value: i64,
        /// The least that is allowed.
        least: i64,
    },
    /// Heads that do not divide the width.
    #[error("heads = {heads} does not divide d_model = {d_model}; every head needs the same width")]
    Heads {
        /// Heads h.
        heads: i64,
        /// Width d.
        d_model: i64,
    },
    /// A sequence longer than the layer's maximum.
    #[error(
        "length = {length} is longer than max_length = {max_length}; synthesized logits exist up to max_length only"
    )]
    Length {
        /// Length L of the sequences.
        length: i64,
        /// The layer's maximum N.
        max_length: i64,
    },
    /// Factors whose product is not the maximum length.
    #[error("FD needs a * b = max_length, but a = {a} and b = {b} give {}, and max_length is {max_length}", a * b)]
    Factors {
        /// Width of the tiled factor.
        a: i64,
        /// Width of the repeated factor.
        b: i64,
        /// The layer's maximum N.
        max_length: i64,
    },
    /// A function that this file does not describe.
    #[error("no cost is known for the function `{0}`; src/attention/cost.rs describes each")]
    Unknown(String),
    /// More operations than 64 bits hold.
    #[error("the forward pass takes more than 2^64 floating-point operations; use a smaller shape")]
    TooMany,
}

/// The shape of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Width d.
    pub d_model: i64,
    /// Heads h; divides d.
    pub heads: i64,
    /// N: the longest sequence that synthesized logits cover.
    pub max_length: i64,
}

impl Shape {
    fn check(&self) -> Result<(), CostError> {
        size("d_model", self.d_model, 1)?;
        size("heads", self.heads, 1)?;
        size("max_length", self.max_length, 1)?;
        if self.d_model % self.heads != 0 {
            return Err(CostError::Heads { heads: self.heads, d_model: self.d_model });
        }
        Ok(())
    }
}

/// The input that a forward pass is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// Sequences B.
    pub batch: i64,
    /// Tokens L of each.
    pub length: i64,
}

/// `copies` products x Wᵀ + b, W [outputs, inputs].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// How many of them, each on the same tokens.
    pub copies: u128,
    /// Width read.
    pub inputs: u128,
    /// Width written.
    pub outputs: u128,
}

impl Linear {
    fn new(copies: i64, inputs: i64, outputs: i64) -> Self {
        Linear { copies: copies as u128, inputs: inputs as u128, outputs: outputs as u128 }
    }

    /// Elements of the matrices, biases left out.
    pub fn weights(&self) -> u128 {
        self.copies * self.inputs * self.outputs
    }

    /// Elements of the biases.
    pub fn biases(&self) -> u128 {
        self.copies * self.outputs
    }
}

/// A tensor of numbers that no token enters: R, R₁, R₂.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its size.
    pub elements: u128,
    /// Whether training moves it.
    pub trainable: bool,
}

/// One function of a mix, in one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The paper's count of parameters a head, biases left out: l = max_length, d = width.
    pub formula: String,
    /// The formula's value for one head as wide as the layer.
    pub formula_parameters: u128,
    /// What is multiplied with tokens, or with what came of them.
    pub linears: Vec<Linear>,
    /// The last of `linears` makes the logits themselves (dense: one output a key), and runs on the actual length.
    pub last_makes_logits: bool,
    /// What is there without tokens.
    pub tables: Vec<Table>,
    /// relu modules.
    pub activations: u128,
    /// Operations a logit, projections left out.
    pub per_logit: u128,
    /// Whether the logits depend on the tokens, and so on the sequence.
    pub reads_tokens: bool,
}

impl Function {
    /// Describes one term of a mix in a layer of that shape.
    ///
    /// # Errors
    /// An unknown name, a size out of bounds, or factors that do not make the maximum length.
    pub fn describe(term: &Term, shape: &Shape) -> Result<Function, CostError> {
        shape.check()?;
        let Shape { d_model: d, heads: h, max_length: l } = *shape;
        let given = |key: &str, least: i64| -> Result<Option<i64>, CostError> {
            match term.parameters.iter().find(|(name, _)| name == key) {
                Some((_, value)) => size(&format!("{key} of {}", term.name), *value, least).map(Some),
                None => Ok(None),
            }
        };
        let (wide, long) = (d as u128, l as u128);
        Ok(match term.name.as_str() {
            "V" => {
                let rank = given("rank", 1)?;
                let width = rank.unwrap_or(d / h);
                Function {
                    formula: if rank.is_some() { "2dr" } else { "2d²" }.into(),
                    formula_parameters: 2 * wide * rank.unwrap_or(d) as u128,
                    linears: vec![Linear::new(1, d, h * width); 2],
                    last_makes_logits: false,
                    tables: vec![],
                    activations: 0,
                    per_logit: 2 * width as u128,
                    reads_tokens: true,
                }
            }
            "D" => {
                let hidden = given("hidden", 1)?;
                let width = hidden.unwrap_or(d / h);
                let one_head = hidden.unwrap_or(d) as u128;
                Function {
                    formula: if hidden.is_some() { "dm + ml" } else { "d² + dl" }.into(),
                    formula_parameters: wide * one_head + one_head * long,
                    linears: vec![Linear::new(1, d, h * width), Linear::new(h, width, l)],
                    last_makes_logits: true,
                    tables: vec![],
                    activations: 1,
                    per_logit: 2 * width as u128,
                    reads_tokens: true,
                }
            }
            "R" | "Rfix" => Function {
                formula: "l²".into(),
                formula_parameters: long * long,
                linears: vec![],
                last_makes_logits: false,
                tables: vec![Table { elements: h as u128 * long * long, trainable: term.name == "R" }],
                activations: 0,
                per_logit: 0,
                reads_tokens: false,
            },
            "FR" => {
                let k = given("k", 1)?.unwrap_or(8) as u128;
                Function {
                    formula: "2lk".into(),
                    formula_parameters: 2 * long * k,
                    linears: vec![],
                    last_makes_logits: false,
                    tables: vec![Table { elements: h as u128 * long * k, trainable: true }; 2],
                    activations: 0,
                    per_logit: 2 * k,
                    reads_tokens: false,
                }
            }
            "FD" => {
                let hidden = given("hidden", 0)?;
                let (a, b) = factors(given("a", 1)?, given("b", 1)?, l)?;
                let sum = (a + b) as u128;
                let (formula, formula_parameters) = match hidden {
                    None => ("d² + d(a+b)", wide * wide + wide * sum),
                    Some(0) => ("d(a+b)", wide * sum),
                    Some(m) => ("dm + m(a+b)", (wide + sum) * m as u128),
                };
                let (mut linears, mut activations, mut width) = (vec![], 0, d);
                if hidden != Some(0) {
                    width = hidden.unwrap_or(d / h);
                    activations = 1;
                    linears.push(Linear::new(1, d, h * width));
                }
                linears.extend([Linear::new(h, width, a), Linear::new(h, width, b)]);
                Function {
                    formula: formula.into(),
                    formula_parameters,
                    linears,
                    last_makes_logits: false,
                    tables: vec![],
                    activations,
                    per_logit: 1,
                    reads_tokens: true,
                }
            }
            _ => return Err(CostError::Unknown(term.name.clone())),
        })
    }

    fn trainable(&self) -> u128 {
        let linears: u128 = self.linears.iter().map(|linear| linear.weights() + linear.biases()).sum();
        linears + self.tables.iter().filter(|table| table.trainable).map(|table| table.elements).sum::<u128>()
    }

    fn frozen(&self) -> u128 {
        self.tables.iter().filter(|table| !table.trainable).map(|table| table.elements).sum()
    }
}

/// FD's (a, b): what was given, else a = the largest divisor of N not above √N, and a·b = N.
fn factors(a: Option<i64>, b: Option<i64>, max_length: i64) -> Result<(i64, i64), CostError> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (Some(a), None) => (a, max_length / a),
        (None, Some(b)) => (max_length / b, b),
        (None, None) => {
            let a = (1..).take_while(|a| a * a <= max_length).filter(|a| max_length % a == 0).last().unwrap_or(1);
            (a, max_length / a)
        }
    };
    if a * b != max_length {
        return Err(CostError::Factors { a, b, max_length });
    }
    Ok((a, b))
}

fn size(name: &str, value: i64, least: i64) -> Result<i64, CostError> {
    if value < least || value > LARGEST {
        return Err(CostError::Size { name: name.into(), value, least });
    }
    Ok(value)
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
    /// Of the total, those that make logits (value, output and α left out).
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its shape.
    pub shape: Shape,
    /// How the terms are weighted.
    pub mixing: Mixing,
    /// One function a term, in order.
    pub functions: Vec<Function>,
}

impl Layer {
    /// Describes a layer.
    ///
    /// # Errors
    /// As [`Function::describe`], and heads that do not divide the width.
    pub fn new(terms: &[Term], shape: Shape, mixing: Mixing) -> Result<Layer, CostError> {
        shape.check()?;
        let functions = terms.iter().map(|term| Function::describe(term, &shape)).collect::<Result<_, _>>()?;
        Ok(Layer { shape, mixing, functions })
    }

    /// The paper's count of parameters a head, such as `d² + dl`: biases, value, output and α left out.
    pub fn formula(&self) -> String {
        let terms: Vec<&str> = self.functions.iter().map(|function| function.formula.as_str()).collect();
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

    /// The value projection; the output projection has the same shape.
    fn value(&self) -> Linear {
        Linear::new(1, self.shape.d_model, self.shape.d_model)
    }

    /// Counts parameters, biases included.
    pub fn parameters(&self) -> Parameters {
        let trainable: u128 = self.functions.iter().map(Function::trainable).sum();
        let frozen: u128 = self.functions.iter().map(Function::frozen).sum();
        let around = self.alpha() + 2 * (self.value().weights() + self.value().biases());
        Parameters {
            trainable: narrow(trainable + around),
            total: narrow(trainable + frozen + around),
            logits: narrow(trainable + frozen),
        }
    }

    /// Counts the operations of a forward pass by [`FLOPS_DEFINITION`].
    ///
    /// # Errors
    /// Sizes out of bounds, a length above the maximum, more than 2^64 operations.
    pub fn flops(&self, input: Input) -> Result<Flops, CostError> {
        size("batch", input.batch, 1)?;
        size("length", input.length, 1)?;
        if input.length > self.shape.max_length {
            return Err(CostError::Length { length: input.length, max_length: self.shape.max_length });
        }
        let (batch, length, wide) = (input.batch as u128, input.length as u128, self.shape.d_model as u128);
        let tokens = batch * length;
        let layer_logits = self.shape.heads as u128 * length * length;
        let sequences = |reads_tokens: bool| if reads_tokens { batch } else { 1 };
        let all_logits = layer_logits * sequences(self.functions.iter().any(|function| function.reads_tokens));

        let (mut projections, mut logits) = (0, 0);
        for function in &self.functions {
            let skip = usize::from(function.last_makes_logits);
            let before = &function.linears[..function.linears.len() - skip];
            projections += before.iter().map(|linear| 2 * tokens * linear.weights()).sum::<u128>();
            logits += layer_logits * sequences(function.reads_tokens) * function.per_logit;
        }
        let terms = self.functions.len() as u128;
        let mixing = match (terms, self.mixing) {
            (1, _) => 0,
            (_, Mixing::Sum) => terms - 1,
            _ => 2 * terms - 1,
        } * all_logits;
        let softmax = 5 * all_logits;
        let value = 2 * tokens * self.value().weights();
        let weighted_values = 2 * tokens * length * wide;
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
        let linears = || self.functions.iter().flat_map(|function| &function.linears).copied().chain([self.value()]);
        let tables: u128 =
            self.functions.iter().flat_map(|function| &function.tables).map(|table| table.elements).sum();
        let softmax = 1;
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

/// A count with a comma at every third digit.
#[derive(Debug, Clone, Copy)]
pub struct Thousands(pub u64);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place) % 3 == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}
