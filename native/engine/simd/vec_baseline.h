// Vectors in the compiler's own terms, for machines without one of the other instruction sets. What each operation must
// do is said in vec_gcc.h.
#pragma once

namespace collapsar {
namespace {
typedef float FloatRegister __attribute__((vector_size(16)));
typedef double DoubleRegister __attribute__((vector_size(16)));
}  // namespace
}  // namespace collapsar

#include "vec_gcc.h"

namespace collapsar {
namespace {

COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  const Ints half = {p[0].bits, p[1].bits, p[2].bits, p[3].bits};
  // The significand and exponent as a float whose exponent is 112 too small (subnormal ones come out right by the
  // product); inf and NaN get the largest exponent.
  const Ints magnitude = (half & 0x7fff) << 13;
  const FloatRegister scaled = (FloatRegister)magnitude * 0x1p112f;
  const Ints special = (magnitude >= 0x0f800000) & 0x7f800000;
  return {(FloatRegister)((Ints)scaled | special | (half & 0x8000) << 16)};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  const Ints half = {p[0].bits, p[1].bits, p[2].bits, p[3].bits};
  return {(FloatRegister)(half << 16)};
}
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {DoubleRegister{p[0], p[1]}}; }

#if defined(__FMA__) || defined(__aarch64__)
#define COLLAPSAR_FMA_IN_HARDWARE 1
#endif

// p + c, rounded to odd: what is not exact gets an odd last bit, so that rounding it once more, to float, gives what
// rounding the exact sum would (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
COLLAPSAR_INLINE DoubleRegister addToOdd(DoubleRegister p, DoubleRegister c) {
  const DoubleRegister sum = p + c, ofC = sum - p, lost = (p - (sum - ofC)) + (c - ofC);  // Knuth's two-sum
  const Longs below = lost < 0.0, inexact = below | (lost > 0.0);  // false for infinities and NaN
  const Longs truncated = (Longs)sum + (inexact & (below ^ (sum < 0.0)));
  return (DoubleRegister)(truncated | (inexact & 1));
}

// Calls: inlined, they double the time to compile the kernels, for nothing.
inline __attribute__((noinline)) FloatVec fma(FloatVec a, FloatVec b, FloatVec c) {
#ifdef COLLAPSAR_FMA_IN_HARDWARE
  FloatVec out;
  for (int i = 0; i < 4; i++) out.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return out;
#else
  // The product of two floats is exact as a double. Without an instruction for it libm's fmaf takes 20 times as long.
  const auto half = [&](int i) __attribute__((always_inline)) {
    const DoubleRegister product = DoubleRegister{a.v[i], a.v[i + 1]} * DoubleRegister{b.v[i], b.v[i + 1]};
    return addToOdd(product, DoubleRegister{c.v[i], c.v[i + 1]});
  };
  const DoubleRegister low = half(0), high = half(2);
  return {FloatRegister{(float)low[0], (float)low[1], (float)high[0], (float)high[1]}};
#endif
}
inline __attribute__((noinline)) DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) {
  return {DoubleRegister{__builtin_fma(a.v[0], b.v[0], c.v[0]), __builtin_fma(a.v[1], b.v[1], c.v[1])}};
}

COLLAPSAR_INLINE FloatVec powerOfEighths(FloatVec shifted) {
  const UInts n = (UInts)shifted.v, j = n & 7;
  const UInts entry = {kEighthPowers[j[0]], kEighthPowers[j[1]], kEighthPowers[j[2]], kEighthPowers[j[3]]};
  return {(FloatRegister)(entry + (n << 20))};
}

COLLAPSAR_INLINE bool any(FloatMask a) { return (a.m[0] | a.m[1] | a.m[2] | a.m[3]) != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return (a.m[0] | a.m[1]) != 0; }

COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) {
  return {(FloatRegister)(((Ints)a.v & m.m) | ((Ints)b.v & ~m.m))};
}
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {(DoubleRegister)(((Longs)a.v & m.m) | ((Longs)b.v & ~m.m))};
}
COLLAPSAR_INLINE FloatVec interleaveLow(FloatVec a, FloatVec b) {
  return {FloatRegister{a.v[0], b.v[0], a.v[1], b.v[1]}};
}
COLLAPSAR_INLINE FloatVec interleaveHigh(FloatVec a, FloatVec b) {
  return {FloatRegister{a.v[2], b.v[2], a.v[3], b.v[3]}};
}
COLLAPSAR_INLINE DoubleVec interleaveLow(DoubleVec a, DoubleVec b) { return {DoubleRegister{a.v[0], b.v[0]}}; }
COLLAPSAR_INLINE DoubleVec interleaveHigh(DoubleVec a, DoubleVec b) { return {DoubleRegister{a.v[1], b.v[1]}}; }

COLLAPSAR_INLINE uint32_t movemask(FloatMask a) {
  return (a.m[0] & 1u) | (a.m[1] & 2u) | (a.m[2] & 4u) | (a.m[3] & 8u);
}
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) { return static_cast<uint32_t>((a.m[0] & 1) | (a.m[1] & 2)); }

COLLAPSAR_INLINE void widen(FloatVec a, DoubleVec* out) {
  out[0] = {DoubleRegister{a.v[0], a.v[1]}};
  out[1] = {DoubleRegister{a.v[2], a.v[3]}};
}

COLLAPSAR_INLINE double reduceSum(DoubleVec a) { return a.v[0] + a.v[1]; }
COLLAPSAR_INLINE float reduceMax(FloatVec a) {
  const float x = a.v[0] > a.v[2] ? a.v[0] : a.v[2], y = a.v[1] > a.v[3] ? a.v[1] : a.v[3];
  return x > y ? x : y;
}
COLLAPSAR_INLINE double reduceMax(DoubleVec a) { return a.v[0] > a.v[1] ? a.v[0] : a.v[1]; }

}  // namespace
}  // namespace collapsar
