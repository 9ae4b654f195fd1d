// Matrix products for the shapes of a small Transformer: thousands of rows, a few hundred columns. There a library's product spends
// a fifth of its time on packing and on clearing C before it adds to it (perf, MKL, d 128), and each ends with threads that wait.
// Here the weights are packed once for all rows, rows are read where they lie, and what follows a product (a bias, a relu) is done
// while it is in registers or in the cache. `block`, `product` and `outer` run on the calling thread, which works on its own rows.
//
// The usual plan (Goto and van de Geijn 2008): a panel of b stays in the nearest cache, a block of a in the second.
#pragma once

#include "kernel.h"

namespace {

#if defined(__AVX512F__)
constexpr int64_t VECTOR_BYTES = 64, PANEL_ROWS = 12;
#elif defined(__AVX2__)
constexpr int64_t VECTOR_BYTES = 32, PANEL_ROWS = 6;
#else
constexpr int64_t VECTOR_BYTES = 16, PANEL_ROWS = 4;
#endif

template <typename T>
struct Lanes {
  typedef T type __attribute__((vector_size(VECTOR_BYTES)));
  // wherever it lies
  typedef T loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
  static constexpr int64_t size = VECTOR_BYTES / static_cast<int64_t>(sizeof(T));
};

// Columns of a panel: two vectors, so that PANEL_ROWS × 2 sums fill the registers.
template <typename T>
constexpr int64_t PANEL_COLUMNS = 2 * Lanes<T>::size;

// Of the length that a product sums over, of rows, and of columns: how many are worked on at a time.
constexpr int64_t DEPTH = 256, BLOCK_ROWS = 48, BLOCK_COLUMNS = 256;
// Elements of a that stay in the second cache while every panel is read once.
constexpr int64_t BLOCK = 32768;

inline int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

enum Mode : int32_t { SET = 0, ADD = 1, RELU = 2 };

// What a block is to be: whether a's columns lie next to each other, or its rows; whether it is added to what is there; whether a relu
// comes last.
enum Flags : int32_t { IN_ROWS = 1, ADDED = 2, THEN_RELU = 4 };

// out [R, PANEL_COLUMNS] = bias + a [R, depth] panel [depth, PANEL_COLUMNS], as `FLAGS` says; `columns` of the panel count. a's rows, or
// columns, lie `a_stride` apart. Sums start at the bias: with one addition after them at most, the compiler has no choice of order
// that could differ with R (as GCC compiles it, under -ffast-math; tests hold it).
template <int32_t FLAGS, int64_t R, typename T>
inline void block(const T* __restrict a, int64_t a_stride, int64_t depth, const T* __restrict panel, const T* bias, int64_t columns,
    T* __restrict out, int64_t stride) {
  constexpr bool add = (FLAGS & ADDED) != 0, relu = (FLAGS & THEN_RELU) != 0, in_rows = (FLAGS & IN_ROWS) != 0;
  typedef typename Lanes<T>::type V;
  typedef typename Lanes<T>::loose Loose;
  constexpr int64_t SIZE = Lanes<T>::size;
  V sums[R][2];
  const V left_bias = bias == nullptr ? V{} : V(*reinterpret_cast<const Loose*>(bias));
  const V right_bias = bias == nullptr ? V{} : V(*reinterpret_cast<const Loose*>(bias + SIZE));
#pragma GCC unroll 16
  for (int64_t i = 0; i < R; ++i) {
    sums[i][0] = left_bias;
    sums[i][1] = right_bias;
  }
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    const V left = *reinterpret_cast<const Loose*>(panel), right = *reinterpret_cast<const Loose*>(panel + SIZE);
#pragma GCC unroll 16
    for (int64_t i = 0; i < R; ++i) {
      const V factor = a[in_rows ? i * a_stride : i] - V{};
      sums[i][0] += factor * left;
      sums[i][1] += factor * right;
    }
    a += in_rows ? 1 : a_stride;
    panel += 2 * SIZE;
  }
  T edge[2 * SIZE];
#pragma GCC unroll 16
  for (int64_t i = 0; i < R; ++i) {
    T* to = out + i * stride;
    if (columns == 2 * SIZE) {
      Loose *left = reinterpret_cast<Loose*>(to), *right = reinterpret_cast<Loose*>(to + SIZE);
      V x = sums[i][0], y = sums[i][1];
      if (add) {
        x += *left;
        y += *right;
      }
      if (relu) {
        // written so that a NaN stays one
        x = x < 0 ? V{} : x;
        y = y < 0 ? V{} : y;
      }
      *left = x;
      *right = y;
      continue;
    }
    *reinterpret_cast<Loose*>(edge) = sums[i][0];
    *reinterpret_cast<Loose*>(edge + SIZE) = sums[i][1];
    for (int64_t j = 0; j < columns; ++j) {
      const T sum = add ? to[j] + edge[j] : edge[j];
      to[j] = relu && sum < 0 ? T(0) : sum;
    }
  }
}

// The same for R rows or fewer.
template <int32_t FLAGS, int64_t R, typename T>
void some(int64_t rows, const T* a, int64_t a_stride, int64_t depth, const T* panel, const T* bias, int64_t columns, T* out,
    int64_t stride) {
  if constexpr (R > 0) {
    if (rows >= R) {
      block<FLAGS, R>(a, a_stride, depth, panel, bias, columns, out, stride);
    } else {
      some<FLAGS, R - 1>(rows, a, a_stride, depth, panel, bias, columns, out, stride);
    }
  }
}

// Elements of [depth, columns] in panels.
template <typename T>
int64_t panels_size(int64_t depth, int64_t columns) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  return (columns + WIDTH - 1) / WIDTH * WIDTH * depth;
}

// Panel `index` of b [depth, columns]: PANEL_COLUMNS columns of it, filled up with 0; panels have `panel_depth` rows.
template <typename T>
void pack_panel(int64_t depth, int64_t columns, Matrix<const T> b, int64_t index, T* panels, int64_t panel_depth) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  const int64_t first = index * WIDTH, there = least(columns - first, WIDTH);
  T* __restrict panel = panels + first * panel_depth;
  for (int64_t k = 0; k < depth; ++k, panel += WIDTH) {
    if (!b.turned && there == WIDTH) {
      std::memcpy(panel, b.data + k * b.stride + first, WIDTH * sizeof(T));
      continue;
    }
    const int64_t step = b.turned ? b.stride : 1;
    const T* from = b.turned ? b.data + first * b.stride + k : b.data + k * b.stride + first;
    for (int64_t j = 0; j < WIDTH; ++j) {
      panel[j] = j < there ? from[j * step] : T(0);
    }
  }
}

// All panels, each [depth, PANEL_COLUMNS]; all threads share the work.
template <typename T>
void pack(int64_t depth, int64_t columns, Matrix<const T> b, T* panels) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  parallel((columns + WIDTH - 1) / WIDTH, [&](int64_t index) { pack_panel(depth, columns, b, index, panels, depth); });
}

// The same by the calling thread, into `depth` rows of panels that have `panel_depth`.
template <typename T>
void pack_alone(int64_t depth, int64_t columns, Matrix<const T> b, T* panels, int64_t panel_depth) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  for (int64_t index = 0; index * WIDTH < columns; ++index) {
    pack_panel(depth, columns, b, index, panels, panel_depth);
  }
}

// The same in memory of its own.
template <typename T>
Room<T> packed(int64_t depth, int64_t columns, Matrix<const T> b) {
  Room<T> panels(panels_size<T>(depth, columns));
  pack(depth, columns, b, panels.data);
  return panels;
}

// `block` for any number of rows and panels, of which `next` lie apart; the bias is as long as there are columns.
template <int32_t FLAGS, typename T>
void blocks(int64_t rows, int64_t depth, int64_t columns, const T* a, int64_t a_stride, const T* panels, int64_t next, const T* bias,
    T* out, int64_t stride) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  for (int64_t column = 0; column < columns; column += WIDTH, panels += next) {
    const int64_t across = least(columns - column, WIDTH);
    const T* shift = bias == nullptr ? nullptr : bias + column;
    T last[WIDTH];
    if (shift != nullptr && across < WIDTH) {
      for (int64_t j = 0; j < WIDTH; ++j) {
        last[j] = j < across ? shift[j] : T(0);
      }
      shift = last;
    }
    for (int64_t row = 0; row < rows; row += PANEL_ROWS) {
      const T* from = a + ((FLAGS & IN_ROWS) != 0 ? row * a_stride : row);
      some<FLAGS, PANEL_ROWS>(rows - row, from, a_stride, depth, panels, shift, across, out + row * stride + column, stride);
    }
  }
}

// out [rows, columns] = a [rows, depth] b + bias (if any), then what `mode` says, b in panels of `panel_depth` rows, of which the first
// `depth` are taken. A row of out does not depend on how many there are.
template <typename T>
void product(int64_t rows, int64_t depth, int64_t columns, const T* a, int64_t a_stride, const T* panels, int64_t panel_depth,
    const T* bias, Mode mode, T* out, int64_t stride) {
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  for (int64_t begin = 0; begin == 0 || begin < depth; begin += DEPTH) {
    const int64_t inner = least(depth - begin, DEPTH);
    const bool add = mode == ADD || begin > 0, relu = mode == RELU && begin + inner >= depth;
    const auto make = add ? (relu ? blocks<IN_ROWS | ADDED | THEN_RELU, T> : blocks<IN_ROWS | ADDED, T>)
                          : (relu ? blocks<IN_ROWS | THEN_RELU, T> : blocks<IN_ROWS, T>);
    const int64_t step = BLOCK / (inner < 1 ? 1 : inner) / PANEL_ROWS * PANEL_ROWS;
    for (int64_t first = 0; first < rows; first += step) {
      make(least(rows - first, step), inner, columns, a + first * a_stride + begin, a_stride, panels + begin * WIDTH, panel_depth * WIDTH,
          begin > 0 ? nullptr : bias, out + first * stride, stride);
    }
  }
}

// The same where all rows of the panels are taken.
template <typename T>
void product(int64_t rows, int64_t depth, int64_t columns, const T* a, int64_t a_stride, const T* panels, const T* bias, Mode mode,
    T* out, int64_t stride) {
  product(rows, depth, columns, a, a_stride, panels, depth, bias, mode, out, stride);
}

// Rows of a step along a diagonal, beyond which there is nothing to add.
constexpr int64_t DIAGONAL_ROWS = 2 * PANEL_ROWS;

// c [m, n] = Σ aᵢᵀ bᵢ over `count` rows aᵢ [m], bᵢ [n], or that added to it. Row i of a is 0 beyond column `diagonal` + i, and the
// product does without most of that; `diagonal` m if any column may be something.
template <typename T>
void outer(int64_t count, int64_t m, int64_t n, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t diagonal, bool add,
    T* c, int64_t stride) {
  static_assert(BLOCK_ROWS % PANEL_ROWS == 0 && BLOCK_COLUMNS % PANEL_COLUMNS<T> == 0, "blocks are whole panels");
  constexpr int64_t WIDTH = PANEL_COLUMNS<T>;
  const Room<T> block(panels_size<T>(least(count, DEPTH), least(n, BLOCK_COLUMNS)));
  T* const right = block.data;
  for (int64_t begin = 0; begin == 0 || begin < count; begin += DEPTH) {
    const int64_t inner = least(count - begin, DEPTH);
    for (int64_t column = 0; column < n; column += BLOCK_COLUMNS) {
      const int64_t columns = least(n - column, BLOCK_COLUMNS);
      for (int64_t k = 0; k < inner; ++k) {
        const T* __restrict from = b + (begin + k) * b_stride + column;
        T* __restrict to = right + k * WIDTH;
        int64_t j = 0;
        for (; j + WIDTH <= columns; j += WIDTH) {
          std::memcpy(to + j * inner, from + j, WIDTH * sizeof(T));
        }
        for (int64_t i = 0; j < columns && i < WIDTH; ++i) {
          to[j * inner + i] = j + i < columns ? from[j + i] : T(0);
        }
      }
      const auto make = add || begin > 0 ? blocks<ADDED, T> : blocks<0, T>;
      for (int64_t first = 0, some = 0; first < m; first += some) {
        some = least(m - first, first + BLOCK_ROWS <= diagonal ? BLOCK_ROWS : DIAGONAL_ROWS);
        const int64_t empty = first < diagonal + begin ? 0 : least(first - diagonal - begin, inner);
        make(some, inner - empty, columns, a + (begin + empty) * a_stride + first, a_stride, right + empty * WIDTH, inner * WIDTH,
            static_cast<const T*>(nullptr), c + first * stride + column, stride);
      }
    }
  }
}

// The same with the sums [m] = Σ aᵢ, by several threads. Null: not wanted.
template <typename T>
struct Outer {
  int64_t count, m, n;
  const T* a;
  const T* b;
  bool add;
  T* c;
  T* sums;

  // All of them, by all threads.
  template <typename... Others>
  static void make(const Others&... all) {
    // asked for here, since inside a parallel region the answer is another
    const int64_t workers = threads();
    parallel(workers, [&](int64_t index) { (all.share(index, workers), ...); });
  }

  // Share `index` of `shares` of it: a tile with all rows, so that c does not depend on how many threads there are.
  void share(int64_t index, int64_t shares) const {
    int64_t down = least(shares, m / BLOCK_ROWS > 1 ? m / BLOCK_ROWS : 1);
    while (shares % down != 0) {
      --down;
    }
    const int64_t across = shares / down, row = index / across, column = index % across;
    const auto cut = [](int64_t length, int64_t step, int64_t place, int64_t places) {
      return least(length, (length + step - 1) / step * place / places * step);
    };
    const int64_t first = cut(m, PANEL_ROWS, row, down), end = cut(m, PANEL_ROWS, row + 1, down);
    const int64_t left = cut(n, PANEL_COLUMNS<T>, column, across), right = cut(n, PANEL_COLUMNS<T>, column + 1, across);
    if (c != nullptr && first < end && left < right) {
      outer(count, end - first, right - left, a + first, m, b + left, n, end - first, add, c + first * n + left, n);
    }
    if (sums != nullptr && column == 0 && first < end) {
      std::memset(sums + first, 0, static_cast<size_t>(end - first) * sizeof(T));
      for (int64_t i = 0; i < count; ++i) {
        const T* __restrict from = a + i * m;
        for (int64_t j = first; j < end; ++j) {
          sums[j] += from[j];
        }
      }
    }
  }
};

} // namespace
