// The arithmetic that kernels could do at best: multiply-adds that do not wait for each other. Compiled for each
// instruction set as its kernels are: CMakeLists.txt gives COLLAPSAR_VECTORS, its vectors, and COLLAPSAR_KERNEL, a name.
#include <stdint.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#include COLLAPSAR_VECTORS

namespace collapsar {

// Four cycles of latency on two units take eight; with two constants all of them fit the registers. They start apart, 0
// in the mean: of equal ones a compiler makes one.
constexpr int kChains = 12;

int64_t COLLAPSAR_KERNEL(int64_t steps, float* sum) {
  const FloatVec factor = splat(0.999f), term = splat(0.001f);
  FloatVec chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; i++) chain[i] = splat(static_cast<float>(i) - (kChains - 1) / 2.0f);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) chain[i] = fma(chain[i], factor, term);
  }
  FloatVec total = chain[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; i++) total = add(total, chain[i]);
  float lanes[FloatVec::kLanes];
  store(lanes, total);
  *sum = 0;
  for (int lane = 0; lane < FloatVec::kLanes; lane++) *sum += lanes[lane];
  return steps * kChains * FloatVec::kLanes;
}

}  // namespace collapsar
