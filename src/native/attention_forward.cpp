// Fused attention, forward: see attention.h.

#include "attention.h"

namespace {

template <typename T>
void forward_part(const Attention& task, Share share) {
  const int64_t block = block_rows(task);
  const int64_t stride = block_stride(task);
  const Room<T> all(block * stride + stride + block);
  T* s = all.data;
  T* factors = s + block * stride;
  T* inverse = factors + stride;
  // values of the sequences of a group, each in panels
  const int64_t packed_size = panels_size<T>(task.columns, task.width);
  const Room<T> packed_values(packed_size * (task.shared ? task.batch : 1));
  const Room<T> rights(rights_size<T>(task, true)), left(block * widest(task));
  const Dropout dropout(task.dropout, task.seed);
  for (int64_t index = share.begin; index < share.end;) {
    const int64_t h = index / task.batch, b = index % task.batch;
    const int64_t group = task.shared ? least(task.batch - b, share.end - index) : 1;
    index += group;
    pack_rights(task, b, h, true, rights.data);
    for (int64_t member = 0; member < group; ++member) {
      const Matrix<const T> values = constant(matrix<T>(task.values, b + member, h, 0));
      pack_alone(task.columns, task.width, values, packed_values.data + member * packed_size, task.columns);
    }
    for (int64_t first = 0; first < task.rows; first += block) {
      const int64_t count = first + block < task.rows ? block : task.rows - first;
      const int64_t columns = visible(task, first + count - 1);
      products<T>(task, b, h, first, count, rights.data, left.data, s, stride);
      for (int64_t i = 0; i < count; ++i) {
        T* row = s + i * stride;
        const int64_t seen = visible(task, first + i), whole = whole_vectors(seen);
        end_logits(task, b, h, first + i, seen, row);
        T most = largest(row, whole);
        bool blind = most == -infinity<T>();
        // What is no number is not hidden, and nobody shall take it for that.
        for (int64_t j = 0; blind && j < seen; ++j) {
          if (row[j] != row[j]) {
            most = row[j];
            blind = false;
          }
        }
        T sum = 0;
        if (blind) {
          std::memset(row, 0, static_cast<size_t>(columns) * sizeof(T));
        } else {
          for (int64_t j = 0; j < whole; ++j) {
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
        T* row = at<T>(task.output, member, h, first);
        const T* panels = packed_values.data + (member - b) * packed_size;
        weighted<T>(task, first, count, task.width, s, stride, panels, row, task.output.row);
        for (int64_t i = 0; i < count; ++i, row += task.output.row) {
          for (int64_t c = 0; c < task.width; ++c) {
            row[c] *= inverse[i];
          }
        }
      }
    }
  }
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
}
