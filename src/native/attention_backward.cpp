// Fused attention, gradients: see attention.h.

#include "attention.h"

namespace {

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
  // whether several sequences add to it
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
  // whether anything that makes logits wants a gradient; else values alone do, and dS is not made
  const bool wants_logits;
  // widths of all sequences of a group: their values, and gradients of outputs, are one matrix side by side
  const int64_t most_wide;
  // right sides of products for logits, and for their left sides' gradients; values transposed
  const Room<T> rights_transposed, rights, values;
  const Room<T> all;
  // a block's S, then P; dP, then dS; a row's factors of dropout; a product of a block; left sides; gradients of outputs
  T *p, *g, *factors, *scratch, *left, *given;

  explicit Backward(const Attention& task)
      : task(task),
        dropout(task.dropout, task.seed),
        block(block_rows(task)),
        stride(block_stride(task)),
        wants_logits(wanted(task)),
        most_wide(task.width * (task.shared ? task.batch : 1)),
        rights_transposed(rights_size<T>(task, true)),
        rights(wants_logits ? rights_size<T>(task, false) : 0),
        values(wants_logits ? panels_size<T>(most_wide, task.columns) : 0),
        all((2 * block + 1) * stride + block * (2 * widest(task) + most_wide)),
        p(all.data) {
    g = p + block * stride;
    factors = g + block * stride;
    scratch = factors + stride;
    left = scratch + block * widest(task);
    given = left + block * widest(task);
  }

  static bool wanted(const Attention& task) {
    bool any = task.weights_gradient != nullptr;
    for (int64_t t = 0; t < task.term_count; ++t) {
      const Term& term = task.terms[t];
      any = any || term.left_gradient.data || term.right_gradient.data || term.bias_gradient.data;
    }
    return any;
  }

  // Rows of P (dropped) and of dS in place of S and dP; without a wish for dS, of P alone. Σ P dP is O · dO, but needs no O; it is
  // divided by Σ P, which is 1 but for what rounding has left of the logarithm's digits.
  void rows(int64_t b, int64_t h, int64_t first, int64_t count, int64_t columns, Sums<T>& sums) {
    const T* log_sums = static_cast<const T*>(task.log_sums) + ((task.shared ? 0 : b) * task.heads + h) * task.rows;
    for (int64_t i = 0; i < count; ++i) {
      T* __restrict s = p + i * stride;
      T* __restrict d = g + i * stride;
      const int64_t seen = visible(task, first + i), whole = whole_vectors(seen);
      const T log_sum = log_sums[first + i];
      if (log_sum == infinity<T>()) {
        std::memset(s, 0, static_cast<size_t>(columns) * sizeof(T));
        std::memset(d, 0, static_cast<size_t>(columns) * sizeof(T));
        if (wants_logits) {
          table_gradients(b, h, first + i, seen, d, sums);
        }
        continue;
      }
      end_logits(task, b, h, first + i, seen, s);
      if (task.dropout > 0) {
        dropout.row((b * task.heads + h) * task.rows + first + i, 0, seen, factors);
      }
      if (!wants_logits) {
        for (int64_t j = 0; j < whole; ++j) {
          s[j] = exponential(s[j] - log_sum);
        }
      } else {
        std::memset(d + seen, 0, static_cast<size_t>(whole - seen) * sizeof(T));
        for (int64_t j = 0; task.dropout > 0 && j < seen; ++j) {
          d[j] *= factors[j];
        }
        T inner = 0, total = 0;
        for (int64_t j = 0; j < whole; ++j) {
          const T weight = exponential(s[j] - log_sum);
          s[j] = weight;
          total += weight;
          inner += weight * d[j];
        }
        inner /= total;
        for (int64_t j = 0; j < whole; ++j) {
          d[j] = s[j] * (d[j] - inner);
        }
        table_gradients(b, h, first + i, seen, d, sums);
      }
      for (int64_t j = 0; task.dropout > 0 && j < seen; ++j) {
        s[j] *= factors[j];
      }
      // in a row of NaN they are NaN too, and the row does not see them
      T* const both[] = {s, d};
      for (T* row : both) {
        std::memset(row + seen, 0, static_cast<size_t>(columns - seen) * sizeof(T));
      }
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

  // c [columns, width] = weightsᵀ rows [count, width], or that added to it; the rows lie `apart` elements apart.
  void transposed_product(int64_t first, int64_t count, int64_t columns, int64_t width, const T* weights, const T* rows, int64_t apart,
      bool add, Matrix<T> c) {
    if (c.turned) {
      outer<T>(count, width, columns, rows, apart, weights, stride, width, add, c.data, c.stride);
    } else {
      outer<T>(count, columns, width, weights, stride, rows, apart, task.causal ? first : columns, add, c.data, c.stride);
    }
  }

  // dS [count, columns] to the gradients of a product's two sides; `last` is the first block that is run.
  void product_gradients(
      int64_t b, int64_t h, int64_t first, int64_t count, int64_t columns, bool last, Sums<T>& sums) {
    const T* panels = rights.data;
    for (int64_t t = 0; t < task.term_count; ++t) {
      const Term& term = task.terms[t];
      if (term.kind != PRODUCT) {
        continue;
      }
      const T scale = T(term.scale), factor = weight<T>(task, t, h) * scale;
      gather(count, term.width, T(1), at<T>(term.left, b, h, first), term.left.row, left, term.width);
      if (term.left_gradient.data != nullptr || task.weights_gradient != nullptr) {
        weighted<T>(task, first, count, term.width, g, stride, panels, scratch, term.width);
        T inner = 0;
        for (int64_t i = 0; i < count * term.width; ++i) {
          inner += scratch[i] * left[i];
        }
        sums.weight[t] += scale * inner;
      }
      panels += panels_size<T>(task.columns, term.width);
      for (int64_t i = 0; term.left_gradient.data != nullptr && i < count; ++i) {
        const T* row = scratch + i * term.width;
        if (sums.left[t] != nullptr) {
          T* sum = sums.left[t] + (first + i) * term.width;
          for (int64_t c = 0; c < term.width; ++c) {
            sum[c] += factor * row[c];
          }
        } else {
          T* gradient = at<T>(term.left_gradient, b, h, first + i);
          for (int64_t c = 0; c < term.width; ++c) {
            gradient[c] = factor * row[c];
          }
        }
      }
      if (term.right_gradient.data != nullptr) {
        for (int64_t i = 0; i < count * term.width; ++i) {
          left[i] *= factor;
        }
        Matrix<T> place = matrix<T>(term.right_gradient, b, h, 0);
        bool add = !last;
        if (sums.right[t] != nullptr) {
          // A copy lies as the gradient does.
          place.data = sums.right[t];
          add = true;
        }
        transposed_product(first, count, columns, term.width, g, left, term.width, add, place);
      }
    }
  }

  void group(int64_t b, int64_t members, int64_t h, Sums<T>& sums) {
    const int64_t blocks = (task.rows + block - 1) / block, wide = members * task.width;
    pack_rights(task, b, h, true, rights_transposed.data);
    if (wants_logits) {
      pack_rights(task, b, h, false, rights.data);
      for (int64_t member = 0; member < members; ++member) {
        const Matrix<const T> transposed = constant(matrix<T>(task.values, b + member, h, 0)).transposed();
        pack_alone(task.width, task.columns, transposed, values.data + member * task.width * PANEL_COLUMNS<T>, wide);
      }
    }
    // From the last block to the first: the last sees every column, so that it sets what the others add to.
    for (int64_t number = blocks - 1; number >= 0; --number) {
      const int64_t first = number * block;
      const int64_t count = first + block < task.rows ? block : task.rows - first;
      const int64_t columns = visible(task, first + count - 1);
      const bool last = number == blocks - 1;
      products<T>(task, b, h, first, count, rights_transposed.data, left, p, stride);
      for (int64_t member = 0; member < members; ++member) {
        const T* from = at<T>(task.output_gradient, b + member, h, first);
        gather(count, task.width, T(1), from, task.output_gradient.row, given + member * task.width, wide);
      }
      if (wants_logits) {
        logits<T>(task, first, count, wide, given, values.data, false, g, stride);
      }
      rows(b, h, first, count, columns, sums);
      for (int64_t member = 0; task.values_gradient.data != nullptr && member < members; ++member) {
        Matrix<T> gradient = matrix<T>(task.values_gradient, b + member, h, 0);
        transposed_product(first, count, columns, task.width, p, given + member * task.width, wide, !last, gradient);
      }
      if (wants_logits) {
        product_gradients(b, h, first, count, columns, last, sums);
      }
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
      sums = allocate<Sums<T>>(1);
      *sums = {};
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
  const Room<Sums<T>*> lists(parts);
  Sums<T>** partial = lists.data;
  std::memset(partial, 0, static_cast<size_t>(parts) * sizeof *partial);
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
}

} // namespace

extern "C" {

void KERNEL(attention_backward)(const Attention* task, int32_t is_double) {
  is_double ? attention_backward<double>(*task) : attention_backward<float>(*task);
}
}
