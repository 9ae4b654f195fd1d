// What the two passes of fused attention share.
//
// Attention whose logits are a weighted sum of terms, in blocks of rows: no tensor of rows × columns of all heads exists.
//
// A task is one head of one sequence, or, where no term knows the input, one head of several sequences: they share the
// weights. S, its softmax P and their gradients live in a thread's scratch, one block of rows at a time, and are made again
// in the backward pass from the logarithms of the softmax's sums.

#include "products.h"
#include "random.h"

// A tensor [batch, head, row, column] and its strides in elements; a batch stride of 0 means that sequences share it.
struct Place {
  void* data;
  int64_t batch, head, row, column;
};

enum Kind : int64_t {
  // scale · left [b, h, i, :] · right [b, h, j, :] + bias [h, j]
  PRODUCT = 0,
  // left [h, i, j]
  TABLE = 1,
  // left [b, h, i, j mod width] · right [b, h, i, j div width]
  OUTER = 2,
};

struct Term {
  int64_t kind, width, second_width;
  double scale;
  Place left, right, bias;
  // data is null where none is wanted
  Place left_gradient, right_gradient, bias_gradient;
};

struct Attention {
  int64_t batch, heads, rows, columns, width, term_count;
  const Term* terms;
  // [terms, heads], or null for 1
  const void* weights;
  void* weights_gradient;
  Place values, output, output_gradient, values_gradient;
  // [batch, columns], 1 where hidden; or null
  const uint8_t* padding;
  // row i sees columns up to i
  int64_t causal;
  // no term knows the input, and there is neither padding nor dropout
  int64_t shared;
  double dropout;
  uint64_t seed;
  // [batch, or 1 if shared, heads, rows]: maximum + log of the sum of exponentials, infinite where a row sees nothing
  void* log_sums;
  // 1 if log_sums shall be kept
  int64_t keep;
};

namespace {

constexpr int64_t MOST_TERMS = 8;

template <typename T>
T* at(const Place& place, int64_t b, int64_t h, int64_t row) {
  return static_cast<T*>(place.data) + b * place.batch + h * place.head + row * place.row;
}

// Rows [first, …) of one head, all columns.
template <typename T>
Matrix<T> matrix(const Place& place, int64_t b, int64_t h, int64_t first) {
  bool turned = place.column != 1;
  return {at<T>(place, b, h, first), turned ? place.column : place.row, turned};
}

template <typename T>
Matrix<const T> constant(Matrix<T> matrix) {
  return {matrix.data, matrix.stride, matrix.turned};
}

template <typename T>
T weight(const Attention& task, int64_t term, int64_t h) {
  return task.weights == nullptr ? T(1) : static_cast<const T*>(task.weights)[term * task.heads + h];
}

// The products of a block of rows: S [count, columns] = Σ weight · scale · left rightᵀ.
template <typename T>
void products(const Attention& task, int64_t b, int64_t h, int64_t first, int64_t count, int64_t columns, Matrix<T> s) {
  bool begun = false;
  for (int64_t t = 0; t < task.term_count; ++t) {
    const Term& term = task.terms[t];
    if (term.kind != PRODUCT) {
      continue;
    }
    T alpha = weight<T>(task, t, h) * T(term.scale);
    gemm<T>(count, columns, term.width, alpha, constant(matrix<T>(term.left, b, h, first)),
        constant(matrix<T>(term.right, b, h, 0)).transposed(), begun ? T(1) : T(0), s);
    begun = true;
  }
  if (!begun) {
    for (int64_t i = 0; i < count; ++i) {
      std::memset(s.data + i * s.stride, 0, static_cast<size_t>(columns) * sizeof(T));
    }
  }
}

// Adds to row i what is no product.
template <typename T>
void add_tables(const Attention& task, int64_t b, int64_t h, int64_t i, int64_t count, T* s) {
  for (int64_t t = 0; t < task.term_count; ++t) {
    const Term& term = task.terms[t];
    const T w = weight<T>(task, t, h);
    if (term.kind == TABLE || (term.kind == PRODUCT && term.bias.data != nullptr)) {
      const T* row = term.kind == TABLE ? at<T>(term.left, 0, h, i) : at<T>(term.bias, 0, h, 0);
      for (int64_t j = 0; j < count; ++j) {
        s[j] += w * row[j];
      }
    } else if (term.kind == OUTER) {
      const T* left = at<T>(term.left, b, h, i);
      const T* right = at<T>(term.right, b, h, i);
      for (int64_t y = 0, j = 0; j < count; ++y, j += term.width) {
        const T factor = w * right[y];
        const int64_t end = j + term.width < count ? term.width : count - j;
        for (int64_t x = 0; x < end; ++x) {
          s[j + x] += factor * left[x];
        }
      }
    }
  }
}

template <typename T>
constexpr T infinity() {
  return static_cast<T>(HUGE_VAL);
}

// Rows of a block: enough for the products to run well, few enough to stay in the cache.
int64_t block_rows(const Attention& task) {
  int64_t rows = 64;
  while (rows > 16 && rows * task.columns > 64 * 1024) {
    rows /= 2;
  }
  return rows < task.rows ? rows : task.rows;
}

int64_t visible(const Attention& task, int64_t row) {
  return task.causal && row + 1 < task.columns ? row + 1 : task.columns;
}

// Tasks are numbered head by head, so that a thread's share holds whole heads where it can.
struct Share {
  int64_t begin, end;
};

Share share(const Attention& task, int64_t part, int64_t parts) {
  int64_t tasks = task.heads * task.batch;
  return {tasks * part / parts, tasks * (part + 1) / parts};
}

int64_t part_count(const Attention& task) {
  int64_t tasks = task.heads * task.batch;
  int64_t most = threads();
  return tasks < most ? tasks : most;
}

} // namespace
