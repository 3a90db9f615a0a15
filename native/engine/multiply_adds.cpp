#include "multiply_adds.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <atomic>

namespace collapsar {
namespace {

constexpr int kChains = 16;  // 4 cycles of latency on 2 units: 8 at least

typedef float Float4 __attribute__((vector_size(16)));

float baselineSteps(std::int64_t steps) {
  Float4 sum[kChains];
  for (Float4& chain : sum) chain = Float4{1, 2, 3, 4};
  const Float4 factor = Float4{} + 0.999f, term = Float4{} + 0.001f;
  for (std::int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; i++) sum[i] = sum[i] * factor + term;
  }
  float total = 0;
  for (const Float4& chain : sum) total += chain[0];
  return total;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float avx2Steps(std::int64_t steps) {
  __m256 sum[kChains];
  for (__m256& chain : sum) chain = _mm256_set1_ps(1);
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (std::int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; i++) sum[i] = _mm256_fmadd_ps(sum[i], factor, term);
  }
  float total = 0;
  for (const __m256& chain : sum) total += _mm256_cvtss_f32(chain);
  return total;
}
__attribute__((target("avx512f"))) float avx512Steps(std::int64_t steps) {
  __m512 sum[kChains];
  for (__m512& chain : sum) chain = _mm512_set1_ps(1);
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (std::int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; i++) sum[i] = _mm512_fmadd_ps(sum[i], factor, term);
  }
  float total = 0;
  for (const __m512& chain : sum) total += _mm512_cvtss_f32(chain);
  return total;
}
#elif defined(__aarch64__)
float neonSteps(std::int64_t steps) {
  float32x4_t sum[kChains];
  for (float32x4_t& chain : sum) chain = vdupq_n_f32(1);
  const float32x4_t factor = vdupq_n_f32(0.999f), term = vdupq_n_f32(0.001f);
  for (std::int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; i++) sum[i] = vfmaq_f32(term, sum[i], factor);
  }
  float total = 0;
  for (const float32x4_t& chain : sum) total += vgetq_lane_f32(chain, 0);
  return total;
}
#endif

struct Steps {
  float (*run)(std::int64_t);
  int lanes;
};

Steps stepsOf(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::Avx512:
      return {avx512Steps, 16};
    case Isa::Avx2:
      return {avx2Steps, 8};
#elif defined(__aarch64__)
    case Isa::Neon:
      return {neonSteps, 4};
#endif
    default:
      return {baselineSteps, 4};
  }
}

}  // namespace

Outcome multiplyAdds(Isa isa, std::int64_t steps, ThreadPool& pool, JobControl& control, int* lanes) {
  const Steps chosen = stepsOf(isa);
  *lanes = chosen.lanes;
  static std::atomic<float> kept{0};  // so that no compiler leaves the work out
  control.totalUnits.store(pool.threads(), std::memory_order_relaxed);
  return pool.run(pool.threads(), control, [&](std::int64_t, int) {
    kept.store(chosen.run(steps), std::memory_order_relaxed);
    control.doneUnits.fetch_add(1, std::memory_order_relaxed);
  });
}

}  // namespace collapsar
