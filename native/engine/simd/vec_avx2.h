// Vectors of AVX2 with FMA and F16C: 8 floats or 4 doubles. What each operation must do is said in vec_baseline.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#define COLLAPSAR_INLINE inline __attribute__((always_inline))

namespace collapsar {
namespace {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

struct FloatVec {
  using Scalar = float;
  static constexpr int kLanes = 8;
  __m256 v;
};
struct DoubleVec {
  using Scalar = double;
  static constexpr int kLanes = 4;
  __m256d v;
};

COLLAPSAR_INLINE FloatVec set(float x) { return {_mm256_set1_ps(x)}; }
COLLAPSAR_INLINE DoubleVec set(double x) { return {_mm256_set1_pd(x)}; }

COLLAPSAR_INLINE FloatVec load(const float* p) { return {_mm256_loadu_ps(p)}; }
COLLAPSAR_INLINE DoubleVec load(const double* p) { return {_mm256_loadu_pd(p)}; }
COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
COLLAPSAR_INLINE void store(float* p, FloatVec a) { _mm256_storeu_ps(p, a.v); }
COLLAPSAR_INLINE void store(double* p, DoubleVec a) { _mm256_storeu_pd(p, a.v); }

COLLAPSAR_INLINE FloatVec add(FloatVec a, FloatVec b) { return {_mm256_add_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec add(DoubleVec a, DoubleVec b) { return {_mm256_add_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec sub(FloatVec a, FloatVec b) { return {_mm256_sub_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec sub(DoubleVec a, DoubleVec b) { return {_mm256_sub_pd(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec mul(DoubleVec a, DoubleVec b) { return {_mm256_mul_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec fma(FloatVec a, FloatVec b, FloatVec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
COLLAPSAR_INLINE DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
COLLAPSAR_INLINE FloatVec larger(FloatVec a, FloatVec b) { return {_mm256_max_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec larger(DoubleVec a, DoubleVec b) { return {_mm256_max_pd(a.v, b.v)}; }

COLLAPSAR_INLINE FloatVec timesPowerOf2(FloatVec p, FloatVec shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.v), exponent))};
}
COLLAPSAR_INLINE DoubleVec timesPowerOf2(DoubleVec p, DoubleVec shifted) {
  const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(shifted.v), 52);
  return {_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p.v), exponent))};
}

struct FloatMask {
  __m256 m;
};
struct DoubleMask {
  __m256d m;
};
COLLAPSAR_INLINE FloatMask greater(FloatVec a, FloatVec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
COLLAPSAR_INLINE DoubleMask greater(DoubleVec a, DoubleVec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_GT_OQ)}; }
COLLAPSAR_INLINE FloatMask equal(FloatVec a, FloatVec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
COLLAPSAR_INLINE DoubleMask equal(DoubleVec a, DoubleVec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ)}; }
COLLAPSAR_INLINE bool any(FloatMask a) { return _mm256_movemask_ps(a.m) != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return _mm256_movemask_pd(a.m) != 0; }

struct Counter {
  int64_t n = 0;
};
COLLAPSAR_INLINE void count(Counter& c, FloatMask a) { c.n += __builtin_popcount(_mm256_movemask_ps(a.m)); }
COLLAPSAR_INLINE void count(Counter& c, DoubleMask a) { c.n += __builtin_popcount(_mm256_movemask_pd(a.m)); }
COLLAPSAR_INLINE int64_t total(const Counter& c) { return c.n; }

COLLAPSAR_INLINE void widen(FloatVec a, DoubleVec* out) {
  out[0] = {_mm256_cvtps_pd(_mm256_castps256_ps128(a.v))};
  out[1] = {_mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1))};
}

COLLAPSAR_INLINE double foldSum(DoubleVec a) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
COLLAPSAR_INLINE float foldLarger(FloatVec a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
COLLAPSAR_INLINE double foldLarger(DoubleVec a) {
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
  return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace collapsar
