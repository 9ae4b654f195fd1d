// What LibTorch decides for a whole device and tch cannot reach: autocast's kind, TF32, which kernels attention may take,
// determinism, pinned memory, and a device's memory.

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <exception>

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

// cuDNN's attention gives no gradient of a trained bias, rounds dropout to multiples of 1/16, and caches plans without bound.
// Where results are to repeat, LibTorch's fused kernels are left out too: their backward passes add in any order.
void synthesizer_choose_attention(int32_t deterministic) {
  auto& context = at::globalContext();
  context.setSDPUseCuDNN(false);
  context.setSDPUseMath(true);
  context.setSDPUseFlash(deterministic == 0);
  context.setSDPUseMemEfficient(deterministic == 0);
  context.setDeterministicCuDNN(deterministic != 0);
  context.setBenchmarkCuDNN(false);
}

// Bits: cuDNN's attention is allowed (1), flash (2), memory-efficient (4), plain (8).
int32_t synthesizer_attention_choices() {
  auto& context = at::globalContext();
  return (context.userEnabledCuDNNSDP() ? 1 : 0) | (context.userEnabledFlashSDP() ? 2 : 0) |
      (context.userEnabledMemEfficientSDP() ? 4 : 0) | (context.userEnabledMathSDP() ? 8 : 0);
}

// Whether an operation that has a deterministic form takes it, and one that has none is an error.
void synthesizer_only_deterministic(int32_t on) {
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setDeterministicAlgorithms(on != 0, /*warn_only=*/false);
}

int32_t synthesizer_is_only_deterministic() {
  return at::globalContext().deterministicAlgorithms() ? 1 : 0;
}

// A copy in pinned memory, the caller's to free; null where there is none to be had. To name the device is deprecated, with a
// warning for each call.
at::Tensor* synthesizer_pinned(const at::Tensor* tensor) {
  try {
    return new at::Tensor(tensor->pin_memory());
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Without waiting where `to` is pinned and `from` on a device. Whether it could be done.
bool synthesizer_copy_later(at::Tensor* to, const at::Tensor* from) {
  try {
    at::NoGradGuard no_gradients;
    to->copy_(*from, /*non_blocking=*/true);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// The CUDA version that this LibTorch is built with, 1000 · major + 10 · minor; 0 without CUDA.
int64_t synthesizer_cuda_version() {
  try {
    return at::detail::getCUDAHooks().versionCUDART();
  } catch (const std::exception&) {
    return 0;
  }
}

// Memory of a CUDA device in bytes: free, all, the most that tensors took since synthesizer_forget_peak. 0 where it is
// unknown.
void synthesizer_device_memory(int32_t index, uint64_t* numbers) {
  numbers[0] = numbers[1] = numbers[2] = 0;
  try {
    auto* allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
    if (!allocator->initialized()) {
      return;
    }
    const auto device = static_cast<c10::DeviceIndex>(index);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    numbers[2] = static_cast<uint64_t>(allocator->getDeviceStats(device).allocated_bytes[all].peak);
    const auto memory = allocator->getMemoryInfo(device);
    numbers[0] = memory.first;
    numbers[1] = memory.second;
  } catch (const std::exception&) {
  }
}

// Starts the peak anew, and gives memory that no tensor takes back to the device.
void synthesizer_forget_peak(int32_t index) {
  try {
    auto* allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
    if (allocator->initialized()) {
      allocator->emptyCache();
      allocator->resetPeakStats(static_cast<c10::DeviceIndex>(index));
    }
  } catch (const std::exception&) {
  }
}
}
