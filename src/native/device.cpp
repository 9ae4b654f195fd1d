// What LibTorch decides for a whole device and tch cannot reach: autocast's kind, TF32.

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

extern "C" {

// On this thread: whether products on CUDA are made in bfloat16. Calls may be nested; the outermost one ends it.
void synthesizer_autocast_bfloat16(int32_t on) {
  if (on != 0) {
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCUDA, true);
  } else if (at::autocast::decrement_nesting() == 0) {
    // weights that were rounded for one pass are out of date in the next
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
}

// Whether float32 products on CUDA may round their operands to TF32's 10 bits.
void synthesizer_allow_tf32(int32_t allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed != 0);
  at::globalContext().setAllowTF32CuDNN(allowed != 0);
}

int32_t synthesizer_tf32_is_allowed() {
  return at::globalContext().allowTF32CuBLAS() ? 1 : 0;
}
}
