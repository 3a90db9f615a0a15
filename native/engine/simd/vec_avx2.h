// Vectors of AVX2 with FMA and F16C: 8 floats or 4 doubles. What each operation must do is said in vec_gcc.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace collapsar {
namespace {
using FloatRegister = __m256;
using DoubleRegister = __m256d;
}  // namespace
}  // namespace collapsar

#include "vec_gcc.h"

namespace collapsar {
namespace {

COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {_mm256_cvtps_pd(_mm_loadu_ps(p))}; }
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

COLLAPSAR_INLINE bool any(FloatMask a) { return _mm256_movemask_ps((__m256)a.m) != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return _mm256_movemask_pd((__m256d)a.m) != 0; }

COLLAPSAR_INLINE FloatMask notGreaterEqual(FloatVec a, FloatVec b) {
  return {(Ints)_mm256_cmp_ps(a.v, b.v, _CMP_NGE_UQ)};
}
COLLAPSAR_INLINE DoubleMask notGreaterEqual(DoubleVec a, DoubleVec b) {
  return {(Longs)_mm256_cmp_pd(a.v, b.v, _CMP_NGE_UQ)};
}
COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) {
  return {_mm256_blendv_ps(b.v, a.v, (__m256)m.m)};
}
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {_mm256_blendv_pd(b.v, a.v, (__m256d)m.m)};
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

COLLAPSAR_INLINE uint32_t movemask(FloatMask a) { return static_cast<uint32_t>(_mm256_movemask_ps((__m256)a.m)); }
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) { return static_cast<uint32_t>(_mm256_movemask_pd((__m256d)a.m)); }

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
