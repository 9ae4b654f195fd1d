//! Our own C++: functions with hand-written gradients for LibTorch's graph, and kernels for the CPU.
//!
//! The C++ that knows LibTorch is `autograd.cpp` and `device.cpp`. Kernels are plain C++ on pointers, compiled for several instruction
//! sets (`build.rs`) and chosen by [`instructions`]; what is allocated, saved and asked for is decided in Rust.

/// A function that gives the kernel for this processor: `choose(Task): foo_baseline, foo_avx2, foo_avx512`. Every kernel takes
/// what it is to do, and whether its tensors are float64.
macro_rules! kernels {
    ($choose:ident($task:ty): $baseline:ident, $avx2:ident, $avx512:ident) => {
        unsafe extern "C" {
            fn $baseline(task: *const $task, is_double: i32);
            #[cfg(target_arch = "x86_64")]
            fn $avx2(task: *const $task, is_double: i32);
            #[cfg(target_arch = "x86_64")]
            fn $avx512(task: *const $task, is_double: i32);
        }

        fn $choose() -> unsafe extern "C" fn(*const $task, i32) {
            match $crate::native::instructions() {
                #[cfg(target_arch = "x86_64")]
                $crate::native::Instructions::Avx512 => $avx512,
                #[cfg(target_arch = "x86_64")]
                $crate::native::Instructions::Avx2 => $avx2,
                _ => $baseline,
            }
        }
    };
}

pub mod adam;
pub mod attention;
pub mod cross_entropy;
pub mod decode;
pub mod device;
pub mod dropout;
pub mod feed_forward;
pub mod linear;
pub mod norm;

use crate::out_of_memory::first_line;
use std::ffi::{c_char, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::OnceLock;
use tch::{Device, Kind, TchError, Tensor};

/// LibTorch's `at::Tensor`.
type Handle = *mut c_void;

unsafe extern "C" {
    fn synthesizer_wants_gradient(inputs: *const Handle, count: usize) -> bool;
    fn synthesizer_record(
        inputs: *const Handle,
        input_count: usize,
        outputs: *const Handle,
        output_count: usize,
        closure: *mut c_void,
        backward: Backward,
        drop: unsafe extern "C" fn(*mut c_void),
    ) -> *mut c_char;
    fn synthesizer_random() -> u64;
}

type Backward = unsafe extern "C" fn(*mut c_void, *const Handle, *const u8, *mut Handle) -> *mut c_char;

/// Gradients of the outputs, and which inputs want theirs, to those of the inputs, in order.
type Gradient = Box<dyn Fn(&[Option<Tensor>], &[bool]) -> Result<Vec<Option<Tensor>>, TchError> + Send>;

struct Closure {
    gradient: Gradient,
    inputs: usize,
    outputs: usize,
}

/// Whether gradients are recorded here and one of `inputs` wants some: else nothing need be kept for a backward pass.
pub fn wants_gradient(inputs: &[&Tensor]) -> bool {
    let pointers: Vec<Handle> = inputs.iter().map(|input| input.as_ptr().cast_mut().cast()).collect();
    // SAFETY: the pointers are of living tensors, and are only read.
    unsafe { synthesizer_wants_gradient(pointers.as_ptr(), pointers.len()) }
}

/// Makes `outputs`, which were computed from `inputs` without recording, results of a node of LibTorch's graph.
///
/// In the backward pass `gradient` gets the gradient of each output (none if nothing depends on it) and whether each input
/// wants one; it gives one for each of those, in order, of the input's shape, kind and device. It runs without recording, may
/// run several times if the graph is kept, and on another thread. What it keeps of an output must be detached, or neither is
/// ever freed; what it keeps of an input must not be changed in place before it runs, which nothing checks.
///
/// Does nothing where no gradient is wanted.
///
/// # Errors
/// LibTorch's.
pub fn record(
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    gradient: impl Fn(&[Option<Tensor>], &[bool]) -> Result<Vec<Option<Tensor>>, TchError> + Send + 'static,
) -> Result<(), TchError> {
    if !wants_gradient(inputs) {
        return Ok(());
    }
    let closure = Closure { gradient: Box::new(gradient), inputs: inputs.len(), outputs: outputs.len() };
    let pointers =
        |tensors: &[&Tensor]| tensors.iter().map(|tensor| tensor.as_ptr().cast_mut().cast()).collect::<Vec<_>>();
    let (given, made) = (pointers(inputs), pointers(outputs));
    // SAFETY: the pointers are of living tensors; the box is freed by `free`, once, whatever happens.
    let message = unsafe {
        synthesizer_record(
            given.as_ptr(),
            given.len(),
            made.as_ptr(),
            made.len(),
            Box::into_raw(Box::new(closure)).cast(),
            call,
            free,
        )
    };
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: made by strdup, and ours.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        libc::free(message.cast());
        Err(TchError::Torch(text))
    }
}

unsafe extern "C" fn call(
    closure: *mut c_void,
    gradients: *const Handle,
    wanted: *const u8,
    results: *mut Handle,
) -> *mut c_char {
    // SAFETY: made by `record`, and not freed before the node is.
    let closure = unsafe { &*closure.cast::<Closure>() };
    // SAFETY: the node gives as many of each as it was made with; a clone shares the node's tensor.
    let (gradients, wanted) = unsafe {
        let clone = |pointer: &Handle| (!pointer.is_null()).then(|| Tensor::clone_from_ptr(pointer.cast()));
        let gradients: Vec<Option<Tensor>> =
            std::slice::from_raw_parts(gradients, closure.outputs).iter().map(clone).collect();
        let wanted: Vec<bool> =
            std::slice::from_raw_parts(wanted, closure.inputs).iter().map(|&wanted| wanted != 0).collect();
        (gradients, wanted)
    };
    let made = catch_unwind(AssertUnwindSafe(|| (closure.gradient)(&gradients, &wanted)));
    let message = match made {
        Ok(Ok(made)) if made.len() == closure.inputs => {
            for (index, tensor) in made.into_iter().enumerate() {
                if let Some(tensor) = tensor {
                    // SAFETY: the node has a place for each input, and frees what it finds there.
                    unsafe { *results.add(index) = tensor.as_ptr().cast_mut().cast() };
                    std::mem::forget(tensor);
                }
            }
            return std::ptr::null_mut();
        }
        Ok(Ok(made)) => format!("{} gradients were made for {} inputs", made.len(), closure.inputs),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("a gradient function panicked: {}", first_line(panic.as_ref())),
    };
    let message = message.replace('\0', " ");
    // SAFETY: length and bytes are those of the message; calloc leaves the 0 at its end. Freed by the node.
    unsafe {
        let copy = libc::calloc(message.len() + 1, 1).cast::<u8>();
        if !copy.is_null() {
            std::ptr::copy_nonoverlapping(message.as_ptr(), copy, message.len());
        }
        copy.cast()
    }
}

unsafe extern "C" fn free(closure: *mut c_void) {
    // SAFETY: made by `record`; the node calls this once.
    drop(unsafe { Box::from_raw(closure.cast::<Closure>()) });
}

/// The next 64 bits of LibTorch's own generator for the CPU, so that `tch::manual_seed` decides them.
pub fn random() -> u64 {
    // SAFETY: takes nothing; the generator is locked inside.
    unsafe { synthesizer_random() }
}

/// Whether the kernels take tensors of this device and kind, and are on ([`kernels_are_on`]). All else is LibTorch's.
pub fn takes(device: Device, kind: Kind) -> bool {
    device == Device::Cpu && matches!(kind, Kind::Float | Kind::Double) && kernels_are_on()
}

/// The environment's variable that turns the kernels off (`off`; `on` is the default). Everything is then computed on the
/// CPU as it is on a GPU, so that tests without a GPU reach that code.
pub const KERNELS_VARIABLE: &str = "SYNTHESIZER_KERNELS";

/// Whether the environment leaves the kernels on.
///
/// # Errors
/// [`KERNELS_VARIABLE`] is neither `on` nor `off`.
pub fn wanted_kernels() -> Result<bool, String> {
    match std::env::var_os(KERNELS_VARIABLE) {
        None => Ok(true),
        Some(wanted) if wanted == "on" => Ok(true),
        Some(wanted) if wanted == "off" => Ok(false),
        Some(wanted) => Err(format!("{KERNELS_VARIABLE} is {wanted:?}: it takes `on` or `off`")),
    }
}

/// 0 before the first question, then 1 (off) or 2 (on).
static KERNELS: AtomicU8 = AtomicU8::new(0);

/// Whether the CPU's kernels are used, by [`use_kernels`] or else by the environment.
///
/// # Panics
/// If the environment's word is neither, which the command line has looked for before.
pub fn kernels_are_on() -> bool {
    match KERNELS.load(Ordering::Relaxed) {
        0 => {
            let on = wanted_kernels().unwrap_or_else(|why| panic!("{why}"));
            use_kernels(on);
            on
        }
        state => state == 2,
    }
}

/// Turns the kernels on or off for the whole process. Tensors and graphs that were made before stay as they are.
pub fn use_kernels(on: bool) {
    KERNELS.store(if on { 2 } else { 1 }, Ordering::Relaxed);
}

/// Parts into which work on so many elements is cut where each part adds up sums of its own: one a thread, if that is worth a
/// thread, as `part_count` of `random.h` has it.
fn parts(elements: i64) -> i64 {
    i64::from(tch::get_num_threads().max(1)).min((elements / 16384).max(1))
}

/// Where a tensor's elements lie; null where there is none.
fn data(tensor: Option<&Tensor>) -> *mut c_void {
    tensor.map_or(std::ptr::null_mut(), |tensor| tensor.data_ptr())
}

/// The instruction sets that kernels are compiled for (`build.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// What every processor of the architecture has.
    Baseline,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Instructions {
    /// `baseline`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Instructions::Baseline => "baseline",
            Instructions::Avx2 => "avx2",
            Instructions::Avx512 => "avx512",
        }
    }

    /// What this processor has, the best last.
    pub fn available() -> Vec<Instructions> {
        #[allow(unused_mut)] // on other processors
        let mut there = vec![Instructions::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") {
                there.push(Instructions::Avx2);
            }
            if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                there.push(Instructions::Avx512);
            }
        }
        there
    }
}

/// The environment's variable that names the instruction set to take, so that tests can run every one.
pub const INSTRUCTIONS_VARIABLE: &str = "SYNTHESIZER_INSTRUCTIONS";

/// The best that this processor has, or the one that the environment names.
///
/// # Errors
/// The environment names none that the processor has.
pub fn wanted_instructions() -> Result<Instructions, String> {
    let there = Instructions::available();
    let Some(wanted) = std::env::var_os(INSTRUCTIONS_VARIABLE) else {
        return Ok(*there.last().unwrap_or(&Instructions::Baseline));
    };
    there.iter().copied().find(|set| wanted == set.name()).ok_or_else(|| {
        let names: Vec<&str> = there.iter().map(|set| set.name()).collect();
        format!("{INSTRUCTIONS_VARIABLE} is {wanted:?}; this processor has {}", names.join(", "))
    })
}

/// What [`wanted_instructions`] says at the first call.
///
/// # Panics
/// If that is an error, which the command line has looked for before.
pub fn instructions() -> Instructions {
    static CHOSEN: OnceLock<Instructions> = OnceLock::new();
    *CHOSEN.get_or_init(|| wanted_instructions().unwrap_or_else(|why| panic!("{why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;
    use tch::{Device, Kind};

    fn leaf(values: &[f64]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    /// (a·b, a + 2b) with hand-written gradients.
    fn both(a: &Tensor, b: &Tensor, calls: &Arc<AtomicUsize>) -> (Tensor, Tensor) {
        let (product, sum) = tch::no_grad(|| (a * b, a + b * 2.0));
        let (kept_a, kept_b, calls) = (a.detach(), b.detach(), calls.clone());
        let gradient = move |given: &[Option<Tensor>], wanted: &[bool]| {
            calls.fetch_add(1, Ordering::Relaxed);
            let zero = kept_a.zeros_like();
            let [product, sum] = [0, 1].map(|index: usize| given[index].as_ref().unwrap_or(&zero));
            Ok(vec![wanted[0].then(|| product * &kept_b + sum), wanted[1].then(|| product * &kept_a + sum * 2.0)])
        };
        record(&[a, b], &[&product, &sum], gradient).unwrap();
        (product, sum)
    }

    #[test]
    fn gradients_are_those_that_were_given() {
        let calls = Arc::new(AtomicUsize::new(0));
        let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[3.0, -5.0]));
        let (product, sum) = both(&a, &b, &calls);
        (product * Tensor::from_slice(&[1.0, 10.0]) + sum).sum(Kind::Double).backward();
        assert_eq!(Vec::<f64>::try_from(a.grad()).unwrap(), [3.0 + 1.0, -50.0 + 1.0]);
        assert_eq!(Vec::<f64>::try_from(b.grad()).unwrap(), [1.0 + 2.0, 20.0 + 2.0]);
        // An input that wants nothing gets nothing, and an output that nothing depends on has no gradient.
        let (c, d) = (leaf(&[1.0, 2.0]), Tensor::from_slice(&[3.0, -5.0]));
        both(&c, &d, &calls).1.sum(Kind::Double).backward();
        assert_eq!(Vec::<f64>::try_from(c.grad()).unwrap(), [1.0, 1.0]);
        assert!(!d.grad().defined());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn nothing_is_recorded_where_nothing_wants_a_gradient_and_nothing_is_kept_after() {
        let calls = Arc::new(AtomicUsize::new(0));
        let a = leaf(&[1.0]);
        assert!(!tch::no_grad(|| wants_gradient(&[&a])));
        assert!(wants_gradient(&[&a]) && !wants_gradient(&[&a.detach()]));
        assert!(!tch::no_grad(|| both(&a, &a, &calls)).0.requires_grad());
        assert_eq!(Arc::strong_count(&calls), 1);
        let (product, _sum) = both(&a, &a, &calls);
        assert_eq!(Arc::strong_count(&calls), 2);
        product.backward();
        assert_eq!(Arc::strong_count(&calls), 1, "the graph was used and is not kept");
        drop(both(&a, &a, &calls));
        assert_eq!(Arc::strong_count(&calls), 1, "the graph was never used");
    }

    #[test]
    fn errors_and_panics_reach_the_caller_of_backward() {
        type Gradient = fn() -> Result<Vec<Option<Tensor>>, TchError>;
        let faults: [(Gradient, &str); 3] = [
            (|| Err(TchError::Torch("no luck".into())), "no luck"),
            (|| Ok(vec![]), "0 gradients were made for 1 inputs"),
            (|| std::panic::resume_unwind(Box::new("quiet")), "panicked"),
        ];
        for (fault, wanted) in faults {
            let a = leaf(&[1.0]);
            let output = tch::no_grad(|| &a * 2.0);
            record(&[&a], &[&output], move |_, _| fault()).unwrap();
            let error = output.f_backward().unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn random_numbers_follow_the_seed() {
        let draw = |seed| {
            tch::manual_seed(seed);
            [random(), random()]
        };
        // Other tests of this process may draw between: then a second look agrees.
        let agree = (0..50).any(|_| draw(7) == draw(7));
        assert!(agree && draw(7) != draw(8));
        let _ = Tensor::rand([1], (Kind::Float, Device::Cpu));
    }
}
