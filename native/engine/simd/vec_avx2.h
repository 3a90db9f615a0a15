// Vectors of AVX2 with FMA and F16C: 8 floats or 4 doubles. What each operation must do is said in vec_baseline.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "elements.h"
#include "engine/deterministic_math.h"

namespace collapsar {
namespace {

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

COLLAPSAR_INLINE FloatVec splat(float x) { return {_mm256_set1_ps(x)}; }
COLLAPSAR_INLINE DoubleVec splat(double x) { return {_mm256_set1_pd(x)}; }

COLLAPSAR_INLINE FloatVec load(const float* p) { return {_mm256_loadu_ps(p)}; }
COLLAPSAR_INLINE DoubleVec load(const double* p) { return {_mm256_loadu_pd(p)}; }
COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
template <class T>
constexpr bool kHasMaskload = sizeof(T) > 2;
COLLAPSAR_INLINE FloatVec maskload(const float* p, int n, float rest) {
  const __m256i m = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return {_mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m))};
}
COLLAPSAR_INLINE DoubleVec maskload(const double* p, int n, double rest) {
  const __m256i m = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  return {_mm256_blendv_pd(_mm256_set1_pd(rest), _mm256_maskload_pd(p, m), _mm256_castsi256_pd(m))};
}
template <class Half>
COLLAPSAR_INLINE FloatVec maskloadHalves(const Half* p, int n, float rest) {
  Half halves[8] = {};
  for (int i = 0; i < n && i < 8; i++) halves[i] = p[i];
  const __m256i m = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return {_mm256_blendv_ps(_mm256_set1_ps(rest), load(halves).v, _mm256_castsi256_ps(m))};
}
COLLAPSAR_INLINE FloatVec maskload(const Float16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE FloatVec maskload(const BFloat16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {_mm256_cvtps_pd(_mm_loadu_ps(p))}; }
// 16 elements: those of even number, and those of odd.
COLLAPSAR_INLINE void loadEvenOdd(const BFloat16* p, FloatVec& even, FloatVec& odd) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even = {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16))};
  odd = {_mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
}
COLLAPSAR_INLINE void store(float* p, FloatVec a) { _mm256_storeu_ps(p, a.v); }
COLLAPSAR_INLINE void store(double* p, DoubleVec a) { _mm256_storeu_pd(p, a.v); }

COLLAPSAR_INLINE FloatVec add(FloatVec a, FloatVec b) { return {_mm256_add_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec add(DoubleVec a, DoubleVec b) { return {_mm256_add_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec sub(FloatVec a, FloatVec b) { return {_mm256_sub_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec sub(DoubleVec a, DoubleVec b) { return {_mm256_sub_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec mul(FloatVec a, FloatVec b) { return {_mm256_mul_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec mul(DoubleVec a, DoubleVec b) { return {_mm256_mul_pd(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec div(DoubleVec a, DoubleVec b) { return {_mm256_div_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec fma(FloatVec a, FloatVec b, FloatVec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
COLLAPSAR_INLINE DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
COLLAPSAR_INLINE FloatVec max(FloatVec a, FloatVec b) { return {_mm256_max_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec max(DoubleVec a, DoubleVec b) { return {_mm256_max_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec min(FloatVec a, FloatVec b) { return {_mm256_min_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec min(DoubleVec a, DoubleVec b) { return {_mm256_min_pd(a.v, b.v)}; }

COLLAPSAR_INLINE FloatVec powerOfEighths(FloatVec shifted) {
  const __m256i n = _mm256_castps_si256(shifted.v);
  const __m256i powers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kEighthPowers));
  const __m256i entry = _mm256_permutevar8x32_epi32(powers, n);
  return {_mm256_castsi256_ps(_mm256_add_epi32(entry, _mm256_slli_epi32(n, 20)))};
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

COLLAPSAR_INLINE FloatMask notGreaterEqual(FloatVec a, FloatVec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NGE_UQ)}; }
COLLAPSAR_INLINE DoubleMask notGreaterEqual(DoubleVec a, DoubleVec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_NGE_UQ)}; }
COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) { return {_mm256_blendv_ps(b.v, a.v, m.m)}; }
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) { return {_mm256_blendv_pd(b.v, a.v, m.m)}; }
COLLAPSAR_INLINE FloatVec maskAdd(FloatMask m, FloatVec a, FloatVec b) {
  return {_mm256_add_ps(a.v, _mm256_and_ps(b.v, m.m))};
}
COLLAPSAR_INLINE DoubleVec maskAdd(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {_mm256_add_pd(a.v, _mm256_and_pd(b.v, m.m))};
}
COLLAPSAR_INLINE FloatVec interleaveLow(FloatVec a, FloatVec b) {
  return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), 0x20)};
}
COLLAPSAR_INLINE FloatVec interleaveHigh(FloatVec a, FloatVec b) {
  return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), 0x31)};
}
COLLAPSAR_INLINE DoubleVec interleaveLow(DoubleVec a, DoubleVec b) {
  return {_mm256_permute2f128_pd(_mm256_unpacklo_pd(a.v, b.v), _mm256_unpackhi_pd(a.v, b.v), 0x20)};
}
COLLAPSAR_INLINE DoubleVec interleaveHigh(DoubleVec a, DoubleVec b) {
  return {_mm256_permute2f128_pd(_mm256_unpacklo_pd(a.v, b.v), _mm256_unpackhi_pd(a.v, b.v), 0x31)};
}
COLLAPSAR_INLINE __m256i splat64(uint64_t x) { return _mm256_set1_epi64x(static_cast<int64_t>(x)); }
COLLAPSAR_INLINE void splitPower(DoubleVec x, DoubleVec& m, DoubleVec& k) {
  const __m256i cut = splat64(kLogCut), fromCut = _mm256_sub_epi64(_mm256_castpd_si256(x.v), cut);
  m.v = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_and_si256(fromCut, splat64(kSignificandBits)), cut));
  const __m256i biased = _mm256_srli_epi64(_mm256_add_epi64(fromCut, splat64(kExponentBias)), 52);
  k.v = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(biased, splat64(kTwo52Bits))), _mm256_set1_pd(kTwo52AndBias));
}

COLLAPSAR_INLINE uint32_t movemask(FloatMask a) { return static_cast<uint32_t>(_mm256_movemask_ps(a.m)); }
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) { return static_cast<uint32_t>(_mm256_movemask_pd(a.m)); }

// True lanes are -1: subtracting them counts.
struct Counter {
  __m256i narrow = _mm256_setzero_si256(), wide = _mm256_setzero_si256();
};
COLLAPSAR_INLINE void count(Counter& c, FloatMask a) {
  c.narrow = _mm256_sub_epi32(c.narrow, _mm256_castps_si256(a.m));
}
COLLAPSAR_INLINE void count(Counter& c, DoubleMask a) { c.wide = _mm256_sub_epi64(c.wide, _mm256_castpd_si256(a.m)); }
COLLAPSAR_INLINE int64_t total(const Counter& c) {
  int32_t narrow[8];
  int64_t wide[4], sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(narrow), c.narrow);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(wide), c.wide);
  for (const int32_t n : narrow) sum += n;
  for (const int64_t n : wide) sum += n;
  return sum;
}

COLLAPSAR_INLINE void widen(FloatVec a, DoubleVec* out) {
  out[0] = {_mm256_cvtps_pd(_mm256_castps256_ps128(a.v))};
  out[1] = {_mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1))};
}

COLLAPSAR_INLINE double reduceSum(DoubleVec a) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
COLLAPSAR_INLINE float reduceMax(FloatVec a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
COLLAPSAR_INLINE double reduceMax(DoubleVec a) {
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
  return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace collapsar
