//! What can be wrong with an attention layer or its input.

use super::Term;

/// A layer that can't be built, or an input that it can't take. All are the caller's to mend.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttentionError {
    /// L > N: the synthesized logits end at N.
    #[error("a sequence of {length} positions is longer than max_length = {max_length}; raise max_length, or cut or skip longer examples")]
    TooLong {
        /// L, positions of the input.
        length: i64,
        /// N, positions that the layer was built for.
        max_length: i64,
    },
    /// The width can't be cut into equal heads.
    #[error("heads = {heads} does not divide d_model = {d_model}")]
    Heads {
        /// Width d.
        d_model: i64,
        /// Heads h.
        heads: i64,
    },
    /// A size below its minimum.
    #[error("{what} = {value}, but it must be at least {minimum}")]
    TooSmall {
        /// Name of the size, such as `max_length` or `D(hidden)`.
        what: String,
        /// The value given.
        value: i64,
        /// The smallest that is allowed.
        minimum: i64,
    },
    /// Dropout outside [0, 1).
    #[error("dropout = {0}, but it must be at least 0 and less than 1")]
    Dropout(f64),
    /// A mix without a term.
    #[error("a mix needs at least one attention function")]
    NoTerms,
    /// A name that the registry lacks.
    #[error("there is no attention function `{name}`; there are {}", names.join(", "))]
    UnknownFunction {
        /// The name given.
        name: String,
        /// The registry's names.
        names: Vec<&'static str>,
    },
    /// A parameter that the function lacks.
    #[error("`{term}`: {name} has no parameter `{parameter}`; it has {}", if allowed.is_empty() { "none".to_string() } else { allowed.join(", ") })]
    UnknownParameter {
        /// The whole term.
        term: Term,
        /// The function's name.
        name: String,
        /// The parameter given.
        parameter: String,
        /// The function's parameters.
        allowed: Vec<&'static str>,
    },
    /// A parameter given twice.
    #[error("`{term}` gives `{parameter}` twice")]
    RepeatedParameter {
        /// The whole term.
        term: Term,
        /// The parameter.
        parameter: String,
    },
    /// Two terms whose weights would have the same names.
    #[error(
        "{first} and {second} keep their weights under the same name, `{weights}`: a mix can have only one of them"
    )]
    SameWeights {
        /// The earlier term.
        first: Term,
        /// The later one.
        second: Term,
        /// The name that they share.
        weights: &'static str,
    },
    /// A kernel without a middle.
    #[error("`{term}`: kernel = {kernel} is even, but a kernel needs a middle; give {} or {}", kernel - 1, kernel + 1)]
    EvenKernel {
        /// The whole term.
        term: Term,
        /// The kernel given.
        kernel: i64,
    },
    /// An operator that is not the only term.
    #[error("{operator} can't be mixed: it makes no logits that could be added; it stands alone. What can be mixed: {}", mixed.join(", "))]
    Alone {
        /// The operator.
        operator: Term,
        /// The functions that make logits.
        mixed: Vec<&'static str>,
    },
    /// An operator that sees the whole sequence, in a causal layer.
    #[error("{term} can't be causal: each position sees all others, so it works in encoders only, and a decoder needs another mix: {}", causal.join(", "))]
    EncoderOnly {
        /// The operator.
        term: Term,
        /// Functions and operators that can be causal.
        causal: Vec<&'static str>,
    },
    /// A layer without weights of positions.
    #[error("{term} has no attention weights to show")]
    NoWeights {
        /// The operator.
        term: Term,
    },
    /// FD whose a and b do not make N.
    #[error("`{term}`: a · b = {a} · {b} = {}, but it must be max_length = {max_length}", a * b)]
    Factors {
        /// The whole term.
        term: Term,
        /// Given, or the default that goes with b.
        a: i64,
        /// Given, or the default that goes with a.
        b: i64,
        /// N.
        max_length: i64,
    },
    /// A tensor of a shape that the layer can't take.
    #[error("{what} has shape {found:?}, but {wanted} is needed")]
    Shape {
        /// Which tensor.
        what: &'static str,
        /// Its shape.
        found: Vec<i64>,
        /// The shape that is needed, in words.
        wanted: String,
    },
    /// Weights that can't be made, most likely for want of memory.
    #[error("can't make {what} {size:?}: {reason}")]
    Weights {
        /// Whose.
        what: &'static str,
        /// Their shape.
        size: Vec<i64>,
        /// LibTorch's first line.
        reason: String,
    },
    /// The fused kernel refused.
    #[error("attention: {0}")]
    Kernel(String),
    /// Step by step only makes sense where no position sees a later one.
    #[error("only a causal layer can run step by step")]
    NotCausal,
}
