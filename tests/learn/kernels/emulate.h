// A thread block of the GPU on one CPU core, to check a kernel's results where there is no GPU.
//
// Every thread is a fiber. It runs until it must wait for others: for its warp in a shuffle or a
// tensor-core product, for the block in __syncthreads, or for a copy. This header stands in for the
// first half of device.cuh. It knows nothing of memory ordering, but
//   -DEMULATE_LATE=1     delays copies as long as the waits allow (by default they happen at once),
//   -DEMULATE_REVERSE=1  runs fibers in the opposite order,
//   -DEMULATE_TF32=1     rounds products as the GPU does (by default they are exact):
// results that depend on the first two show that a wait or a barrier is missing.
#pragma once
#undef _FORTIFY_SOURCE  // its longjmp refuses to change stacks
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>
#ifndef EMULATE_LATE
#define EMULATE_LATE 0
#endif
#ifndef EMULATE_REVERSE
#define EMULATE_REVERSE 0
#endif
#ifndef EMULATE_TF32
#define EMULATE_TF32 0
#endif
#define __global__
#define __host__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
using std::max;
using std::min;

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulation {
constexpr int STACK = 1 << 16;
struct Fiber {
  jmp_buf state;
  ucontext_t start;
  std::vector<char> stack;
  bool started, done;
  long block;
};
struct Warp {
  uint32_t in[2][32][6], out[2][32][4];
  int count;
  long turn;
};
struct Copy {
  float* to;
  const float* from;
  int bytes;
  uint64_t* barrier;
};
inline Fiber fibers[THREADS];
inline Warp warps[WARPS];
inline jmp_buf finished;
inline std::function<void()> body;
inline int current, block_number, waiting, alive;
inline long block_turn;
inline std::deque<Copy> loads, stores;

inline void enter(int next) {
  current = next;
  if (fibers[next].started) _longjmp(fibers[next].state, 1);
  fibers[next].started = true;
  setcontext(&fibers[next].start);
}
__attribute__((noinline)) inline void switch_to(int next) {
  if (!_setjmp(fibers[current].state)) enter(next);
}
// The next fiber of the block that is not waiting for __syncthreads.
inline int next_fiber() {
  for (int k = 1; k <= THREADS; k++) {
    const int i = (current + (EMULATE_REVERSE ? THREADS - k : k)) % THREADS;
    if (!fibers[i].done && fibers[i].block <= block_turn) return i;
  }
  fprintf(stderr, "emulation: all threads wait\n");
  abort();
}
inline void release_block() {
  if (waiting == alive && alive) waiting = 0, block_turn++;
}
inline void main_of_fiber() {
  body();
  fibers[current].done = true, alive--;
  release_block();
  if (alive) enter(next_fiber());
  _longjmp(finished, 1);
}
// Exchanges numbers between the lanes of a warp: when all have come, f(in, out) makes the results.
template <int IN, int OUT, class F> inline void meet(const uint32_t* in, uint32_t* out, F f) {
  Warp& warp = warps[current / 32];
  const int lane = current % 32, me = current;
  const long turn = warp.turn;
  memcpy(warp.in[turn & 1][lane], in, 4 * IN);
  if (++warp.count == 32) {
    f(warp.in[turn & 1], warp.out[turn & 1]);
    warp.count = 0, warp.turn++;
  }
  while (warp.turn == turn) switch_to(me / 32 * 32 + (lane + (EMULATE_REVERSE ? 31 : 1)) % 32);
  memcpy(out, warp.out[turn & 1][lane], 4 * OUT);
}
inline uint32_t bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
inline float number(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

// A barrier is: bytes that are missing (low half), whether they are expected, and completed phases.
constexpr uint64_t EXPECTED = 1ull << 32;
inline void change(uint64_t* b, int64_t bytes, bool expected) {
  const uint32_t missing = (uint32_t)*b + (uint32_t)bytes;
  *b = (*b & ~0xffffffffull) | missing;
  if (expected) *b |= EXPECTED;
  if (!missing && (*b & EXPECTED)) *b = (*b & ~EXPECTED) + (1ull << 33);
}
inline void finish(const Copy& c) {
  memcpy(c.to, c.from, c.bytes);
  if (c.barrier) change(c.barrier, -(int64_t)c.bytes, false);
}
inline void finish_loads(uint64_t* b) {
  std::deque<Copy> others;
  for (const Copy& c : loads)
    if (c.barrier == b) finish(c);
    else others.push_back(c);
  loads.swap(others);
}
inline void finish_stores(size_t left) {
  while (stores.size() > left) finish(stores.front()), stores.pop_front();
}
template <int K> inline void tensor(float* c, const uint32_t* fragments) {
  uint32_t out[4];
  meet<K / 2 + K / 4, 4>(fragments, out, [](uint32_t (*in)[6], uint32_t (*out)[4]) {
    constexpr int NA = K / 2, NB = K / 4;
    float a[16][K], b[8][K];
    auto value = [](uint32_t u) { return number(EMULATE_TF32 ? u & 0xffffe000u : u); };
    for (int lane = 0; lane < 32; lane++) {
      const int g = lane / 4, t = lane % 4;
      for (int i = 0; i < NA; i++) a[g + 8 * (i & 1)][t + 4 * (i >> 1)] = value(in[lane][i]);
      for (int i = 0; i < NB; i++) b[g][t + 4 * i] = value(in[lane][NA + i]);
    }
    for (int lane = 0; lane < 32; lane++)
      for (int i = 0; i < 4; i++) {
        const float *x = a[lane / 4 + 8 * (i >> 1)], *y = b[2 * (lane % 4) + (i & 1)];
        float sum = 0;
        for (int k = 0; k < K; k++) sum += x[k] * y[k];
        out[lane][i] = bits(sum);
      }
  });
  for (int i = 0; i < 4; i++) c[i] += number(out[i]);
}
}  // namespace emulation

// The names that kernels use.
inline float shared[232448 / 4];
typedef uint64_t Barrier;
struct {
  struct {
    operator int() const { return emulation::current; }
  } x;
} inline threadIdx;
struct {
  struct {
    operator int() const { return emulation::block_number; }
  } x;
} inline blockIdx;
inline int thread_number() { return emulation::current; }

inline void __syncthreads() {
  using namespace emulation;
  const long turn = block_turn;
  waiting++, fibers[current].block = turn + 1;
  release_block();
  while (block_turn == turn) switch_to(next_fiber());
}
inline void __syncwarp() {
  uint32_t none = 0;
  emulation::meet<1, 1>(&none, &none, [](auto, auto) {});
}
inline float __shfl_xor_sync(unsigned, float x, int mask) {
  uint32_t u = emulation::bits(x);
  emulation::meet<1, 1>(&u, &u, [mask](uint32_t (*in)[6], uint32_t (*out)[4]) {
    for (int lane = 0; lane < 32; lane++) out[lane][0] = in[lane ^ mask][0];
  });
  return emulation::number(u);
}
inline void tensor8(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                    unsigned b1) {
  const uint32_t fragments[] = {a0, a1, a2, a3, b0, b1};
  emulation::tensor<8>(c, fragments);
}
inline void tensor4(float* c, unsigned a0, unsigned a1, unsigned b0) {
  const uint32_t fragments[] = {a0, a1, b0};
  emulation::tensor<4>(c, fragments);
}

inline void start_barrier(Barrier* b) { *b = 0; }
inline void expect(Barrier* b, int bytes) { emulation::change(b, bytes, true); }
inline void wait_for(Barrier* b, int before) {
  if (EMULATE_LATE) emulation::finish_loads(b);
  while ((int)(*(volatile Barrier*)b >> 33) <= before) {
    emulation::switch_to(emulation::next_fiber());
    if (EMULATE_LATE) emulation::finish_loads(b);
  }
}
inline void load_stack(float* to, const float* from, int bytes, Barrier* b) {
  if (bytes % 16 || (uintptr_t)from % 16 || (uintptr_t)to % 16) abort();
  emulation::loads.push_back({to, from, bytes, b});
  if (!EMULATE_LATE) emulation::finish_loads(b);
}
inline void load_weights(float* to, const float* from, int bytes, Barrier* b) {
  load_stack(to, from, bytes, b);
}
inline void store_stack(float* to, const float* from, int bytes) {
  if (bytes % 16 || (uintptr_t)from % 16 || (uintptr_t)to % 16) abort();
  emulation::stores.push_back({to, from, bytes, nullptr});
  if (!EMULATE_LATE) emulation::finish_stores(0);
}
template <int LEFT> inline void wait_stores_read() { emulation::finish_stores(LEFT); }
inline void wait_stores_written() { emulation::finish_stores(0); }
inline void fence_all() {}
inline void fence_shared() {}

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float square_root(float x) { return std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float4 __ldcs(const float4* p) { return *p; }
inline void __stcs(float4* p, float4 v) { *p = v; }
inline unsigned bits_of(float x) { return emulation::bits(x); }
inline float float_of(unsigned x) { return emulation::number(x); }

// Runs one block of a kernel. Shared memory holds no numbers before.
inline void run_block(int number, std::function<void()> kernel) {
  using namespace emulation;
  memset(shared, 0xff, sizeof shared);
  body = kernel, block_number = number, waiting = 0, alive = THREADS, block_turn = 0;
  for (Warp& warp : warps) warp.count = 0, warp.turn = 0;
  loads.clear(), stores.clear();
  for (Fiber& fiber : fibers) {
    fiber.stack.resize(STACK), fiber.started = fiber.done = false, fiber.block = 0;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.data(), fiber.start.uc_stack.ss_size = STACK;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, main_of_fiber, 0);
  }
  if (!_setjmp(finished)) enter(0);
}
