// The softmax's product and cross-entropy in one: the logits of some rows at a time, never of all.
#include "products.h"

extern "C" {
struct CrossEntropy {
  int64_t rows, width, classes;
  // rows of logits that are held at a time
  int64_t chunk;
  // [rows, width], [classes, width], [rows]
  const void* hidden;
  const void* table;
  const int64_t* targets;
  double smoothing;
  // [chunk, classes]
  void* logits;
  // [rows]
  double* losses;
  // like hidden and table; null where not wanted
  void* hidden_gradient;
  void* table_gradient;
};
}

namespace {

// Loss of a row of logits x; with `gradient` x becomes its gradient.
template <typename T>
double row_loss(T* x, int64_t classes, int64_t target, double smoothing, bool gradient) {
  const T most = largest(x, classes);
  const double wanted = x[target];
  double loss = 0;
  if (smoothing > 0) {
    T sum = 0;
    for (int64_t j = 0; j < classes; ++j) {
      sum += x[j] - most;
    }
    loss -= smoothing * (static_cast<double>(sum) / classes + most);
  }
  T total = 0;
  if (gradient) {
    for (int64_t j = 0; j < classes; ++j) {
      T e = exponential(x[j] - most);
      x[j] = e;
      total += e;
    }
    const T scale = T(1) / total, shift = static_cast<T>(smoothing / classes);
    for (int64_t j = 0; j < classes; ++j) {
      x[j] = x[j] * scale - shift;
    }
    x[target] -= static_cast<T>(1 - smoothing);
  } else {
    for (int64_t j = 0; j < classes; ++j) {
      total += exponential(x[j] - most);
    }
  }
  return loss + most + std::log(static_cast<double>(total)) - (1 - smoothing) * wanted;
}

template <typename T>
void cross_entropy(const CrossEntropy& task) {
  const int64_t d = task.width, classes = task.classes;
  T* logits = static_cast<T*>(task.logits);
  const Matrix<const T> table{static_cast<const T*>(task.table), d};
  T *hidden_gradient = static_cast<T*>(task.hidden_gradient), *table_gradient = static_cast<T*>(task.table_gradient);
  const bool gradient = hidden_gradient != nullptr || table_gradient != nullptr;
  const auto for_logits = packed(d, classes, table.transposed());
  const auto for_gradients = packed(classes, hidden_gradient == nullptr ? 0 : d, table);
  for (int64_t first = 0; first < task.rows; first += task.chunk) {
    const int64_t count = least(task.rows - first, task.chunk);
    const T* hidden = static_cast<const T*>(task.hidden) + first * d;
    // a thread makes the logits of some rows, and turns them into gradients while they are in its cache
    parallel_rows_shared(count, BLOCK_ROWS, [&](int64_t row, int64_t end) {
      const int64_t some = end - row;
      T* here = logits + row * classes;
      product<T>(some, d, classes, hidden + row * d, d, for_logits.data, nullptr, SET, here, classes);
      for (int64_t i = 0; i < some; ++i) {
        const int64_t at = first + row + i;
        task.losses[at] = row_loss(here + i * classes, classes, task.targets[at], task.smoothing, gradient);
      }
      if (hidden_gradient != nullptr) {
        product<T>(some, classes, d, here, classes, for_gradients.data, nullptr, SET, hidden_gradient + (first + row) * d, d);
      }
    });
    const Outer<T> of_table{count, classes, d, logits, hidden, first > 0, table_gradient, nullptr};
    if (table_gradient != nullptr) {
      Outer<T>::make(of_table);
    }
  }
}

} // namespace

extern "C" void KERNEL(cross_entropy)(const CrossEntropy* task, int32_t is_double) {
  is_double ? cross_entropy<double>(*task) : cross_entropy<float>(*task);
}
