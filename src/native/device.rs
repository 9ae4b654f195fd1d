//! Copies to the device, how exact and how repeatable its products are, and its memory.
//!
//! Which results repeat to the bit: on the CPU all of them, for a given number of threads. On CUDA only those of runs with
//! `train.deterministic`, on the same device and driver: the backward passes of LibTorch's fused attention add in any order.

use std::ffi::c_void;
use tch::{Device, TchError, Tensor};

unsafe extern "C" {
    fn synthesizer_autocast_bfloat16(on: i32);
    fn synthesizer_allow_tf32(allowed: i32);
    fn synthesizer_tf32_is_allowed() -> i32;
    fn synthesizer_choose_attention(deterministic: i32);
    fn synthesizer_attention_choices() -> i32;
    fn synthesizer_only_deterministic(on: i32);
    fn synthesizer_is_only_deterministic() -> i32;
    fn synthesizer_pinned(tensor: *const c_void) -> *mut c_void;
    fn synthesizer_copy_later(to: *mut c_void, from: *const c_void) -> bool;
    fn synthesizer_cuda_version() -> i64;
    fn synthesizer_device_memory(index: i32, numbers: *mut u64);
    fn synthesizer_forget_peak(index: i32);
}

/// A tensor of the CPU on `device`. For CUDA it goes through pinned memory, and the copy runs beside what the CPU does next;
/// operations on the device wait for it by themselves.
pub fn to_device(tensor: &Tensor, device: Device) -> Tensor {
    match device {
        Device::Cuda(_) => match pinned(tensor) {
            Some(pinned) => pinned.to_device_(device, tensor.kind(), true, false),
            None => tensor.to_device(device),
        },
        _ => tensor.to_device(device),
    }
}

/// A copy of a tensor of the CPU in memory that a device reads by itself; none without such a device, or where the system
/// has no more of it.
pub fn pinned(tensor: &Tensor) -> Option<Tensor> {
    // SAFETY: the tensor lives; the result is a new `at::Tensor` or null, and ours to free, as tch's tensors are.
    unsafe {
        let made = synthesizer_pinned(tensor.as_ptr().cast());
        (!made.is_null()).then(|| Tensor::from_ptr(made.cast()))
    }
}

/// Copies `from` into `to`, of the same size and kind. From a device into pinned memory nobody waits: the numbers arrive some
/// time after those that were computed before.
///
/// # Errors
/// LibTorch's.
pub fn copy_later(to: &mut Tensor, from: &Tensor) -> Result<(), TchError> {
    // SAFETY: both tensors live, and LibTorch keeps them until the copy is done; C++ exceptions are caught there.
    if unsafe { synthesizer_copy_later(to.as_mut_ptr().cast(), from.as_ptr().cast()) } {
        return Ok(());
    }
    // Again, to learn why not.
    to.f_copy_(from)
}

/// Runs `work` with products on CUDA in bfloat16 if `on` (LibTorch's autocast: sums, norms and losses stay float32, and so do
/// weights and gradients). Other devices compute as they are.
///
/// The trainer does so for the losses of training steps. Dev losses and decoding are computed in float32 always.
pub fn with_bfloat16<T>(on: bool, work: impl FnOnce() -> T) -> T {
    if !on {
        return work();
    }
    // Ends however `work` does.
    struct Autocast;
    impl Drop for Autocast {
        fn drop(&mut self) {
            // SAFETY: takes a number; it changes flags of this thread alone.
            unsafe { synthesizer_autocast_bfloat16(0) };
        }
    }
    // SAFETY: as above.
    unsafe { synthesizer_autocast_bfloat16(1) };
    let _autocast = Autocast;
    work()
}

/// Whether float32 products on CUDA may round what they multiply to TF32 (10 bits of fraction instead of 23).
pub fn allow_tf32(allowed: bool) {
    // SAFETY: takes a number; LibTorch keeps it as a flag.
    unsafe { synthesizer_allow_tf32(i32::from(allowed)) }
}

/// What [`allow_tf32`] was given last; LibTorch starts with false.
pub fn tf32_is_allowed() -> bool {
    // SAFETY: takes nothing, reads a flag.
    unsafe { synthesizer_tf32_is_allowed() != 0 }
}

/// Which of LibTorch's attention kernels are allowed on CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionKernels {
    /// cuDNN's.
    pub cudnn: bool,
    /// Flash attention.
    pub flash: bool,
    /// The memory-efficient one.
    pub memory_efficient: bool,
    /// Softmax and products one after the other.
    pub plain: bool,
}

/// Allows the attention kernels that give right gradients, without cuDNN's: it has no gradient of a trained bias, and rounds
/// dropout. If `deterministic`, only the plain one, and cuDNN's convolutions in their deterministic form.
pub fn choose_attention(deterministic: bool) {
    // SAFETY: takes a number; LibTorch keeps flags.
    unsafe { synthesizer_choose_attention(i32::from(deterministic)) }
}

/// What is allowed now.
pub fn attention_kernels() -> AttentionKernels {
    // SAFETY: takes nothing, reads flags.
    let bits = unsafe { synthesizer_attention_choices() };
    AttentionKernels {
        cudnn: bits & 1 != 0,
        flash: bits & 2 != 0,
        memory_efficient: bits & 4 != 0,
        plain: bits & 8 != 0,
    }
}

/// Runs `work`, if `on`, with LibTorch's deterministic operations alone; one that has no such form is an error.
pub fn only_deterministic<T>(on: bool, work: impl FnOnce() -> T) -> T {
    if !on {
        return work();
    }
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            // SAFETY: takes a number; LibTorch keeps a flag.
            unsafe { synthesizer_only_deterministic(0) };
        }
    }
    // SAFETY: as above.
    unsafe { synthesizer_only_deterministic(1) };
    let _end = End;
    work()
}

/// Whether [`only_deterministic`] is under way.
pub fn is_only_deterministic() -> bool {
    // SAFETY: takes nothing, reads a flag.
    unsafe { synthesizer_is_only_deterministic() != 0 }
}

/// Gives cuBLAS the workspace with which its products repeat to the bit, unless the environment names one. cuBLAS reads the
/// variable when CUDA starts; the call belongs at the start of `main`, before there are threads.
pub fn choose_workspace() {
    const VARIABLE: &str = "CUBLAS_WORKSPACE_CONFIG";
    if std::env::var_os(VARIABLE).is_none() {
        std::env::set_var(VARIABLE, ":4096:8");
    }
}

/// Major and minor of the CUDA version that the loaded LibTorch is built with; none for the CPU build.
pub fn cuda_version() -> Option<(u32, u32)> {
    // SAFETY: takes nothing, returns a constant of the library; C++ exceptions are caught there.
    let version = unsafe { synthesizer_cuda_version() };
    (version > 0).then_some((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// Memory of a CUDA device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Free for anybody.
    pub free: u64,
    /// All of it.
    pub total: u64,
    /// The most that this process's tensors took since [`forget_peak`].
    pub peak: u64,
}

/// The memory of a device; none for the CPU, and where nothing was computed on the device yet.
pub fn memory(device: Device) -> Option<DeviceMemory> {
    let Device::Cuda(index) = device else { return None };
    let mut numbers = [0; 3];
    // SAFETY: the place has room for three numbers; C++ exceptions are caught there.
    unsafe { synthesizer_device_memory(index as i32, numbers.as_mut_ptr()) };
    let [free, total, peak] = numbers;
    (total > 0).then_some(DeviceMemory { free, total, peak })
}

/// Starts the peak of [`memory`] anew, and gives memory that no tensor takes back to the device.
pub fn forget_peak(device: Device) {
    if let Device::Cuda(index) = device {
        // SAFETY: takes a number; C++ exceptions are caught there.
        unsafe { synthesizer_forget_peak(index as i32) };
    }
}
