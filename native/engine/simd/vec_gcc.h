// Vectors of FloatRegister and DoubleRegister, which vec_<isa>.h names before it includes this file: what compilers
// offer on vectors of any width. Without COLLAPSAR_MASK_REGISTERS masks are vectors, too: all bits of a true lane.
//
// The definition of all operations, those of every vec_<isa>.h too. Each is one IEEE operation a lane, so that all sets
// give the same bits:
//   fma(a, b, c)         a*b + c, rounded once
//   max(a, b)            a > b ? a : b: of two zeros, or with a NaN, b
//   min(a, b)            a < b ? a : b, likewise
//   powerOfEighths(s)    2^(n/8) for n from -1008 up, where s = n + 1.5*2^23: n eighths added to kEighthPowers[n mod 8]
//   timesPowerOf2(p, s)  p 2^n, where s = n + 1.5*2^52, by integer addition to the exponent
//   reduceSum, reduceMax by halves: lane i with lane i + lanes/2, and so on
//   widen(f, out)        the lanes of f as doubles, in order
//   loadWide(p)          floats as doubles
//   loadEvenOdd(p, ...)  two registers of bfloat16: the elements of even number, and those of odd
//   maskload(p, n, x)    the first n from memory (all where n is above the lanes, up to 255; none where it is below 0),
//                        of which no more is read; x in the others
//   kHasMaskload<T>      maskload from T takes no branch: it pays where lengths are random
//   notGreaterEqual(a, b)  !(a >= b): also where one is NaN
//   movemask(m)          bit i: lane i
//   select(m, a, b)      m ? a : b
//   maskAdd(m, a, b)     m ? a + b : a, for an a that is not -0
//   interleaveLow, interleaveHigh  a0 b0 a1 b1 ... of the lower and of the upper halves
//   splitPower(x, m, k)  x = 2^k m with m in [sqrt(1/2), sqrt 2), for normal x > 0; finite values for others
#pragma once

#include <stdint.h>

#include "elements.h"
#include "engine/deterministic_math.h"

namespace collapsar {
namespace {

struct FloatVec {
  using Scalar = float;
  static constexpr int kLanes = sizeof(FloatRegister) / sizeof(float);
  FloatRegister v;
};
struct DoubleVec {
  using Scalar = double;
  static constexpr int kLanes = sizeof(DoubleRegister) / sizeof(double);
  DoubleRegister v;
};

typedef int32_t Ints __attribute__((vector_size(sizeof(FloatRegister))));
typedef uint32_t UInts __attribute__((vector_size(sizeof(FloatRegister))));
typedef int64_t Longs __attribute__((vector_size(sizeof(FloatRegister))));
typedef uint64_t ULongs __attribute__((vector_size(sizeof(FloatRegister))));
// At any address, of memory of any type.
typedef FloatRegister FloatsAt __attribute__((aligned(1), may_alias));
typedef DoubleRegister DoublesAt __attribute__((aligned(1), may_alias));
typedef UInts UIntsAt __attribute__((aligned(1), may_alias));

// x - 0 is x, also for -0, and no instruction.
COLLAPSAR_INLINE FloatVec splat(float x) { return {x - FloatRegister{}}; }
COLLAPSAR_INLINE DoubleVec splat(double x) { return {x - DoubleRegister{}}; }

COLLAPSAR_INLINE FloatVec load(const float* p) { return {*(const FloatsAt*)p}; }
COLLAPSAR_INLINE DoubleVec load(const double* p) { return {*(const DoublesAt*)p}; }
COLLAPSAR_INLINE void loadEvenOdd(const BFloat16* p, FloatVec& even, FloatVec& odd) {
  const UInts words = *(const UIntsAt*)p;
  even = {(FloatRegister)(words << 16)};
  odd = {(FloatRegister)(words & 0xffff0000u)};
}
COLLAPSAR_INLINE void store(float* p, FloatVec a) { *(FloatsAt*)p = a.v; }
COLLAPSAR_INLINE void store(double* p, DoubleVec a) { *(DoublesAt*)p = a.v; }

COLLAPSAR_INLINE FloatVec add(FloatVec a, FloatVec b) { return {a.v + b.v}; }
COLLAPSAR_INLINE DoubleVec add(DoubleVec a, DoubleVec b) { return {a.v + b.v}; }
COLLAPSAR_INLINE FloatVec sub(FloatVec a, FloatVec b) { return {a.v - b.v}; }
COLLAPSAR_INLINE DoubleVec sub(DoubleVec a, DoubleVec b) { return {a.v - b.v}; }
COLLAPSAR_INLINE FloatVec mul(FloatVec a, FloatVec b) { return {a.v * b.v}; }
COLLAPSAR_INLINE DoubleVec mul(DoubleVec a, DoubleVec b) { return {a.v * b.v}; }
COLLAPSAR_INLINE DoubleVec div(DoubleVec a, DoubleVec b) { return {a.v / b.v}; }

COLLAPSAR_INLINE DoubleVec timesPowerOf2(DoubleVec p, DoubleVec shifted) {
  return {(DoubleRegister)((ULongs)p.v + ((ULongs)shifted.v << 52))};
}
COLLAPSAR_INLINE void splitPower(DoubleVec x, DoubleVec& m, DoubleVec& k) {
  const ULongs fromCut = (ULongs)x.v - kLogCut;
  m.v = (DoubleRegister)((fromCut & kSignificandBits) + kLogCut);
  k.v = (DoubleRegister)(((fromCut + kExponentBias) >> 52) | kTwo52Bits) - kTwo52AndBias;
}

#if !defined(COLLAPSAR_MASK_REGISTERS)
struct FloatMask {
  Ints m;
};
struct DoubleMask {
  Longs m;
};
COLLAPSAR_INLINE FloatMask greater(FloatVec a, FloatVec b) { return {(Ints)(a.v > b.v)}; }
COLLAPSAR_INLINE DoubleMask greater(DoubleVec a, DoubleVec b) { return {(Longs)(a.v > b.v)}; }
COLLAPSAR_INLINE FloatMask equal(FloatVec a, FloatVec b) { return {(Ints)(a.v == b.v)}; }
COLLAPSAR_INLINE DoubleMask equal(DoubleVec a, DoubleVec b) { return {(Longs)(a.v == b.v)}; }
COLLAPSAR_INLINE FloatVec maskAdd(FloatMask m, FloatVec a, FloatVec b) {
  return {a.v + (FloatRegister)((Ints)b.v & m.m)};
}
COLLAPSAR_INLINE DoubleVec maskAdd(DoubleMask m, DoubleVec a, DoubleVec b) {
  return {a.v + (DoubleRegister)((Longs)b.v & m.m)};
}

// True lanes are -1: subtracting them counts.
struct Counter {
  Ints narrow = {};
  Longs wide = {};
};
COLLAPSAR_INLINE void count(Counter& c, FloatMask a) { c.narrow -= a.m; }
COLLAPSAR_INLINE void count(Counter& c, DoubleMask a) { c.wide -= a.m; }
COLLAPSAR_INLINE int64_t total(const Counter& c) {
  int32_t narrow[FloatVec::kLanes];
  int64_t wide[DoubleVec::kLanes], sum = 0;
  __builtin_memcpy(narrow, &c.narrow, sizeof narrow);
  __builtin_memcpy(wide, &c.wide, sizeof wide);
  for (const int32_t n : narrow) sum += n;
  for (const int64_t n : wide) sum += n;
  return sum;
}
#endif

#if !defined(__AVX2__)
COLLAPSAR_INLINE FloatVec max(FloatVec a, FloatVec b) { return {a.v > b.v ? a.v : b.v}; }
COLLAPSAR_INLINE DoubleVec max(DoubleVec a, DoubleVec b) { return {a.v > b.v ? a.v : b.v}; }
COLLAPSAR_INLINE FloatVec min(FloatVec a, FloatVec b) { return {a.v < b.v ? a.v : b.v}; }
COLLAPSAR_INLINE DoubleVec min(DoubleVec a, DoubleVec b) { return {a.v < b.v ? a.v : b.v}; }
COLLAPSAR_INLINE FloatMask notGreaterEqual(FloatVec a, FloatVec b) { return {~(Ints)(a.v >= b.v)}; }
COLLAPSAR_INLINE DoubleMask notGreaterEqual(DoubleVec a, DoubleVec b) { return {~(Longs)(a.v >= b.v)}; }

// Vectors of 16 bytes, and no masked loads: element by element.
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
  store(lanes, load(halves));
  for (int i = n < 0 ? 0 : n; i < 4; i++) lanes[i] = rest;
  return load(lanes);
}
COLLAPSAR_INLINE FloatVec maskload(const Float16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
COLLAPSAR_INLINE FloatVec maskload(const BFloat16* p, int n, float rest) { return maskloadHalves(p, n, rest); }
#endif

}  // namespace
}  // namespace collapsar
