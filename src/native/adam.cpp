// Adam with decoupled weight decay on flat buffers, the clipped gradient's scale and all moments in one pass.
#include "random.h"

extern "C" {
struct Adam {
  int64_t count;
  void* values;
  const void* gradients;
  void* first;
  void* second;
  // 1 where decay acts
  const void* decayed;
  double gradient_scale, beta1, beta2, epsilon;
  // lr/(1 - β₁ᵗ), 1/√(1 - β₂ᵗ), lr · decay
  double rate, correction, decay;
};

struct SquaredNorm {
  int64_t count;
  const void* values;
  // [parts]
  int64_t parts;
  double* sums;
};
}

namespace {

template <typename T>
void update(int64_t count, const Adam& task, T* __restrict values, const T* __restrict gradients, T* __restrict first,
    T* __restrict second, const T* __restrict decayed) {
  const T scale = static_cast<T>(task.gradient_scale);
  const T keep1 = static_cast<T>(task.beta1), new1 = static_cast<T>(1 - task.beta1);
  const T keep2 = static_cast<T>(task.beta2), new2 = static_cast<T>(1 - task.beta2);
  const T epsilon = static_cast<T>(task.epsilon), rate = static_cast<T>(task.rate);
  const T correction = static_cast<T>(task.correction), decay = static_cast<T>(task.decay);
  for (int64_t i = 0; i < count; ++i) {
    const T gradient = gradients[i] * scale;
    const T m = first[i] * keep1 + gradient * new1;
    const T v = second[i] * keep2 + gradient * gradient * new2;
    first[i] = m;
    second[i] = v;
    const T value = values[i] - decay * decayed[i] * values[i];
    values[i] = value - rate * m / (std::sqrt(v) * correction + epsilon);
  }
}

template <typename T>
void adam(const Adam& task) {
  parallel_rows(task.count, part_count(task.count, 1), [&](int64_t, int64_t begin, int64_t end) {
    update(end - begin, task, static_cast<T*>(task.values) + begin, static_cast<const T*>(task.gradients) + begin,
        static_cast<T*>(task.first) + begin, static_cast<T*>(task.second) + begin,
        static_cast<const T*>(task.decayed) + begin);
  });
}

template <typename T>
void squared_norm(const SquaredNorm& task) {
  parallel_rows(task.count, task.parts, [&](int64_t part, int64_t begin, int64_t end) {
    const T* values = static_cast<const T*>(task.values);
    double total = 0;
    for (int64_t first = begin; first < end; first += MOST_COLUMNS) {
      const int64_t last = end - first < MOST_COLUMNS ? end : first + MOST_COLUMNS;
      T sum = 0;
      for (int64_t i = first; i < last; ++i) {
        sum += values[i] * values[i];
      }
      total += static_cast<double>(sum);
    }
    task.sums[part] = total;
  });
}

} // namespace

extern "C" {

void KERNEL(adam)(const Adam* task, int32_t is_double) {
  is_double ? adam<double>(*task) : adam<float>(*task);
}

void KERNEL(squared_norm)(const SquaredNorm* task, int32_t is_double) {
  is_double ? squared_norm<double>(*task) : squared_norm<float>(*task);
}
}
