// Vectors in the compiler's own terms, for machines without one of the other instruction sets; and the definition of
// what the operations of every vec_<isa>.h do. Each is one IEEE operation a lane, so that all give the same bits:
//   fma(a, b, c)         a*b + c, rounded once
//   max(a, b)         a > b ? a : b: of two zeros, or with a NaN, b
//   min(a, b)        a < b ? a : b, likewise
//   powerOfEighths(s)    2^(n/8) for n from -1008 up, where s = n + 1.5*2^23: n eighths added to kEighthPowers[n mod 8]
//   timesPowerOf2(p, s)  p 2^n, where s = n + 1.5*2^52, by integer addition to the exponent
//   reduceSum, reduceMax  by halves: lane i with lane i + lanes/2, and so on
//   widen(f, out)        the lanes of f as doubles, in order
//   loadWide(p)          floats as doubles
//   maskload(p, n, x)   the first n from memory (all where n is above the lanes, up to 255; none where it is below 0),
//                        of which no more is read; x in the others
//   kHasMaskload<T>       maskload from T takes no branch: it pays where lengths are random
//   notGreaterEqual(a, b)          !(a >= b): also where one is NaN
//   movemask(m)          bit i: lane i
//   select(m, a, b)      m ? a : b
//   maskAdd(m, a, b)    m ? a + b : a, for an a that is not -0
//   interleaveLow, interleaveHigh      a0 b0 a1 b1 ... of the lower and of the upper halves
//   splitPower(x, m, k)  x = 2^k m with m in [sqrt(1/2), sqrt 2), for normal x > 0; finite values for others
#pragma once

#include <stdint.h>

#include "elements.h"
#include "engine/deterministic_math.h"

namespace collapsar {
namespace {

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double2 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef int64_t Long2 __attribute__((vector_size(16)));

struct FloatVec {
  using Scalar = float;
  static constexpr int kLanes = 4;
  Float4 v;
};
struct DoubleVec {
  using Scalar = double;
  static constexpr int kLanes = 2;
  Double2 v;
};

COLLAPSAR_INLINE FloatVec splat(float x) { return {Float4{x, x, x, x}}; }
COLLAPSAR_INLINE DoubleVec splat(double x) { return {Double2{x, x}}; }

COLLAPSAR_INLINE FloatVec load(const float* p) {
  FloatVec a;
  __builtin_memcpy(&a.v, p, sizeof a.v);
  return a;
}
COLLAPSAR_INLINE DoubleVec load(const double* p) {
  DoubleVec a;
  __builtin_memcpy(&a.v, p, sizeof a.v);
  return a;
}
COLLAPSAR_INLINE FloatVec load(const Float16* p) {
  const Int4 half = {p[0].bits, p[1].bits, p[2].bits, p[3].bits};
  // The significand and exponent as a float whose exponent is 112 too small (subnormal ones come out right by the
  // product); inf and NaN get the largest exponent.
  const Int4 magnitude = (half & 0x7fff) << 13;
  const Float4 scaled = (Float4)magnitude * 0x1p112f;
  const Int4 special = (magnitude >= 0x0f800000) & 0x7f800000;
  return {(Float4)((Int4)scaled | special | (half & 0x8000) << 16)};
}
COLLAPSAR_INLINE FloatVec load(const BFloat16* p) {
  const Int4 half = {p[0].bits, p[1].bits, p[2].bits, p[3].bits};
  return {(Float4)(half << 16)};
}
template <class T>
constexpr bool kHasMaskload = false;
COLLAPSAR_INLINE FloatVec maskload(const float* p, int n, float rest) {
  float lanes[4] = {rest, rest, rest, rest};
  for (int i = 0; i < n && i < 4; i++) lanes[i] = p[i];
  return load(lanes);
}
COLLAPSAR_INLINE DoubleVec maskload(const double* p, int n, double rest) {
  return {Double2{n > 0 ? p[0] : rest, n > 1 ? p[1] : rest}};
}
template <class Half>
COLLAPSAR_INLINE FloatVec maskloadHalves(const Half* p, int n, float rest) {
  Half halves[4] = {};
  for (int i = 0; i < n && i < 4; i++) halves[i] = p[i];
  FloatVec a = load(halves);
  for (int i = n < 0 ? 0 : n; i < 4; i++) a.v[i] = rest;
  return a;
}
COLLAPSAR_INLINE FloatVec maskload(const Float16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE FloatVec maskload(const BFloat16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE DoubleVec loadWide(const float* p) { return {Double2{p[0], p[1]}}; }
// 8 elements: those of even number, and those of odd.
COLLAPSAR_INLINE void loadEvenOdd(const BFloat16* p, FloatVec& even, FloatVec& odd) {
  even = {(Float4)(Int4{p[0].bits, p[2].bits, p[4].bits, p[6].bits} << 16)};
  odd = {(Float4)(Int4{p[1].bits, p[3].bits, p[5].bits, p[7].bits} << 16)};
}
COLLAPSAR_INLINE void store(float* p, FloatVec a) { __builtin_memcpy(p, &a.v, sizeof a.v); }
COLLAPSAR_INLINE void store(double* p, DoubleVec a) { __builtin_memcpy(p, &a.v, sizeof a.v); }

COLLAPSAR_INLINE FloatVec add(FloatVec a, FloatVec b) { return {a.v + b.v}; }
COLLAPSAR_INLINE DoubleVec add(DoubleVec a, DoubleVec b) { return {a.v + b.v}; }
COLLAPSAR_INLINE FloatVec sub(FloatVec a, FloatVec b) { return {a.v - b.v}; }
COLLAPSAR_INLINE DoubleVec sub(DoubleVec a, DoubleVec b) { return {a.v - b.v}; }
COLLAPSAR_INLINE FloatVec mul(FloatVec a, FloatVec b) { return {a.v * b.v}; }
COLLAPSAR_INLINE DoubleVec mul(DoubleVec a, DoubleVec b) { return {a.v * b.v}; }
#if defined(__FMA__) || defined(__aarch64__)
#define COLLAPSAR_FMA_IN_HARDWARE 1
#endif

// p + c, rounded to odd: what is not exact gets an odd last bit, so that rounding it once more, to float, gives what
// rounding the exact sum would (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
COLLAPSAR_INLINE Double2 addToOdd(Double2 p, Double2 c) {
  const Double2 sum = p + c, ofC = sum - p, lost = (p - (sum - ofC)) + (c - ofC);  // Knuth's two-sum
  const Long2 below = lost < 0.0, inexact = below | (lost > 0.0);                  // false for infinities and NaN
  const Long2 truncated = (Long2)sum + (inexact & (below ^ (sum < 0.0)));
  return (Double2)(truncated | (inexact & 1));
}

// Calls: inlined, they double the time to compile the kernels, for nothing.
inline __attribute__((noinline)) FloatVec fma(FloatVec a, FloatVec b, FloatVec c) {
#ifdef COLLAPSAR_FMA_IN_HARDWARE
  FloatVec out;
  for (int i = 0; i < 4; i++) out.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return out;
#else
  // The product of two floats is exact as a double. libm's fmaf takes 20 times as long where the processor has no
  // instruction for it (logitStats .001 -> .025 G elements/s).
  const auto half = [&](int i) __attribute__((always_inline)) {
    const Double2 product = Double2{a.v[i], a.v[i + 1]} * Double2{b.v[i], b.v[i + 1]};
    return addToOdd(product, Double2{c.v[i], c.v[i + 1]});
  };
  const Double2 low = half(0), high = half(2);
  return {Float4{(float)low[0], (float)low[1], (float)high[0], (float)high[1]}};
#endif
}
COLLAPSAR_INLINE DoubleVec div(DoubleVec a, DoubleVec b) { return {a.v / b.v}; }
inline __attribute__((noinline)) DoubleVec fma(DoubleVec a, DoubleVec b, DoubleVec c) {
  return {Double2{__builtin_fma(a.v[0], b.v[0], c.v[0]), __builtin_fma(a.v[1], b.v[1], c.v[1])}};
}
COLLAPSAR_INLINE FloatVec max(FloatVec a, FloatVec b) { return {a.v > b.v ? a.v : b.v}; }
COLLAPSAR_INLINE DoubleVec max(DoubleVec a, DoubleVec b) { return {a.v > b.v ? a.v : b.v}; }
COLLAPSAR_INLINE FloatVec min(FloatVec a, FloatVec b) { return {a.v < b.v ? a.v : b.v}; }
COLLAPSAR_INLINE DoubleVec min(DoubleVec a, DoubleVec b) { return {a.v < b.v ? a.v : b.v}; }

typedef uint32_t UInt4 __attribute__((vector_size(16)));
typedef uint64_t ULong2 __attribute__((vector_size(16)));
COLLAPSAR_INLINE FloatVec powerOfEighths(FloatVec shifted) {
  const UInt4 n = (UInt4)shifted.v, j = n & 7;
  const UInt4 entry = {kEighthPowers[j[0]], kEighthPowers[j[1]], kEighthPowers[j[2]], kEighthPowers[j[3]]};
  return {(Float4)(entry + (n << 20))};
}
COLLAPSAR_INLINE DoubleVec timesPowerOf2(DoubleVec p, DoubleVec shifted) {
  return {(Double2)((ULong2)p.v + ((ULong2)shifted.v << 52))};
}

struct FloatMask {
  Int4 m;
};
struct DoubleMask {
  Long2 m;
};
COLLAPSAR_INLINE FloatMask greater(FloatVec a, FloatVec b) { return {a.v > b.v}; }
COLLAPSAR_INLINE DoubleMask greater(DoubleVec a, DoubleVec b) { return {a.v > b.v}; }
COLLAPSAR_INLINE FloatMask equal(FloatVec a, FloatVec b) { return {a.v == b.v}; }
COLLAPSAR_INLINE DoubleMask equal(DoubleVec a, DoubleVec b) { return {a.v == b.v}; }
COLLAPSAR_INLINE bool any(FloatMask a) { return (a.m[0] | a.m[1] | a.m[2] | a.m[3]) != 0; }
COLLAPSAR_INLINE bool any(DoubleMask a) { return (a.m[0] | a.m[1]) != 0; }

COLLAPSAR_INLINE FloatMask notGreaterEqual(FloatVec a, FloatVec b) { return {~(a.v >= b.v)}; }
COLLAPSAR_INLINE DoubleMask notGreaterEqual(DoubleVec a, DoubleVec b) { return {~(a.v >= b.v)}; }
COLLAPSAR_INLINE FloatVec select(FloatMask m, FloatVec a, FloatVec b) {
  return {(Float4)(((Int4)a.v & m.m) | ((Int4)b.v & ~m.m))};
}
COLLAPSAR_INLINE DoubleVec select(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {(Double2)(((Long2)a.v & m.m) | ((Long2)b.v & ~m.m))};
}
COLLAPSAR_INLINE FloatVec maskAdd(FloatMask m, FloatVec a, FloatVec b) { return {a.v + (Float4)((Int4)b.v & m.m)}; }
COLLAPSAR_INLINE DoubleVec maskAdd(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {a.v + (Double2)((Long2)b.v & m.m)};
}
COLLAPSAR_INLINE FloatVec interleaveLow(FloatVec a, FloatVec b) { return {Float4{a.v[0], b.v[0], a.v[1], b.v[1]}}; }
COLLAPSAR_INLINE FloatVec interleaveHigh(FloatVec a, FloatVec b) { return {Float4{a.v[2], b.v[2], a.v[3], b.v[3]}}; }
COLLAPSAR_INLINE DoubleVec interleaveLow(DoubleVec a, DoubleVec b) { return {Double2{a.v[0], b.v[0]}}; }
COLLAPSAR_INLINE DoubleVec interleaveHigh(DoubleVec a, DoubleVec b) { return {Double2{a.v[1], b.v[1]}}; }
COLLAPSAR_INLINE void splitPower(DoubleVec x, DoubleVec& m, DoubleVec& k) {
  const ULong2 fromCut = (ULong2)x.v - kLogCut;
  m.v = (Double2)((fromCut & kSignificandBits) + kLogCut);
  k.v = (Double2)(((fromCut + kExponentBias) >> 52) | kTwo52Bits) - kTwo52AndBias;
}

COLLAPSAR_INLINE uint32_t movemask(FloatMask a) {
  return (a.m[0] & 1u) | (a.m[1] & 2u) | (a.m[2] & 4u) | (a.m[3] & 8u);
}
COLLAPSAR_INLINE uint32_t movemask(DoubleMask a) { return static_cast<uint32_t>((a.m[0] & 1) | (a.m[1] & 2)); }

// True lanes are -1: subtracting them counts.
struct Counter {
  Int4 narrow = {0, 0, 0, 0};
  Long2 wide = {0, 0};
};
COLLAPSAR_INLINE void count(Counter& c, FloatMask a) { c.narrow -= a.m; }
COLLAPSAR_INLINE void count(Counter& c, DoubleMask a) { c.wide -= a.m; }
COLLAPSAR_INLINE int64_t total(const Counter& c) {
  return int64_t{c.narrow[0]} + c.narrow[1] + c.narrow[2] + c.narrow[3] + c.wide[0] + c.wide[1];
}

COLLAPSAR_INLINE void widen(FloatVec a, DoubleVec* out) {
  out[0] = {Double2{a.v[0], a.v[1]}};
  out[1] = {Double2{a.v[2], a.v[3]}};
}

COLLAPSAR_INLINE double reduceSum(DoubleVec a) { return a.v[0] + a.v[1]; }
COLLAPSAR_INLINE float reduceMax(FloatVec a) {
  const float x = a.v[0] > a.v[2] ? a.v[0] : a.v[2], y = a.v[1] > a.v[3] ? a.v[1] : a.v[3];
  return x > y ? x : y;
}
COLLAPSAR_INLINE double reduceMax(DoubleVec a) { return a.v[0] > a.v[1] ? a.v[0] : a.v[1]; }

}  // namespace
}  // namespace collapsar
