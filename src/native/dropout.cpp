// x times 0 or 1/(1 - rate), and the same for the gradient.
#include "random.h"

extern "C" {
struct DropoutTask {
  int64_t rows, columns;
  double rate;
  uint64_t seed;
  const void* x;
  void* output;
};
}

namespace {

template <typename T>
void dropout(const DropoutTask& task) {
  const Dropout dropout(task.rate, task.seed);
  const T* x = static_cast<const T*>(task.x);
  T* output = static_cast<T*>(task.output);
  parallel_rows(task.rows, part_count(task.rows, task.columns), [&](int64_t, int64_t begin, int64_t end) {
    T factors[MOST_COLUMNS];
    for (int64_t row = begin; row < end; ++row) {
      columns_of(task.columns, [&](int64_t first, int64_t count) {
        dropout.row(row, first, count, factors);
        const int64_t at = row * task.columns + first;
        for (int64_t j = 0; j < count; ++j) {
          output[at + j] = x[at + j] * factors[j];
        }
      });
    }
  });
}

} // namespace

extern "C" void KERNEL(dropout)(const DropoutTask* task, int32_t is_double) {
  is_double ? dropout<double>(*task) : dropout<float>(*task);
}
