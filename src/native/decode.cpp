// The pieces of a decoder's step in float32: products with weights that are packed once, attention over caches that hypotheses
// share, and the likeliest tokens. No threads: who decodes gives each thread sentences of its own.
#include "products.h"

#include <cstddef>

namespace {

constexpr int64_t LANES = Lanes<float>::size, PANEL = PANEL_COLUMNS<float>;

typedef Lanes<float>::type Vector;
typedef Lanes<float>::loose Loose;
typedef int32_t Whole __attribute__((vector_size(VECTOR_BYTES)));

inline Vector load(const float* from) {
  return *reinterpret_cast<const Loose*>(from);
}

inline void store(float* to, Vector values) {
  *reinterpret_cast<Loose*>(to) = values;
}

#if defined(__AVX512F__)
constexpr Whole PLACES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
constexpr Whole PLACES = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr Whole PLACES = {0, 1, 2, 3};
#endif

inline Vector larger(Vector a, Vector b) {
  return a > b ? a : b;
}

// Of lanes, pairwise: half of them, then half of those.
inline float sum(Vector values) {
#pragma GCC unroll 4
  for (int32_t half = LANES / 2; half > 0; half /= 2) {
    values += __builtin_shuffle(values, PLACES ^ half);
  }
  return values[0];
}

inline float largest(Vector values) {
#pragma GCC unroll 4
  for (int32_t half = LANES / 2; half > 0; half /= 2) {
    values = larger(values, __builtin_shuffle(values, PLACES ^ half));
  }
  return values[0];
}

// eˣ of numbers that are not above 0, as `exponential`: 0 below -87.
inline Vector decay(Vector x) {
  Vector clamped = larger(x, Vector{} - 87.0f);
  Whole n = __builtin_convertvector(clamped * 1.44269504088896341f - 0.5f, Whole);
  Vector whole = __builtin_convertvector(n, Vector);
  Vector r = clamped - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Vector power = reinterpret_cast<Vector>((n + 127) << 23);
  // Of what is no number, itself.
  return x > -87.0f ? p * power : (x <= -87.0f ? Vector{} : x);
}

// out [rows, columns] = x [rows, depth] W + bias, W in panels, then what `mode` says.
void map(int64_t rows, int64_t depth, int64_t columns, const float* x, int64_t x_stride, const float* panels, const float* bias,
    int32_t mode, float* out, int64_t out_stride) {
  product(rows, depth, columns, x, x_stride, panels, bias, Mode(mode), out, out_stride);
}

// Layer normalization of every row of x [rows, width].
void norm(int64_t rows, int64_t width, const float* x, const float* weight, const float* bias, float epsilon, float* out) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * width;
    float* to = out + row * width;
    float total = 0;
    for (int64_t i = 0; i < width; ++i) {
      total += from[i];
    }
    float mean = total / width, square = 0;
    for (int64_t i = 0; i < width; ++i) {
      float distance = from[i] - mean;
      square += distance * distance;
    }
    float scale = 1.0f / std::sqrt(square / width + epsilon);
    for (int64_t i = 0; i < width; ++i) {
      to[i] = (from[i] - mean) * scale * weight[i] + bias[i];
    }
  }
}

inline float dot(const float* a, const float* b, int64_t width) {
  Vector sums = {};
  int64_t i = 0;
  for (; i + LANES <= width; i += LANES) {
    sums += load(a + i) * load(b + i);
  }
  float total = sum(sums);
  for (; i < width; ++i) {
    total += a[i] * b[i];
  }
  return total;
}

// The next multiple of LANES: so many places a scratch of `length` logits has.
inline int64_t whole_vectors(int64_t length) {
  return (length + LANES - 1) / LANES * LANES;
}

// Of `length` logits, in a place of whole vectors.
inline void softmax(float* logits, int64_t length) {
  int64_t end = whole_vectors(length);
  for (int64_t j = length; j < end; ++j) {
    logits[j] = -INFINITY;
  }
  Vector most = load(logits);
  for (int64_t j = LANES; j < end; j += LANES) {
    most = larger(load(logits + j), most);
  }
  Vector shift = Vector{} + largest(most), total = {};
  for (int64_t j = 0; j < end; j += LANES) {
    Vector power = decay(load(logits + j) - shift);
    store(logits + j, power);
    total += power;
  }
  float scale = 1.0f / sum(total);
  for (int64_t j = 0; j < end; j += LANES) {
    store(logits + j, load(logits + j) * scale);
  }
}

// out [width] = Σ weights_j values_j, value j at `at(j)`.
template <typename At>
inline void weighted(const float* weights, int64_t length, const At& at, int64_t width, float* out) {
  constexpr int64_t STEP = 4 * LANES;
  int64_t i = 0;
  for (; i + STEP <= width; i += STEP) {
    Vector sums[4] = {};
    for (int64_t j = 0; j < length; ++j) {
      const float* value = at(j) + i;
      for (int64_t part = 0; part < 4; ++part) {
        sums[part] += weights[j] * load(value + part * LANES);
      }
    }
    for (int64_t part = 0; part < 4; ++part) {
      store(out + i + part * LANES, sums[part]);
    }
  }
  for (; i + LANES <= width; i += LANES) {
    Vector sums = {};
    for (int64_t j = 0; j < length; ++j) {
      sums += weights[j] * load(at(j) + i);
    }
    store(out + i, sums);
  }
  for (; i < width; ++i) {
    float total = 0;
    for (int64_t j = 0; j < length; ++j) {
      total += weights[j] * at(j)[i];
    }
    out[i] = total;
  }
}

// As `SelfAttention` of decode.rs.
struct Self {
  int64_t rows, heads, width, length;
  const float* entries;
  int64_t entry;
  const uint32_t* ancestors;
  int64_t ancestors_stride;
  const float* queries;
  int64_t queries_stride, rank;
  const float* dense;
  int64_t dense_stride, dense_head_stride;
  const float* table;
  int64_t table_head_stride, table_row_stride;
  bool table_is_softmax;
  float* scratch;
  float* context;
};

// Of each row over the positions of its own past: position j lies in entry ancestors[row][j], values first, then keys.
void attend_self(const Self* task) {
  const Self& t = *task;
  int64_t value_width = t.heads * t.width;
  for (int64_t row = 0; row < t.rows; ++row) {
    const uint32_t* ancestors = t.ancestors + row * t.ancestors_stride;
    for (int64_t head = 0; head < t.heads; ++head) {
      const float* table = t.table ? t.table + head * t.table_head_stride + row * t.table_row_stride : nullptr;
      const float* weights = table;
      if (!t.table_is_softmax) {
        float* logits = t.scratch;
        const float* dense = t.dense ? t.dense + row * t.dense_stride + head * t.dense_head_stride : nullptr;
        if (t.queries) {
          const float* query = t.queries + row * t.queries_stride + head * t.rank;
          const float* keys = t.entries + value_width + head * t.rank;
          for (int64_t j = 0; j < t.length; ++j) {
            logits[j] = dot(query, keys + ancestors[j] * t.entry, t.rank);
          }
        } else {
          std::memset(logits, 0, t.length * sizeof(float));
        }
        const float* const both[] = {table, dense};
        for (const float* more : both) {
          for (int64_t j = 0; more && j < t.length; ++j) {
            logits[j] += more[j];
          }
        }
        softmax(logits, t.length);
        weights = logits;
      }
      const float* values = t.entries + head * t.width;
      auto at = [&](int64_t j) { return values + ancestors[j] * t.entry; };
      weighted(weights, t.length, at, t.width, t.context + row * value_width + head * t.width);
    }
  }
}

// Of each row over the positions [first, first + length) of its memory; 0 where there is none.
void attend_memory(int64_t rows, int64_t heads, int64_t width, const float* entries, const uint32_t* firsts,
    const uint32_t* lengths, const float* queries, float* scratch, float* context) {
  int64_t all = heads * width, entry = 2 * all;
  for (int64_t row = 0; row < rows; ++row) {
    const float* memory = entries + firsts[row] * entry;
    int64_t length = lengths[row];
    for (int64_t head = 0; head < heads; ++head) {
      const float* query = queries + row * all + head * width;
      const float* values = memory + head * width;
      for (int64_t j = 0; j < length; ++j) {
        scratch[j] = dot(query, values + all + j * entry, width);
      }
      if (length > 0) {
        softmax(scratch, length);
      }
      auto at = [&](int64_t j) { return values + j * entry; };
      weighted(scratch, length, at, width, context + row * all + head * width);
    }
  }
}

// The value that would stand at `place`, counted from 1, were they sorted, largest first.
inline float at_place(const float* values, int64_t count, int64_t place) {
  constexpr int64_t MOST = 64;
  if (place > MOST) {
    return -INFINITY;
  }
  float sorted[MOST];
  for (float& value : sorted) {
    value = -INFINITY;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!(values[i] > sorted[place - 1])) {
      continue;
    }
    int64_t at = place - 1;
    for (; at > 0 && values[i] > sorted[at - 1]; --at) {
      sorted[at] = sorted[at - 1];
    }
    sorted[at] = values[i];
  }
  return sorted[place - 1];
}

// The `count` likeliest tokens of every row, likeliest first, equal ones by id; log p = logit - log Σ exp. A banned token is not
// among them; places without a token have -inf. `bans` are pairs (row, token) by row. A row that is not of numbers gets NaN.
void likeliest(int64_t rows, int64_t vocabulary, const float* logits, const uint32_t* bans, int64_t ban_count,
    int64_t count, double* log_probabilities, uint32_t* tokens) {
  constexpr int64_t CHUNK = 4 * LANES, CHUNKS = 4096;
  float tops[CHUNKS];
  int64_t ban = 0, chunks = vocabulary / CHUNK;
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = logits + row * vocabulary;
    double* found = log_probabilities + row * count;
    uint32_t* ids = tokens + row * count;
    float most = -INFINITY;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const float* part = from + chunk * CHUNK;
      Vector left = larger(load(part), load(part + LANES));
      Vector right = larger(load(part + 2 * LANES), load(part + 3 * LANES));
      float top = largest(larger(left, right));
      most = top > most ? top : most;
      tops[chunk % CHUNKS] = top;
    }
    for (int64_t i = chunks * CHUNK; i < vocabulary; ++i) {
      most = from[i] > most ? from[i] : most;
    }
    int64_t vectors = vocabulary / LANES * LANES;
    Vector total_of = {};
    for (int64_t i = 0; i < vectors; i += LANES) {
      total_of += decay(load(from + i) - most);
    }
    float total = sum(total_of);
    for (int64_t i = vectors; i < vocabulary; ++i) {
      total += exponential(from[i] - most);
    }
    double all = double(most) + std::log(double(total));
    for (int64_t place = 0; place < count; ++place) {
      found[place] = -INFINITY;
      ids[place] = 0;
    }
    const uint32_t* first_ban = bans + 2 * ban;
    int64_t own_bans = 0;
    for (; ban < ban_count && bans[2 * ban] == row; ++ban) {
      ++own_bans;
    }
    // The smallest logit that is kept: at first any. As many chunks as there are places reach `bound`, so nothing below it is.
    float least = -INFINITY;
    float bound = own_bans == 0 && chunks >= count && chunks <= CHUNKS ? at_place(tops, chunks, count) : -INFINITY;
    for (int64_t first = 0; first < vocabulary; first += CHUNK) {
      int64_t last = first + CHUNK < vocabulary ? first + CHUNK : vocabulary;
      float top = last - first < CHUNK || chunks > CHUNKS ? INFINITY : tops[first / CHUNK];
      if (!(top >= bound && top > least)) {
        continue;
      }
      for (int64_t i = first; i < last; ++i) {
        if (!(from[i] >= bound && from[i] > least)) {
          continue;
        }
        bool banned = false;
        for (int64_t own = 0; own < own_bans; ++own) {
          banned |= first_ban[2 * own + 1] == i;
        }
        if (banned) {
          continue;
        }
        int64_t place = count - 1;
        for (; place > 0 && from[i] > float(found[place - 1]); --place) {
          found[place] = found[place - 1];
          ids[place] = ids[place - 1];
        }
        found[place] = from[i];
        ids[place] = uint32_t(i);
        least = float(found[count - 1]);
      }
    }
    for (int64_t place = 0; place < count; ++place) {
      found[place] -= all;
    }
  }
}

// As `Kernels` of decode.rs.
struct Kernels {
  int64_t panel, lanes;
  decltype(&map) product_;
  decltype(&norm) norm_;
  decltype(&attend_self) attend_self_;
  decltype(&attend_memory) attend_memory_;
  decltype(&likeliest) likeliest_;
};

constexpr Kernels KERNELS = {PANEL, LANES, map, norm, attend_self, attend_memory, likeliest};

} // namespace

extern "C" const void* KERNEL(synthesizer_decode_kernels)() {
  return &KERNELS;
}
