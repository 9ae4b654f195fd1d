// c_ij = a_i · b_j for rows a_i, b_j of a few hundred elements. There a library's product spends as much as a third of its time on
// packing, and on clearing C before it adds to it; here the b_j are packed once for many calls, and C is written as it leaves the
// registers.
//
// The usual plan (Goto and van de Geijn 2008): panels of b that stay in the nearest cache, blocks of a in the second.
#pragma once

#include "kernel.h"

#include <cstdlib>

namespace {

#if defined(__AVX512F__)
constexpr int64_t VECTOR_BYTES = 64, PANEL_ROWS = 12;
#elif defined(__AVX2__)
constexpr int64_t VECTOR_BYTES = 32, PANEL_ROWS = 6;
#else
constexpr int64_t VECTOR_BYTES = 16, PANEL_ROWS = 6;
#endif

template <typename T>
struct Vector {
  typedef T type __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
  static constexpr int64_t size = VECTOR_BYTES / static_cast<int64_t>(sizeof(T));
};

// b rows that a panel multiplies with at a time: two vectors of c.
template <typename T>
constexpr int64_t PANEL_WIDTH = 2 * Vector<T>::size;

// Elements of a row that are worked on at a time, and rows of a.
constexpr int64_t INNER = 256, BLOCK_ROWS = 96;

// Elements that `pack` writes.
template <typename T>
int64_t packed_size(int64_t rows, int64_t width) {
  return (rows + PANEL_WIDTH<T> - 1) / PANEL_WIDTH<T> * PANEL_WIDTH<T> * width;
}

// Panels of `height` rows, element by element: packed[p · height + i] = row i, element p, of [begin, begin + count). Rows that are
// not there are 0.
template <typename T>
void pack_panel(const T* rows, int64_t stride, int64_t there, int64_t height, int64_t count, T* __restrict packed) {
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < there; ++i) {
      packed[p * height + i] = rows[i * stride + p];
    }
    for (int64_t i = there; i < height; ++i) {
      packed[p * height + i] = 0;
    }
  }
}

// All rows b, [rows, width].
template <typename T>
void pack(const T* b, int64_t rows, int64_t width, T* packed) {
  constexpr int64_t height = PANEL_WIDTH<T>;
  parallel((rows + height - 1) / height, [&](int64_t panel) {
    const int64_t first = panel * height, there = rows - first < height ? rows - first : height;
    pack_panel(b + first * width, width, there, height, width, packed + first * width);
  });
}

// PANEL_ROWS × PANEL_WIDTH of c, or of what is added to it.
template <typename T>
inline void multiply_panel(int64_t count, const T* __restrict a, const T* __restrict b, bool add, T* __restrict c, int64_t stride) {
  typedef typename Vector<T>::type V;
  constexpr int64_t width = Vector<T>::size;
  V sums[PANEL_ROWS][2];
#pragma GCC unroll 16
  for (int64_t i = 0; i < PANEL_ROWS; ++i) {
    sums[i][0] = sums[i][1] = V{};
  }
  for (int64_t p = 0; p < count; ++p) {
    const V left = *reinterpret_cast<const V*>(b), right = *reinterpret_cast<const V*>(b + width);
#pragma GCC unroll 16
    for (int64_t i = 0; i < PANEL_ROWS; ++i) {
      const V factor = a[i] - V{};
      sums[i][0] += factor * left;
      sums[i][1] += factor * right;
    }
    a += PANEL_ROWS;
    b += 2 * width;
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < PANEL_ROWS; ++i) {
    V* left = reinterpret_cast<V*>(c + i * stride);
    V* right = reinterpret_cast<V*>(c + i * stride + width);
    *left = add ? *left + sums[i][0] : sums[i][0];
    *right = add ? *right + sums[i][1] : sums[i][1];
  }
}

// c [count, columns] = the products of `count` rows a, [count, width], with the packed rows; on the calling thread.
template <typename T>
void row_products(const T* a, int64_t count, int64_t width, const T* packed, int64_t columns, T* c) {
  constexpr int64_t height = PANEL_WIDTH<T>;
  T block[BLOCK_ROWS * INNER];
  T edge[PANEL_ROWS * height];
  for (int64_t first = 0; first < count; first += BLOCK_ROWS) {
    const int64_t end = count - first < BLOCK_ROWS ? count : first + BLOCK_ROWS;
    for (int64_t begin = 0; begin < width; begin += INNER) {
      const int64_t inner = width - begin < INNER ? width - begin : INNER;
      for (int64_t row = first; row < end; row += PANEL_ROWS) {
        const int64_t there = end - row < PANEL_ROWS ? end - row : PANEL_ROWS;
        pack_panel(a + row * width + begin, width, there, PANEL_ROWS, inner, block + (row - first) * inner);
      }
      for (int64_t column = 0; column < columns; column += height) {
        const T* right = packed + column * width + begin * height;
        const int64_t across = columns - column < height ? columns - column : height;
        for (int64_t row = first; row < end; row += PANEL_ROWS) {
          const T* left = block + (row - first) * inner;
          T* place = c + row * columns + column;
          if (across == height && end - row >= PANEL_ROWS) {
            multiply_panel(inner, left, right, begin > 0, place, columns);
            continue;
          }
          multiply_panel(inner, left, right, false, edge, height);
          const int64_t down = end - row < PANEL_ROWS ? end - row : PANEL_ROWS;
          for (int64_t i = 0; i < down; ++i) {
            for (int64_t j = 0; j < across; ++j) {
              place[i * columns + j] = (begin > 0 ? place[i * columns + j] : T(0)) + edge[i * height + j];
            }
          }
        }
      }
    }
  }
}

} // namespace
