// Sizes of vectors and matrices, and their places in parameters, workspace and shared memory.
//
// The macros are: SIZE (of a node, HEADS times HEAD), HIDDEN (width of the feed-forward block),
// LAYERS, SLOTS, MEMORY (size of a memory vector), MEMOS (1: Memos, 0: past observations), CORE
// (size of an observation), ACTOR (width of the hidden layer of actor and of critic), SHARED (1:
// both have the same one), FULL (1: memory starts full of zeros, 0: empty), STEPS (of a window) and
// TF32 (1: products in tf32, 0: in float32). All places and lengths below count floats.
#pragma once

#define AT_COMPILE __host__ __device__ constexpr  // functions for the constants
AT_COMPILE int up(int x, int multiple) { return (x + multiple - 1) / multiple * multiple; }
AT_COMPILE int tiles(int x, int size) { return (x + size - 1) / size; }
AT_COMPILE int most(int a, int b) { return a > b ? a : b; }
AT_COMPILE int least(int a, int b) { return a < b ? a : b; }
AT_COMPILE double newton(double x, double y, int times) {
  return times ? newton(x, (y + x / y) / 2, times - 1) : y;
}

constexpr int SIZE8 = up(SIZE, 8), HEAD4 = up(HEAD, 4), HEADS4 = HEADS * HEAD4;
constexpr int HIDDEN4 = up(HIDDEN, 4), CORE4 = up(CORE, 4), MEMORY4 = up(MEMORY, 4);
constexpr int SLOTS4 = up(SLOTS, 4), ACTOR8 = up(ACTOR, 8), MEMORY_ROW = MEMORY4 + SLOTS4;
constexpr int NODES = SLOTS + 1, FIRST = LAYERS - 1;  // FIRST: layers that compute all nodes
constexpr int NODE_TILES = tiles(NODES, 8), QUERY_TILES = tiles(NODES, 16);
constexpr int SIZE_TILES = tiles(SIZE8, 16), HIDDEN_TILES = tiles(HIDDEN4, 16);
constexpr float EPSILON = 1e-12f, HEAD_SCALE = 1 / newton(HEAD, HEAD, 60);
static_assert(SIZE == HEADS * HEAD, "the size must be heads times head size");
static_assert(STEPS <= 16, "a window must have at most 16 steps");
static_assert(SLOTS <= 31, "memory must have at most 31 slots");
static_assert(SIZE <= 256 && HEADS4 <= 512 && MEMORY4 <= 512,
              "a vector is too long for a thread block");

// Rows of weights, and rows of activations: 8 more than a multiple of 16 where products read pairs
// of columns, 4 more than a multiple of 8 where they read single ones. Then there are no bank
// conflicts.
AT_COMPILE int weight_row(int x) { return x % 16 == 0 ? x + 8 : x; }
AT_COMPILE int pair_row(int x) { return up(x - 8, 16) + 8; }
AT_COMPILE int single_row(int x) { return up(x - 4, 8) + 4; }
constexpr int SIZE_ROW = weight_row(SIZE8), HEADS_ROW = weight_row(HEADS4);
constexpr int HIDDEN_ROW = weight_row(HIDDEN4);
constexpr int X_ROW = pair_row(SIZE8), QKV_ROW = pair_row(3 * HEADS4), MIX_ROW = pair_row(HEADS4);
constexpr int H_ROW = HIDDEN4 % 16 ? HIDDEN4 : HIDDEN4 + 8;
constexpr int DX_ROW = single_row(most(SIZE8, HEADS4)), DQKV_ROW = single_row(3 * HEADS4);
constexpr int DH_ROW = single_row(HIDDEN4), P_ROW = pair_row(NODES), A_ROW = single_row(ACTOR8);

// The parameters of a layer. `qkv` has row blocks for queries, keys and values.
namespace layer {
constexpr int QKV = 0, QKV_BIAS = QKV + 3 * HEADS4 * SIZE_ROW;
constexpr int MIX = QKV_BIAS + 3 * HEADS4, MIX_BIAS = MIX + SIZE8 * HEADS_ROW;
constexpr int GAIN1 = MIX_BIAS + SIZE8, BIAS1 = GAIN1 + SIZE8;
constexpr int WIDEN = BIAS1 + SIZE8, WIDEN_BIAS = WIDEN + HIDDEN4 * SIZE_ROW;
constexpr int NARROW = WIDEN_BIAS + HIDDEN4, NARROW_BIAS = NARROW + SIZE8 * HIDDEN_ROW;
constexpr int GAIN2 = NARROW_BIAS + SIZE8, BIAS2 = GAIN2 + SIZE8, END = BIAS2 + SIZE8;
}  // namespace layer

// The parameters of a run: all layers, then these.
namespace param {
constexpr int EMBED_CORE = LAYERS * layer::END, EMBED_CORE_BIAS = EMBED_CORE + SIZE8 * CORE4;
constexpr int EMBED_MEMORY = EMBED_CORE_BIAS + SIZE8;
constexpr int EMBED_MEMORY_BIAS = EMBED_MEMORY + SIZE8 * MEMORY_ROW;
constexpr int NEW_MEMO = EMBED_MEMORY_BIAS + SIZE8,
              NEW_MEMO_BIAS = NEW_MEMO + MEMOS * MEMORY4 * SIZE_ROW;
constexpr int HIDDEN_ACTOR = NEW_MEMO_BIAS + MEMOS * MEMORY4;
constexpr int HIDDEN_BIAS = ACTOR8 * SIZE_ROW,
              HIDDEN_END = HIDDEN_BIAS + ACTOR8;          // of a hidden layer
constexpr int HIDDEN_CRITIC = HIDDEN_ACTOR + HIDDEN_END;  // none where it is shared
constexpr int POLICY = HIDDEN_CRITIC + (SHARED ? 0 : HIDDEN_END), POLICY_BIAS = POLICY + 2 * ACTOR8;
constexpr int VALUE = POLICY_BIAS + 4, VALUE_BIAS = VALUE + ACTOR8, END = up(VALUE_BIAS + 4, 32);
}  // namespace param

// Of the last layer, which computes the Core alone: what a step of the forward pass keeps, and what
// the backward pass adds.
namespace last {
constexpr int X = 0, QUERY = X + SIZE8, ASKED = QUERY + HEADS4, WEIGHTS = ASKED + HEADS * SIZE8;
constexpr int MEAN = WEIGHTS + up(HEADS * NODES, 4), VALUE = MEAN + HEADS * SIZE8;
constexpr int NORMAL1 = VALUE + HEADS4, MIDDLE = NORMAL1 + SIZE8, WIDE = MIDDLE + SIZE8;
constexpr int NORMAL2 = WIDE + HIDDEN4, SCALES = NORMAL2 + SIZE8, END = SCALES + 4;
constexpr int D_QUERY = 0, D_ASKED = D_QUERY + HEADS4, D_VALUE = D_ASKED + HEADS * SIZE8;
constexpr int D_TOTAL = D_VALUE + HEADS4, D_WIDE = D_TOTAL + SIZE8, D_OUT = D_WIDE + HIDDEN4;
constexpr int D_MIDDLE = D_OUT + SIZE8, D_CORE = D_MIDDLE + SIZE8, D_END = D_CORE + SIZE8;
}  // namespace last

// The workspace of a run: the stacks that the backward pass needs, one row for each node of each
// step, and then zeros up to a multiple of CHUNK rows; the last layer's records; the gradient.
namespace stack {
constexpr int CHUNK = 16, CHUNKS = tiles(STEPS * NODES, CHUNK), ROWS = CHUNK * CHUNKS;
constexpr int ALL = FIRST * ROWS, SCALES_ROW = 2 * 8 * NODE_TILES;
constexpr int X = 0, QKV = X + (FIRST ? ROWS : 0) * X_ROW, MIX = QKV + ALL * QKV_ROW;
constexpr int NORMAL1 = MIX + ALL * MIX_ROW, NORMAL2 = NORMAL1 + ALL * X_ROW;
constexpr int WIDE = NORMAL2 + ALL * X_ROW, SCALES = WIDE + ALL * H_ROW;
constexpr int D_QKV = SCALES + FIRST * STEPS * SCALES_ROW, D_TOTAL = D_QKV + ALL * DQKV_ROW;
constexpr int D_OUT = D_TOTAL + ALL * DX_ROW, D_WIDE = D_OUT + ALL * DX_ROW;
constexpr int LAST_X = D_WIDE + ALL * DH_ROW, LAST = LAST_X + STEPS * NODES * X_ROW;
constexpr int D_LAST = LAST + STEPS * last::END, GRADIENT = D_LAST + STEPS * last::D_END;
constexpr int END = up(GRADIENT + param::END, 32);
}  // namespace stack

// Shared memory: barriers, what lives through a window, weights, and the activations of a pass.
constexpr int ROOM = 232448 / 4;
namespace window {
constexpr int BARRIERS = 0, MISC = BARRIERS + 32, SEEN = MISC + 128, SUMMARY = SEEN + STEPS * CORE4;
constexpr int MEMORIES = SUMMARY + STEPS * SIZE8;
// Embeddings in the forward pass, their cotangents in the backward pass.
constexpr int CORES = MEMORIES + STEPS * MEMORY4, AGES = CORES + STEPS * SIZE8;
constexpr int EMBEDDED = AGES + SLOTS * SIZE8, END = EMBEDDED + STEPS * SIZE8;
// Numbers in MISC: one for each step of these, or one for each warp, or one.
constexpr int LOGITS = MISC, ACTION = MISC + 8, REWARD = ACTION + 16, D_LOGIT0 = REWARD + 16;
constexpr int D_LOGIT1 = D_LOGIT0 + 16, D_STATE_VALUE = D_LOGIT1 + 16, LOSS = D_STATE_VALUE + 16;
constexpr int SQUARES = LOSS + 8;
static_assert(SQUARES + WARPS <= MISC + 128, "");
}  // namespace window

// Where things lie depends on how much fits: the weights of the layers for Memo and actor are kept
// in shared memory or read from global memory, and the two parts of a layer's weights (`qkv` and
// the rest) have places of their own or share one.
constexpr int QKV_LENGTH = layer::MIX, REST_LENGTH = layer::END - layer::MIX;
constexpr int DECIDE_LENGTH = param::HIDDEN_CRITIC - param::NEW_MEMO;
namespace forward {  // relative to the end of DECIDE
constexpr int X = 0, QKV = X + NODES * X_ROW, LAST = QKV, HIDDEN_UNITS = LAST + last::END;
constexpr int MIX = QKV + most(NODES * QKV_ROW, last::END + ACTOR8), TOTAL = MIX + NODES * MIX_ROW;
constexpr int MIDDLE = TOTAL + NODES * X_ROW, WIDE = MIDDLE + NODES * X_ROW;
constexpr int SCALES = WIDE + NODES * H_ROW, POLICY = SCALES + stack::SCALES_ROW;
constexpr int END = POLICY + 2 * ACTOR8 + 4;
}  // namespace forward
namespace backward {  // relative to the end of the weights
// Parts of the product back through `qkv`, of SPLIT columns.
constexpr int OCTETS = tiles(3 * HEADS4, 8),
              SPLIT = 8 * tiles(OCTETS, least(OCTETS, WARPS / SIZE_TILES));
constexpr int SPLITS = tiles(3 * HEADS4, SPLIT);
constexpr int PARTS = SPLITS * NODES * SIZE8, HEAD_P = NODES * P_ROW;
constexpr int NORMAL1 = 0, NORMAL2 = NORMAL1 + NODES * X_ROW, WIDE = NORMAL2 + NODES * X_ROW;
constexpr int SCALES = WIDE + NODES * H_ROW, QKV = SCALES + stack::SCALES_ROW;
constexpr int DY = QKV + NODES * QKV_ROW, D_OUT = DY + NODES * DX_ROW;
constexpr int D_TOTAL = D_OUT + NODES * DX_ROW, D_WIDE = D_TOTAL + NODES * DX_ROW;
constexpr int D_QKV = D_WIDE + NODES * DH_ROW, D_MIDDLE = D_QKV;
constexpr int P = D_QKV + NODES * DQKV_ROW, D_SCORES = P + up(HEADS * HEAD_P, 4), SUMS = P;
constexpr int LAYER_END = P + most(2 * up(HEADS * HEAD_P, 4), PARTS) + 16;
// The last layer's, where D_QKV and P will be.
constexpr int LAST_X = D_QKV, LAST = LAST_X + NODES * X_ROW, D_LAST = LAST + last::END;
constexpr int D_MEAN = D_LAST + last::D_END, D_LOOK = D_MEAN + HEADS * SIZE8;
constexpr int PARTIAL = D_LOOK + up(HEADS * NODES, 4), LAST_END = PARTIAL + THREADS;
static_assert(NODES * DX_ROW <= D_LAST - LAST_X,
              "D_MIDDLE must not overwrite a record on its way out");
constexpr int END = most(LAYER_END, LAST_END);
// At the end of shared memory, up to the gradient: cotangents of new Memos before tanh and of
// summaries, and each layer's gradients of gain 2, bias 2, gain 1, bias 1 and the bias of `narrow`.
constexpr int D_MEMO = 0, D_SUMMARY = D_MEMO + MEMOS * STEPS * MEMORY4;
constexpr int NORMS = D_SUMMARY + STEPS * SIZE8, LASTING = NORMS + FIRST * 5 * SIZE8;
}  // namespace backward
// The loss, in the place of the weights: hidden units of actor and critic, and their cotangents;
// cotangents of summaries; the critic's weights and those after it, if they fit.
constexpr int WEIGHTS = window::END;
namespace loss {
constexpr int HEADS_COUNT = SHARED ? 1 : 2, UNITS = STEPS * A_ROW;
constexpr int HIDDEN_UNITS = WEIGHTS, D_HIDDEN = HIDDEN_UNITS + HEADS_COUNT * UNITS;
constexpr int D_SUMMARY = D_HIDDEN + HEADS_COUNT * UNITS + 4;  // a tile reads behind the last row
constexpr int CRITIC = D_SUMMARY + HEADS_COUNT * STEPS * SIZE8, LENGTH = CRITIC - WEIGHTS;
constexpr int CRITIC_LENGTH = param::END - param::HIDDEN_CRITIC;
}  // namespace loss
// Whether `weights` floats of a layer, with or without the layers for Memo and actor, fit.
AT_COMPILE bool fits(int weights, bool keep) {
  return window::END + weights + (keep ? DECIDE_LENGTH : 0) + forward::END <= ROOM &&
         window::END + weights + backward::END + backward::LASTING <= ROOM;
}
constexpr int ONE_PART = most(most(QKV_LENGTH, REST_LENGTH), loss::LENGTH);
constexpr int BOTH_PARTS = most(QKV_LENGTH + REST_LENGTH, loss::LENGTH);
constexpr bool KEEP_DECIDE = fits(ONE_PART, true), RESIDENT = fits(BOTH_PARTS, KEEP_DECIDE);
static_assert(fits(ONE_PART, false), "shared memory: the agent is too large for one SM");
constexpr int FREE = least(ROOM - WEIGHTS - (KEEP_DECIDE ? DECIDE_LENGTH : 0) - forward::END,
                           ROOM - WEIGHTS - backward::END - backward::LASTING);
constexpr int WEIGHTS_LENGTH =
    RESIDENT ? most(BOTH_PARTS, least(FREE, loss::LENGTH + loss::CRITIC_LENGTH)) : FREE;
constexpr int REST_PLACE = RESIDENT ? QKV_LENGTH : WEIGHTS_LENGTH - REST_LENGTH;  // `qkv`: 0
constexpr bool KEEP_CRITIC = loss::LENGTH + loss::CRITIC_LENGTH <= WEIGHTS_LENGTH;
constexpr int DECIDE = WEIGHTS + WEIGHTS_LENGTH;
constexpr int FORWARD = DECIDE + (KEEP_DECIDE ? DECIDE_LENGTH : 0), BACKWARD = DECIDE;
constexpr int LASTING = ROOM - backward::LASTING;
// Addresses in shared memory to which places in `layer` are added.
constexpr int QKV = WEIGHTS, REST = WEIGHTS + REST_PLACE - layer::MIX;

// The gradients of the first layers, summed over chunks of rows that pass through STAGES stages. A
// job is 16 rows of a weight's gradient. In one pass every warp has a job, and thirds of FURTHER
// jobs go to 3 warps each where the sums of a whole job leave registers for them.
namespace jobs {
constexpr int QKV = tiles(3 * HEADS4, 16), MIX = QKV + SIZE_TILES, WIDEN = MIX + HIDDEN_TILES;
constexpr int ALL = WIDEN + HIDDEN_TILES;
constexpr int WIDTH = tiles(most(SIZE8, HEADS4), 8), THIRD = tiles(WIDTH, 3);
constexpr int FURTHER = WIDTH <= 10 ? WARPS / 3 : 0, PER_PASS = WARPS + FURTHER;
constexpr int PASSES = tiles(ALL, PER_PASS);
constexpr int D_QKV = 0, X = D_QKV + stack::CHUNK * DQKV_ROW, D_TOTAL = X + stack::CHUNK * X_ROW;
constexpr int MIXED = D_TOTAL + stack::CHUNK * DX_ROW, D_WIDE = MIXED + stack::CHUNK * MIX_ROW;
constexpr int MIDDLE = D_WIDE + stack::CHUNK * DH_ROW, D_OUT = MIDDLE + stack::CHUNK * X_ROW;
constexpr int WIDE = D_OUT + stack::CHUNK * DX_ROW, LENGTH = WIDE + stack::CHUNK * H_ROW;
constexpr int STAGE = LENGTH + 16;  // a tile of WIDE reads behind its last row
constexpr int PLACE = LASTING - WEIGHTS, STAGES = least(4, (PLACE - 128) / STAGE);
static_assert(FIRST == 0 || STAGES >= 2, "shared memory: rows are too long");
// The records of the last layer take the same place afterwards.
constexpr int LAST = WEIGHTS, D_LAST = LAST + STEPS * last::END;
static_assert(D_LAST + STEPS * last::D_END + 16 <= LASTING, "shared memory: too many heads");
}  // namespace jobs
