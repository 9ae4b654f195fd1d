// The feed-forward block: w2(dropout(relu(w1 x))), some rows at a time, so that what is between the products stays in a thread's
// cache.
#include "products.h"
#include "random.h"

extern "C" {
struct FeedForward {
  int64_t rows, inputs, width, outputs;
  double rate;
  uint64_t seed;
  // [rows, inputs], [width, inputs], [width], [outputs, width], [outputs]
  const void* x;
  const void* w1;
  const void* b1;
  const void* w2;
  const void* b2;
  // [rows, width]: dropout(relu(w1 x + b1))
  void* hidden;
  // [rows, outputs]
  void* output;
};

struct FeedForwardBackward {
  int64_t rows, inputs, width, outputs;
  double rate;
  const void* x;
  const void* w1;
  const void* w2;
  const void* hidden;
  // [rows, outputs]
  const void* output_gradient;
  // room, like hidden
  void* hidden_gradient;
  // like x, w1, b1, w2 and b2; null where not wanted
  void* x_gradient;
  void* w1_gradient;
  void* b1_gradient;
  void* w2_gradient;
  void* b2_gradient;
};
}

namespace {

template <typename T>
void feed_forward(const FeedForward& task) {
  const int64_t d = task.inputs, n = task.width, m = task.outputs;
  const T *x = static_cast<const T*>(task.x), *b1 = static_cast<const T*>(task.b1), *b2 = static_cast<const T*>(task.b2);
  T *hidden = static_cast<T*>(task.hidden), *output = static_cast<T*>(task.output);
  const auto w1 = packed<T>(d, n, {static_cast<const T*>(task.w1), d, true});
  const auto w2 = packed<T>(n, m, {static_cast<const T*>(task.w2), n, true});
  const Dropout dropout(task.rate, task.seed);
  parallel_rows_shared(task.rows, BLOCK_ROWS, [&](int64_t first, int64_t end) {
    product(end - first, d, n, x + first * d, d, w1.data, b1, RELU, hidden + first * n, n);
    for (int64_t row = first; task.rate > 0 && row < end; ++row) {
      columns_of(n, [&](int64_t left, int64_t count) {
        T factors[MOST_COLUMNS];
        dropout.row(row, left, count, factors);
        T* __restrict kept = hidden + row * n + left;
        for (int64_t j = 0; j < count; ++j) {
          kept[j] *= factors[j];
        }
      });
    }
    product(end - first, n, m, hidden + first * n, n, w2.data, b2, SET, output + first * m, m);
  });
}

template <typename T>
void feed_forward_backward(const FeedForwardBackward& task) {
  const int64_t rows = task.rows, d = task.inputs, n = task.width, m = task.outputs;
  const T *x = static_cast<const T*>(task.x), *hidden = static_cast<const T*>(task.hidden);
  const T* given = static_cast<const T*>(task.output_gradient);
  T *hidden_gradient = static_cast<T*>(task.hidden_gradient), *x_gradient = static_cast<T*>(task.x_gradient);
  const T scale = static_cast<T>(Dropout(task.rate, 0).scale);
  const auto w2 = packed<T>(m, n, {static_cast<const T*>(task.w2), n});
  const auto w1 = packed<T>(n, x_gradient == nullptr ? 0 : d, {static_cast<const T*>(task.w1), d});
  parallel_rows_shared(rows, BLOCK_ROWS, [&](int64_t first, int64_t end) {
    const int64_t some = end - first;
    T* __restrict gradient = hidden_gradient + first * n;
    const T* __restrict kept = hidden + first * n;
    product<T>(some, m, n, given + first * m, m, w2.data, nullptr, SET, gradient, n);
    // 0 below the relu's bend and where it was dropped
    for (int64_t i = 0; i < some * n; ++i) {
      const T scaled = gradient[i] * scale;
      gradient[i] = kept[i] > 0 ? scaled : 0;
    }
    if (x_gradient != nullptr) {
      product<T>(some, n, d, gradient, n, w1.data, nullptr, SET, x_gradient + first * d, d);
    }
  });
  // these sum over all rows, so all must be there
  const Outer<T> of_w1{
      rows, n, d, hidden_gradient, x, false, static_cast<T*>(task.w1_gradient), static_cast<T*>(task.b1_gradient)};
  const Outer<T> of_w2{rows, m, n, given, hidden, false, static_cast<T*>(task.w2_gradient), static_cast<T*>(task.b2_gradient)};
  Outer<T>::make(of_w1, of_w2);
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
