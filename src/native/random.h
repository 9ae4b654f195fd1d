// Dropout whose choices are a function of a seed, a row and a column alone.
#pragma once

#include "kernel.h"

namespace {

struct Dropout {
  uint64_t seed;
  uint32_t least;
  double scale;

  // rate in [0, 1)
  Dropout(double rate, uint64_t seed)
      : seed(seed),
        least(static_cast<uint32_t>(rate * 4294967296.0)),
        scale(1.0 / (1.0 - rate)) {}

  // 0 or 1/(1 - rate) for each of `count` columns from `first`
  template <typename T>
  void row(int64_t row, int64_t first, int64_t count, T* __restrict factors) const {
    uint64_t key = mix(seed ^ mix(static_cast<uint64_t>(row)));
    const uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
    const uint32_t start = static_cast<uint32_t>(first), least = this->least;
    const T scale = static_cast<T>(this->scale);
    for (uint32_t j = 0; j < static_cast<uint32_t>(count); ++j) {
      uint32_t bits = mix(((start + j) ^ low) * 0x9e3779b1U + high);
      factors[j] = bits >= least ? scale : static_cast<T>(0);
    }
  }
};

// Columns that are worked on at a time, so that their factors stay in the nearest cache.
constexpr int64_t MOST_COLUMNS = 1024;

// body(first, count) for the columns of a row, some at a time.
template <typename Body>
void columns_of(int64_t columns, const Body& body) {
  for (int64_t first = 0; first < columns; first += MOST_COLUMNS) {
    body(first, columns - first < MOST_COLUMNS ? columns - first : MOST_COLUMNS);
  }
}

// [0, rows) in parts, few enough that each is worth a thread and fixed by `threads`, so that sums over parts are the same
// every time.
inline int64_t part_count(int64_t rows, int64_t columns) {
  int64_t useful = rows * columns / 16384;
  int64_t most = threads();
  return useful < 1 ? 1 : (useful < most ? useful : most);
}

// body(part, first row, end row) for each of `parts` parts.
template <typename Body>
void parallel_rows(int64_t rows, int64_t parts, const Body& body) {
  parallel(parts, [&](int64_t part) { body(part, rows * part / parts, rows * (part + 1) / parts); });
}

// sums[j] = Σ partial[part][j], in order.
template <typename T>
void add_parts(const T* partial, int64_t parts, int64_t columns, T* sums) {
  for (int64_t j = 0; j < columns; ++j) {
    T sum = partial[j];
    for (int64_t part = 1; part < parts; ++part) {
      sum += partial[part * columns + j];
    }
    sums[j] = sum;
  }
}

} // namespace
