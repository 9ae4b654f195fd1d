// Linear maps of the same rows, and their gradients.
#include "products.h"

extern "C" {
struct LinearMap {
  int64_t outputs;
  // [outputs, inputs], [outputs] or null
  const void* weight;
  const void* bias;
  // [rows, outputs]
  void* output;
};

struct LinearForward {
  int64_t rows, inputs, count;
  // [rows, inputs]
  const void* x;
  const LinearMap* maps;
};

struct LinearMapBackward {
  int64_t outputs;
  const void* weight;
  // [rows, outputs]
  const void* output_gradient;
  // like weight and bias; null where not wanted
  void* weight_gradient;
  void* bias_gradient;
};

struct LinearBackward {
  int64_t rows, inputs, count;
  const void* x;
  const LinearMapBackward* maps;
  // like x; null where not wanted
  void* x_gradient;
};
}

namespace {

template <typename T>
void linear(const LinearForward& task) {
  const int64_t n = task.inputs;
  const T* x = static_cast<const T*>(task.x);
  int64_t size = 0;
  for (int64_t i = 0; i < task.count; ++i) {
    size += panels_size<T>(n, task.maps[i].outputs);
  }
  // of each map, one after another
  const Room<T> all(size);
  T* next = all.data;
  for (int64_t i = 0; i < task.count; ++i) {
    const LinearMap& map = task.maps[i];
    pack<T>(n, map.outputs, {static_cast<const T*>(map.weight), n, true}, next);
    next += panels_size<T>(n, map.outputs);
  }
  parallel_rows_shared(task.rows, BLOCK_ROWS, [&](int64_t first, int64_t end) {
    const T* panels = all.data;
    for (int64_t i = 0; i < task.count; ++i) {
      const int64_t m = task.maps[i].outputs;
      product(end - first, n, m, x + first * n, n, panels, static_cast<const T*>(task.maps[i].bias), SET,
          static_cast<T*>(task.maps[i].output) + first * m, m);
      panels += panels_size<T>(n, m);
    }
  });
}

template <typename T>
void linear_backward(const LinearBackward& task) {
  const int64_t rows = task.rows, n = task.inputs;
  const T* x = static_cast<const T*>(task.x);
  T* x_gradient = static_cast<T*>(task.x_gradient);
  int64_t size = 0;
  for (int64_t i = 0; x_gradient != nullptr && i < task.count; ++i) {
    size += panels_size<T>(task.maps[i].outputs, n);
  }
  const Room<T> all(size);
  T* next = all.data;
  for (int64_t i = 0; x_gradient != nullptr && i < task.count; ++i) {
    const LinearMapBackward& map = task.maps[i];
    pack<T>(map.outputs, n, {static_cast<const T*>(map.weight), n}, next);
    next += panels_size<T>(map.outputs, n);
  }
  const auto of_weights = [&](int64_t index, int64_t threads) {
    for (int64_t i = 0; i < task.count; ++i) {
      const LinearMapBackward& map = task.maps[i];
      const Outer<T> outer{rows, map.outputs, n, static_cast<const T*>(map.output_gradient), x, false,
          static_cast<T*>(map.weight_gradient), static_cast<T*>(map.bias_gradient)};
      outer.share(index, threads);
    }
  };
  parallel_rows_shared(x_gradient == nullptr ? 0 : rows, BLOCK_ROWS, of_weights, [&](int64_t first, int64_t end) {
    const T* panels = all.data;
    for (int64_t i = 0; i < task.count; ++i) {
      const int64_t m = task.maps[i].outputs;
      product<T>(end - first, m, n, static_cast<const T*>(task.maps[i].output_gradient) + first * m, m, panels, nullptr,
          i == 0 ? SET : ADD, x_gradient + first * n, n);
      panels += panels_size<T>(m, n);
    }
  });
}

} // namespace

extern "C" {

void KERNEL(linear)(const LinearForward* task, int32_t is_double) {
  is_double ? linear<double>(*task) : linear<float>(*task);
}

void KERNEL(linear_backward)(const LinearBackward* task, int32_t is_double) {
  is_double ? linear_backward<double>(*task) : linear_backward<float>(*task);
}
}
