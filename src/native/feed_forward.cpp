// Between the two products of the feed-forward block: bias, relu and dropout, in place.
#include "random.h"

extern "C" {
struct FeedForward {
  int64_t rows, width;
  double rate;
  uint64_t seed;
  // [rows, width]: the product, which becomes dropout(relu(product + bias))
  void* hidden;
  // [width]
  const void* bias;
};

struct FeedForwardBackward {
  int64_t rows, width;
  double rate;
  // [rows, width]: what the forward pass left, and its gradient, which becomes that of the product
  const void* hidden;
  void* gradient;
  // [parts, width] and [width]
  int64_t parts;
  void* partial_bias;
  void* bias_gradient;
};
}

namespace {

template <typename T>
void feed_forward(const FeedForward& task) {
  const int64_t n = task.width;
  const T* __restrict bias = static_cast<const T*>(task.bias);
  const Dropout dropout(task.rate, task.seed);
  parallel_rows(task.rows, part_count(task.rows, n), [&](int64_t, int64_t begin, int64_t end) {
    T factors[MOST_COLUMNS];
    for (int64_t row = begin; row < end; ++row) {
      T* __restrict hidden = static_cast<T*>(task.hidden) + row * n;
      // written so that a NaN stays one
      for (int64_t j = 0; j < n; ++j) {
        const T sum = hidden[j] + bias[j];
        hidden[j] = sum < 0 ? 0 : sum;
      }
      if (task.rate > 0) {
        columns_of(n, [&](int64_t first, int64_t count) {
          dropout.row(row, first, count, factors);
          for (int64_t j = 0; j < count; ++j) {
            hidden[first + j] *= factors[j];
          }
        });
      }
    }
  });
}

template <typename T>
void feed_forward_backward(const FeedForwardBackward& task) {
  const int64_t n = task.width;
  const T scale = static_cast<T>(Dropout(task.rate, 0).scale);
  parallel_rows(task.rows, task.parts, [&](int64_t part, int64_t begin, int64_t end) {
    T* __restrict sums = static_cast<T*>(task.partial_bias) + part * n;
    std::memset(sums, 0, static_cast<size_t>(n) * sizeof(T));
    for (int64_t row = begin; row < end; ++row) {
      const T* __restrict hidden = static_cast<const T*>(task.hidden) + row * n;
      T* __restrict gradient = static_cast<T*>(task.gradient) + row * n;
      for (int64_t j = 0; j < n; ++j) {
        // 0 below the relu's bend and where it was dropped
        const T given = gradient[j] * scale;
        const T g = hidden[j] > 0 ? given : 0;
        gradient[j] = g;
        sums[j] += g;
      }
    }
  });
  add_parts(static_cast<const T*>(task.partial_bias), task.parts, n, static_cast<T*>(task.bias_gradient));
}

} // namespace

extern "C" {

void KERNEL(feed_forward)(const FeedForward* task, int32_t is_double) {
  is_double ? feed_forward<double>(*task) : feed_forward<float>(*task);
}

void KERNEL(feed_forward_backward)(const FeedForwardBackward* task, int32_t is_double) {
  is_double ? feed_forward_backward<double>(*task) : feed_forward_backward<float>(*task);
}
}
