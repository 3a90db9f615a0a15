// Vectors of Advanced SIMD (NEON) on AArch64: 4 floats or 2 doubles. What each operation must do is said in
// vec_baseline.h. NEON's own maximum treats zeros and NaN otherwise than a > b ? a : b, hence compare and select.
#pragma once

#include <arm_neon.h>
#include <stdint.h>

#include "elements.h"
#include "engine/deterministic_math.h"

namespace collapsar {
namespace {

struct FloatVec {
  using Scalar = float;
  static constexpr int kLanes = 4;
  float32x4_t v;
};
struct DoubleVec {
  using Scalar = double;
  static constexpr int kLanes = 2;
  float64x2_t v;
};

COLLAPSAR_INLINE FloatVec splat(float x) { return {vdupq_n_f32(x)}; }
COLLAPSAR_INLINE DoubleVec splat(double x) { return {vdupq_n_f64(x)}; }

COLLAPSAR_INLINE FloatVec load(const float* p) { return {vld1q_f32(p)}; }
COLLAPSAR_INLINE DoubleVec load(const double* p) { return {vld1q_f64(p)}; }
COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))))};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  return {vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p)), 16))};
}
template <class T>
constexpr bool kHasMaskload = false;
COLLAPSAR_INLINE FloatVec maskload(const float* p, int n, float rest) {
  float lanes[4] = {rest, rest, rest, rest};
  for (int i = 0; i < n && i < 4; i++) lanes[i] = p[i];
  return load(lanes);
}
COLLAPSAR_INLINE DoubleVec maskload(const double* p, int n, double rest) {
  const double lanes[2] = {n > 0 ? p[0] : rest, n > 1 ? p[1] : rest};
  return load(lanes);
}
template <class Half>
COLLAPSAR_INLINE FloatVec maskloadHalves(const Half* p, int n, float rest) {
  Half halves[4] = {};
  for (int i = 0; i < n && i < 4; i++) halves[i] = p[i];
  float lanes[4];
  vst1q_f32(lanes, load(halves).v);
  for (int i = n < 0 ? 0 : n; i < 4; i++) lanes[i] = rest;
  return load(lanes);
}
COLLAPSAR_INLINE FloatVec maskload(const Float16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE FloatVec maskload(const BFloat16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {vcvt_f64_f32(vld1_f32(p))}; }
// 8 elements: those of even number, and those of odd.
COLLAPSAR_INLINE void loadEvenOdd(const BFloat16* p, FloatVec& even, FloatVec& odd) {
  const uint32x4_t words = vreinterpretq_u32_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(p)));
  even = {vreinterpretq_f32_u32(vshlq_n_u32(words, 16))};
  odd = {vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff0000u)))};
}
COLLAPSAR_INLINE void store(float* p, FloatVec a) { vst1q_f32(p, a.v); }
COLLAPSAR_INLINE void store(double* p, DoubleVec a) { vst1q_f64(p, a.v); }

COLLAPSAR_INLINE FloatVec add(FloatVec a, FloatVec b) { return {vaddq_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec add(DoubleVec a, DoubleVec b) { return {vaddq_f64(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec sub(FloatVec a, FloatVec b) { return {vsubq_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec sub(DoubleVec a, DoubleVec b) { return {vsubq_f64(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec mul(FloatVec a, FloatVec b) { return {vmulq_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec mul(DoubleVec a, DoubleVec b) { return {vmulq_f64(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec div(DoubleVec a, DoubleVec b) { return {vdivq_f64(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec fma(FloatVec a, FloatVec b, FloatVec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec max(FloatVec a, FloatVec b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec max(DoubleVec a, DoubleVec b) { return {vbslq_f64(vcgtq_f64(a.v, b.v), a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec min(FloatVec a, FloatVec b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec min(DoubleVec a, DoubleVec b) { return {vbslq_f64(vcltq_f64(a.v, b.v), a.v, b.v)}; }

COLLAPSAR_INLINE FloatVec powerOfEighths(FloatVec shifted) {
  const uint32x4_t n = vreinterpretq_u32_f32(shifted.v), j = vandq_u32(n, vdupq_n_u32(7));
  const uint8_t* powers = reinterpret_cast<const uint8_t*>(kEighthPowers);
  const uint8x16x2_t table = {{vld1q_u8(powers), vld1q_u8(powers + 16)}};
  // Entry j is the bytes 4j to 4j + 3.
  const uint32x4_t bytes = vmlaq_n_u32(vdupq_n_u32(0x03020100), j, 0x04040404);
  const uint32x4_t entry = vreinterpretq_u32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(bytes)));
  return {vreinterpretq_f32_u32(vaddq_u32(entry, vshlq_n_u32(n, 20)))};
}
COLLAPSAR_INLINE DoubleVec timesPowerOf2(DoubleVec p, DoubleVec shifted) {
  const uint64x2_t exponent = vshlq_n_u64(vreinterpretq_u64_f64(shifted.v), 52);
  return {vreinterpretq_f64_u64(vaddq_u64(vreinterpretq_u64_f64(p.v), exponent))};
}

struct FloatMask {
  uint32x4_t m;
};
struct DoubleMask {
  uint64x2_t m;
};
COLLAPSAR_INLINE FloatMask greater(FloatVec a, FloatVec b) { return {vcgtq_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleMask greater(DoubleVec a, DoubleVec b) { return {vcgtq_f64(a.v, b.v)}; }
COLLAPSAR_INLINE FloatMask equal(FloatVec a, FloatVec b) { return {vceqq_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleMask equal(DoubleVec a, DoubleVec b) { return {vceqq_f64(a.v, b.v)}; }
COLLAPSAR_INLINE bool any(FloatMask a) { return vmaxvq_u32(a.m) != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return vmaxvq_u32(vreinterpretq_u32_u64(a.m)) != 0; }

COLLAPSAR_INLINE FloatMask notGreaterEqual(FloatVec a, FloatVec b) { return {vmvnq_u32(vcgeq_f32(a.v, b.v))}; }
COLLAPSAR_INLINE DoubleMask notGreaterEqual(DoubleVec a, DoubleVec b) {
  return {vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(vcgeq_f64(a.v, b.v))))};
}
COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) { return {vbslq_f32(m.m, a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) { return {vbslq_f64(m.m, a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec maskAdd(FloatMask m, FloatVec a, FloatVec b) {
  return {vaddq_f32(a.v, vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(b.v), m.m)))};
}
COLLAPSAR_INLINE DoubleVec maskAdd(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {vaddq_f64(a.v, vreinterpretq_f64_u64(vandq_u64(vreinterpretq_u64_f64(b.v), m.m)))};
}
COLLAPSAR_INLINE FloatVec interleaveLow(FloatVec a, FloatVec b) { return {vzip1q_f32(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec interleaveHigh(FloatVec a, FloatVec b) { return {vzip2q_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec interleaveLow(DoubleVec a, DoubleVec b) { return {vzip1q_f64(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec interleaveHigh(DoubleVec a, DoubleVec b) { return {vzip2q_f64(a.v, b.v)}; }
COLLAPSAR_INLINE void splitPower(DoubleVec x, DoubleVec& m, DoubleVec& k) {
  const uint64x2_t cut = vdupq_n_u64(kLogCut), fromCut = vsubq_u64(vreinterpretq_u64_f64(x.v), cut);
  m.v = vreinterpretq_f64_u64(vaddq_u64(vandq_u64(fromCut, vdupq_n_u64(kSignificandBits)), cut));
  const uint64x2_t biased = vshrq_n_u64(vaddq_u64(fromCut, vdupq_n_u64(kExponentBias)), 52);
  k.v = vsubq_f64(vreinterpretq_f64_u64(vorrq_u64(biased, vdupq_n_u64(kTwo52Bits))), vdupq_n_f64(kTwo52AndBias));
}

COLLAPSAR_INLINE uint32_t movemask(FloatMask a) {
  const uint32x4_t bit = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(a.m, bit));
}
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) {
  return static_cast<uint32_t>((vgetq_lane_u64(a.m, 0) & 1) | (vgetq_lane_u64(a.m, 1) & 2));
}

// True lanes are all ones, which is -1: subtracting them counts.
struct Counter {
  uint32x4_t narrow = vdupq_n_u32(0);
  uint64x2_t wide = vdupq_n_u64(0);
};
COLLAPSAR_INLINE void count(Counter& c, FloatMask a) { c.narrow = vsubq_u32(c.narrow, a.m); }
COLLAPSAR_INLINE void count(Counter& c, DoubleMask a) { c.wide = vsubq_u64(c.wide, a.m); }
COLLAPSAR_INLINE int64_t total(const Counter& c) {
  return static_cast<int64_t>(vaddlvq_u32(c.narrow) + vaddvq_u64(c.wide));
}

COLLAPSAR_INLINE void widen(FloatVec a, DoubleVec* out) {
  out[0] = {vcvt_f64_f32(vget_low_f32(a.v))};
  out[1] = {vcvt_high_f64_f32(a.v)};
}

COLLAPSAR_INLINE double reduceSum(DoubleVec a) { return vgetq_lane_f64(a.v, 0) + vgetq_lane_f64(a.v, 1); }
COLLAPSAR_INLINE float reduceMax(FloatVec a) {
  const FloatVec two = max(a, {vextq_f32(a.v, a.v, 2)});
  const float x = vgetq_lane_f32(two.v, 0), y = vgetq_lane_f32(two.v, 1);
  return x > y ? x : y;
}
COLLAPSAR_INLINE double reduceMax(DoubleVec a) {
  const double x = vgetq_lane_f64(a.v, 0), y = vgetq_lane_f64(a.v, 1);
  return x > y ? x : y;
}

}  // namespace
}  // namespace collapsar
