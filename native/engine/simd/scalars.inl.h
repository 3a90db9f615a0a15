// What kernels know of their scalar types: the vectors of each, infinity and NaN, and the next number below.
#pragma once

#include <stdint.h>

#include "engine/deterministic_math.h"

namespace collapsar {
namespace {

template <class C>
struct VecOf;
template <>
struct VecOf<float> {
  using V = FloatVec;
};
template <>
struct VecOf<double> {
  using V = DoubleVec;
};

constexpr double kInfinity = __builtin_inf();
constexpr double kUndefined = __builtin_nan("");

COLLAPSAR_INLINE float nextBelow(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits = x > 0 ? bits - 1 : x < 0 ? bits + 1 : static_cast<int32_t>(0x80000001u);
  __builtin_memcpy(&x, &bits, sizeof bits);
  return x;
}
COLLAPSAR_INLINE double nextBelow(double x) {
  const uint64_t bits = bitsOf(x);
  return fromBits(x > 0 ? bits - 1 : x < 0 ? bits + 1 : 0x8000000000000001u);
}

}  // namespace
}  // namespace collapsar
