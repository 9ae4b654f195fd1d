//! Pieces of a decoder's step on the CPU in float32, as functions of slices: see `decode.cpp`.
//!
//! Every function checks that its slices are long enough, and panics where they are not: that is a bug of the caller.

use super::{instructions, Instructions};
use std::ffi::c_void;
use tch::{Device, Kind, TchError, Tensor};

/// As `Self` of `decode.cpp`.
#[repr(C)]
struct SelfTask {
    rows: i64,
    heads: i64,
    width: i64,
    length: i64,
    entries: *const f32,
    entry: i64,
    ancestors: *const u32,
    ancestors_stride: i64,
    queries: *const f32,
    queries_stride: i64,
    rank: i64,
    dense: *const f32,
    dense_stride: i64,
    dense_head_stride: i64,
    table: *const f32,
    table_head_stride: i64,
    table_row_stride: i64,
    table_is_softmax: bool,
    scratch: *mut f32,
    context: *mut f32,
}

/// As `Kernels` of `decode.cpp`.
#[repr(C)]
struct Kernels {
    panel: i64,
    lanes: i64,
    product: unsafe extern "C" fn(i64, i64, i64, *const f32, i64, *const f32, *const f32, i32, *mut f32, i64),
    norm: unsafe extern "C" fn(i64, i64, *const f32, *const f32, *const f32, f32, *mut f32),
    attend_self: unsafe extern "C" fn(*const SelfTask),
    attend_memory:
        unsafe extern "C" fn(i64, i64, i64, *const f32, *const u32, *const u32, *const f32, *mut f32, *mut f32),
    likeliest: unsafe extern "C" fn(i64, i64, *const f32, *const u32, i64, i64, *mut f64, *mut u32),
}

unsafe extern "C" {
    fn synthesizer_decode_kernels_baseline() -> *const c_void;
    #[cfg(target_arch = "x86_64")]
    fn synthesizer_decode_kernels_avx2() -> *const c_void;
    #[cfg(target_arch = "x86_64")]
    fn synthesizer_decode_kernels_avx512() -> *const c_void;
}

fn kernels() -> &'static Kernels {
    // SAFETY: each gives the address of a constant of this layout; `instructions` names a set that the processor has.
    unsafe {
        let table = match instructions() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => synthesizer_decode_kernels_avx512(),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => synthesizer_decode_kernels_avx2(),
            _ => synthesizer_decode_kernels_baseline(),
        };
        &*table.cast::<Kernels>()
    }
}

/// The elements of a tensor, of any device and kind, as float32 on the host.
///
/// # Errors
/// LibTorch's.
pub fn floats(tensor: &Tensor) -> Result<Vec<f32>, TchError> {
    Vec::try_from(tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?.f_contiguous()?.f_view([-1])?)
}

/// What a product does with what is in its place already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Replaces it.
    Set = 0,
    /// Adds to it.
    Add = 1,
    /// Replaces it by the product's positive part.
    Relu = 2,
}

/// A linear map x Wᵀ + b whose weights lie as the products read them: packed once, used many times.
#[derive(Debug)]
pub struct Packed {
    depth: usize,
    columns: usize,
    panels: Vec<f32>,
    bias: Vec<f32>,
}

impl Packed {
    /// Of a weight [columns, depth] and a bias \[columns\].
    ///
    /// # Errors
    /// LibTorch's, for a weight of other than two dimensions too.
    pub fn new(weight: &Tensor, bias: Option<&Tensor>) -> Result<Packed, TchError> {
        let (columns, depth) = weight.size2()?;
        let panel = kernels().panel;
        let whole = columns.div_euclid(panel) + i64::from(columns % panel != 0);
        let weight = weight.f_detach()?.f_to_kind(Kind::Float)?;
        let padded = weight.f_constant_pad_nd([0, 0, 0, whole * panel - columns])?;
        let panels = floats(&padded.f_reshape([whole, panel, depth])?.f_transpose(1, 2)?)?;
        let bias = bias.map_or_else(|| Ok(vec![0.0; columns as usize]), floats)?;
        assert!(bias.len() == columns as usize, "a bias has one element a column");
        Ok(Packed { depth: depth as usize, columns: columns as usize, panels, bias })
    }

    /// Outputs of the map.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The first `columns` outputs for each of `rows` rows: row i of x starts at `x[i · x_stride]`, its output at
    /// `out[i · out_stride]`. A row's output does not depend on how many rows there are.
    pub fn multiply(
        &self,
        (rows, columns): (usize, usize),
        (x, x_stride): (&[f32], usize),
        mode: Mode,
        (out, out_stride): (&mut [f32], usize),
    ) {
        if rows == 0 {
            return;
        }
        assert!(columns <= self.columns && columns <= out_stride && self.depth <= x_stride);
        assert!(x.len() >= (rows - 1) * x_stride + self.depth && out.len() >= (rows - 1) * out_stride + columns);
        // SAFETY: the slices are as long as the rows, strides and widths ask for.
        unsafe {
            (kernels().product)(
                rows as i64,
                self.depth as i64,
                columns as i64,
                x.as_ptr(),
                x_stride as i64,
                self.panels.as_ptr(),
                self.bias.as_ptr(),
                mode as i32,
                out.as_mut_ptr(),
                out_stride as i64,
            );
        }
    }

    /// All outputs of rows that lie one after the other.
    pub fn apply(&self, rows: usize, x: &[f32], mode: Mode, out: &mut [f32]) {
        self.multiply((rows, self.columns), (x, self.depth), mode, (out, self.columns));
    }
}

/// Weights of a layer normalization.
#[derive(Debug)]
pub struct Norm {
    /// Factor of each column.
    pub weight: Vec<f32>,
    /// Added to each column.
    pub bias: Vec<f32>,
    /// ε under the root.
    pub epsilon: f64,
}

impl Norm {
    /// Normalizes each row of x [rows, width] into `out`.
    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        let width = self.weight.len();
        assert!(x.len() == out.len() && width > 0 && self.bias.len() == width && x.len().is_multiple_of(width));
        // SAFETY: both slices hold the same whole number of rows of this width.
        unsafe {
            (kernels().norm)(
                (x.len() / width) as i64,
                width as i64,
                x.as_ptr(),
                self.weight.as_ptr(),
                self.bias.as_ptr(),
                self.epsilon as f32,
                out.as_mut_ptr(),
            );
        }
    }
}

/// Logits that no input changes: those of row i and head j start at `logits[i · row_stride + j · head_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// One for each position of the past.
    pub logits: &'a [f32],
    /// From one head to the next.
    pub head_stride: usize,
    /// From one row to the next; 0 for rows at one position.
    pub row_stride: usize,
    /// Whether they are the attention weights themselves, the softmax taken.
    pub is_softmax: bool,
}

/// Self-attention of rows that are hypotheses: each has a list of the entries, one a position, that are its past.
#[derive(Debug)]
pub struct SelfAttention<'a> {
    /// h.
    pub heads: usize,
    /// Width of a head's values.
    pub width: usize,
    /// Positions, the one at hand counted.
    pub length: usize,
    /// Values [h · width], then keys [h · rank], of every entry.
    pub entries: &'a [f32],
    /// Width of an entry.
    pub entry: usize,
    /// Row i's entries are `ancestors[i · ancestors_stride..][..length]`.
    pub ancestors: &'a [u32],
    /// From one row to the next; 0 where all rows have the same.
    pub ancestors_stride: usize,
    /// Queries [rows, h · rank] and the rank, if keys count; scaled.
    pub queries: Option<(&'a [f32], usize)>,
    /// Logits [rows, h, any ≥ length] that are added, and the last size.
    pub dense: Option<(&'a [f32], usize)>,
    /// Logits that are added, or the weights themselves.
    pub table: Option<Table<'a>>,
}

impl SelfAttention<'_> {
    /// The weighted values of each row, `context` [rows, h · width].
    pub fn attend(&self, scratch: &mut Vec<f32>, context: &mut [f32]) {
        let (values, length) = (self.heads * self.width, self.length);
        let rows = context.len() / values;
        if rows == 0 {
            return;
        }
        let stride = self.ancestors_stride;
        assert!(length > 0 && (length <= stride || stride == 0) && context.len() == rows * values);
        assert!(self.ancestors.len() >= (rows - 1) * stride + length);
        let keys = self.queries.map_or(0, |(_, rank)| self.heads * rank);
        assert!(values + keys <= self.entry);
        let entries = self.entries.len() / self.entry;
        for row in 0..if stride == 0 { 1 } else { rows } {
            assert!(self.ancestors[row * stride..][..length].iter().all(|&entry| (entry as usize) < entries));
        }
        assert!(self.queries.is_none_or(|(queries, _)| queries.len() >= rows * keys));
        assert!(self.dense.is_none_or(|(dense, size)| size >= length && dense.len() >= rows * self.heads * size));
        assert!(self.table.is_none_or(|Table { logits, head_stride, row_stride, .. }| {
            logits.len() >= (self.heads - 1) * head_stride + (rows - 1) * row_stride + length
        }));
        let table_is_softmax = self.table.is_some_and(|table| table.is_softmax);
        assert!(!table_is_softmax || (self.queries.is_none() && self.dense.is_none()));
        scratch.resize(whole_vectors(length), 0.0);
        let pointer = |slice: Option<&[f32]>| slice.map_or(std::ptr::null(), <[f32]>::as_ptr);
        let dense_size = self.dense.map_or(0, |(_, size)| size);
        let task = SelfTask {
            rows: rows as i64,
            heads: self.heads as i64,
            width: self.width as i64,
            length: length as i64,
            entries: self.entries.as_ptr(),
            entry: self.entry as i64,
            ancestors: self.ancestors.as_ptr(),
            ancestors_stride: self.ancestors_stride as i64,
            queries: pointer(self.queries.map(|(queries, _)| queries)),
            queries_stride: keys as i64,
            rank: self.queries.map_or(0, |(_, rank)| rank as i64),
            dense: pointer(self.dense.map(|(dense, _)| dense)),
            dense_stride: (self.heads * dense_size) as i64,
            dense_head_stride: dense_size as i64,
            table: pointer(self.table.map(|table| table.logits)),
            table_head_stride: self.table.map_or(0, |table| table.head_stride as i64),
            table_row_stride: self.table.map_or(0, |table| table.row_stride as i64),
            table_is_softmax,
            scratch: scratch.as_mut_ptr(),
            context: context.as_mut_ptr(),
        };
        // SAFETY: every slice is as long as was asserted, and every ancestor is an entry.
        unsafe { (kernels().attend_self)(&task) }
    }
}

/// Places that the kernels use for so many logits.
fn whole_vectors(length: usize) -> usize {
    length.next_multiple_of(kernels().lanes as usize)
}

/// Attention of queries [rows, h · width], scaled, to memories: row i's is the `lengths[i]` entries (values, then keys, each
/// [h · width]) from entry `firsts[i]` on. `context` [rows, h · width] is 0 where a memory is empty.
pub fn attend_memory(
    heads: usize,
    entries: &[f32],
    firsts: &[u32],
    lengths: &[u32],
    queries: &[f32],
    scratch: &mut Vec<f32>,
    context: &mut [f32],
) {
    let rows = firsts.len();
    if rows == 0 {
        return;
    }
    let all = queries.len() / rows;
    assert!(lengths.len() == rows && queries.len() == rows * all && context.len() == queries.len());
    assert!(all.is_multiple_of(heads));
    let there = entries.len() / (2 * all);
    assert!(firsts.iter().zip(lengths).all(|(&first, &length)| first as usize + length as usize <= there));
    scratch.resize(whole_vectors(lengths.iter().copied().max().unwrap_or(0) as usize), 0.0);
    // SAFETY: every slice is as long as was asserted, and every memory lies within the entries.
    unsafe {
        (kernels().attend_memory)(
            rows as i64,
            heads as i64,
            (all / heads) as i64,
            entries.as_ptr(),
            firsts.as_ptr(),
            lengths.as_ptr(),
            queries.as_ptr(),
            scratch.as_mut_ptr(),
            context.as_mut_ptr(),
        );
    }
}

/// The `count` likeliest tokens of each row of logits [rows, vocabulary]: their log-probabilities and ids [rows, count],
/// likeliest first, equal ones by id. The tokens `bans`, pairs (row, token) in order of rows, are not among them, though they
/// count in the sum of probabilities. Places without a token have -inf; a row with NaN or +inf in it has NaN.
pub fn likeliest(logits: &[f32], vocabulary: usize, bans: &[[u32; 2]], count: usize) -> (Vec<f64>, Vec<u32>) {
    assert!(vocabulary > 0 && count > 0 && logits.len().is_multiple_of(vocabulary));
    let rows = logits.len() / vocabulary;
    assert!(bans.is_sorted_by_key(|[row, _]| row) && bans.last().is_none_or(|[row, _]| (*row as usize) < rows));
    let mut log_probabilities = vec![0.0; rows * count];
    let mut tokens = vec![0; rows * count];
    // SAFETY: the slices hold so many rows; `bans` is pairs of u32, one after the other.
    unsafe {
        (kernels().likeliest)(
            rows as i64,
            vocabulary as i64,
            logits.as_ptr(),
            bans.as_ptr().cast(),
            bans.len() as i64,
            count as i64,
            log_probabilities.as_mut_ptr(),
            tokens.as_mut_ptr(),
        );
    }
    (log_probabilities, tokens)
}
