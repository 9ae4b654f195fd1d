//! The fused attention kernel for the CPU (`attention.h`): logits from any number of parts, masks, softmax, dropout and
//! weighted values in one pass over blocks of rows, with exact gradients.

use super::{record, takes, wants_gradient};
use std::ffi::c_void;
use tch::{no_grad, Device, Kind, TchError, Tensor};

/// What a function's logits are made of. Sizes are [B, h, L, width], B = 1 where all sequences share it.
#[derive(Debug)]
pub enum Part {
    /// S_ij = scale · queries_i · keys_j + bias_j
    Product {
        /// [B or 1, h, rows, r]
        queries: Tensor,
        /// [B or 1, h, columns, r]
        keys: Tensor,
        /// Factor of the product, not of the bias.
        scale: f64,
        /// [h, columns]
        bias: Option<Tensor>,
    },
    /// S_ij itself, [h, rows, columns]
    Table(Tensor),
    /// S_ij = first_i[j mod a] · second_i[j div a]
    Outer {
        /// [B, h, rows, a]
        first: Tensor,
        /// [B, h, rows, b], a·b ≥ columns
        second: Tensor,
        /// How many columns there are.
        columns: i64,
    },
}

impl Part {
    /// The tensors it is made of; the same places for the same kind of part.
    pub fn tensors(&self) -> [Option<&Tensor>; 3] {
        match self {
            Part::Product { queries, keys, bias, .. } => [Some(queries), Some(keys), bias.as_ref()],
            Part::Table(table) => [Some(table), None, None],
            Part::Outer { first, second, .. } => [Some(first), Some(second), None],
        }
    }

    /// The same tensors, not their copies.
    pub fn shallow_clone(&self) -> Part {
        match self {
            Part::Product { queries, keys, scale, bias } => Part::Product {
                queries: queries.shallow_clone(),
                keys: keys.shallow_clone(),
                scale: *scale,
                bias: bias.as_ref().map(Tensor::shallow_clone),
            },
            Part::Table(table) => Part::Table(table.shallow_clone()),
            Part::Outer { first, second, columns } => {
                Part::Outer { first: first.shallow_clone(), second: second.shallow_clone(), columns: *columns }
            }
        }
    }

    /// Whether its logits are the same for every sequence.
    pub fn is_shared(&self) -> bool {
        match self {
            Part::Product { queries, keys, .. } => queries.size()[0] == 1 && keys.size()[0] == 1,
            Part::Table(_) => true,
            Part::Outer { .. } => false,
        }
    }
}

/// What to compute: softmax over visible columns of Σ weightₜ · Sₜ, dropped, times values.
#[derive(Debug)]
pub struct Request<'a> {
    /// At least one, at most [`MOST_PARTS`].
    pub parts: Vec<Part>,
    /// [parts, h]; none for 1.
    pub weights: Option<Tensor>,
    /// [B, h, columns, w]
    pub values: Tensor,
    /// bool [B, columns], true where a column is hidden from every row of its sequence.
    pub padding: Option<&'a Tensor>,
    /// Row i sees columns up to i.
    pub causal: bool,
    /// Chance that a weight is dropped, in [0, 1); the others grow by 1/(1 - dropout).
    pub dropout: f64,
    /// Decides which.
    pub seed: u64,
}

/// The most parts that a request may have.
pub const MOST_PARTS: usize = 8;

#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    data: *mut c_void,
    batch: i64,
    head: i64,
    row: i64,
    column: i64,
}

const NOWHERE: Place = Place { data: std::ptr::null_mut(), batch: 0, head: 0, row: 0, column: 1 };

#[repr(C)]
struct Term {
    kind: i64,
    width: i64,
    second_width: i64,
    scale: f64,
    operands: [Place; 3],
    gradients: [Place; 3],
}

#[repr(C)]
struct Task {
    batch: i64,
    heads: i64,
    rows: i64,
    columns: i64,
    width: i64,
    term_count: i64,
    terms: *const Term,
    weights: *const c_void,
    weights_gradient: *mut c_void,
    values: Place,
    output: Place,
    output_gradient: Place,
    values_gradient: Place,
    padding: *const u8,
    causal: i64,
    shared: i64,
    dropout: f64,
    seed: u64,
    log_sums: *mut c_void,
    keep: i64,
}

type Kernel = unsafe extern "C" fn(*const Task, i32);

kernels!(forward_kernel(Task): attention_forward_baseline, attention_forward_avx2, attention_forward_avx512);
kernels!(backward_kernel(Task): attention_backward_baseline, attention_backward_avx2, attention_backward_avx512);

/// Everything that the two passes share; tensors are detached, and lie as the kernel wants them.
struct Prepared {
    rows: i64,
    parts: Vec<Part>,
    weights: Option<Tensor>,
    values: Tensor,
    padding: Option<Tensor>,
    causal: bool,
    dropout: f64,
    seed: u64,
    log_sums: Option<Tensor>,
    shared: bool,
}

/// softmax(Σ weightₜ Sₜ) values, [B, h, rows, w]; 0 for a row that sees nothing. In memory it lies as [B, rows, h, w].
///
/// # Errors
/// LibTorch's. Sizes, kinds and devices that do not go together are the caller's fault, and an error too.
pub fn attend(request: Request) -> Result<Tensor, TchError> {
    let sizes = check(&request).map_err(TchError::Kind)?;
    let inputs: Vec<Tensor> = inputs(&request).into_iter().map(Tensor::shallow_clone).collect();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let differentiable = wants_gradient(&inputs);
    let [batch, heads, rows, _, width] = sizes;
    let (output, prepared) = no_grad(|| -> Result<_, TchError> {
        let mut prepared = prepare(request, rows);
        let like = (prepared.values.kind(), prepared.values.device());
        let output = Tensor::f_empty([batch, rows, heads, width], like)?.transpose(1, 2);
        if differentiable {
            let stored = if prepared.shared { 1 } else { batch };
            prepared.log_sums = Some(Tensor::f_empty([stored, heads, rows], like)?);
        }
        prepared.run(forward_kernel(), Some(&output), None, &[]);
        Ok((output, prepared))
    })?;
    if differentiable {
        let gradient = move |given: &[Option<Tensor>], wanted: &[bool]| prepared.gradients(given, wanted);
        record(&inputs, &[&output], gradient)?;
    }
    Ok(output)
}

/// Values, weights if there are any, then each part's tensors.
fn inputs<'a>(request: &'a Request) -> Vec<&'a Tensor> {
    let parts = request.parts.iter().flat_map(|part| part.tensors().into_iter().flatten());
    [&request.values].into_iter().chain(&request.weights).chain(parts).collect()
}

/// B, h, rows, columns, w.
fn check(request: &Request) -> Result<[i64; 5], String> {
    let [batch, heads, columns, width] = request.values.size()[..] else {
        return Err(format!("values of shape {:?}", request.values.size()));
    };
    let count = request.parts.len();
    if count == 0 || count > MOST_PARTS {
        return Err(format!("{count} parts of attention, and there may be 1 to {MOST_PARTS}"));
    }
    let kind = request.values.kind();
    if inputs(request).iter().any(|tensor| !takes(tensor.device(), tensor.kind()) || tensor.kind() != kind) {
        return Err("the attention kernel takes tensors of one kind, float32 or float64, on the CPU".into());
    }
    let rows = match &request.parts[0] {
        Part::Product { queries, .. } => queries.size().get(2).copied(),
        Part::Table(table) => table.size().get(1).copied(),
        Part::Outer { first, .. } => first.size().get(2).copied(),
    };
    let rows = rows.unwrap_or(0);
    let fits = |tensor: &Tensor, length: i64, width: Option<i64>| {
        let size = tensor.size();
        size.len() == 4
            && (size[0] == batch || size[0] == 1)
            && size[1] == heads
            && size[2] == length
            && width.is_none_or(|width| size[3] == width)
    };
    for part in &request.parts {
        let right = match part {
            Part::Product { queries, keys, bias, .. } => {
                fits(queries, rows, None)
                    && fits(keys, columns, queries.size().last().copied())
                    && bias.as_ref().is_none_or(|bias| bias.size() == [heads, columns])
            }
            Part::Table(table) => table.size() == [heads, rows, columns],
            Part::Outer { first, second, columns: wanted } => {
                let own = [first, second].iter().all(|factor| factor.size().first() == Some(&batch));
                let whole = own && first.size().last().zip(second.size().last()).is_some_and(|(a, b)| a * b >= columns);
                fits(first, rows, None) && fits(second, rows, None) && whole && *wanted == columns
            }
        };
        if !right {
            let sizes: Vec<_> = part.tensors().into_iter().flatten().map(Tensor::size).collect();
            return Err(format!("a part of attention has shapes {sizes:?} beside values {:?}", request.values.size()));
        }
    }
    let weights = request.weights.as_ref().is_none_or(|weights| weights.size() == [count as i64, heads]);
    let padding = request.padding.is_none_or(|padding| {
        padding.size() == [batch, columns] && padding.kind() == Kind::Bool && padding.device() == Device::Cpu
    });
    if batch * heads * rows * columns * width == 0 {
        return Err("attention over nothing: a size is 0".into());
    }
    if !weights || !padding || (request.causal && rows != columns) || !(0.0..1.0).contains(&request.dropout) {
        return Err("weights, padding, mask or dropout do not go with the parts of attention".into());
    }
    Ok([batch, heads, rows, columns, width])
}

fn prepare(request: Request, rows: i64) -> Prepared {
    let parts: Vec<Part> = request
        .parts
        .iter()
        .map(|part| match part {
            Part::Product { queries, keys, scale, bias } => Part::Product {
                queries: lay(queries, false),
                keys: lay(keys, true),
                scale: *scale,
                bias: bias.as_ref().map(|bias| lay(bias, false)),
            },
            Part::Table(table) => Part::Table(lay(table, false)),
            Part::Outer { first, second, columns } => {
                Part::Outer { first: lay(first, false), second: lay(second, false), columns: *columns }
            }
        })
        .collect();
    Prepared {
        rows,
        shared: parts.iter().all(Part::is_shared) && request.padding.is_none() && request.dropout == 0.0,
        parts,
        weights: request.weights.map(|weights| weights.detach().contiguous()),
        values: lay(&request.values, false),
        padding: request.padding.map(Tensor::contiguous),
        causal: request.causal,
        dropout: request.dropout,
        seed: request.seed,
        log_sums: None,
    }
}

impl Prepared {
    /// The forward pass is given the output, the backward pass its gradient. `gradients`: of values, of weights, then three a
    /// part; none where none is wanted.
    fn run(
        &self,
        kernel: Kernel,
        output: Option<&Tensor>,
        output_gradient: Option<&Tensor>,
        gradients: &[Option<Tensor>],
    ) {
        let gradient = |index: usize| gradients.get(index).and_then(Option::as_ref);
        let place_of = |tensor: Option<&Tensor>| tensor.map_or(NOWHERE, place);
        let terms: Vec<Term> = self
            .parts
            .iter()
            .enumerate()
            .map(|(index, part)| {
                let operands = part.tensors();
                let (kind, scale) = match part {
                    Part::Product { scale, .. } => (0, *scale),
                    Part::Table(_) => (1, 1.0),
                    Part::Outer { .. } => (2, 1.0),
                };
                let width =
                    |tensor: Option<&Tensor>| tensor.map_or(0, |tensor| tensor.size().last().copied().unwrap_or(0));
                Term {
                    kind,
                    width: if kind == 1 { 0 } else { width(operands[0]) },
                    second_width: if kind == 2 { width(operands[1]) } else { 0 },
                    scale,
                    operands: operands.map(place_of),
                    gradients: [0, 1, 2].map(|operand| place_of(gradient(2 + 3 * index + operand))),
                }
            })
            .collect();
        let size = self.values.size();
        let data = |tensor: Option<&Tensor>| tensor.map_or(std::ptr::null_mut(), Tensor::data_ptr);
        let task = Task {
            batch: size[0],
            heads: size[1],
            rows: self.rows,
            columns: size[2],
            width: size[3],
            term_count: terms.len() as i64,
            terms: terms.as_ptr(),
            weights: data(self.weights.as_ref()),
            weights_gradient: data(gradient(1)),
            values: place(&self.values),
            output: place_of(output),
            output_gradient: place_of(output_gradient),
            values_gradient: place_of(gradient(0)),
            padding: data(self.padding.as_ref()).cast_const().cast(),
            causal: i64::from(self.causal),
            shared: i64::from(self.shared),
            dropout: self.dropout,
            seed: self.seed,
            log_sums: data(self.log_sums.as_ref()),
            keep: i64::from(self.log_sums.is_some()),
        };
        // SAFETY: `check` has held all sizes against each other, `prepare` has laid the tensors as the kernel reads them, and
        // all live until it returns.
        unsafe { kernel(&task, i32::from(self.values.kind() == Kind::Double)) }
    }

    /// Those of `inputs`, in order.
    fn gradients(&self, given: &[Option<Tensor>], wanted: &[bool]) -> Result<Vec<Option<Tensor>>, TchError> {
        let Some(output_gradient) = &given[0] else { return Ok(wanted.iter().map(|_| None).collect()) };
        let output_gradient = lay(output_gradient, false);
        let mut wanted = wanted.iter().copied();
        let mut next = |tensor: &Tensor| -> Result<Option<Tensor>, TchError> {
            match wanted.next() {
                Some(true) => like(tensor).map(Some),
                _ => Ok(None),
            }
        };
        let mut gradients = vec![next(&self.values)?];
        let mut present = vec![true];
        gradients.push(self.weights.as_ref().map(&mut next).transpose()?.flatten());
        present.push(self.weights.is_some());
        for operand in self.parts.iter().flat_map(Part::tensors) {
            gradients.push(operand.map(&mut next).transpose()?.flatten());
            present.push(operand.is_some());
        }
        self.run(backward_kernel(), None, Some(&output_gradient), &gradients);
        Ok(gradients.into_iter().zip(present).filter(|(_, present)| *present).map(|(gradient, _)| gradient).collect())
    }
}

/// The tensor, detached, in rows of neighbours as the kernel reads it, or in columns of neighbours if it `may_turn`; copied
/// if it lies otherwise.
fn lay(tensor: &Tensor, may_turn: bool) -> Tensor {
    let tensor = tensor.detach();
    let (size, stride) = (tensor.size(), tensor.stride());
    let ([.., rows, columns], [.., row, column]) = (&size[..], &stride[..]) else { return tensor };
    let straight = *column == 1 && (row >= columns || *rows == 1);
    if straight || (may_turn && *row == 1 && column >= rows) {
        tensor
    } else {
        tensor.contiguous()
    }
}

/// An empty tensor for the gradient of `tensor`: dense, heads apart where sequences share it, else as it lies itself.
fn like(tensor: &Tensor) -> Result<Tensor, TchError> {
    let size = tensor.size();
    let options = (tensor.kind(), tensor.device());
    let turned = tensor.stride().last() != Some(&1);
    match size[..] {
        [1, heads, rows, width] if turned => Ok(Tensor::f_empty([1, heads, width, rows], options)?.transpose(2, 3)),
        [batch, heads, rows, width] if batch > 1 && !turned => {
            Ok(Tensor::f_empty([batch, rows, heads, width], options)?.transpose(1, 2))
        }
        [batch, heads, rows, width] if turned => {
            Ok(Tensor::f_empty([batch, heads, width, rows], options)?.transpose(2, 3))
        }
        _ => Tensor::f_empty(&size[..], options),
    }
}

/// [h, columns] and [h, rows, columns] are shared by all sequences, as is [1, h, rows, columns].
fn place(tensor: &Tensor) -> Place {
    let (size, stride) = (tensor.size(), tensor.stride());
    let [batch, head, row, column] = match stride[..] {
        [batch, head, row, column] => [if size[0] == 1 { 0 } else { batch }, head, row, column],
        [head, row, column] => [0, head, row, column],
        [head, column] => [0, head, 0, column],
        _ => [0, 0, 0, 1],
    };
    Place { data: tensor.data_ptr(), batch, head, row, column }
}
