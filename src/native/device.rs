//! Copies to the device, and how exact its products are.

use tch::{Device, Tensor};

unsafe extern "C" {
    fn synthesizer_autocast_bfloat16(on: i32);
    fn synthesizer_allow_tf32(allowed: i32);
    fn synthesizer_tf32_is_allowed() -> i32;
}

/// A tensor of the CPU on `device`. For CUDA it goes through pinned memory, and the copy runs beside what the CPU does next;
/// operations on the device wait for it by themselves.
pub fn to_device(tensor: &Tensor, device: Device) -> Tensor {
    match device {
        Device::Cuda(_) => tensor.pin_memory(device).to_device_(device, tensor.kind(), true, false),
        _ => tensor.to_device(device),
    }
}

/// Runs `work` with products on CUDA in bfloat16 if `on` (LibTorch's autocast: sums, norms and losses stay float32, and so do
/// weights and gradients). Other devices compute as they are.
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
