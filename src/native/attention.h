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
  // `output` in the forward pass only
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
constexpr T infinity() {
  return static_cast<T>(HUGE_VAL);
}

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

// Elements of the panels of all products' right sides: transposed for logits, as they lie for the left sides' gradients.
template <typename T>
int64_t rights_size(const Attention& task, bool transposed) {
  int64_t size = 0;
  for (int64_t t = 0; t < task.term_count; ++t) {
    const Term& term = task.terms[t];
    if (term.kind == PRODUCT) {
      size += transposed ? panels_size<T>(term.width, task.columns) : panels_size<T>(task.columns, term.width);
    }
  }
  return size;
}

// Packs them, of one head of one sequence.
template <typename T>
void pack_rights(const Attention& task, int64_t b, int64_t h, bool transposed, T* panels) {
  for (int64_t t = 0; t < task.term_count; ++t) {
    const Term& term = task.terms[t];
    if (term.kind != PRODUCT) {
      continue;
    }
    const Matrix<const T> right = constant(matrix<T>(term.right, b, h, 0));
    if (transposed) {
      pack_alone(term.width, task.columns, right.transposed(), panels, term.width);
      panels += panels_size<T>(term.width, task.columns);
    } else {
      pack_alone(task.columns, term.width, right, panels, task.columns);
      panels += panels_size<T>(task.columns, term.width);
    }
  }
}

// to [rows, columns], whose rows are `stride` apart, = factor · from: there rows lie far apart where heads lie side by side, and would
// push each other out of the cache.
template <typename T>
void gather(int64_t rows, int64_t columns, T factor, const T* from, int64_t from_stride, T* to, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += stride) {
    for (int64_t j = 0; j < columns; ++j) {
      to[j] = factor * from[j];
    }
  }
}

// The columns that a row sees, and as many more as make the vectors whole: what is left over would take longer.
int64_t whole_vectors(int64_t seen) {
  return (seen + 15) / 16 * 16;
}

// Elements from row to row of a block. There is room for whole vectors and whole panels of a product, and rows of 1024 do not all begin
// at the same place of the cache.
int64_t block_stride(const Attention& task) {
  static_assert(PANEL_COLUMNS<float> <= 32, "a row's last panel ends within the stride");
  return (task.columns + 31) / 16 * 16;
}

// Rows of a block that are worked on together: a causal row needs nothing of later columns.
int64_t rows_together(const Attention& task, int64_t count) {
  return task.causal ? DIAGONAL_ROWS : count;
}

// out [count, columns that rows from `first` on see] = left [count, width] rightᵀ, or that added to it; whole panels, so that a row ends
// with what means nothing.
template <typename T>
void logits(const Attention& task, int64_t first, int64_t count, int64_t width, const T* left, const T* panels, bool add, T* out,
    int64_t stride) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  const int64_t step = rows_together(task, count);
  for (int64_t i = 0; i < count; i += step) {
    const int64_t rows = least(count - i, step), columns = (visible(task, first + i + rows - 1) + WIDTH - 1) / WIDTH * WIDTH;
    product<T>(rows, width, columns, left + i * width, width, panels, nullptr, add ? ADD : SET, out + i * stride, stride);
  }
}

// out [count, width] = weights right, where the weights of columns that a row does not see are 0.
template <typename T>
void weighted(const Attention& task, int64_t first, int64_t count, int64_t width, const T* weights, int64_t weights_stride,
    const T* panels, T* out, int64_t stride) {
  const int64_t step = rows_together(task, count);
  for (int64_t i = 0; i < count; i += step) {
    const int64_t rows = least(count - i, step);
    product<T>(rows, visible(task, first + i + rows - 1), width, weights + i * weights_stride, weights_stride, panels, task.columns,
        nullptr, SET, out + i * stride, stride);
  }
}

// The products of a block of rows: S = Σ weight · scale · left rightᵀ, of packed right sides, as `logits` has it; `left` is scratch.
template <typename T>
void products(
    const Attention& task, int64_t b, int64_t h, int64_t first, int64_t count, const T* panels, T* left, T* s, int64_t stride) {
  bool begun = false;
  for (int64_t t = 0; t < task.term_count; ++t) {
    const Term& term = task.terms[t];
    if (term.kind != PRODUCT) {
      continue;
    }
    gather(count, term.width, weight<T>(task, t, h) * T(term.scale), at<T>(term.left, b, h, first), term.left.row, left, term.width);
    logits(task, first, count, term.width, left, panels, begun, s, stride);
    panels += panels_size<T>(term.width, task.columns);
    begun = true;
  }
  for (int64_t i = 0; !begun && i < count; ++i) {
    std::memset(s + i * stride, 0, static_cast<size_t>(visible(task, first + count - 1)) * sizeof(T));
  }
}

// Elements of the longest row on either side of a term.
int64_t widest(const Attention& task) {
  int64_t widest = 0;
  for (int64_t t = 0; t < task.term_count; ++t) {
    const Term& term = task.terms[t];
    widest = term.width > widest ? term.width : widest;
    widest = term.second_width > widest ? term.second_width : widest;
  }
  return widest;
}

// Adds to row i what is no product; `count` of its columns.
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

// Ends row i: adds what is no product, and hides padding and what follows the columns that it sees, to whole vectors.
template <typename T>
void end_logits(const Attention& task, int64_t b, int64_t h, int64_t i, int64_t seen, T* s) {
  add_tables<T>(task, b, h, i, seen, s);
  if (task.padding != nullptr) {
    const uint8_t* hidden = task.padding + b * task.columns;
    for (int64_t j = 0; j < seen; ++j) {
      s[j] = hidden[j] ? -infinity<T>() : s[j];
    }
  }
  for (int64_t j = seen; j < whole_vectors(seen); ++j) {
    s[j] = -infinity<T>();
  }
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
