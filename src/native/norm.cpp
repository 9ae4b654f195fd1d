// Residual, dropout and layer norm in one pass: s = x + dropout(branch), y = (s - mean)/√(variance + ε) · weight + bias.
#include "random.h"

extern "C" {
struct Norm {
  int64_t rows, width;
  double epsilon, rate;
  uint64_t seed;
  // [rows, width]; no branch: s is x
  const void* x;
  const void* branch;
  // [width]
  const void* weight;
  const void* bias;
  // [rows, width]; no s where there is no branch
  void* sum;
  void* output;
  // [rows], or null where no gradient is wanted
  void* means;
  void* scales;
};

struct NormBackward {
  int64_t rows, width;
  double rate;
  uint64_t seed;
  // [rows, width], what was normalized, and the gradients of it (may be null) and of the output
  const void* sum;
  const void* sum_gradient;
  const void* output_gradient;
  const void* weight;
  const void* means;
  const void* scales;
  // [rows, width]; of the branch only where it was dropped from: else it is that of x
  void* gradient;
  void* branch_gradient;
  // [parts, width] and [width]
  int64_t parts;
  void* partial_weight;
  void* partial_bias;
  void* weight_gradient;
  void* bias_gradient;
};
}

namespace {

template <typename T>
void norm(const Norm& task) {
  const int64_t d = task.width;
  const T* __restrict weight = static_cast<const T*>(task.weight);
  const T* __restrict bias = static_cast<const T*>(task.bias);
  const Dropout dropout(task.rate, task.seed);
  parallel_rows(task.rows, part_count(task.rows, d), [&](int64_t, int64_t begin, int64_t end) {
    T factors[MOST_COLUMNS];
    for (int64_t row = begin; row < end; ++row) {
      const T* s = static_cast<const T*>(task.x) + row * d;
      if (task.branch != nullptr) {
        const T* __restrict x = s;
        const T* __restrict branch = static_cast<const T*>(task.branch) + row * d;
        T* __restrict sum = static_cast<T*>(task.sum) + row * d;
        if (task.rate > 0) {
          columns_of(d, [&](int64_t first, int64_t count) {
            dropout.row(row, first, count, factors);
            for (int64_t j = 0; j < count; ++j) {
              sum[first + j] = x[first + j] + branch[first + j] * factors[j];
            }
          });
        } else {
          for (int64_t j = 0; j < d; ++j) {
            sum[j] = x[j] + branch[j];
          }
        }
        s = sum;
      }
      T total = 0;
      for (int64_t j = 0; j < d; ++j) {
        total += s[j];
      }
      const T mean = total / static_cast<T>(d);
      T squares = 0;
      for (int64_t j = 0; j < d; ++j) {
        squares += (s[j] - mean) * (s[j] - mean);
      }
      const T scale = T(1) / std::sqrt(squares / static_cast<T>(d) + static_cast<T>(task.epsilon));
      T* __restrict output = static_cast<T*>(task.output) + row * d;
      for (int64_t j = 0; j < d; ++j) {
        output[j] = (s[j] - mean) * scale * weight[j] + bias[j];
      }
      if (task.means != nullptr) {
        static_cast<T*>(task.means)[row] = mean;
        static_cast<T*>(task.scales)[row] = scale;
      }
    }
  });
}

// With z = (s - mean) · scale and g = dy · weight: ds = scale · (g - mean(g) - z · mean(g z)).
template <typename T>
void norm_backward(const NormBackward& task) {
  const int64_t d = task.width;
  const T* __restrict weight = static_cast<const T*>(task.weight);
  const Dropout dropout(task.rate, task.seed);
  parallel_rows(task.rows, task.parts, [&](int64_t part, int64_t begin, int64_t end) {
    T factors[MOST_COLUMNS];
    T* __restrict weight_sums = static_cast<T*>(task.partial_weight) + part * d;
    T* __restrict bias_sums = static_cast<T*>(task.partial_bias) + part * d;
    std::memset(weight_sums, 0, static_cast<size_t>(d) * sizeof(T));
    std::memset(bias_sums, 0, static_cast<size_t>(d) * sizeof(T));
    for (int64_t row = begin; row < end; ++row) {
      const T* __restrict s = static_cast<const T*>(task.sum) + row * d;
      const T* __restrict dy = static_cast<const T*>(task.output_gradient) + row * d;
      const T mean = static_cast<const T*>(task.means)[row], scale = static_cast<const T*>(task.scales)[row];
      T sum = 0, product = 0;
      for (int64_t j = 0; j < d; ++j) {
        const T z = (s[j] - mean) * scale, g = dy[j] * weight[j];
        sum += g;
        product += g * z;
        weight_sums[j] += dy[j] * z;
        bias_sums[j] += dy[j];
      }
      sum /= static_cast<T>(d);
      product /= static_cast<T>(d);
      T* __restrict gradient = static_cast<T*>(task.gradient) + row * d;
      if (task.sum_gradient != nullptr) {
        const T* before = static_cast<const T*>(task.sum_gradient) + row * d;
        for (int64_t j = 0; j < d; ++j) {
          const T z = (s[j] - mean) * scale;
          gradient[j] = before[j] + scale * (dy[j] * weight[j] - sum - z * product);
        }
      } else {
        for (int64_t j = 0; j < d; ++j) {
          const T z = (s[j] - mean) * scale;
          gradient[j] = scale * (dy[j] * weight[j] - sum - z * product);
        }
      }
      if (task.branch_gradient != nullptr) {
        T* __restrict branch = static_cast<T*>(task.branch_gradient) + row * d;
        columns_of(d, [&](int64_t first, int64_t count) {
          dropout.row(row, first, count, factors);
          for (int64_t j = 0; j < count; ++j) {
            branch[first + j] = gradient[first + j] * factors[j];
          }
        });
      }
    }
  });
  add_parts(static_cast<const T*>(task.partial_weight), task.parts, d, static_cast<T*>(task.weight_gradient));
  add_parts(static_cast<const T*>(task.partial_bias), task.parts, d, static_cast<T*>(task.bias_gradient));
}

} // namespace

extern "C" {

void KERNEL(norm)(const Norm* task, int32_t is_double) {
  is_double ? norm<double>(*task) : norm<float>(*task);
}

void KERNEL(norm_backward)(const NormBackward* task, int32_t is_double) {
  is_double ? norm_backward<double>(*task) : norm_backward<float>(*task);
}
}
