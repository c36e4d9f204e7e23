// Trains whole A3C windows of WMG on Pathfinding: one thread block a run.
//
// A window is an episode of STEPS steps: the forward pass, which acts; the loss; the backward pass;
// the gradients of weights; and an update by Adam. `wmg.learn.a3c.window` is the reference. Noise
// and episodes are drawn by JAX.
//
// Weights are the M side of tensor-core products and nodes the N side, so 17 nodes are padded
// to 24. The weights of a layer come into shared memory by bulk copies that one thread of the last
// warp asks for, ahead of use. What the backward pass needs goes to stacks in global memory by bulk
// copies, too. A Memo's embedding is multiplied once and added to the embedding of its age in every
// step.
//
// `sizes.cuh` has the macros that set the sizes, and the order of parameters; a run's parameters
// are one vector, padded with zeros, which stay zeros. Columns that a row of activations is padded
// with beyond SIZE8 are never read.
#include "device.cuh"
#include "sizes.cuh"

// A run in a window. The pointers are to what belongs to it alone.
struct Run {
  float *params, *work;
  const float *noise, *observations, *hyper;
  const int* answers;
  float* totals;
  bool issuer;   // whether this thread asks for copies
  int waits[6];  // for each barrier, how often threads have waited for it
};
enum { AT_QKV, AT_REST, AT_LAYER, AT_HEADS, AT_LAST, AT_STAGE };
enum { DISCOUNT, ENTROPY, ADAM_EPSILON, CLIP, REWARD_SCALE };  // in `hyper`

DEVICE Barrier* barrier(int which) { return (Barrier*)(shared + window::BARRIERS) + which; }
DEVICE void await(Run& run, int which) { wait_for(barrier(which), run.waits[which]++); }
DEVICE void keep(const Run& run, int place, int from, int length) {
  if (run.issuer) store_stack(run.work + place, shared + from, 4 * length);
}

// ------------------------------------------------------------------------------ weights of layers

// Asks for as much of a layer's `qkv` as lies outside of the place of the rest, and for the end.
DEVICE void load_qkv(const Run& run, int l) {
  if (!run.issuer || l < 0) return;
  expect(barrier(AT_QKV), 4 * QKV_LENGTH);
  constexpr int length = least(QKV_LENGTH, REST_PLACE);
  if constexpr (length > 0)
    load_weights(shared + QKV, run.params + l * layer::END, 4 * length, barrier(AT_QKV));
}
DEVICE void load_qkv_end(const Run& run, int l) {
  constexpr int length = QKV_LENGTH - REST_PLACE;
  if constexpr (length > 0)
    if (run.issuer && l >= 0)
      load_weights(shared + QKV + REST_PLACE, run.params + l * layer::END + REST_PLACE, 4 * length,
                   barrier(AT_QKV));
}
DEVICE void load_rest(const Run& run, int l) {
  if (!run.issuer || l < 0) return;
  expect(barrier(AT_REST), 4 * REST_LENGTH);
  load_weights(shared + REST + layer::MIX, run.params + l * layer::END + layer::MIX,
               4 * REST_LENGTH, barrier(AT_REST));
}
// Asks for what comes next, after all threads have used `qkv` or the rest: of these layers, if any.
DEVICE void qkv_used(const Run& run, int next_qkv, int next_rest) {
  if (!RESIDENT) load_rest(run, next_rest);
  load_qkv(run, next_qkv);
}
DEVICE void rest_used(const Run& run, int next_rest, int next_qkv) {
  if (RESIDENT) load_rest(run, next_rest);
  else load_qkv_end(run, next_qkv);
}

// ------------------------------------------------------------------------------ parts of layers

// f(o, w[o] . x(o)) for all rows o of a matrix, each by four threads.
template <int ROWS, int K, class X, class F>
DEVICE void multiply(const float* w, int w_row, X x, F f) {
  const Thread me;
  for (int row = me.id / 4; row < up(ROWS, 8); row += THREADS / 4) {
    const int o = min(row, ROWS - 1);
    const float sum = dot_of_four<K>(w + o * w_row, x(o), me.pair);
    if (row < ROWS && me.pair == 0) f(o, sum);
  }
}

// Back through `multiply`: sums over rows o of d[o] w[o][i]. Each thread has a column i and every
// PARTS-th row, and leaves its sum in `partial`. With AHEAD the thread has loaded its weights
// before.
template <int ROWS, int COLUMNS, bool AHEAD = false> struct Columns {
  static constexpr int PARTS = THREADS / COLUMNS, EACH_PART = tiles(ROWS, PARTS);
  static constexpr bool HOLD = AHEAD && EACH_PART <= 20;
  float held[HOLD ? EACH_PART : 1];
  DEVICE void load(const float* w, int w_row) {
    const Thread me;
    if constexpr (HOLD)
      FOR(k, EACH_PART) {
        const int o = me.id / COLUMNS + PARTS * k;
        held[k] = o < ROWS ? w[o * w_row + me.id % COLUMNS] : 0;
      }
  }
  DEVICE void multiply(const float* w, int w_row, const float* d, float* partial) const {
    const Thread me;
    const int i = me.id % COLUMNS, part = me.id / COLUMNS;
    if (part >= PARTS) return;
    float sum = 0;
    FOR(k, EACH_PART) {
      const int o = part + PARTS * k;
      if (o < ROWS) sum += d[o] * (HOLD ? held[HOLD ? k : 0] : w[o * w_row + i]);
    }
    partial[part * COLUMNS + i] = sum;
  }
  static DEVICE float total(const float* partial, int i) {
    float sum = 0;
    FOR(k, PARTS) sum += partial[k * COLUMNS + i];
    return sum;
  }
};

// Calls f(entry, feature, k) for each entry of a tile of all features of 8 nodes: of node
// 2 * pair + k. Features from SIZE to SIZE8 are zeros.
template <class F> DEVICE void features(const Thread& me, float (*c)[4], F f) {
  FOR(m, SIZE_TILES)
    FOR(e, 4)
      if (16 * m + 8 * (e >> 1) < SIZE8) f(c[m][e], 16 * m + me.row + 8 * (e >> 1), e & 1);
}
DEVICE bool is_real(int feature) { return SIZE == SIZE8 || feature < SIZE; }

// Normalises 8 nodes. Writes them as they are and with gain and bias, which are also left in `c`.
DEVICE void normalise(const Thread& me, float (*c)[4], const float* gain, const float* bias,
                      float* normal, float* out, float* scales) {
  const int node = 8 * me.warp + 2 * me.pair;
  float sum[2] = {}, square[2] = {}, scale[2];
  features(me, c, [&](float& x, int, int k) { sum[k] += x; });
  for (int k = 0; k < 2; k++) sum[k] = sum_lanes<4, 32>(sum[k]) * (1.f / SIZE);
  features(me, c, [&](float& x, int o, int k) {
    x = is_real(o) ? x - sum[k] : 0;
    square[k] += x * x;
  });
  for (int k = 0; k < 2; k++)
    scale[k] = rsqrtf(sum_lanes<4, 32>(square[k]) * (1.f / SIZE) + EPSILON);
  features(me, c, [&](float& x, int o, int k) {
    const float v = x * scale[k];
    x = v * gain[o] + bias[o];
    if (node + k < NODES) normal[(node + k) * X_ROW + o] = v, out[(node + k) * X_ROW + o] = x;
  });
  if (me.row == 0) store2(scales + node, scale[0], scale[1]);
}
// Back through `normalise`: `d` is the result's cotangent, then the argument's.
DEVICE void normalise_back(const Thread& me, float (*d)[4], const float* gain, const float* normal,
                           const float* scales, float* out) {
  const int node = 8 * me.warp + 2 * me.pair;
  float mean[2] = {}, along[2] = {}, v[SIZE_TILES][4];
  int at = 0;
  features(me, d, [&](float& x, int o, int k) {
    const float n = normal[min(node + k, NODES - 1) * X_ROW + o];
    x *= gain[o];
    mean[k] += x, along[k] += x * n;
    v[at / 4][at % 4] = n, at++;
  });
  for (int k = 0; k < 2; k++) {
    mean[k] = sum_lanes<4, 32>(mean[k]) * (1.f / SIZE);
    along[k] = sum_lanes<4, 32>(along[k]) * (1.f / SIZE);
  }
  const float2 scale = load2(scales + node);
  at = 0;
  features(me, d, [&](float& x, int o, int k) {
    x = (k ? scale.y : scale.x) * (x - mean[k] - v[at / 4][at % 4] * along[k]);
    if (!is_real(o)) x = 0;
    if (node + k < NODES) out[(node + k) * DX_ROW + o] = x;
    at++;
  });
}

// Turns products of 16 queries with all keys into weights of the first `present` nodes.
DEVICE void softmax(float (*c)[4], int present, int pair) {
#pragma unroll
  for (int r = 0; r < 4; r += 2) {
    float top = -1e30f, sum = 0;
    FOR(n, NODE_TILES)
      FOR(e, 2)
        if (8 * n + 2 * pair + e < present) top = fmaxf(top, c[n][r + e]);
    top = max_lanes<4>(top);
    FOR(n, NODE_TILES)
      FOR(e, 2) {
        const bool in = 8 * n + 2 * pair + e < present;
        c[n][r + e] = in ? exponential((c[n][r + e] - top) * HEAD_SCALE) : 0;
        sum += c[n][r + e];
      }
    sum = __fdividef(1.f, sum_lanes<1, 4>(sum));
    FOR(n, NODE_TILES) c[n][r] *= sum, c[n][r + 1] *= sum;
  }
}
// The mean of rows of `v`, weighted by `p`: 16 queries and 8 columns. `v` points to the thread's
// column.
DEVICE void weigh(float* out, const float (*p)[4], const float* v, int v_row, int pair) {
  FOR(n, NODE_TILES) {
    const int first = 8 * n + 2 * pair, second = first + 1;
    mma8(out, p[n][0], p[n][2], p[n][1], p[n][3], first < NODES ? v[first * v_row] : 0,
         second < NODES ? v[second * v_row] : 0);
  }
}
// Nodes that step t attends to.
DEVICE int present_at(int t) { return FULL ? NODES : 1 + min(t, SLOTS); }

// ------------------------------------------------------------------------------ forward pass

// Asks for the first weights; embeds observations, ages and, in nr-WMG, memories.
DEVICE void begin_window(Run& run) {
  const float* params = run.params;
  if (KEEP_DECIDE && run.issuer) {
    expect(barrier(AT_LAST), 4 * DECIDE_LENGTH);
    load_stack(shared + DECIDE, params + param::NEW_MEMO, 4 * DECIDE_LENGTH, barrier(AT_LAST));
  }
  load_qkv(run, 0), load_qkv_end(run, 0);
  if (RESIDENT) load_rest(run, 0);
  const Thread me;
  EACH(i, STEPS * CORE4) {
    shared[window::SEEN + i] = run.observations[i];
    if (!MEMOS) shared[window::MEMORIES + i] = tanhf(run.observations[i]);
  }
  EACH(i, SLOTS * SIZE8) {
    const int s = i / SIZE8, o = i % SIZE8;
    shared[window::AGES + i] =
        params[param::EMBED_MEMORY_BIAS + o] +
        params[param::EMBED_MEMORY + o * MEMORY_ROW + MEMORY4 + (s + 1) % SLOTS];
  }
  EACH(i, 2 * ACTOR8 + 4) shared[FORWARD + forward::POLICY + i] = params[param::POLICY + i];
  __syncthreads();
  EACH(i, STEPS * SIZE8) {
    const int t = i / SIZE8, o = i % SIZE8;
    const float* seen = shared + window::SEEN + t * CORE4;
    float core = params[param::EMBED_CORE_BIAS + o];
#pragma unroll
    for (int k = 0; k < CORE4; k += 4)
      core += dot(load4(params + param::EMBED_CORE + o * CORE4 + k), load4(seen + k));
    shared[window::CORES + i] = core;
    if (!MEMOS) {
      const float* memory = shared + window::MEMORIES + t * MEMORY4;
      float sum = 0;
#pragma unroll
      for (int k = 0; k < MEMORY4; k += 4)
        sum += dot(load4(params + param::EMBED_MEMORY + o * MEMORY_ROW + k), load4(memory + k));
      shared[window::EMBEDDED + i] = sum;
    }
  }
  __syncthreads();
}

// The nodes of step t: the Core, and the memories by age.
DEVICE void gather_nodes(int t) {
  const Thread me;
  EACH(i, NODES * (SIZE8 / 4)) {
    const int n = i / (SIZE8 / 4), c = i % (SIZE8 / 4) * 4;
    float4 x = load4(shared + (n ? window::AGES + (n - 1) * SIZE8 : window::CORES + t * SIZE8) + c);
    if (n && n <= t) x = x + load4(shared + window::EMBEDDED + (t - n) * SIZE8 + c);
    store4(shared + FORWARD + forward::X + n * X_ROW + c, x);
  }
}

// Queries, keys and values of all nodes.
DEVICE void project() {
  const Thread me;
  constexpr int TILES = tiles(3 * HEADS4, 16), PER = tiles(TILES, WARPS);
  if (me.warp >= tiles(TILES, PER)) return;
  const int first = 16 * PER * me.warp;
  float c[PER * NODE_TILES][4] = {}, bias[PER][2];
  product<PER, NODE_TILES, SIZE8>(c, shared + QKV + (first + me.row) * SIZE_ROW, SIZE_ROW,
                                  shared + FORWARD + forward::X + me.row * X_ROW, X_ROW, me.pair,
                                  3 * HEADS4 - 1 - first - me.row, NODES - 1 - me.row);
  FOR(m, 2 * PER)
    bias[m / 2][m % 2] =
        shared[QKV + layer::QKV_BIAS + min(first + 8 * m + me.row, 3 * HEADS4 - 1)];
  FOR(m, PER)
    FOR(n, NODE_TILES)
      entries(me, c[m * NODE_TILES + n], [&](int row, int column, float v) {
        const int o = first + 16 * m + row, node = 8 * n + column;
        if (node < NODES && o < 3 * HEADS4)
          shared[FORWARD + forward::QKV + node * QKV_ROW + o] = v + bias[m][row >= 8];
      });
}

// Attention of all nodes: a warp has 16 queries of a head.
DEVICE void attend(int t) {
  const Thread me;
  const float* qkv = shared + FORWARD + forward::QKV;
  for (int item = me.warp; item < HEADS * QUERY_TILES; item += WARPS) {
    const int head = item % HEADS * HEAD4, first = 16 * (item / HEADS) + me.row;
    float p[NODE_TILES][4] = {};
    product<1, NODE_TILES, HEAD4>(p, qkv + first * QKV_ROW + head, QKV_ROW,
                                  qkv + me.row * QKV_ROW + HEADS4 + head, QKV_ROW, me.pair,
                                  NODES - 1 - first, NODES - 1 - me.row);
    softmax(p, present_at(t), me.pair);
#pragma unroll
    for (int d = 0; d < HEAD4; d += 8) {
      float o[4] = {};
      const float* values = qkv + 2 * HEADS4 + head;
      weigh(o, p, values + min(d + me.row, HEAD4 - 1), QKV_ROW, me.pair);
      const int column = d + 2 * me.pair;
      float* out = shared + FORWARD + forward::MIX + first * MIX_ROW + head + column;
      if (column < HEAD4 && first < NODES) store2(out, o[0], o[1]);
      if (column < HEAD4 && first + 8 < NODES) store2(out + 8 * MIX_ROW, o[2], o[3]);
    }
  }
}

// What follows attention: one warp for each tile of 8 nodes, so no barriers are needed.
DEVICE void feed_forward() {
  const Thread me;
  if (me.warp >= NODE_TILES) return;
  const float* w = shared + REST;
  float* f = shared + FORWARD;
  const int near = min(8 * me.warp + me.row, NODES - 1), node = 8 * me.warp + 2 * me.pair;
  float c[SIZE_TILES][4] = {};
  product<SIZE_TILES, 1, HEADS4>(c, w + layer::MIX + me.row * HEADS_ROW, HEADS_ROW,
                                 f + forward::MIX + near * MIX_ROW, MIX_ROW, me.pair);
  features(me, c, [&](float& x, int o, int k) {
    x += w[layer::MIX_BIAS + o] + f[forward::X + (node + k) * X_ROW + o];
  });
  normalise(me, c, w + layer::GAIN1, w + layer::BIAS1, f + forward::TOTAL, f + forward::MIDDLE,
            f + forward::SCALES);
  __syncwarp();
  constexpr int CHAINS = HIDDEN_TILES == 1 ? 3 : 1;
  float h[CHAINS * HIDDEN_TILES][4] = {};
  product<HIDDEN_TILES, 1, SIZE8, CHAINS>(h, w + layer::WIDEN + me.row * SIZE_ROW, SIZE_ROW,
                                          f + forward::MIDDLE + near * X_ROW, X_ROW, me.pair);
  add_chains<HIDDEN_TILES, CHAINS>(h);
  FOR(m, HIDDEN_TILES)
    entries(me, h[m], [&](int row, int column, float v) {
      const int n = 8 * me.warp + column, o = 16 * m + row;
      if (n < NODES && o < HIDDEN4)
        f[forward::WIDE + n * H_ROW + o] = fmaxf(v + w[layer::WIDEN_BIAS + o], 0.f);
    });
  __syncwarp();
  product<SIZE_TILES, 1, HIDDEN4>(c, w + layer::NARROW + me.row * HIDDEN_ROW, HIDDEN_ROW,
                                  f + forward::WIDE + near * H_ROW, H_ROW, me.pair,
                                  SIZE8 - 1 - me.row);
  features(me, c, [&](float& x, int o, int) { x += w[layer::NARROW_BIAS + o]; });
  normalise(me, c, w + layer::GAIN2, w + layer::BIAS2, f + forward::MIDDLE, f + forward::X,
            f + forward::SCALES + 8 * NODE_TILES);
}

// A layer that computes all nodes. Before a buffer is written, its last copy must have been read.
DEVICE void first_layer(Run& run, int t, int l) {
  const int row = l * stack::ROWS + t * NODES;
  await(run, AT_QKV);
  project();
  if (run.issuer) wait_stores_read<4>();  // not yet: NORMAL1, NORMAL2, WIDE, SCALES of layer l - 1
  fence_shared(), __syncthreads();
  qkv_used(run, l + 1, l);
  keep(run, stack::QKV + row * QKV_ROW, FORWARD + forward::QKV, NODES * QKV_ROW);
  attend(t);
  if (run.issuer) wait_stores_read<1>();  // not yet: QKV
  fence_shared(), __syncthreads();
  keep(run, stack::MIX + row * MIX_ROW, FORWARD + forward::MIX, NODES * MIX_ROW);
  await(run, AT_REST);
  feed_forward();
  if (run.issuer) wait_stores_read<1>();  // not yet: MIX
  fence_shared(), __syncthreads();
  rest_used(run, l + 1, l + 1);
  keep(run, stack::NORMAL1 + row * X_ROW, FORWARD + forward::TOTAL, NODES * X_ROW);
  keep(run, stack::NORMAL2 + row * X_ROW, FORWARD + forward::MIDDLE, NODES * X_ROW);
  keep(run, stack::WIDE + row * H_ROW, FORWARD + forward::WIDE, NODES * H_ROW);
  keep(run, stack::SCALES + (l * STEPS + t) * stack::SCALES_ROW, FORWARD + forward::SCALES,
       stack::SCALES_ROW);
}

// Sums over the inputs d of each head: y[h][s] = sum of x[h][d] w[h][d][s].
DEVICE void multiply_heads(float* y, const float* x, const float* w) {
  const Thread me;
  EACH(i, HEADS * SIZE8 / 2) {
    const int h = i / (SIZE8 / 2), s = 2 * (i % (SIZE8 / 2));
    float a = 0, b = 0;
    FOR(d, HEAD4) {
      const float2 v = load2(w + (h * HEAD4 + d) * SIZE_ROW + s);
      a += x[h * HEAD4 + d] * v.x, b += x[h * HEAD4 + d] * v.y;
    }
    store2(y + h * SIZE8 + s, a, b);
  }
}
// Sums over nodes n: y[h][s] = sum of p[h][n] x[n][s].
DEVICE void sum_nodes(float* y, const float* p, const float* x) {
  const Thread me;
  EACH(i, HEADS * SIZE8 / 2) {
    const int h = i / (SIZE8 / 2), s = 2 * (i % (SIZE8 / 2));
    float a = 0, b = 0;
    FOR(n, NODES) {
      const float2 v = load2(x + n * X_ROW + s);
      a += p[h * NODES + n] * v.x, b += p[h * NODES + n] * v.y;
    }
    store2(y + h * SIZE8 + s, a, b);
  }
}
// x[n] . y[h] for node n = lane and a head h.
DEVICE float look(const float* x, const float* y, int lane) {
  float sum = 0;
  const float* node = x + min(lane, NODES - 1) * X_ROW;
#pragma unroll
  for (int s = 0; s < SIZE8; s += 4) sum += dot(load4(node + s), load4(y + s));
  return sum;
}

// Vectors of SIZE numbers in the lanes of one warp; zeros from SIZE to SIZE8.
constexpr int SPAN = tiles(SIZE8, 32);
template <class F> DEVICE void spread(int lane, F f) {
  FOR(i, SPAN)
    if (32 * (i + 1) <= SIZE8 || lane + 32 * i < SIZE8) f(i, lane + 32 * i);
}
DEVICE float normalise_vector(float* x, int lane) {
  float sum = 0, square = 0;
  spread(lane, [&](int i, int) { sum += x[i]; });
  sum = sum_warp(sum) * (1.f / SIZE);
  spread(lane, [&](int i, int c) { x[i] = is_real(c) ? x[i] - sum : 0, square += x[i] * x[i]; });
  const float scale = rsqrtf(sum_warp(square) * (1.f / SIZE) + EPSILON);
  spread(lane, [&](int i, int) { x[i] *= scale; });
  return scale;
}
// Lanes that share a unit of the feed-forward block.
constexpr int SHARE = HIDDEN4 <= 4 ? 8 : HIDDEN4 <= 8 ? 4 : HIDDEN4 <= 16 ? 2 : 1;

// What follows attention in the last layer: by one warp, since it is for the Core alone.
DEVICE void feed_forward_core(int t) {
  const Thread me;
  if (me.warp) return;
  const float* w = shared + REST;
  float *record = shared + FORWARD + forward::LAST, x[SPAN];
  spread(me.lane, [&](int i, int c) { x[i] = shared[FORWARD + forward::TOTAL + c]; });
  record[last::SCALES] = normalise_vector(x, me.lane);
  spread(me.lane, [&](int i, int c) {
    record[last::NORMAL1 + c] = x[i];
    record[last::MIDDLE + c] = x[i] = x[i] * w[layer::GAIN1 + c] + w[layer::BIAS1 + c];
  });
  __syncwarp();
#pragma unroll
  for (int first = 0; first < HIDDEN4; first += 32 / SHARE) {
    const int unit = first + me.lane / SHARE, j = min(unit, HIDDEN4 - 1);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < SIZE8; k += 4 * SHARE) {
      const int c = k + 4 * (me.lane % SHARE);
      if (k + 4 * SHARE <= SIZE8 || c < SIZE8)
        sum += dot(load4(w + layer::WIDEN + j * SIZE_ROW + c), load4(record + last::MIDDLE + c));
    }
    sum = fmaxf(sum_lanes<1, SHARE>(sum) + w[layer::WIDEN_BIAS + j], 0.f);
    if (unit < HIDDEN4 && me.lane % SHARE == 0) record[last::WIDE + j] = sum;
  }
  __syncwarp();
  spread(me.lane, [&](int i, int c) {
    x[i] += w[layer::NARROW_BIAS + c];
#pragma unroll
    for (int k = 0; k < HIDDEN4; k += 4)
      x[i] += dot(load4(w + layer::NARROW + c * HIDDEN_ROW + k), load4(record + last::WIDE + k));
  });
  record[last::SCALES + 1] = normalise_vector(x, me.lane);
  spread(me.lane, [&](int i, int c) {
    record[last::NORMAL2 + c] = x[i];
    shared[window::SUMMARY + t * SIZE8 + c] = x[i] * w[layer::GAIN2 + c] + w[layer::BIAS2 + c];
  });
}

// Rows of the memory embedding, four threads a row, from the third warp on. They are asked for some
// phases before they are needed, if they are few.
struct MemoryRows {
  static constexpr int PARTS = tiles(MEMORY4, 16), ROWS = (THREADS - 64) / 4;
  static constexpr bool AHEAD = MEMOS && PARTS <= 8 && SIZE8 <= ROWS;
  float4 held[AHEAD ? PARTS : 1];
  static DEVICE float4 part(const float* params, int o, int k, int pair) {
    const int c = 16 * k + 4 * pair;
    if (c >= MEMORY4) return make_float4(0, 0, 0, 0);
    return load4(params + param::EMBED_MEMORY + o * MEMORY_ROW + c);
  }
  DEVICE void load(const float* params) {
    const Thread me;
    if constexpr (AHEAD)
      FOR(k, PARTS) held[k] = part(params, min(max(me.id - 64, 0) / 4, SIZE8 - 1), k, me.pair);
  }
  DEVICE void multiply(const float* params, int t) const {
    const Thread me;
    const float* memory = shared + window::MEMORIES + t * MEMORY4;
    if (me.warp < 2) return;
    for (int o = (me.id - 64) / 4; o < SIZE8; o += ROWS) {
      float sum = 0;
      FOR(k, PARTS) {
        const float4 w = AHEAD ? held[AHEAD ? k : 0] : part(params, o, k, me.pair);
        if (16 * (k + 1) <= MEMORY4 || 16 * k + 4 * me.pair < MEMORY4)
          sum += dot(w, load4(memory + 16 * k + 4 * me.pair));
      }
      sum = sum_lanes<1, 4>(sum);
      if (me.pair == 0) shared[window::EMBEDDED + t * SIZE8 + o] = sum;
    }
  }
};

// The last layer, for the Core alone. See `TransformerLayer.core_only`: keys are not computed, but
// the query is multiplied by their weights; values are computed of the weighted mean of nodes.
DEVICE void last_layer(Run& run, int t, int next, MemoryRows& rows) {
  const float *x = shared + FORWARD + forward::X, *qkv = shared + QKV;
  const float *bias = qkv + layer::QKV_BIAS, *rest = shared + REST;
  float *record = shared + FORWARD + forward::LAST, *total = shared + FORWARD + forward::TOTAL;
  keep(run, stack::LAST_X + t * NODES * X_ROW, FORWARD + forward::X, NODES * X_ROW);
  await(run, AT_QKV);
  multiply<HEADS4, SIZE8>(
      qkv, SIZE_ROW, [=](int) { return x; },
      [=](int o, float v) { record[last::QUERY + o] = v + bias[o]; });
  {
    const Thread me;
    EACH(i, SIZE8) record[last::X + i] = x[i];
  }
  __syncthreads();
  multiply_heads(record + last::ASKED, record + last::QUERY, qkv + HEADS4 * SIZE_ROW);
  __syncthreads();
  {
    const Thread me;
    for (int h = me.warp; h < HEADS; h += WARPS) {
      const float score = look(x, record + last::ASKED + h * SIZE8, me.lane);
      const bool in = me.lane < present_at(t);
      const float top = max_lanes<32>(in ? score : -1e30f);
      const float weight = in ? exponential((score - top) * HEAD_SCALE) : 0;
      const float sum = sum_warp(weight);
      if (me.lane < NODES) record[last::WEIGHTS + h * NODES + me.lane] = __fdividef(weight, sum);
    }
  }
  __syncthreads();
  sum_nodes(record + last::MEAN, record + last::WEIGHTS, x);
  __syncthreads();
  multiply<HEADS4, SIZE8>(
      qkv + 2 * HEADS4 * SIZE_ROW, SIZE_ROW,
      [=](int o) { return record + last::MEAN + o / HEAD4 * SIZE8; },
      [=](int o, float v) { record[last::VALUE + o] = v + bias[2 * HEADS4 + o]; });
  if (run.issuer) wait_stores_read<1>();  // not yet: LAST_X
  __syncthreads();
  qkv_used(run, next, FIRST);
  rows.load(run.params);
  await(run, AT_REST);
  multiply<SIZE8, HEADS4>(
      rest + layer::MIX, HEADS_ROW, [=](int) { return record + last::VALUE; },
      [=](int o, float v) { total[o] = v + rest[layer::MIX_BIAS + o] + x[o]; });
  __syncthreads();
  feed_forward_core(t);
}

// The Memo and the actor's hidden units; then logits, and the Memo's embedding; then an action.
DEVICE void decide(Run& run, int t, const MemoryRows& rows) {
  const float* memo = KEEP_DECIDE ? shared + DECIDE : run.params + param::NEW_MEMO;
  const float* actor = memo + (param::HIDDEN_ACTOR - param::NEW_MEMO);
  const float* summary = shared + window::SUMMARY + t * SIZE8;
  const float* policy = shared + FORWARD + forward::POLICY;
  float* units = shared + FORWARD + forward::HIDDEN_UNITS;
  if (MEMOS)
    multiply<MEMORY4, SIZE8>(
        memo, SIZE_ROW, [=](int) { return summary; },
        [=](int o, float v) {
          shared[window::MEMORIES + t * MEMORY4 + o] = tanhf(v + memo[MEMORY4 * SIZE_ROW + o]);
        });
  multiply<ACTOR8, SIZE8>(
      actor, SIZE_ROW, [=](int) { return summary; },
      [=](int o, float v) { units[o] = fmaxf(v + actor[param::HIDDEN_BIAS + o], 0.f); });
  __syncthreads();
  {
    const Thread me;
    if (me.warp < 2) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < ACTOR8; i += 32)
        if (i + 32 <= ACTOR8 || i + me.lane < ACTOR8)
          sum += policy[me.warp * ACTOR8 + i + me.lane] * units[i + me.lane];
      sum = sum_warp(sum);
      if (me.lane == 0) shared[window::LOGITS + me.warp] = sum + policy[2 * ACTOR8 + me.warp];
    }
  }
  if (MEMOS) rows.multiply(run.params, t);
  if (run.issuer) wait_stores_read<1>();  // not yet: LAST
  __syncthreads();
  if (run.issuer) {
    const float *logits = shared + window::LOGITS, *noise = run.noise + 2 * t;
    const int action = logits[1] + noise[1] > logits[0] + noise[0], answer = run.answers[t];
    shared[window::ACTION + t] = action;
    shared[window::REWARD + t] = answer > 0 && action == answer - 1;
  }
}

// Asks for the critic's weights and those after it, for the loss.
DEVICE void load_critic(const Run& run) {
  if (!KEEP_CRITIC || !run.issuer) return;
  expect(barrier(AT_LAST), 4 * loss::CRITIC_LENGTH);
  load_stack(shared + loss::CRITIC, run.params + param::HIDDEN_CRITIC, 4 * loss::CRITIC_LENGTH,
             barrier(AT_LAST));
}

// All steps of a window.
DEVICE void forward_pass(Run& run) {
#pragma unroll 1
  for (int t = 0; t < STEPS; t++) {
    const int next = t < STEPS - 1 ? 0 : -1;
    gather_nodes(t);
    if (run.issuer) wait_stores_read<0>();
    fence_shared(), __syncthreads();
    if (FIRST) keep(run, stack::X + t * NODES * X_ROW, FORWARD + forward::X, NODES * X_ROW);
#pragma unroll 1
    for (int l = 0; l < FIRST; l++) first_layer(run, t, l);
    MemoryRows rows;
    last_layer(run, t, next, rows);
    if (KEEP_DECIDE && t == 0) await(run, AT_LAST);
    fence_shared(), __syncthreads();
    rest_used(run, next, next);
    if (next < 0) load_critic(run);
    keep(run, stack::LAST + t * last::END, FORWARD + forward::LAST, last::END);
    decide(run, t, rows);
  }
  if (run.issuer) wait_stores_written();
  __syncthreads();
}

// ------------------------------------------------------------------------------ loss

// One number for each step: its return, its terms of the loss, and the cotangents of logits and
// value.
DEVICE void weigh_steps(const Run& run, const Thread& me) {
  const int t = min(me.lane, STEPS - 1);
  float target = 0;
  for (int u = STEPS - 1; u >= t; u--)
    target = shared[window::REWARD + u] * run.hyper[REWARD_SCALE] + run.hyper[DISCOUNT] * target;
  float log0 = shared[window::D_LOGIT0 + t], log1 = shared[window::D_LOGIT1 + t];
  const float top = fmaxf(log0, log1), whole = top + logf(expf(log0 - top) + expf(log1 - top));
  log0 -= whole, log1 -= whole;
  const float p0 = expf(log0), p1 = expf(log1), entropy = -(p0 * log0 + p1 * log1);
  const float advantage = target - shared[window::D_STATE_VALUE + t], beta = run.hyper[ENTROPY];
  const bool yes = shared[window::ACTION + t] > 0, in = me.lane < STEPS;
  const float reward = sum_warp(in ? shared[window::REWARD + t] : 0);
  const float policy_loss = sum_warp(in ? -(yes ? log1 : log0) * advantage : 0);
  const float value_loss = sum_warp(in ? advantage * advantage : 0);
  const float entropies = sum_warp(in ? entropy : 0);
  if (in) {
    shared[window::D_LOGIT0 + t] = -advantage * (!yes - p0) + beta * p0 * (log0 + entropy);
    shared[window::D_LOGIT1 + t] = -advantage * (yes - p1) + beta * p1 * (log1 + entropy);
    shared[window::D_STATE_VALUE + t] = -advantage;
  }
  if (me.lane == 0) {
    run.totals[0] = reward, run.totals[1] = policy_loss;
    run.totals[2] = value_loss, run.totals[3] = entropies;
    shared[window::LOSS] = policy_loss + 0.5f * value_loss - beta * entropies;
  }
}

// Writes COLUMNS sums over rows of a[row][i] or of a[row][i] b[row][i]; returns the sum of their
// squares.
template <int ROWS, int COLUMNS> DEVICE float sum_rows(float* out, const float* a, int a_row,
                                                       const float* b = nullptr, int b_row = 0) {
  const Thread me;
  float squares = 0;
  EACH(i, COLUMNS) {
    float sum = 0;
    FOR(r, ROWS) sum += a[r * a_row + i] * (b ? b[r * b_row + i] : 1.f);
    out[i] = sum, squares += sum * sum;
  }
  return squares;
}

// Writes 16 rows of a weight's gradient, a sum over steps of a[t][o] b[t][i], by one warp: of them
// `rows` rows and `columns` columns. Returns the sum of their squares.
DEVICE float sum_steps(float* out, int out_row, int out_column, int rows, int columns,
                       const float* a, int a_row, const float* b, int b_row) {
  const Thread me;
  float squares = 0;
#pragma unroll 3
  for (int first = 0; first < columns; first += 8) {
    float c[1][4] = {};
    outer<1, STEPS>(c, a + me.pair * a_row + me.row, a_row, b + me.pair * b_row + first + me.row,
                    b_row, me.pair);
    entries(me, c[0], [&](int o, int column, float v) {
      const int i = first + column;
      if (o < rows && i < columns) out[o * out_row + i * out_column] = v, squares += v * v;
    });
  }
  return squares;
}

// Adds the sum of squares of all threads of a warp to the warp's number.
DEVICE void add_squares(float squares) {
  const Thread me;
  squares = sum_warp(squares);
  if (me.lane == 0) shared[window::SQUARES + me.warp] += squares;
}

// Hidden units of actor and critic in all steps; `w` are the weights of each. The last 16 rows may
// overlap the 16 before them.
DEVICE void hidden_units(const float* const* w) {
  const Thread me;
  constexpr int TILES = tiles(ACTOR8, 16), NS = tiles(STEPS, 8);
  for (int item = me.warp; item < loss::HEADS_COUNT * TILES; item += WARPS) {
    const int k = item / TILES, first = min(16 * (item % TILES), most(ACTOR8 - 16, 0));
    const float* a = k ? w[1] : w[0];
    float c[NS][4] = {};
    product<1, NS, SIZE8>(c, a + (first + me.row) * SIZE_ROW, SIZE_ROW,
                          shared + window::SUMMARY + me.row * SIZE8, SIZE8, me.pair,
                          ACTOR8 - 1 - first - me.row, STEPS - 1 - me.row);
    FOR(n, NS)
      entries(me, c[n], [&](int row, int column, float v) {
        const int o = first + row, t = 8 * n + column;
        if (t < STEPS && o < ACTOR8)
          shared[loss::HIDDEN_UNITS + k * loss::UNITS + t * A_ROW + o] =
              fmaxf(v + a[param::HIDDEN_BIAS + o], 0.f);
      });
  }
}
// Cotangents of all summaries, from those of hidden units; a part for the actor and one for the
// critic.
DEVICE void hidden_units_back(const float* const* w) {
  const Thread me;
  constexpr int NS = tiles(STEPS, 8);
  for (int item = me.warp; item < loss::HEADS_COUNT * SIZE_TILES; item += WARPS) {
    const int k = item / SIZE_TILES, first = 16 * (item % SIZE_TILES);
    const float* d = shared + loss::D_HIDDEN + k * loss::UNITS;
    float c[NS][4] = {};
    product_back<1, NS, ACTOR8>(c, (k ? w[1] : w[0]) + me.pair * SIZE_ROW + first + me.row,
                                SIZE_ROW, d + me.row * A_ROW + me.pair, A_ROW,
                                STEPS - 1 - me.row);
    FOR(n, NS)
      entries(me, c[n], [&](int row, int column, float v) {
        const int o = first + row, t = 8 * n + column;
        if (t < STEPS && o < SIZE8) shared[loss::D_SUMMARY + (k * STEPS + t) * SIZE8 + o] = v;
      });
  }
}

// Logits and value of each step, by one warp a step.
DEVICE void outputs(const float* policy, const float* value) {
  const Thread me;
  for (int t = me.warp; t < STEPS; t += WARPS) {
    const float* actor = shared + loss::HIDDEN_UNITS + t * A_ROW;
    const float* critic = actor + (loss::HEADS_COUNT - 1) * loss::UNITS;
    float logit0 = 0, logit1 = 0, v = 0;
    for (int i = me.lane; i < ACTOR8; i += 32) {
      logit0 += policy[i] * actor[i], logit1 += policy[ACTOR8 + i] * actor[i];
      v += value[i] * critic[i];
    }
    logit0 = sum_warp(logit0), logit1 = sum_warp(logit1), v = sum_warp(v);
    if (me.lane == 0) {
      shared[window::D_LOGIT0 + t] = logit0 + policy[2 * ACTOR8];
      shared[window::D_LOGIT1 + t] = logit1 + policy[2 * ACTOR8 + 1];
      shared[window::D_STATE_VALUE + t] = v + value[ACTOR8];
    }
  }
}
// Cotangents of hidden units.
DEVICE void outputs_back(const float* policy, const float* value) {
  const Thread me;
  EACH(i, STEPS * ACTOR8) {
    const int t = i / ACTOR8, o = i % ACTOR8, at = t * A_ROW + o;
    const float* units = shared + loss::HIDDEN_UNITS + at;
    float* d = shared + loss::D_HIDDEN + at;
    const float actor = shared[window::D_LOGIT0 + t] * policy[o] +
                        shared[window::D_LOGIT1 + t] * policy[ACTOR8 + o];
    const float critic = shared[window::D_STATE_VALUE + t] * value[o];
    d[0] = units[0] > 0 ? actor + (SHARED ? critic : 0) : 0;
    if (!SHARED) d[loss::UNITS] = units[loss::UNITS] > 0 ? critic : 0;
  }
}

// The gradients of all layers of actor and critic; returns the sum of their squares.
DEVICE float gradients_of_heads(float* gradient) {
  const Thread me;
  constexpr int TILES = tiles(ACTOR8, 16);
  float squares = 0;
  for (int item = me.warp; item < loss::HEADS_COUNT * TILES; item += WARPS) {
    const int k = item / TILES, first = 16 * (item % TILES);
    float* out = gradient + (k ? param::HIDDEN_CRITIC : param::HIDDEN_ACTOR) + first * SIZE_ROW;
    squares += sum_steps(out, SIZE_ROW, 1, ACTOR8 - first, SIZE8,
                         shared + loss::D_HIDDEN + k * loss::UNITS + first, A_ROW,
                         shared + window::SUMMARY, SIZE8);
  }
  FOR(k, loss::HEADS_COUNT)
    squares += sum_rows<STEPS, ACTOR8>(
        gradient + (k ? param::HIDDEN_CRITIC : param::HIDDEN_ACTOR) + param::HIDDEN_BIAS,
        shared + loss::D_HIDDEN + k * loss::UNITS, A_ROW);
  EACH(i, 3 * (ACTOR8 + 1)) {  // policy of both actions, and value; the last column is the bias
    const int k = i / (ACTOR8 + 1), o = i % (ACTOR8 + 1);
    const float* d = shared + window::D_LOGIT0 + 16 * k;
    const float* x = shared + loss::HIDDEN_UNITS + (k < 2 || SHARED ? 0 : loss::UNITS) + o;
    float sum = 0;
    FOR(t, STEPS) sum += d[t] * (o < ACTOR8 ? x[t * A_ROW] : 1.f);
    const int weight = k < 2 ? param::POLICY + k * ACTOR8 : param::VALUE;
    const int bias = k < 2 ? param::POLICY_BIAS + k : param::VALUE_BIAS;
    gradient[o < ACTOR8 ? weight + o : bias] = sum, squares += sum * sum;
  }
  return squares;
}

// The loss of a window, the gradients of actor and critic, and the cotangents of summaries.
DEVICE void compute_loss(Run& run) {
  const float* actor = KEEP_DECIDE ? shared + DECIDE + (param::HIDDEN_ACTOR - param::NEW_MEMO)
                                   : run.params + param::HIDDEN_ACTOR;
  const float* critic = KEEP_CRITIC ? shared + loss::CRITIC : run.params + param::HIDDEN_CRITIC;
  const float* policy = critic + (param::POLICY - param::HIDDEN_CRITIC);
  const float* value = critic + (param::VALUE - param::HIDDEN_CRITIC);
  const float* const w[2] = {actor, critic};
  if (KEEP_CRITIC) await(run, AT_LAST);
  hidden_units(w);
  __syncthreads();
  outputs(policy, value);
  __syncthreads();
  {
    const Thread me;
    if (me.warp == 0) weigh_steps(run, me);
    if (me.id < WARPS) shared[window::SQUARES + me.id] = 0;
  }
  __syncthreads();
  outputs_back(policy, value);
  __syncthreads();
  add_squares(gradients_of_heads(run.work + stack::GRADIENT));
  hidden_units_back(w);
  __syncthreads();
  const Thread me;
  EACH(i, STEPS * SIZE8) {
    const float* d = shared + loss::D_SUMMARY + i;
    shared[LASTING + backward::D_SUMMARY + i] = d[0] + (SHARED ? 0 : d[SHARED ? 0 : STEPS * SIZE8]);
    shared[window::EMBEDDED + i] = 0;
  }
  EACH(i, SLOTS * SIZE8) shared[window::AGES + i] = 0;
  EACH(i, FIRST * 5 * SIZE8) shared[LASTING + backward::NORMS + i] = 0;
  fence_all(), __syncthreads();
}

// ------------------------------------------------------------------------------ backward pass

// Ask for what the forward pass has kept: of a layer's step, of its heads, and of the last layer.
DEVICE void load_layer(const Run& run, int l, int t) {
  if (!run.issuer) return;
  const int row = l * stack::ROWS + t * NODES;
  const float* work = run.work;
  float* b = shared + BACKWARD;
  expect(barrier(AT_LAYER), 4 * (NODES * (2 * X_ROW + H_ROW) + stack::SCALES_ROW));
  load_stack(b + backward::NORMAL1, work + stack::NORMAL1 + row * X_ROW, 4 * NODES * X_ROW,
             barrier(AT_LAYER));
  load_stack(b + backward::NORMAL2, work + stack::NORMAL2 + row * X_ROW, 4 * NODES * X_ROW,
             barrier(AT_LAYER));
  load_stack(b + backward::WIDE, work + stack::WIDE + row * H_ROW, 4 * NODES * H_ROW,
             barrier(AT_LAYER));
  load_stack(b + backward::SCALES, work + stack::SCALES + (l * STEPS + t) * stack::SCALES_ROW,
             4 * stack::SCALES_ROW, barrier(AT_LAYER));
}
DEVICE void load_heads(const Run& run, int l, int t) {
  if (!run.issuer) return;
  expect(barrier(AT_HEADS), 4 * NODES * QKV_ROW);
  load_stack(shared + BACKWARD + backward::QKV,
             run.work + stack::QKV + (l * stack::ROWS + t * NODES) * QKV_ROW, 4 * NODES * QKV_ROW,
             barrier(AT_HEADS));
}
DEVICE void load_last(const Run& run, int t) {
  if (!run.issuer) return;
  expect(barrier(AT_LAST), 4 * (NODES * X_ROW + last::END));
  load_stack(shared + BACKWARD + backward::LAST_X, run.work + stack::LAST_X + t * NODES * X_ROW,
             4 * NODES * X_ROW, barrier(AT_LAST));
  load_stack(shared + BACKWARD + backward::LAST, run.work + stack::LAST + t * last::END,
             4 * last::END, barrier(AT_LAST));
}

// Weights for the way from a Memo's embedding back to the Core, loaded in the step before.
struct MemoColumns {
  Columns<SIZE, MEMORY4, true> embedding;
  Columns<MEMORY4, SIZE8, true> memo;
};
// Back through the embedding of step t's Memo and the layer that made it. The result is in PARTIAL.
DEVICE void memo_back(const Run& run, int t, const MemoColumns& columns) {
  float* partial = shared + BACKWARD + backward::PARTIAL;
  float* d_memo = shared + LASTING + backward::D_MEMO + t * MEMORY4;
  if (t < STEPS - 1) {
    columns.embedding.multiply(run.params + param::EMBED_MEMORY, MEMORY_ROW,
                               shared + window::EMBEDDED + t * SIZE8, partial);
    __syncthreads();
    {
      const Thread me;
      EACH(i, MEMORY4) {
        const float memo = shared[window::MEMORIES + t * MEMORY4 + i];
        d_memo[i] = columns.embedding.total(partial, i) * (1 - memo * memo);
      }
    }
    __syncthreads();
    columns.memo.multiply(run.params + param::NEW_MEMO, SIZE_ROW, d_memo, partial);
  } else {  // nothing has been made of the last Memo
    const Thread me;
    EACH(i, MEMORY4) d_memo[i] = 0;
  }
  __syncthreads();
}

// Back through `normalise_vector`: `d` is the result's cotangent, then the argument's.
DEVICE void normalise_vector_back(float* d, const float* normal, float scale, int lane) {
  float mean = 0, along = 0, n[SPAN];
  spread(lane, [&](int i, int c) { n[i] = normal[c], mean += d[i], along += d[i] * n[i]; });
  mean = sum_warp(mean) * (1.f / SIZE), along = sum_warp(along) * (1.f / SIZE);
  spread(lane, [&](int i, int c) { d[i] = is_real(c) ? scale * (d[i] - mean - n[i] * along) : 0; });
}
// Back through `feed_forward_core`.
DEVICE void feed_forward_core_back(int t, const MemoColumns& columns) {
  const Thread me;
  if (me.warp) return;
  const float *w = shared + REST, *record = shared + BACKWARD + backward::LAST;
  const float* partial = shared + BACKWARD + backward::PARTIAL;
  float *out = shared + BACKWARD + backward::D_LAST, d[SPAN];
  spread(me.lane, [&](int i, int c) {
    d[i] = shared[LASTING + backward::D_SUMMARY + t * SIZE8 + c];
    if (MEMOS && t < STEPS - 1) d[i] += columns.memo.total(partial, c);
  });
  spread(me.lane, [&](int i, int c) { out[last::D_CORE + c] = d[i], d[i] *= w[layer::GAIN2 + c]; });
  normalise_vector_back(d, record + last::NORMAL2, record[last::SCALES + 1], me.lane);
  spread(me.lane, [&](int i, int c) { out[last::D_OUT + c] = d[i]; });
  __syncwarp();
#pragma unroll
  for (int first = 0; first < HIDDEN4; first += 32 / SHARE) {
    const int unit = first + me.lane / SHARE, j = min(unit, HIDDEN4 - 1);
    float sum = 0;
    FOR(k, SIZE8 / SHARE) {
      const int o = SHARE * k + me.lane % SHARE;
      sum += out[last::D_OUT + o] * w[layer::NARROW + o * HIDDEN_ROW + j];
    }
    sum = sum_lanes<1, SHARE>(sum);
    if (unit < HIDDEN4 && me.lane % SHARE == 0)
      out[last::D_WIDE + j] = record[last::WIDE + j] > 0 ? sum : 0;
  }
  __syncwarp();
  spread(me.lane, [&](int i, int c) {
    FOR(j, HIDDEN4) d[i] += out[last::D_WIDE + j] * w[layer::WIDEN + j * SIZE_ROW + c];
  });
  spread(me.lane,
         [&](int i, int c) { out[last::D_MIDDLE + c] = d[i], d[i] *= w[layer::GAIN1 + c]; });
  normalise_vector_back(d, record + last::NORMAL1, record[last::SCALES], me.lane);
  spread(me.lane, [&](int i, int c) { out[last::D_TOTAL + c] = d[i]; });
}

// Cotangents of the last layer's nodes, but for what its query and residual add to the Core's.
DEVICE void look_back() {
  const Thread me;
  const float* b = shared + BACKWARD;
  EACH(i, NODES * (SIZE8 / 4)) {
    const int n = i / (SIZE8 / 4), s = i % (SIZE8 / 4) * 4;
    float4 sum = make_float4(0, 0, 0, 0);
    FOR(h, HEADS)
      sum = sum +
            b[backward::LAST + last::WEIGHTS + h * NODES + n] *
                load4(b + backward::D_MEAN + h * SIZE8 + s) +
            b[backward::D_LOOK + h * NODES + n] *
                load4(b + backward::LAST + last::ASKED + h * SIZE8 + s);
    store4(shared + BACKWARD + backward::DY + n * DX_ROW + s, sum);
  }
}

// Back through the last layer, from the Core to all nodes.
DEVICE void last_layer_back(Run& run, int t, const MemoColumns& columns) {
  const float *rest = shared + REST, *qkv = shared + QKV, *x = shared + BACKWARD + backward::LAST_X;
  float *d = shared + BACKWARD + backward::D_LAST, *dy = shared + BACKWARD + backward::DY;
  float *partial = shared + BACKWARD + backward::PARTIAL,
        *d_mean = shared + BACKWARD + backward::D_MEAN;
  const float* record = shared + BACKWARD + backward::LAST;
  float* d_look = shared + BACKWARD + backward::D_LOOK;
  await(run, AT_LAST), await(run, AT_REST);
  feed_forward_core_back(t, columns);
  __syncthreads();
  const Columns<SIZE, HEADS4> mix = {};
  mix.multiply(rest + layer::MIX, HEADS_ROW, d + last::D_TOTAL, partial);
  __syncthreads();
  rest_used(run, FIRST ? FIRST - 1 : t ? 0 : -1, FIRST);
  {
    const Thread me;
    EACH(i, HEADS4) d[last::D_VALUE + i] = mix.total(partial, i);
  }
  __syncthreads();
  await(run, AT_QKV);
  multiply_heads(d_mean, d + last::D_VALUE, qkv + 2 * HEADS4 * SIZE_ROW);
  __syncthreads();
  {
    const Thread me;
    for (int h = me.warp; h < HEADS; h += WARPS) {
      const float v = look(x, d_mean + h * SIZE8, me.lane);
      const float p = me.lane < NODES ? record[last::WEIGHTS + h * NODES + me.lane] : 0;
      const float along = sum_warp(me.lane < NODES ? p * v : 0);
      if (me.lane < NODES) d_look[h * NODES + me.lane] = p * (v - along) * HEAD_SCALE;
    }
  }
  __syncthreads();
  sum_nodes(d + last::D_ASKED, d_look, x);
  look_back();
  __syncthreads();
  multiply<HEADS4, SIZE8>(
      qkv + HEADS4 * SIZE_ROW, SIZE_ROW,
      [=](int o) { return d + last::D_ASKED + o / HEAD4 * SIZE8; },
      [=](int o, float v) { d[last::D_QUERY + o] = v; });
  __syncthreads();
  const Columns<HEADS4, SIZE8> query = {};
  query.multiply(qkv, SIZE_ROW, d + last::D_QUERY, partial);
  fence_shared(), __syncthreads();
  const int next = FIRST ? FIRST - 1 : t ? 0 : -1;
  qkv_used(run, next, next);
  keep(run, stack::D_LAST + t * last::D_END, BACKWARD + backward::D_LAST, last::D_END);
  {
    const Thread me;
    EACH(i, SIZE8) dy[i] += d[last::D_TOTAL + i] + query.total(partial, i);
  }
  __syncthreads();
}

// Adds a step's share to the gradients of gain and bias, and of one more bias: a thread has a
// column.
DEVICE void norm_back(int c, const float* dy, const float* normal, float* gain, float* bias) {
  float along = 0, sum = 0;
  FOR(n, NODES) {
    along += dy[n * DX_ROW + c] * normal[n * X_ROW + c];
    sum += dy[n * DX_ROW + c];
  }
  gain[c] += along, bias[c] += sum;
}

// Back through `feed_forward`, up to the sum of a node and its mixed values. D_MIDDLE is for
// `mix_back`.
DEVICE void feed_forward_back(int l) {
  const Thread me;
  const float* w = shared + REST;
  float *b = shared + BACKWARD, *norms = shared + LASTING + backward::NORMS + l * 5 * SIZE8;
  if (me.warp >= NODE_TILES) {  // the other warps
    for (int c = me.id - 32 * NODE_TILES; c < SIZE8; c += THREADS - 32 * NODE_TILES)
      norm_back(c, b + backward::DY, b + backward::NORMAL2, norms, norms + SIZE8);
    return;
  }
  const int near = min(8 * me.warp + me.row, NODES - 1), node = 8 * me.warp + 2 * me.pair;
  float d[SIZE_TILES][4] = {};
  features(me, d, [&](float& x, int o, int k) {
    x = b[backward::DY + min(node + k, NODES - 1) * DX_ROW + o];
  });
  normalise_back(me, d, w + layer::GAIN2, b + backward::NORMAL2,
                 b + backward::SCALES + 8 * NODE_TILES, b + backward::D_OUT);
  __syncwarp();
  constexpr int CHAINS = HIDDEN_TILES == 1 ? 3 : 1;
  float h[CHAINS * HIDDEN_TILES][4] = {};
  product_back<HIDDEN_TILES, 1, SIZE8, CHAINS>(
      h, w + layer::NARROW + me.pair * HIDDEN_ROW + me.row, HIDDEN_ROW,
      b + backward::D_OUT + near * DX_ROW + me.pair, DX_ROW);
  add_chains<HIDDEN_TILES, CHAINS>(h);
  FOR(m, HIDDEN_TILES)
    entries(me, h[m], [&](int row, int column, float v) {
      const int n = 8 * me.warp + column, o = 16 * m + row;
      if (n < NODES && o < HIDDEN4)
        b[backward::D_WIDE + n * DH_ROW + o] = b[backward::WIDE + n * H_ROW + o] > 0 ? v : 0;
    });
  __syncwarp();
  product_back<SIZE_TILES, 1, HIDDEN4>(d, w + layer::WIDEN + me.pair * SIZE_ROW + me.row, SIZE_ROW,
                                       b + backward::D_WIDE + near * DH_ROW + me.pair, DH_ROW);
  features(me, d, [&](float& x, int o, int k) {
    if (node + k < NODES) b[backward::D_MIDDLE + (node + k) * DX_ROW + o] = x;
  });
  normalise_back(me, d, w + layer::GAIN1, b + backward::NORMAL1, b + backward::SCALES,
                 b + backward::D_TOTAL);
}

// Back through `mix`: the cotangents of what attention returned are left in DY.
DEVICE void mix_back(int l) {
  const Thread me;
  float *b = shared + BACKWARD, *norms = shared + LASTING + backward::NORMS + l * 5 * SIZE8;
  constexpr int TILES = tiles(HEADS4, 16);
  for (int item = me.warp; item < TILES * NODE_TILES; item += WARPS) {
    const int first = 16 * (item / NODE_TILES), node = 8 * (item % NODE_TILES);
    const int near = min(node + me.row, NODES - 1);
    float c[1][4] = {};
    product_back<1, 1, SIZE8>(c, shared + REST + layer::MIX + me.pair * HEADS_ROW + first + me.row,
                              HEADS_ROW, b + backward::D_TOTAL + near * DX_ROW + me.pair, DX_ROW);
    entries(me, c[0], [&](int row, int column, float v) {
      const int n = node + column, o = first + row;
      if (n < NODES && o < HEADS4) b[backward::DY + n * DX_ROW + o] = v;
    });
  }
  for (int c = THREADS - 1 - me.id; c < SIZE8; c += THREADS) {
    norm_back(c, b + backward::D_MIDDLE, b + backward::NORMAL1, norms + 2 * SIZE8,
              norms + 3 * SIZE8);
    float sum = 0;
    FOR(n, NODES) sum += b[backward::D_OUT + n * DX_ROW + c];
    norms[4 * SIZE8 + c] += sum;
  }
}

// Back through attention: weights and cotangents of scores to shared memory; cotangents of queries.
DEVICE void attend_back(int t) {
  const Thread me;
  float* b = shared + BACKWARD;
  const float* qkv = b + backward::QKV;
  for (int item = me.warp; item < HEADS * QUERY_TILES; item += WARPS) {
    const int h = item % HEADS, head = h * HEAD4, first = 16 * (item / HEADS) + me.row;
    float p[NODE_TILES][4] = {}, d[NODE_TILES][4] = {};
    product<1, NODE_TILES, HEAD4>(p, qkv + first * QKV_ROW + head, QKV_ROW,
                                  qkv + me.row * QKV_ROW + HEADS4 + head, QKV_ROW, me.pair,
                                  NODES - 1 - first, NODES - 1 - me.row);
    softmax(p, present_at(t), me.pair);
    product<1, NODE_TILES, HEAD4>(d, b + backward::DY + first * DX_ROW + head, DX_ROW,
                                  qkv + me.row * QKV_ROW + 2 * HEADS4 + head, QKV_ROW, me.pair,
                                  NODES - 1 - first, NODES - 1 - me.row);
#pragma unroll
    for (int r = 0; r < 4; r += 2) {
      float along = 0;
      FOR(i, 2 * NODE_TILES) {
        float& x = d[i / 2][r + i % 2];
        if (4 * (i + 2 - i % 2) > NODES && 8 * (i / 2) + 2 * me.pair + i % 2 >= NODES) x = 0;
        along += x * p[i / 2][r + i % 2];
      }
      along = sum_lanes<1, 4>(along);
      const int query = first + 4 * r;
      float* row = b + backward::P + h * backward::HEAD_P + query * P_ROW + 2 * me.pair;
      FOR(n, NODE_TILES) {
        d[n][r] = p[n][r] * (d[n][r] - along) * HEAD_SCALE;
        d[n][r + 1] = p[n][r + 1] * (d[n][r + 1] - along) * HEAD_SCALE;
        if (query < NODES) {
          store2(row + 8 * n, p[n][r], p[n][r + 1]);
          store2(row + 8 * n + (backward::D_SCORES - backward::P), d[n][r], d[n][r + 1]);
        }
      }
    }
#pragma unroll
    for (int c = 0; c < HEAD4; c += 8) {
      float o[4] = {};
      weigh(o, d, qkv + HEADS4 + head + c + me.row, QKV_ROW, me.pair);
      const int column = c + 2 * me.pair;
      float* out = b + backward::D_QKV + first * DQKV_ROW + head + column;
      if (column < HEAD4 && first < NODES) store2(out, o[0], o[1]);
      if (column < HEAD4 && first + 8 < NODES) store2(out + 8 * DQKV_ROW, o[2], o[3]);
    }
  }
}
// The cotangents of keys and values: a warp has the keys or the values of a head, or some columns.
DEVICE void attend_back_keys() {
  const Thread me;
  float* b = shared + BACKWARD;
  constexpr int SHARES = most(1, WARPS / (2 * HEADS));
  for (int item = me.warp; item < 2 * HEADS * SHARES; item += WARPS) {
    const int h = item % HEADS, values = item / HEADS % 2, share = item / (2 * HEADS);
    const float* scores = b + (values ? backward::P : backward::D_SCORES) + h * backward::HEAD_P;
    const float* rows = b + (values ? backward::DY : backward::QKV) + h * HEAD4;
    const int row = values ? DX_ROW : QKV_ROW;
#pragma unroll
    for (int first = 0; first < NODES; first += 16)
      FOR(k, tiles(tiles(HEAD4, 8), SHARES)) {
        const int c = 8 * (SHARES * k + share);
        if (c >= HEAD4) continue;
        float d[1][4] = {};
        outer<1, NODES>(d, scores + me.pair * P_ROW + first + me.row, P_ROW,
                        rows + me.pair * row + c + me.row, row, me.pair);
        const int n = first + me.row, column = c + 2 * me.pair;
        float* out =
            b + backward::D_QKV + n * DQKV_ROW + (1 + values) * HEADS4 + h * HEAD4 + column;
        if (column < HEAD4 && n < NODES) store2(out, d[0][0], d[0][1]);
        if (column < HEAD4 && n + 8 < NODES) store2(out + 8 * DQKV_ROW, d[0][2], d[0][3]);
      }
  }
}

// Back through `project`, in parts that `add_parts` sums.
DEVICE void project_back() {
  using namespace backward;
  const Thread me;
  if (me.warp >= SIZE_TILES * SPLITS) return;
  const int first = 16 * (me.warp / SPLITS), part = me.warp % SPLITS;
  const float* w = shared + ::QKV + (SPLIT * part + me.pair) * SIZE_ROW + first + me.row;
  const float* d = shared + BACKWARD + D_QKV + me.row * DQKV_ROW + SPLIT * part + me.pair;
  float c[NODE_TILES][4] = {};
  constexpr int LAST_SPLIT = 3 * HEADS4 - SPLIT * (SPLITS - 1);
  if (LAST_SPLIT == SPLIT || part < SPLITS - 1)
    product_back<1, NODE_TILES, SPLIT>(c, w, SIZE_ROW, d, DQKV_ROW, NODES - 1 - me.row);
  else product_back<1, NODE_TILES, LAST_SPLIT>(c, w, SIZE_ROW, d, DQKV_ROW, NODES - 1 - me.row);
  FOR(n, NODE_TILES)
    entries(me, c[n], [&](int row, int column, float v) {
      const int node = 8 * n + column, o = first + row;
      if (node < NODES && o < SIZE8)
        shared[BACKWARD + SUMS + (part * NODES + node) * SIZE8 + o] = v;
    });
}

// Adds four numbers of a node's cotangent to the embeddings that made the node in step t.
DEVICE void scatter_node(int t, int n, int c, float4 v) {
  auto add = [&](int place) { store4(shared + place + c, load4(shared + place + c) + v); };
  if (n == 0) store4(shared + window::CORES + t * SIZE8 + c, v);
  else add(window::AGES + (n - 1) * SIZE8);
  if (n && n <= t) add(window::EMBEDDED + (t - n) * SIZE8);
}
// Cotangents of a layer's nodes: the parts of `project_back` and the residual.
DEVICE void add_parts(int t, int l) {
  const Thread me;
  const float* b = shared + BACKWARD;
  EACH(i, NODES * (SIZE8 / 4)) {
    const int n = i / (SIZE8 / 4), c = i % (SIZE8 / 4) * 4;
    float4 v = load4(b + backward::D_TOTAL + n * DX_ROW + c);
    FOR(k, backward::SPLITS) v = v + load4(b + backward::SUMS + (k * NODES + n) * SIZE8 + c);
    if (l) store4(shared + BACKWARD + backward::DY + n * DX_ROW + c, v);
    else scatter_node(t, n, c, v);
  }
}
// The same where the last layer is the only one.
DEVICE void scatter_nodes(int t) {
  const Thread me;
  EACH(i, NODES * (SIZE8 / 4)) {
    const int n = i / (SIZE8 / 4), c = i % (SIZE8 / 4) * 4;
    scatter_node(t, n, c, load4(shared + BACKWARD + backward::DY + n * DX_ROW + c));
  }
}

// Back through a layer that computes all nodes. `next` is the layer whose weights come after it.
DEVICE void first_layer_back(Run& run, int t, int l, int next, MemoColumns& columns) {
  const int row = l * stack::ROWS + t * NODES;
  const int layer_then = l ? l - 1 : FIRST - 1, t_then = l ? t : t - 1;
  await(run, AT_LAYER), await(run, AT_REST);
  feed_forward_back(l);
  fence_shared(), __syncthreads();
  keep(run, stack::D_OUT + row * DX_ROW, BACKWARD + backward::D_OUT, NODES * DX_ROW);
  keep(run, stack::D_TOTAL + row * DX_ROW, BACKWARD + backward::D_TOTAL, NODES * DX_ROW);
  keep(run, stack::D_WIDE + row * DH_ROW, BACKWARD + backward::D_WIDE, NODES * DH_ROW);
  mix_back(l);
  if (run.issuer) wait_stores_read<3>();  // not yet: these three
  __syncthreads();
  if (t_then >= 0) load_layer(run, layer_then, t_then);
  rest_used(run, next, l);
  await(run, AT_HEADS);
  attend_back(t);
  __syncthreads();
  attend_back_keys();
  if (run.issuer) wait_stores_read<0>();
  fence_shared(), __syncthreads();
  keep(run, stack::D_QKV + row * DQKV_ROW, BACKWARD + backward::D_QKV, NODES * DQKV_ROW);
  if (t_then >= 0) load_heads(run, layer_then, t_then);
  await(run, AT_QKV);
  if (MEMOS && l == 0) columns.embedding.load(run.params + param::EMBED_MEMORY, MEMORY_ROW);
  project_back();
  __syncthreads();
  qkv_used(run, next, next);
  if (MEMOS && l == 0) columns.memo.load(run.params + param::NEW_MEMO, SIZE_ROW);
  add_parts(t, l);
  if (run.issuer) wait_stores_read<0>();
  if (l == 0) fence_shared();
  __syncthreads();
}

// All steps of a window, from the last to the first.
DEVICE void backward_pass(Run& run) {
  load_rest(run, FIRST), load_qkv(run, FIRST), load_last(run, STEPS - 1);
  if (FIRST) load_layer(run, FIRST - 1, STEPS - 1), load_heads(run, FIRST - 1, STEPS - 1);
  MemoColumns columns;
#pragma unroll 1
  for (int t = STEPS - 1; t >= 0; t--) {
    if (MEMOS) memo_back(run, t, columns);
    last_layer_back(run, t, columns);
#pragma unroll 1
    for (int l = FIRST - 1; l >= 0; l--)
      first_layer_back(run, t, l, l ? l - 1 : t ? FIRST : -1, columns);
    if (!FIRST) {
      if (MEMOS) {
        columns.embedding.load(run.params + param::EMBED_MEMORY, MEMORY_ROW);
        columns.memo.load(run.params + param::NEW_MEMO, SIZE_ROW);
      }
      scatter_nodes(t);
      if (run.issuer) wait_stores_read<0>();
      fence_shared(), __syncthreads();
    }
    if (t) load_last(run, t - 1);
  }
  if (run.issuer) wait_stores_written();
  fence_all(), __syncthreads();
}

// ------------------------------------------------------------------------------ gradients of
// weights

// A job, 16 rows of a weight's gradient: where its factors lie in a stage, and where the result
// goes.
struct Factors {
  int a, a_row, b, b_row;
};  // sum over rows r of a[r][o] b[r][i]
struct Target {
  int rows, columns;                   // that are there, from the first of the 16
  int out, out_row, out_column, bias;  // in the layer; no bias: -1
  int gain;  // where b is normal, the parameters that make the layer's input of it; else -1
};
DEVICE Factors factors_of(int j) {
  using namespace jobs;
  if (j < jobs::QKV) return {D_QKV + 16 * j, DQKV_ROW, X, X_ROW};
  if (j < jobs::MIX) return {D_TOTAL + 16 * (j - jobs::QKV), DX_ROW, MIXED, MIX_ROW};
  if (j < jobs::WIDEN) return {D_WIDE + 16 * (j - jobs::MIX), DH_ROW, MIDDLE, X_ROW};
  return {WIDE + 16 * (j - jobs::WIDEN), H_ROW, D_OUT, DX_ROW};  // `narrow`, turned
}
DEVICE Target target_of(int j, int l) {
  int o = 16 * j;
  if (j < jobs::QKV)
    return {3 * HEADS4 - o,
            SIZE8,
            layer::QKV + o * SIZE_ROW,
            SIZE_ROW,
            1,
            layer::QKV_BIAS + o,
            l ? (l - 1) * layer::END + layer::GAIN2 : -1};
  o -= 16 * jobs::QKV;
  if (j < jobs::MIX)
    return {SIZE8 - o, HEADS4, layer::MIX + o * HEADS_ROW, HEADS_ROW, 1, layer::MIX_BIAS + o, -1};
  o -= 16 * (jobs::MIX - jobs::QKV);
  if (j < jobs::WIDEN)
    return {HIDDEN4 - o,
            SIZE8,
            layer::WIDEN + o * SIZE_ROW,
            SIZE_ROW,
            1,
            layer::WIDEN_BIAS + o,
            l * layer::END + layer::GAIN1};
  o -= 16 * (jobs::WIDEN - jobs::MIX);
  return {HIDDEN4 - o, SIZE8, layer::NARROW + o, 1, HIDDEN_ROW, -1, -1};
}

// Asks for a chunk of rows: of pass, layer and chunk number `index`, the arrays that its jobs need.
DEVICE void load_chunk(const Run& run, int index, int stage) {
  if (!run.issuer) return;
  using namespace jobs;
  constexpr int ROWS = stack::CHUNK;
  const int pass = index / (most(FIRST, 1) * stack::CHUNKS);
  const int l = index / stack::CHUNKS % most(FIRST, 1);
  const int row = l * stack::ROWS + index % stack::CHUNKS * ROWS;
  const bool first = pass * PER_PASS<jobs::QKV, others = (pass + 1) * PER_PASS> jobs::QKV;
  Barrier* b = barrier(AT_STAGE + stage);
  expect(b, 4 * ((first ? D_TOTAL - D_QKV : 0) + (others ? LENGTH - D_TOTAL : 0)));
  auto get = [&](int to, int from, int length) {
    load_stack(shared + WEIGHTS + stage * STAGE + to, run.work + from, 4 * ROWS * length, b);
  };
  if (first) {
    get(D_QKV, stack::D_QKV + row * DQKV_ROW, DQKV_ROW);
    get(X, l ? stack::NORMAL2 + (row - stack::ROWS) * X_ROW : stack::X + row * X_ROW, X_ROW);
  }
  if (others) {
    get(D_TOTAL, stack::D_TOTAL + row * DX_ROW, DX_ROW);
    get(MIXED, stack::MIX + row * MIX_ROW, MIX_ROW);
    get(D_WIDE, stack::D_WIDE + row * DH_ROW, DH_ROW);
    get(MIDDLE, stack::NORMAL1 + row * X_ROW, X_ROW);
    get(D_OUT, stack::D_OUT + row * DX_ROW, DX_ROW);
    get(WIDE, stack::WIDE + row * H_ROW, H_ROW);
  }
}

// Adds a chunk to a job's sums: tiles of 8 columns from the `first` one, and sums of rows.
template <int TILES> DEVICE void add_chunk(float (*c)[4], const Factors& f, const float* rows,
                                           int first, const Thread& me) {
  outer<TILES, stack::CHUNK, true>(c, rows + f.a + me.pair * f.a_row + me.row, f.a_row,
                                   rows + f.b + me.pair * f.b_row + me.row + 8 * first, f.b_row,
                                   me.pair);
}
// Writes a job's sums to a layer's gradient; returns the sum of their squares.
template <int TILES> DEVICE float finish_job(float* out, const float* params, const Target& job,
                                             const float (*c)[4], int first, const Thread& me) {
  float squares = 0;
  const float* sums = c[TILES];
  FOR(n, TILES) {
    const int i = 8 * (first + n) + 2 * me.pair;
    float2 gain = make_float2(1, 1), bias = make_float2(0, 0);
    if (i >= job.columns) continue;
    if (job.gain >= 0)
      gain = load2(params + job.gain + i), bias = load2(params + job.gain + SIZE8 + i);
    FOR(r, 2) {
      const int o = me.row + 8 * r;
      if (o >= job.rows) continue;
      const float x = c[n][2 * r] * gain.x + sums[2 * r] * bias.x;
      const float y = c[n][2 * r + 1] * gain.y + sums[2 * r] * bias.y;
      float* p = out + job.out + o * job.out_row + i * job.out_column;
      if (job.out_column == 1) store2(p, x, y);
      else p[0] = x, p[job.out_column] = y;
      squares += x * x + y * y;
    }
  }
  FOR(r, 2)
    if (first == 0 && me.pair == 0 && job.bias >= 0 && me.row + 8 * r < job.rows) {
      out[job.bias + me.row + 8 * r] = sums[2 * r];
      squares += sums[2 * r] * sums[2 * r];
    }
  return squares;
}

// The gradients of all layers but the last.
DEVICE void gradients_of_first_layers(Run& run) {
  using namespace jobs;
  constexpr int COUNT = PASSES * FIRST * stack::CHUNKS, MORE = FURTHER ? THIRD : 1;
  float squares = 0;
  for (int k = 0; k < STAGES && k < COUNT; k++)
    load_chunk(run, k, (run.waits[AT_STAGE] + k) % STAGES);
  int index = 0;
#pragma unroll 1
  for (int pass = 0; pass < PASSES; pass++)
#pragma unroll 1
    for (int l = 0; l < FIRST; l++) {
      const Thread me;
      const int one = pass * PER_PASS + me.warp, two = pass * PER_PASS + WARPS + me.warp / 3;
      const bool has_one = one < jobs::ALL, has_two = me.warp < 3 * FURTHER && two < jobs::ALL;
      const Factors factors_one = factors_of(one), factors_two = factors_of(two);
      float c[WIDTH + 1][4] = {}, e[MORE + 1][4] = {};
#pragma unroll 1
      for (int chunk = 0; chunk < stack::CHUNKS; chunk++, index++) {
        const int stage = run.waits[AT_STAGE] % STAGES;
        wait_for(barrier(AT_STAGE + stage), run.waits[AT_STAGE]++ / STAGES);
        const float* rows = shared + WEIGHTS + stage * STAGE;
        if (has_one) add_chunk<WIDTH>(c, factors_one, rows, 0, me);
        if (FURTHER && has_two) add_chunk<MORE>(e, factors_two, rows, MORE * (me.warp % 3), me);
        __syncthreads();
        if (index + STAGES < COUNT) load_chunk(run, index + STAGES, stage);
      }
      float* out = run.work + stack::GRADIENT + l * layer::END;
      if (has_one) squares += finish_job<WIDTH>(out, run.params, target_of(one, l), c, 0, me);
      if (FURTHER && has_two)
        squares +=
            finish_job<MORE>(out, run.params, target_of(two, l), e, MORE * (me.warp % 3), me);
      if (pass == 0)
        EACH(i, 5 * SIZE8) {
          const int k = i / SIZE8;
          const float v = shared[LASTING + backward::NORMS + l * 5 * SIZE8 + i];
          const int place = k == 0   ? layer::GAIN2
                            : k == 1 ? layer::BIAS2
                            : k == 2 ? layer::GAIN1
                            : k == 3 ? layer::BIAS1
                                     : layer::NARROW_BIAS;
          out[place + i % SIZE8] = v, squares += v * v;
        }
    }
  add_squares(squares);
  __syncthreads();
}

// The gradients of embeddings, of the layer that makes Memos and of the last layer, but for their
// biases: sums over steps. A job is 16 rows.
DEVICE float gradients_by_steps(float* gradient) {
  const Thread me;
  const float *record = shared + jobs::LAST, *d = shared + jobs::D_LAST;
  float *g = gradient + FIRST * layer::END, squares = 0;
  constexpr int R = last::END, D = last::D_END, PER_HEAD = tiles(HEAD4, 16);
  constexpr int MEMO_TILES = MEMOS ? tiles(MEMORY4, 16) : 0, QUERY = tiles(HEADS4, 16);
  constexpr int JOBS =
      MEMO_TILES + 3 * SIZE_TILES + QUERY + 2 * HEADS * PER_HEAD + 2 * HIDDEN_TILES;
#pragma unroll 1
  for (int job = me.warp; job < JOBS; job += WARPS) {
    int k = job, rows, columns = SIZE8, out_row = SIZE_ROW, out_column = 1, a_row = D, b_row = R;
    const float *a, *b;
    float* out;
    auto is = [&](int count) {
      k -= count;
      return k < 0 ? (k = 16 * (k + count), true) : false;
    };
    auto set = [&](float* to, int row, const float* x, int x_row, const float* y, int y_row, int o,
                   int i) {
      out = to + k * row, out_row = row, a = x + k, a_row = x_row, b = y, b_row = y_row;
      rows = o - k, columns = i;
    };
    if (is(MEMO_TILES))
      set(gradient + param::NEW_MEMO, SIZE_ROW, shared + LASTING + backward::D_MEMO, MEMORY4,
          shared + window::SUMMARY, SIZE8, MEMORY4, SIZE8);
    else if (is(SIZE_TILES))
      set(gradient + param::EMBED_MEMORY, MEMORY_ROW, shared + window::EMBEDDED, SIZE8,
          shared + window::MEMORIES, MEMORY4, SIZE8, MEMORY4);
    else if (is(SIZE_TILES))
      set(gradient + param::EMBED_CORE, CORE4, shared + window::CORES, SIZE8, shared + window::SEEN,
          CORE4, SIZE8, CORE4);
    else if (is(SIZE_TILES))
      set(g + layer::MIX, HEADS_ROW, d + last::D_TOTAL, D, record + last::VALUE, R, SIZE8, HEADS4);
    else if (is(QUERY))
      set(g + layer::QKV, SIZE_ROW, d + last::D_QUERY, D, record + last::X, R, HEADS4, SIZE8);
    else if (is(HIDDEN_TILES))
      set(g + layer::WIDEN, SIZE_ROW, d + last::D_WIDE, D, record + last::MIDDLE, R, HIDDEN4,
          SIZE8);
    else if (is(HIDDEN_TILES)) {  // turned
      set(g + layer::NARROW, 1, record + last::WIDE, R, d + last::D_OUT, D, HIDDEN4, SIZE8);
      out_column = HIDDEN_ROW;
    } else {  // keys, then values, by head
      const bool values = k >= HEADS * PER_HEAD;
      const int h = k / PER_HEAD % HEADS, o = h * HEAD4;
      k = 16 * (k % PER_HEAD);
      if (values)
        set(g + layer::QKV + (2 * HEADS4 + o) * SIZE_ROW, SIZE_ROW, d + last::D_VALUE + o, D,
            record + last::MEAN + h * SIZE8, R, HEAD4, SIZE8);
      else
        set(g + layer::QKV + (HEADS4 + o) * SIZE_ROW, SIZE_ROW, record + last::QUERY + o, R,
            d + last::D_ASKED + h * SIZE8, D, HEAD4, SIZE8);
    }
    squares += sum_steps(out, out_row, out_column, rows, columns, a, a_row, b, b_row);
  }
  return squares;
}
// Their biases, the last layer's norms, and the embedding of ages.
DEVICE float gradients_of_biases(float* gradient) {
  const Thread me;
  const float *record = shared + jobs::LAST, *d = shared + jobs::D_LAST;
  float *g = gradient + FIRST * layer::END, squares = 0;
  constexpr int R = last::END, D = last::D_END;
  EACH(i, SLOTS * SIZE8) {
    const int s = i / SIZE8, o = i % SIZE8;
    const float v = shared[window::AGES + i];
    gradient[param::EMBED_MEMORY + o * MEMORY_ROW + MEMORY4 + (s + 1) % SLOTS] = v;
    squares += v * v;
  }
  squares +=
      sum_rows<SLOTS, SIZE8>(gradient + param::EMBED_MEMORY_BIAS, shared + window::AGES, SIZE8);
  squares +=
      sum_rows<STEPS, SIZE8>(gradient + param::EMBED_CORE_BIAS, shared + window::CORES, SIZE8);
  if (MEMOS)
    squares += sum_rows<STEPS, MEMORY4>(gradient + param::NEW_MEMO_BIAS,
                                        shared + LASTING + backward::D_MEMO, MEMORY4);
  squares += sum_rows<STEPS, HEADS4>(g + layer::QKV_BIAS, d + last::D_QUERY, D);
  squares += sum_rows<STEPS, HEADS4>(g + layer::QKV_BIAS + 2 * HEADS4, d + last::D_VALUE, D);
  squares += sum_rows<STEPS, SIZE8>(g + layer::MIX_BIAS, d + last::D_TOTAL, D);
  squares += sum_rows<STEPS, HIDDEN4>(g + layer::WIDEN_BIAS, d + last::D_WIDE, D);
  squares += sum_rows<STEPS, SIZE8>(g + layer::NARROW_BIAS, d + last::D_OUT, D);
  squares +=
      sum_rows<STEPS, SIZE8>(g + layer::GAIN1, d + last::D_MIDDLE, D, record + last::NORMAL1, R);
  squares += sum_rows<STEPS, SIZE8>(g + layer::BIAS1, d + last::D_MIDDLE, D);
  squares +=
      sum_rows<STEPS, SIZE8>(g + layer::GAIN2, d + last::D_CORE, D, record + last::NORMAL2, R);
  squares += sum_rows<STEPS, SIZE8>(g + layer::BIAS2, d + last::D_CORE, D);
  return squares;
}

// All gradients but for those of actor and critic.
DEVICE void compute_gradients(Run& run) {
  if (FIRST) gradients_of_first_layers(run);
  if (run.issuer) {
    constexpr int length = STEPS * (last::END + last::D_END);  // one stack behind the other
    expect(barrier(AT_LAST), 4 * length);
    load_stack(shared + jobs::LAST, run.work + stack::LAST, 4 * length, barrier(AT_LAST));
  }
  await(run, AT_LAST);
  float* gradient = run.work + stack::GRADIENT;
  const float squares = gradients_by_steps(gradient);
  add_squares(squares + gradients_of_biases(gradient));
  __syncthreads();
}

// ------------------------------------------------------------------------------ update

// Clips the gradient by its norm and updates by Adam, unless the norm or the loss is not finite.
// Returns whether it has.
DEVICE bool update(const Run& run, float* mu, float* nu, const float* schedule) {
  const Thread me;
  float squares = 0;
  FOR(i, WARPS) squares += shared[window::SQUARES + i];
  const float norm = sqrtf(squares), clip = fminf(1.f, run.hyper[CLIP] / (norm + 1e-6f));
  if (!is_finite(norm) || !is_finite(shared[window::LOSS])) return false;
  if (me.id == 0) run.totals[4] = norm;
  const float rate = schedule[0] * schedule[1], root = schedule[2],
              epsilon = run.hyper[ADAM_EPSILON];
  const float* gradient = run.work + stack::GRADIENT;
  constexpr int AT_ONCE = 4, COUNT = param::END / 4;
#pragma unroll 1
  for (int first = me.id; first < COUNT; first += AT_ONCE * THREADS) {
    float4 g[AT_ONCE], m[AT_ONCE], v[AT_ONCE], w[AT_ONCE];
    FOR(k, AT_ONCE) {
      const int i = 4 * min(first + k * THREADS, COUNT - 1);
      g[k] = __ldcs((const float4*)(gradient + i)), m[k] = __ldcs((const float4*)(mu + i));
      v[k] = __ldcs((const float4*)(nu + i)), w[k] = load4(run.params + i);
    }
    FOR(k, AT_ONCE) {
      const int i = 4 * (first + k * THREADS);
      if (i >= 4 * COUNT) continue;
      auto one = [&](float g, float& m, float& v, float& w) {
        g *= clip;
        m = 0.9f * m + 0.1f * g, v = 0.999f * v + 0.001f * g * g;
        w -= __fdividef(rate * m, root * square_root(v) + epsilon);
      };
      one(g[k].x, m[k].x, v[k].x, w[k].x), one(g[k].y, m[k].y, v[k].y, w[k].y);
      one(g[k].z, m[k].z, v[k].z, w[k].z), one(g[k].w, m[k].w, v[k].w, w[k].w);
      __stcs((float4*)(mu + i), m[k]), __stcs((float4*)(nu + i), v[k]);
      store4(run.params + i, w[k]);
    }
  }
  return true;
}

// ------------------------------------------------------------------------------ the kernel

// Fills the workspace and shared memory with zeros and starts the barriers.
DEVICE void begin_run(const Run& run) {
  const Thread me;
  EACH(i, stack::END / 4) store4(run.work + 4 * i, make_float4(0, 0, 0, 0));
  EACH(i, ROOM - window::MISC) shared[window::MISC + i] = 0;
  if (me.id < AT_STAGE + jobs::STAGES) start_barrier(barrier(me.id));
  fence_all(), __syncthreads();
}

// Inputs, then outputs; the first three of each are the same memory. By run:
//   params, mu, nu   [param::END]: weights and Adam's moments, padded with zeros
//   noise            [chunk][STEPS][2]: Gumbel noise for the two actions
//   observations     [chunk][STEPS][CORE4], padded with zeros
//   answers          [chunk][STEPS]: 0: no quiz, 1: "no" is right, 2: "yes" is
//   hyper            [8]: discount, entropy, Adam's epsilon, clip, reward scale
//   schedule         [chunk][4]: learning rate, 1/(1-0.9^n), sqrt(1/(1-0.999^n))
//   counts           [2]: windows to do, chunk
//   work             [stack::END]: scratch memory
//   totals           [chunk][5]: reward, policy loss, value loss, entropy, gradient norm
//   done             [2]: windows done, 1 if the next one was not finite
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    windows(const float*, const float*, const float*, const float* noise, const float* observations,
            const int* answers, const float* hyper, const float* schedule, const int* counts,
            float* params, float* mu, float* nu, float* work, float* totals, int* done) {
  const size_t index = blockIdx.x;
  const int count = counts[2 * index], chunk = counts[2 * index + 1];
  Run run = {};
  run.params = params + index * param::END, run.work = work + index * stack::END;
  run.hyper = hyper + index * 8, run.issuer = threadIdx.x == THREADS - 32;
  int i = 0;
  bool good = true;
  if (count > 0) begin_run(run);
#pragma unroll 1
  for (; good && i < count; i += good) {
    const size_t at = index * chunk + i;
    run.noise = noise + at * STEPS * 2, run.observations = observations + at * STEPS * CORE4;
    run.answers = answers + at * STEPS, run.totals = totals + at * 5;
    begin_window(run);
    forward_pass(run);
    compute_loss(run);
    backward_pass(run);
    compute_gradients(run);
    good = update(run, mu + index * param::END, nu + index * param::END, schedule + at * 4);
    fence_all(), __syncthreads();
  }
  if (threadIdx.x == 0) done[2 * index] = i, done[2 * index + 1] = !good;
  for (int k = 5 * i + threadIdx.x; k < 5 * chunk; k += THREADS) totals[index * chunk * 5 + k] = 0;
}

// For whoever launches it.
extern "C" {
__device__ int shared_bytes = 4 * ROOM;
__device__ int work_floats = stack::END;
__device__ int params_floats = param::END;
__device__ int block_threads = THREADS;
}

#ifdef EMULATE
// Runs the kernel's blocks one after the other. `buffers` are the 9 inputs, then the 6 outputs.
extern "C" void emulate(int runs, void** buffers) {
  float** f = (float**)buffers;
  for (int k = 0; k < 3; k++)
    if (f[k] != f[9 + k]) memcpy(f[9 + k], f[k], sizeof(float) * runs * param::END);
  for (int run = 0; run < runs; run++)
    run_block(run, [=] {
      windows(f[0], f[1], f[2], f[3], f[4], (const int*)f[5], f[6], f[7], (const int*)f[8], f[9],
              f[10], f[11], f[12], f[13], (int*)f[14]);
    });
}
#endif
