// What the phases of `window.cu` are made of: tensor-core products, bulk copies, sums of a warp.
//
// The first half is written for one GPU, with compute capability 9.0. With -DEMULATE the header
// tests/learn/kernels/emulate.h takes its place, which runs a thread block on the CPU.
#pragma once
#define DEVICE __device__ __forceinline__
#define FOR(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)  // unrolled
#define EACH(i, count) for (int i = me.id; i < (count); i += THREADS)      // shared by all threads
constexpr int THREADS = 512, WARPS = THREADS / 32;

#ifdef EMULATE
#include "emulate.h"
#else
typedef unsigned long long Barrier;
extern __shared__ __align__(128) float shared[];

// The thread's number, as if read anew. Addresses made from it live for one phase only; else the
// compiler computes the addresses of all phases first and spills registers.
DEVICE int thread_number() {
  int number = threadIdx.x;
  asm volatile("" : "+r"(number));
  __builtin_assume(number >= 0 && number < THREADS);
  return number;
}
DEVICE unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Tensor-core products: a 16 x 8 or 16 x 4 tile times an 8 x 8 or 4 x 8 tile. The unit ignores the
// last 13 bits of a number.
DEVICE void tensor8(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
DEVICE void tensor4(float* c, unsigned a0, unsigned a1, unsigned b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

// A barrier completes when `expect` was called and that many bytes have arrived.
DEVICE void start_barrier(Barrier* b) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(b)) : "memory");
}
DEVICE void expect(Barrier* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(b)),
               "r"(bytes)
               : "memory");
}
// Waits until the barrier has completed more than `before` times.
DEVICE void wait_for(Barrier* b, int before) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W;\n}" ::"r"(address(b)),
      "r"(before & 1)
      : "memory");
}

// Copies from global to shared memory that arrive at a barrier. Every step reads the weights, so
// half of their lines stay in L2; stacks pass through it.
#define BULK_LOAD(policy)                                                                          \
  asm volatile("{.reg .b64 p; createpolicy.fractional." policy                                     \
               ";\n"                                                                               \
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint " \
               "[%0], [%1], %2, [%3], p;}" ::"r"(address(to)),                                     \
               "l"(from), "r"(bytes), "r"(address(b))                                              \
               : "memory")
DEVICE void load_stack(float* to, const float* from, int bytes, Barrier* b) {
  BULK_LOAD("L2::evict_first.b64 p, 1.0");
}
DEVICE void load_weights(float* to, const float* from, int bytes, Barrier* b) {
  BULK_LOAD("L2::evict_last.L2::evict_first.b64 p, 0.5");
}
// A copy from shared to global memory, and the waits of the thread that asked for it: until all but
// the last LEFT copies were read from shared memory, or until all are written.
DEVICE void store_stack(float* to, const float* from, int bytes) {
  asm volatile(
      "{.reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0;\n"
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, p;\n"
      "cp.async.bulk.commit_group;}" ::"l"(to),
      "r"(address(from)), "r"(bytes)
      : "memory");
}
template <int LEFT> DEVICE void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}
DEVICE void wait_stores_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Makes what threads wrote visible to copies: all of it, or what they wrote to shared memory.
DEVICE void fence_all() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEVICE void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE float square_root(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE unsigned bits_of(float x) { return __float_as_uint(x); }
DEVICE float float_of(unsigned x) { return __uint_as_float(x); }
#endif

// The number of this thread, of its warp, and its place in the tiles of a product: row 0 to 7 and
// pair of columns 0 to 3.
struct Thread {
  int id, warp, lane, row, pair;
  DEVICE Thread() : id(thread_number()) {
    warp = id >> 5, lane = id & 31, row = lane >> 2, pair = lane & 3;
  }
};

// c += a b in tf32 or, as three products of numbers split in two, in about float32. Emulated
// products are exact, unless EMULATE_TF32 asks for the GPU's.
#if defined(EMULATE) && !EMULATE_TF32
constexpr bool IN_THREE = false;
DEVICE unsigned high(float x) { return bits_of(x); }
#else
constexpr bool IN_THREE = !TF32;
DEVICE unsigned high(float x) { return bits_of(x) + 0x1000u; }  // rounds half away from zero
#endif
DEVICE float low(float x) { return x - float_of(high(x) & 0xffffe000u); }
DEVICE void mma8(float* c, float a0, float a1, float a2, float a3, float b0, float b1) {
  if constexpr (IN_THREE) {
    tensor8(c, high(low(a0)), high(low(a1)), high(low(a2)), high(low(a3)), high(b0), high(b1));
    tensor8(c, high(a0), high(a1), high(a2), high(a3), high(low(b0)), high(low(b1)));
  }
  tensor8(c, high(a0), high(a1), high(a2), high(a3), high(b0), high(b1));
}
DEVICE void mma4(float* c, float a0, float a1, float b0) {
  if constexpr (IN_THREE) {
    tensor4(c, high(low(a0)), high(low(a1)), high(b0));
    tensor4(c, high(a0), high(a1), high(low(b0)));
  }
  tensor4(c, high(a0), high(a1), high(b0));
}

DEVICE float2 load2(const float* p) { return *(const float2*)p; }
DEVICE float4 load4(const float* p) { return *(const float4*)p; }
DEVICE void store2(float* p, float x, float y) { *(float2*)p = make_float2(x, y); }
DEVICE void store4(float* p, float4 v) { *(float4*)p = v; }
DEVICE float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
DEVICE float4 operator*(float a, float4 b) {
  return make_float4(a * b.x, a * b.y, a * b.z, a * b.w);
}
DEVICE float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
DEVICE bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }
DEVICE float exponential(float x) { return TF32 ? __expf(x) : expf(x); }

// The sum, over the lanes whose number differs in the bits FROM to TO / 2 only.
template <int FROM, int TO> DEVICE float sum_lanes(float x) {
#pragma unroll
  for (int bit = FROM; bit < TO; bit *= 2) x += __shfl_xor_sync(~0u, x, bit);
  return x;
}
DEVICE float sum_warp(float x) { return sum_lanes<1, 32>(x); }
template <int TO> DEVICE float max_lanes(float x) {
#pragma unroll
  for (int bit = 1; bit < TO; bit *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, bit));
  return x;
}

// Calls f(row, column, value) for the four entries of a 16 x 8 tile that this thread holds.
template <class F> DEVICE void entries(const Thread& me, const float* c, F f) {
  FOR(e, 4) f(me.row + 8 * (e >> 1), 2 * me.pair + (e & 1), c[e]);
}

// c[m][n] += sum over K numbers k of w[m][k] x[n][k], for MS tiles of 16 rows m and NS tiles of 8
// rows n. `w` and `x` point to the thread's row of the first tile, which `w_left` and `x_left` rows
// follow (negative: it lies behind the last row). Behind the last row, that one is read again. K is
// a multiple of 4. With CHAINS above 1 there are so many independent sums, for `add_chains`.
constexpr int ALL_ROWS = 1 << 20;
template <int MS, int NS, int K, int CHAINS = 1>
DEVICE void product(float (*c)[4], const float* w, int w_row, const float* x, int x_row, int pair,
                    int w_left = ALL_ROWS, int x_left = ALL_ROWS) {
  FOR(k, K / 8) {
    float2 b[NS];
    FOR(n, NS) b[n] = load2(x + min(8 * n, x_left) * x_row + 8 * k + 2 * pair);
    FOR(m, MS) {
      const float* a = w + 8 * k + 2 * pair;
      const float2 top = load2(a + min(16 * m, w_left) * w_row);
      const float2 bottom = load2(a + min(16 * m + 8, w_left) * w_row);
      FOR(n, NS) {
        float* sum = c[(k % CHAINS * MS + m) * NS + n];
        mma8(sum, top.x, bottom.x, top.y, bottom.y, b[n].x, b[n].y);
      }
    }
  }
  if constexpr (K % 8 != 0) {
    constexpr int k = K / 8 * 8;
    FOR(m, MS) {
      const float* a = w + k + pair;
      const float top = a[min(16 * m, w_left) * w_row], bottom = a[min(16 * m + 8, w_left) * w_row];
      FOR(n, NS) mma4(c[m * NS + n], top, bottom, x[min(8 * n, x_left) * x_row + k + pair]);
    }
  }
}

// c[m][n] += sum over K numbers k of w[k][m] dy[n][k]: back through `product`. `w` points to row
// `pair`, column `row`; `dy` to row `row`, column `pair`, which `dy_left` rows follow.
template <int MS, int NS, int K, int CHAINS = 1>
DEVICE void product_back(float (*c)[4], const float* w, int w_row, const float* dy, int dy_row,
                         int dy_left = ALL_ROWS) {
#pragma unroll
  for (int k = 0; k < K; k += 8) {
    FOR(m, MS) {
      const float* a = w + k * w_row + 16 * m;
      FOR(n, NS) {
        const float* b = dy + min(8 * n, dy_left) * dy_row + k;
        float* sum = c[(k / 8 % CHAINS * MS + m) * NS + n];
        if (k + 8 <= K) mma8(sum, a[0], a[8], a[4 * w_row], a[4 * w_row + 8], b[0], b[4]);
        else mma4(sum, a[0], a[8], b[0]);
      }
    }
  }
}
template <int TILES, int CHAINS> DEVICE void add_chains(float (*c)[4]) {
#pragma unroll
  for (int i = TILES; i < CHAINS * TILES; i++)
    FOR(e, 4) c[i % TILES][e] += c[i][e];
}

// c[m][n] += sum over ROWS rows k of a[k][m] b[k][n], for 16 columns m and NS tiles of 8 columns n.
// `a` and `b` point to row `pair`, column `row`. Rows behind the last one are not read. With SUMS
// there is one more tile: sums of the rows of `a`.
template <int NS, int ROWS, bool SUMS = false>
DEVICE void outer(float (*c)[4], const float* a, int a_row, const float* b, int b_row, int pair) {
#pragma unroll
  for (int k = 0; k < ROWS; k += 8) {
    const bool first = k + 4 <= ROWS || k + pair < ROWS;
    const bool second = k + 8 <= ROWS || k + 4 + pair < ROWS;
    const float *p = a + k * a_row, *q = p + 4 * a_row, *u = b + k * b_row, *v = u + 4 * b_row;
    const float a0 = first ? p[0] : 0, a1 = first ? p[8] : 0;
    const float a2 = second ? q[0] : 0, a3 = second ? q[8] : 0;
    FOR(n, NS + SUMS) {
      const float b0 = n == NS ? 1 : first ? u[8 * n] : 0, b1 = n == NS ? 1 : second ? v[8 * n] : 0;
      if (k + 4 < ROWS) mma8(c[n], a0, a1, a2, a3, b0, b1);
      else mma4(c[n], a0, a1, b0);
    }
  }
}

// The thread's quarter of a sum over K numbers of w[k] x[k], summed over four threads.
template <int K> DEVICE float dot_of_four(const float* w, const float* x, int pair) {
  float sum = 0;
  FOR(k, K / 8) {
    const float2 a = load2(w + 8 * k + 2 * pair), b = load2(x + 8 * k + 2 * pair);
    sum += a.x * b.x + a.y * b.y;
  }
  if (K % 8) sum += w[K / 8 * 8 + pair] * x[K / 8 * 8 + pair];
  return sum_lanes<1, 4>(sum);
}
