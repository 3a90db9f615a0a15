// Vectors of Advanced SIMD (NEON) on AArch64: 4 floats or 2 doubles. What each operation must do is said in
// vec_gcc.h.
#pragma once

#include <arm_neon.h>
#include <stdint.h>

namespace collapsar {
namespace {
using FloatRegister = float32x4_t;
using DoubleRegister = float64x2_t;
}  // namespace
}  // namespace collapsar

#include "vec_gcc.h"

namespace collapsar {
namespace {

COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))))};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  return {vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p)), 16))};
}
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {vcvt_f64_f32(vld1_f32(p))}; }

COLLAPSAR_INLINE FloatVec fma(FloatVec a, FloatVec b, FloatVec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) { return {vfmaq_f64(c.v, a.v, b.v)}; }

COLLAPSAR_INLINE FloatVec powerOfEighths(FloatVec shifted) {
  const uint32x4_t n = vreinterpretq_u32_f32(shifted.v), j = vandq_u32(n, vdupq_n_u32(7));
  const uint8_t* powers = reinterpret_cast<const uint8_t*>(kEighthPowers);
  const uint8x16x2_t table = {{vld1q_u8(powers), vld1q_u8(powers + 16)}};
  // Entry j is the bytes 4j to 4j + 3.
  const uint32x4_t bytes = vmlaq_n_u32(vdupq_n_u32(0x03020100), j, 0x04040404);
  const uint32x4_t entry = vreinterpretq_u32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(bytes)));
  return {vreinterpretq_f32_u32(vaddq_u32(entry, vshlq_n_u32(n, 20)))};
}

COLLAPSAR_INLINE bool any(FloatMask a) { return vmaxvq_u32((uint32x4_t)a.m) != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return vmaxvq_u32((uint32x4_t)a.m) != 0; }

COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) { return {vbslq_f32((uint32x4_t)m.m, a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {vbslq_f64((uint64x2_t)m.m, a.v, b.v)};
}
COLLAPSAR_INLINE FloatVec interleaveLow(FloatVec a, FloatVec b) { return {vzip1q_f32(a.v, b.v)}; }
COLLAPSAR_INLINE FloatVec interleaveHigh(FloatVec a, FloatVec b) { return {vzip2q_f32(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec interleaveLow(DoubleVec a, DoubleVec b) { return {vzip1q_f64(a.v, b.v)}; }
COLLAPSAR_INLINE DoubleVec interleaveHigh(DoubleVec a, DoubleVec b) { return {vzip2q_f64(a.v, b.v)}; }

COLLAPSAR_INLINE uint32_t movemask(FloatMask a) {
  const uint32x4_t bit = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32((uint32x4_t)a.m, bit));
}
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) { return static_cast<uint32_t>((a.m[0] & 1) | (a.m[1] & 2)); }

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
