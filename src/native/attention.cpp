// Attention whose logits are a weighted sum of terms, in blocks of rows: no tensor of rows × columns of all heads exists.
//
// A task is one head of one sequence, or, where no term knows the input, one head of several sequences: they share the
// weights. S, its softmax P and their gradients live in a thread's scratch, one block of rows at a time, and are made again
// in the backward pass from the logarithms of the softmax's sums. No standard library templates here: their code would be
// shared between instruction sets.

#include "random.h"

#include <cstdlib>

namespace {

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

} // namespace

extern "C" {

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
}

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
T* allocate(int64_t count) {
  void* memory = nullptr;
  // Never small enough to fail for anything but want of memory, which ends a training anyway.
  if (posix_memalign(&memory, 64, static_cast<size_t>(count < 16 ? 16 : count) * sizeof(T)) != 0) {
    std::abort();
  }
  return static_cast<T*>(memory);
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

template <typename T>
void forward_part(const Attention& task, Share share) {
  const int64_t block = block_rows(task);
  const int64_t stride = (task.columns + 31) / 16 * 16;
  T* scratch = allocate<T>(block * stride + stride + block);
  T* factors = scratch + block * stride;
  T* inverse = factors + stride;
  const Dropout dropout(task.dropout, task.seed);
  for (int64_t index = share.begin; index < share.end;) {
    const int64_t h = index / task.batch, b = index % task.batch;
    const int64_t left = share.end - index;
    const int64_t group = task.shared ? (task.batch - b < left ? task.batch - b : left) : 1;
    index += group;
    for (int64_t first = 0; first < task.rows; first += block) {
      const int64_t count = first + block < task.rows ? block : task.rows - first;
      const int64_t columns = visible(task, first + count - 1);
      Matrix<T> s{scratch, stride};
      products<T>(task, b, h, first, count, columns, s);
      for (int64_t i = 0; i < count; ++i) {
        T* row = s.data + i * stride;
        const int64_t seen = visible(task, first + i);
        add_tables<T>(task, b, h, first + i, seen, row);
        if (task.padding != nullptr) {
          const uint8_t* hidden = task.padding + b * task.columns;
          for (int64_t j = 0; j < seen; ++j) {
            row[j] = hidden[j] ? -infinity<T>() : row[j];
          }
        }
        T most = -infinity<T>();
        for (int64_t j = 0; j < seen; ++j) {
          most = row[j] > most ? row[j] : most;
        }
        const bool blind = most == -infinity<T>();
        T sum = 0;
        if (blind) {
          std::memset(row, 0, static_cast<size_t>(columns) * sizeof(T));
        } else {
          for (int64_t j = 0; j < seen; ++j) {
            row[j] = exponential(row[j] - most);
            sum += row[j];
          }
          std::memset(row + seen, 0, static_cast<size_t>(columns - seen) * sizeof(T));
        }
        inverse[i] = blind ? T(0) : T(1) / sum;
        if (task.keep && (!task.shared || b == 0)) {
          T* kept = static_cast<T*>(task.log_sums) + ((task.shared ? 0 : b) * task.heads + h) * task.rows;
          kept[first + i] = blind ? infinity<T>() : most + std::log(sum);
        }
        if (task.dropout > 0) {
          dropout.row((b * task.heads + h) * task.rows + first + i, 0, seen, factors);
          for (int64_t j = 0; j < seen; ++j) {
            row[j] *= factors[j];
          }
        }
      }
      for (int64_t member = b; member < b + group; ++member) {
        Matrix<T> output = matrix<T>(task.output, member, h, first);
        gemm<T>(count, task.width, columns, T(1), constant(s), constant(matrix<T>(task.values, member, h, 0)), T(0), output);
        for (int64_t i = 0; i < count; ++i) {
          T* row = output.data + i * output.stride;
          for (int64_t c = 0; c < task.width; ++c) {
            row[c] *= inverse[i];
          }
        }
      }
    }
  }
  std::free(scratch);
}

// Gradients that several sequences add to, of one head and one thread.
template <typename T>
struct Sums {
  int64_t head = -1;
  // whether they are the gradients' own places and not a copy to be added
  bool whole = false;
  T* left[MOST_TERMS] = {};
  T* right[MOST_TERMS] = {};
  T* bias[MOST_TERMS] = {};
  double weight[MOST_TERMS] = {};
  Sums* next = nullptr;
};

struct Slot {
  const Place* place;
  int64_t rows, columns;
  // elements between the rows (columns, if they lie turned) of a copy
  bool shared;
};

Slot left_slot(const Attention& task, const Term& term) {
  int64_t columns = term.kind == TABLE ? task.columns : term.width;
  return {&term.left_gradient, task.rows, columns, term.left_gradient.data != nullptr && term.left_gradient.batch == 0};
}

Slot right_slot(const Attention& task, const Term& term) {
  int64_t rows = term.kind == OUTER ? task.rows : task.columns;
  int64_t columns = term.kind == OUTER ? term.second_width : term.width;
  return {&term.right_gradient, rows, columns, term.right_gradient.data != nullptr && term.right_gradient.batch == 0};
}

Slot bias_slot(const Attention& task, const Term& term) {
  return {&term.bias_gradient, 1, task.columns, term.bias_gradient.data != nullptr};
}

// Gradients are dense: those of a head lie in one piece.
template <typename T>
T* open(const Slot& slot, int64_t head, bool whole) {
  if (!slot.shared) {
    return nullptr;
  }
  const int64_t count = slot.rows * slot.columns;
  T* sums = whole ? at<T>(*slot.place, 0, head, 0) : allocate<T>(count);
  std::memset(sums, 0, static_cast<size_t>(count) * sizeof(T));
  return sums;
}

template <typename T>
void add(const Slot& slot, int64_t head, T* sums) {
  if (!slot.shared) {
    return;
  }
  T* place = at<T>(*slot.place, 0, head, 0);
  for (int64_t i = 0; i < slot.rows * slot.columns; ++i) {
    place[i] += sums[i];
  }
  std::free(sums);
}

template <typename T>
struct Backward {
  const Attention& task;
  const Dropout dropout;
  const int64_t block, stride;
  T *p, *g, *factors, *scratch;

  explicit Backward(const Attention& task)
      : task(task), dropout(task.dropout, task.seed), block(block_rows(task)), stride((task.columns + 31) / 16 * 16) {
    int64_t widest = 1;
    for (int64_t t = 0; t < task.term_count; ++t) {
      const Term& term = task.terms[t];
      widest = term.width > widest ? term.width : widest;
      widest = term.second_width > widest ? term.second_width : widest;
    }
    p = allocate<T>(2 * block * stride + stride + block * widest);
    g = p + block * stride;
    factors = g + block * stride;
    scratch = factors + stride;
  }

  ~Backward() {
    std::free(p);
  }

  // Rows of P (dropped) and of dS in place of S and dP.
  void rows(int64_t b, int64_t group, int64_t h, int64_t first, int64_t count, int64_t columns, Sums<T>& sums) {
    const T* log_sums = static_cast<const T*>(task.log_sums) + ((task.shared ? 0 : b) * task.heads + h) * task.rows;
    for (int64_t i = 0; i < count; ++i) {
      T* s = p + i * stride;
      T* d = g + i * stride;
      const int64_t seen = visible(task, first + i);
      add_tables<T>(task, b, h, first + i, seen, s);
      T inner = 0;
      for (int64_t member = b; member < b + group; ++member) {
        const T* output = at<T>(task.output, member, h, first + i);
        const T* gradient = at<T>(task.output_gradient, member, h, first + i);
        for (int64_t c = 0; c < task.width; ++c) {
          inner += output[c] * gradient[c];
        }
      }
      const T log_sum = log_sums[first + i];
      if (task.padding != nullptr) {
        const uint8_t* hidden = task.padding + b * task.columns;
        for (int64_t j = 0; j < seen; ++j) {
          s[j] = hidden[j] ? -infinity<T>() : s[j];
        }
      }
      if (log_sum == infinity<T>()) {
        std::memset(s, 0, static_cast<size_t>(columns) * sizeof(T));
        std::memset(d, 0, static_cast<size_t>(columns) * sizeof(T));
      } else if (task.dropout > 0) {
        dropout.row((b * task.heads + h) * task.rows + first + i, 0, seen, factors);
        for (int64_t j = 0; j < seen; ++j) {
          const T weight = exponential(s[j] - log_sum);
          d[j] = weight * (d[j] * factors[j] - inner);
          s[j] = weight * factors[j];
        }
      } else {
        for (int64_t j = 0; j < seen; ++j) {
          s[j] = exponential(s[j] - log_sum);
          d[j] = s[j] * (d[j] - inner);
        }
      }
      std::memset(s + seen, 0, static_cast<size_t>(columns - seen) * sizeof(T));
      std::memset(d + seen, 0, static_cast<size_t>(columns - seen) * sizeof(T));
      table_gradients(b, h, first + i, seen, d, sums);
    }
  }

  void table_gradients(int64_t b, int64_t h, int64_t i, int64_t seen, const T* d, Sums<T>& sums) {
    for (int64_t t = 0; t < task.term_count; ++t) {
      const Term& term = task.terms[t];
      const T w = weight<T>(task, t, h);
      const bool weigh = task.weights_gradient != nullptr;
      if (term.kind == TABLE || (term.kind == PRODUCT && term.bias.data != nullptr)) {
        const T* row = term.kind == TABLE ? at<T>(term.left, 0, h, i) : at<T>(term.bias, 0, h, 0);
        T* sum = term.kind == TABLE ? (sums.left[t] ? sums.left[t] + i * task.columns : nullptr) : sums.bias[t];
        if (sum != nullptr) {
          for (int64_t j = 0; j < seen; ++j) {
            sum[j] += w * d[j];
          }
        }
        if (weigh) {
          T inner = 0;
          for (int64_t j = 0; j < seen; ++j) {
            inner += row[j] * d[j];
          }
          sums.weight[t] += inner;
        }
      } else if (term.kind == OUTER) {
        outer_gradients(term, t, b, h, i, seen, d, sums);
      }
    }
  }

  void outer_gradients(
      const Term& term, int64_t t, int64_t b, int64_t h, int64_t i, int64_t seen, const T* d, Sums<T>& sums) {
    const T w = weight<T>(task, t, h);
    const T* left = at<T>(term.left, b, h, i);
    const T* right = at<T>(term.right, b, h, i);
    T* left_sum = scratch;
    std::memset(left_sum, 0, static_cast<size_t>(term.width) * sizeof(T));
    T* right_gradient = term.right_gradient.data ? at<T>(term.right_gradient, b, h, i) : nullptr;
    if (right_gradient != nullptr) {
      std::memset(right_gradient, 0, static_cast<size_t>(term.second_width) * sizeof(T));
    }
    for (int64_t y = 0, j = 0; j < seen; ++y, j += term.width) {
      const int64_t end = j + term.width < seen ? term.width : seen - j;
      T inner = 0;
      for (int64_t x = 0; x < end; ++x) {
        left_sum[x] += d[j + x] * right[y];
        inner += d[j + x] * left[x];
      }
      if (right_gradient != nullptr) {
        right_gradient[y] = w * inner;
      }
    }
    T inner = 0;
    for (int64_t x = 0; x < term.width; ++x) {
      inner += left_sum[x] * left[x];
    }
    sums.weight[t] += inner;
    if (term.left_gradient.data != nullptr) {
      T* left_gradient = at<T>(term.left_gradient, b, h, i);
      for (int64_t x = 0; x < term.width; ++x) {
        left_gradient[x] = w * left_sum[x];
      }
    }
  }

  // dS [count, columns] to the gradients of a product's two sides; `last` is the first block that is run.
  void product_gradients(
      int64_t b, int64_t h, int64_t first, int64_t count, int64_t columns, bool last, Sums<T>& sums) {
    Matrix<const T> d{g, stride};
    for (int64_t t = 0; t < task.term_count; ++t) {
      const Term& term = task.terms[t];
      if (term.kind != PRODUCT) {
        continue;
      }
      const T w = weight<T>(task, t, h), scale = T(term.scale);
      if (term.left_gradient.data != nullptr || task.weights_gradient != nullptr) {
        Matrix<T> made{scratch, term.width};
        gemm<T>(count, term.width, columns, scale, d, constant(matrix<T>(term.right, b, h, 0)), T(0), made);
        T inner = 0;
        for (int64_t i = 0; i < count; ++i) {
          const T* row = scratch + i * term.width;
          const T* left = at<T>(term.left, b, h, first + i);
          for (int64_t c = 0; c < term.width; ++c) {
            inner += row[c] * left[c];
          }
          if (term.left_gradient.data == nullptr) {
            continue;
          }
          if (sums.left[t] != nullptr) {
            T* sum = sums.left[t] + (first + i) * term.width;
            for (int64_t c = 0; c < term.width; ++c) {
              sum[c] += w * row[c];
            }
          } else {
            T* gradient = at<T>(term.left_gradient, b, h, first + i);
            for (int64_t c = 0; c < term.width; ++c) {
              gradient[c] = w * row[c];
            }
          }
        }
        sums.weight[t] += inner;
      }
      if (term.right_gradient.data != nullptr) {
        Matrix<T> place = matrix<T>(term.right_gradient, b, h, 0);
        T beta = last ? T(0) : T(1);
        if (sums.right[t] != nullptr) {
          // A copy lies as the gradient does.
          place.data = sums.right[t];
          beta = 1;
        }
        gemm<T>(columns, term.width, count, w * scale, d.transposed(), constant(matrix<T>(term.left, b, h, first)), beta,
            place);
      }
    }
  }

  void group(int64_t b, int64_t members, int64_t h, Sums<T>& sums) {
    const int64_t blocks = (task.rows + block - 1) / block;
    // From the last block to the first: the last sees every column, so that it sets what the others add to.
    for (int64_t number = blocks - 1; number >= 0; --number) {
      const int64_t first = number * block;
      const int64_t count = first + block < task.rows ? block : task.rows - first;
      const int64_t columns = visible(task, first + count - 1);
      const bool last = number == blocks - 1;
      Matrix<T> s{p, stride}, d{g, stride};
      products<T>(task, b, h, first, count, columns, s);
      for (int64_t member = b; member < b + members; ++member) {
        gemm<T>(count, columns, task.width, T(1), constant(matrix<T>(task.output_gradient, member, h, first)),
            constant(matrix<T>(task.values, member, h, 0)).transposed(), member == b ? T(0) : T(1), d);
      }
      rows(b, members, h, first, count, columns, sums);
      if (task.values_gradient.data != nullptr) {
        for (int64_t member = b; member < b + members; ++member) {
          gemm<T>(columns, task.width, count, T(1), constant(s).transposed(),
              constant(matrix<T>(task.output_gradient, member, h, first)), last ? T(0) : T(1),
              matrix<T>(task.values_gradient, member, h, 0));
        }
      }
      product_gradients(b, h, first, count, columns, last, sums);
    }
  }
};

// Runs a thread's share; `partial` gets the sums of heads that others share.
template <typename T>
void backward_part(const Attention& task, Share share, Sums<T>** partial) {
  Backward<T> backward(task);
  Sums<T> whole;
  for (int64_t index = share.begin; index < share.end;) {
    const int64_t h = index / task.batch, first = index % task.batch;
    const int64_t left = share.end - index;
    const int64_t members = task.batch - first < left ? task.batch - first : left;
    index += members;
    Sums<T>* sums = &whole;
    const bool is_whole = members == task.batch;
    if (!is_whole) {
      sums = static_cast<Sums<T>*>(std::calloc(1, sizeof(Sums<T>)));
      sums->next = *partial;
      *partial = sums;
    }
    sums->head = h;
    for (int64_t t = 0; t < task.term_count; ++t) {
      const Term& term = task.terms[t];
      sums->left[t] = open<T>(left_slot(task, term), h, is_whole);
      sums->right[t] = open<T>(right_slot(task, term), h, is_whole);
      sums->bias[t] = open<T>(bias_slot(task, term), h, is_whole);
      sums->weight[t] = 0;
    }
    if (task.shared) {
      backward.group(first, members, h, *sums);
    } else {
      for (int64_t b = first; b < first + members; ++b) {
        backward.group(b, 1, h, *sums);
      }
    }
    if (is_whole && task.weights_gradient != nullptr) {
      for (int64_t t = 0; t < task.term_count; ++t) {
        static_cast<T*>(task.weights_gradient)[t * task.heads + h] = T(sums->weight[t]);
      }
    }
  }
}

template <typename T>
void attention_backward(const Attention& task) {
  const int64_t parts = part_count(task);
  Sums<T>** partial = static_cast<Sums<T>**>(std::calloc(static_cast<size_t>(parts), sizeof(Sums<T>*)));
  parallel(parts, [&](int64_t part) { backward_part<T>(task, share(task, part, parts), &partial[part]); });
  // Added in a fixed order. The first part of a head clears its places, which nobody has written to.
  int64_t cleared = -1;
  for (int64_t part = 0; part < parts; ++part) {
    // A part's list begins with its last head; it has two at most, and heads grow from part to part.
    Sums<T>* list[2] = {partial[part], partial[part] ? partial[part]->next : nullptr};
    for (int order = 1; order >= 0; --order) {
      Sums<T>* sums = list[order];
      if (sums == nullptr) {
        continue;
      }
      const int64_t h = sums->head;
      for (int64_t t = 0; t < task.term_count; ++t) {
        const Term& term = task.terms[t];
        const Slot slots[3] = {left_slot(task, term), right_slot(task, term), bias_slot(task, term)};
        T* copies[3] = {sums->left[t], sums->right[t], sums->bias[t]};
        for (int slot = 0; slot < 3; ++slot) {
          if (h != cleared) {
            open<T>(slots[slot], h, true);
          }
          add<T>(slots[slot], h, copies[slot]);
        }
        if (task.weights_gradient != nullptr) {
          T& place = static_cast<T*>(task.weights_gradient)[t * task.heads + h];
          place = (h == cleared ? place : T(0)) + T(sums->weight[t]);
        }
      }
      cleared = h;
      std::free(sums);
    }
  }
  std::free(partial);
}

template <typename T>
void attention_forward(const Attention& task) {
  const int64_t parts = part_count(task);
  parallel(parts, [&](int64_t part) { forward_part<T>(task, share(task, part, parts)); });
}

} // namespace

extern "C" {

void KERNEL(attention_forward)(const Attention* task, int32_t is_double) {
  is_double ? attention_forward<double>(*task) : attention_forward<float>(*task);
}

void KERNEL(attention_backward)(const Attention* task, int32_t is_double) {
  is_double ? attention_backward<double>(*task) : attention_backward<float>(*task);
}
}
