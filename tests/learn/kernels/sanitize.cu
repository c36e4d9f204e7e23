// A few windows of random runs, without Python, for compute-sanitizer:
//   nvcc -arch=sm_90 -std=c++17 -lineinfo -DSIZE=24 -DHEADS=2 -DHEAD=12 -DHIDDEN=12 -DLAYERS=3
//     -DSLOTS=5 -DMEMORY=24 -DMEMOS=1 -DCORE=15 -DACTOR=32 -DSHARED=0 -DFULL=1 -DSTEPS=6 -DTF32=1
//     -I src/wmg/learn/kernels -o few tests/learn/kernels/sanitize.cu && compute-sanitizer --tool racecheck ./few
// With 6 nodes one warp has all nodes. The paper's sizes have 17, in tiles of three warps:
//   nvcc -arch=sm_90 -std=c++17 -lineinfo -DSIZE=72 -DHEADS=6 -DHEAD=12 -DHIDDEN=12 -DLAYERS=4
//     -DSLOTS=16 -DMEMORY=128 -DMEMOS=1 -DCORE=15 -DACTOR=128 -DSHARED=0 -DFULL=1 -DSTEPS=12 -DTF32=1
//     -I src/wmg/learn/kernels -o paper tests/learn/kernels/sanitize.cu && compute-sanitizer --tool racecheck ./paper
#include "window.cu"

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int RUNS = 2, CHUNK = 3, WINDOWS[RUNS] = {3, 1};

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  printf("%s\n", cudaGetErrorString(error));
  exit(1);
}
template <class T> T* on_device(const std::vector<T>& values) {
  T* copy;
  check(cudaMalloc(&copy, values.size() * sizeof(T)));
  check(cudaMemcpy(copy, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return copy;
}
std::vector<float> random_floats(size_t count, float scale) {
  std::vector<float> values(count);
  for (float& x : values) x = scale * (2.f * rand() / RAND_MAX - 1);
  return values;
}
int exported(const void* symbol) {
  int value;
  check(cudaMemcpyFromSymbol(&value, symbol, sizeof value));
  return value;
}

int main() {
  const int params = exported(&params_floats), work = exported(&work_floats);
  const int bytes = exported(&shared_bytes), threads = exported(&block_threads);
  std::vector<float> hyper, schedule;
  std::vector<int> answers, windows;
  for (int run = 0; run < RUNS; run++) {
    for (float x : {0.5f, 0.01f, 1e-3f, 16.f, 2.f, 0.f, 0.f, 0.f}) hyper.push_back(x);
    windows.insert(windows.end(), {WINDOWS[run], CHUNK});
    for (int i = 0; i < CHUNK; i++)
      for (float x : {1e-4f, 10.f, 31.6f, 0.f}) schedule.push_back(x);
    for (int i = 0; i < CHUNK * STEPS; i++) answers.push_back(i % 2 ? 1 + rand() % 2 : 0);
  }
  float* weights = on_device(random_floats(RUNS * params, 0.1f));
  float* mu = on_device(std::vector<float>(RUNS * params));
  float* nu = on_device(std::vector<float>(RUNS * params));
  float *space, *totals;
  int *done, finished[2 * RUNS];
  check(cudaMalloc(&space, sizeof(float) * RUNS * work));
  check(cudaMalloc(&totals, sizeof(float) * RUNS * CHUNK * 5));
  check(cudaMalloc(&done, sizeof finished));
  check(cudaFuncSetAttribute((void*)::windows, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  ::windows<<<RUNS, threads, bytes>>>(
      weights, mu, nu, on_device(random_floats(RUNS * CHUNK * STEPS * 2, 1)),
      on_device(random_floats(RUNS * CHUNK * STEPS * CORE4, 1)), on_device(answers),
      on_device(hyper), on_device(schedule), on_device(windows), weights, mu, nu, space, totals, done);
  check(cudaGetLastError());
  check(cudaMemcpy(finished, done, sizeof finished, cudaMemcpyDeviceToHost));
  for (int run = 0; run < RUNS; run++)
    printf("run %d: %d windows, diverged %d\n", run, finished[2 * run], finished[2 * run + 1]);
  return finished[0] != WINDOWS[0] || finished[2] != WINDOWS[1];
}
