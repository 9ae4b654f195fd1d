// What kernels share. Each .cpp of kernels is compiled once for every instruction set; INSTRUCTIONS is its name, and
// KERNEL(f) the name under which f of that set is called from Rust: f_baseline, f_avx2, f_avx512.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define KERNEL(name) JOIN(name, INSTRUCTIONS)

extern "C" {
// LibTorch's threads, which it shares between its own operations and ours: calls with parts of [begin, end).
int32_t torch_parallel_for(
    int64_t begin, int64_t end, int64_t grain, void (*call)(int64_t begin, int64_t end, void* context), void* context);
int32_t torch_get_num_threads(uint32_t* threads);
}

// The same function in several instruction sets must not be merged by the linker: hence this namespace, and no templates of the
// standard library, whose code would be shared.
namespace {

// Nothing is thrown: the callers are Rust, and threads that nobody could hand an error to; and an error's
// exit code is 1, where an abort would leave a core dump.
[[noreturn]] inline void fail(const char* why) {
  std::fprintf(stderr, "error: %s\n  results and checkpoints written so far are kept\n", why);
  std::_Exit(1);
}

// Memory for `count` elements, which hold anything; it starts where a cache line does.
template <typename T>
T* allocate(int64_t count) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, static_cast<size_t>(count < 1 ? 1 : count) * sizeof(T)) != 0) {
    fail("out of memory: a kernel got none\n  try a smaller train.batch_tokens with a larger train.accumulate, or a smaller model");
  }
  return static_cast<T*>(memory);
}

// The same, given back at the end of its block.
template <typename T>
struct Room {
  T* data;
  explicit Room(int64_t count) : data(allocate<T>(count)) {}
  Room(Room&& other) : data(other.data) {
    other.data = nullptr;
  }
  Room(const Room&) = delete;
  ~Room() {
    std::free(data);
  }
};

inline int64_t threads() {
  uint32_t count = 1;
  torch_get_num_threads(&count);
  return count < 1 ? 1 : count;
}

// body(index) for every index of [0, count), one index a thread at a time.
template <typename Body>
void parallel(int64_t count, const Body& body) {
  auto call = [](int64_t begin, int64_t end, void* context) {
    for (int64_t index = begin; index < end; ++index) {
      (*static_cast<const Body*>(context))(index);
    }
  };
  // nothing of the result could be trusted
  if (torch_parallel_for(0, count, 1, call, const_cast<void*>(static_cast<const void*>(&body))) != 0) {
    fail("LibTorch could not share a kernel's work among threads");
  }
}

// body(first, end) for a few of `count` rows at a time, at most `step`. Each thread has rows of its own, the same at every call, so
// that they are in its cache; done with them it helps the others, so that no thread waits long for one that was held up.
// `before(thread, threads)` is what each thread does first.
template <typename Before, typename Body>
void parallel_rows_shared(int64_t count, int64_t step, const Before& before, const Body& body) {
  constexpr int64_t MOST = 256;
  const int64_t workers = threads() < MOST ? threads() : MOST;
  int64_t next[MOST];
  for (int64_t worker = 0; worker < workers; ++worker) {
    next[worker] = count * worker / workers;
  }
  parallel(workers, [&](int64_t self) {
    before(self, workers);
    for (int64_t other = 0; other < workers; ++other) {
      const int64_t worker = (self + other) % workers, end = count * (worker + 1) / workers;
      for (;;) {
        const int64_t first = __atomic_fetch_add(&next[worker], step, __ATOMIC_RELAXED);
        if (first >= end) {
          break;
        }
        body(first, first + step < end ? first + step : end);
      }
    }
  });
}

template <typename Body>
void parallel_rows_shared(int64_t count, int64_t step, const Body& body) {
  parallel_rows_shared(count, step, [](int64_t, int64_t) {}, body);
}

// A matrix in memory, rows first, or columns first if `turned`: `stride` elements lie between the rows (columns).
template <typename T>
struct Matrix {
  T* data;
  int64_t stride;
  bool turned = false;
  Matrix transposed() const {
    return {data, stride, !turned};
  }
};

// The largest of x, where a NaN counts only at the start of all; in lanes, since a plain loop does not vectorize where NaN may be.
template <typename T>
T largest(const T* x, int64_t count) {
  constexpr int64_t LANES = 16;
  T lanes[LANES];
  for (int64_t k = 0; k < LANES; ++k) {
    lanes[k] = x[0];
  }
  int64_t j = 0;
  for (; j + LANES <= count; j += LANES) {
    for (int64_t k = 0; k < LANES; ++k) {
      lanes[k] = x[j + k] > lanes[k] ? x[j + k] : lanes[k];
    }
  }
  T most = lanes[0];
  for (int64_t k = 1; k < LANES; ++k) {
    most = lanes[k] > most ? lanes[k] : most;
  }
  for (; j < count; ++j) {
    most = x[j] > most ? x[j] : most;
  }
  return most;
}

// eˣ to about 2 units in the last place, 0 below -87: a form that vectorizes.
inline float exponential(float x) {
  float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts, so that r keeps its digits (Cephes' coefficients for eʳ).
  float n = std::nearbyintf(clamped * 1.44269504088896341f);
  float r = clamped - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}

inline double exponential(double x) {
  return std::exp(x);
}

// 32 well mixed bits of a counter and a key (Wellons's search for short integer hashes, 2018, "lowbias32").
inline uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// 64 well mixed bits (Steele, Lea and Flood 2014, "splitmix64").
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

} // namespace
