// Vectors of AVX-512 (F, BW, DQ, VL): 16 floats or 8 doubles. What each operation must do is said in vec_gcc.h.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's own header initialises "undefined" vectors with themselves (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#include <stdint.h>

namespace collapsar {
namespace {
using FloatRegister = __m512;
using DoubleRegister = __m512d;
}  // namespace
}  // namespace collapsar

#define COLLAPSAR_MASK_REGISTERS
#include "vec_gcc.h"

namespace collapsar {
namespace {

COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }
template <class T>
constexpr bool kHasMaskload = true;
COLLAPSAR_INLINE __mmask16 firstLanes(int n) {
  return static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<unsigned>(n < 0 ? 0 : n)));
}
COLLAPSAR_INLINE FloatVec maskload(const float* p, int n, float rest) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(rest), firstLanes(n), p)};
}
COLLAPSAR_INLINE DoubleVec maskload(const double* p, int n, double rest) {
  return {_mm512_mask_loadu_pd(_mm512_set1_pd(rest), static_cast<__mmask8>(firstLanes(n)), p)};
}
COLLAPSAR_INLINE FloatVec maskload(const Float16* p, int n, float rest) {
  const __m512 wide = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(firstLanes(n), p));
  return {_mm512_mask_blend_ps(firstLanes(n), _mm512_set1_ps(rest), wide)};
}
COLLAPSAR_INLINE FloatVec maskload(const BFloat16* p, int n, float rest) {
  const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(firstLanes(n), p)), 16);
  return {_mm512_mask_blend_ps(firstLanes(n), _mm512_set1_ps(rest), _mm512_castsi512_ps(wide))};
}

COLLAPSAR_INLINE FloatVec fma(FloatVec a, FloatVec b, FloatVec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
COLLAPSAR_INLINE DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
COLLAPSAR_INLINE FloatVec max(FloatVec a, FloatVec b) { return {_mm512_max_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec max(DoubleVec a, DoubleVec b) { return {_mm512_max_pd(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec min(FloatVec a, FloatVec b) { return {_mm512_min_ps(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec min(DoubleVec a, DoubleVec b) { return {_mm512_min_pd(a.v, b.v)}; }

COLLAPSAR_INLINE FloatVec powerOfEighths(FloatVec shifted) {
  const __m512i n = _mm512_castps_si512(shifted.v);
  const __m256i powers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kEighthPowers));
  const __m512i entry = _mm512_permutexvar_epi32(n, _mm512_broadcast_i64x4(powers));
  return {_mm512_castsi512_ps(_mm512_add_epi32(entry, _mm512_slli_epi32(n, 20)))};
}

struct FloatMask {
  __mmask16 m;
};
struct DoubleMask {
  __mmask8 m;
};
COLLAPSAR_INLINE FloatMask greater(FloatVec a, FloatVec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
COLLAPSAR_INLINE DoubleMask greater(DoubleVec a, DoubleVec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_GT_OQ)}; }
COLLAPSAR_INLINE FloatMask equal(FloatVec a, FloatVec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
COLLAPSAR_INLINE DoubleMask equal(DoubleVec a, DoubleVec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ)}; }
COLLAPSAR_INLINE bool any(FloatMask a) { return a.m != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return a.m != 0; }

COLLAPSAR_INLINE FloatMask notGreaterEqual(FloatVec a, FloatVec b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NGE_UQ)};
}
COLLAPSAR_INLINE DoubleMask notGreaterEqual(DoubleVec a, DoubleVec b) {
  return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_NGE_UQ)};
}
COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) { return {_mm512_mask_blend_ps(m.m, b.v, a.v)}; }
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {_mm512_mask_blend_pd(m.m, b.v, a.v)};
}
COLLAPSAR_INLINE FloatVec maskAdd(FloatMask m, FloatVec a, FloatVec b) {
  return {_mm512_mask_add_ps(a.v, m.m, a.v, b.v)};
}
COLLAPSAR_INLINE DoubleVec maskAdd(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {_mm512_mask_add_pd(a.v, m.m, a.v, b.v)};
}
COLLAPSAR_INLINE FloatVec interleaveLow(FloatVec a, FloatVec b) {
  const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(a.v, order, b.v)};
}
COLLAPSAR_INLINE FloatVec interleaveHigh(FloatVec a, FloatVec b) {
  const __m512i order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return {_mm512_permutex2var_ps(a.v, order, b.v)};
}
COLLAPSAR_INLINE DoubleVec interleaveLow(DoubleVec a, DoubleVec b) {
  return {_mm512_permutex2var_pd(a.v, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b.v)};
}
COLLAPSAR_INLINE DoubleVec interleaveHigh(DoubleVec a, DoubleVec b) {
  return {_mm512_permutex2var_pd(a.v, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b.v)};
}

// GCC 12 spills a mask as one byte or two, and counts the bits of four: hence the explicit move.
COLLAPSAR_INLINE uint32_t movemask(FloatMask a) {
  uint32_t bits;
  asm("kmovw %1, %0" : "=r"(bits) : "k"(a.m));
  return bits;
}
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) {
  uint32_t bits;
  asm("kmovb %1, %0" : "=r"(bits) : "k"(a.m));
  return bits;
}

// Scalar, beside the vectors: logitStats ranks 13% faster than with masked additions (Zen 5).
struct Counter {
  int64_t found = 0;
};
COLLAPSAR_INLINE void count(Counter& c, FloatMask a) { c.found += __builtin_popcount(movemask(a)); }
COLLAPSAR_INLINE void count(Counter& c, DoubleMask a) { c.found += __builtin_popcount(movemask(a)); }
COLLAPSAR_INLINE int64_t total(const Counter& c) { return c.found; }

COLLAPSAR_INLINE void widen(FloatVec a, DoubleVec* out) {
  out[0] = {_mm512_cvtps_pd(_mm512_castps512_ps256(a.v))};
  out[1] = {_mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1))};
}

COLLAPSAR_INLINE double reduceSum(DoubleVec a) {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a.v), _mm512_extractf64x4_pd(a.v, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
COLLAPSAR_INLINE float reduceMax(FloatVec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
COLLAPSAR_INLINE double reduceMax(DoubleVec a) {
  const __m256d four = _mm256_max_pd(_mm512_castpd512_pd256(a.v), _mm512_extractf64x4_pd(a.v, 1));
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace collapsar
