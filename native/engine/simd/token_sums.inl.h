// How tokens are added to the lanes of a sum, and the sum of a leaf that comes in pieces.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernel_table.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

using TokenSum = Wide<DoubleVec, kTokenLanes>;

COLLAPSAR_INLINE void add32(TokenSum& sum, const double* tokens) {
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = add(sum.part[i], load(tokens + i * DoubleVec::kLanes));
}

COLLAPSAR_INLINE void add32(TokenSum& sum, const float* tokens) {
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = add(sum.part[i], loadWide(tokens + i * DoubleVec::kLanes));
}

template <class T>
COLLAPSAR_INLINE void add32(TokenSum& sum, const T* tokens) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < kTokenLanes / FloatVec::kLanes; i++) {
    DoubleVec wide[kRatio];
    widen(load(tokens + i * FloatVec::kLanes), wide);
#pragma GCC unroll 2
    for (int j = 0; j < kRatio; j++) sum.part[i * kRatio + j] = add(sum.part[i * kRatio + j], wide[j]);
  }
}

constexpr int kHalfLanes = kTokenLanes / 2;

// 16 tokens of which `rest` are there; +0 stands for the others.
template <class T>
COLLAPSAR_INLINE void loadHalf(const T* tokens, int rest, Wide<DoubleVec, kHalfLanes>& out) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < kHalfLanes / FloatVec::kLanes; i++) {
    DoubleVec wide[kRatio];
    widen(maskload(tokens + i * FloatVec::kLanes, rest - i * FloatVec::kLanes, 0), wide);
#pragma GCC unroll 2
    for (int j = 0; j < kRatio; j++) out.part[i * kRatio + j] = wide[j];
  }
}
COLLAPSAR_INLINE void loadHalf(const double* tokens, int rest, Wide<DoubleVec, kHalfLanes>& out) {
#pragma GCC unroll 16
  for (int i = 0; i < out.kParts; i++) {
    out.part[i] = maskload(tokens + i * DoubleVec::kLanes, rest - i * DoubleVec::kLanes, 0);
  }
}

// Less than 32: none maybe. Without a branch on how many, where loads are masked.
template <class T>
COLLAPSAR_INLINE void addFirst(TokenSum& sum, const T* tokens, int count) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    const int rest = count - half * kHalfLanes;
    if (!kHasMaskload<T> && rest <= 0) break;
    Wide<DoubleVec, kHalfLanes> more;
    loadHalf(tokens + half * kHalfLanes, rest, more);
#pragma GCC unroll 16
    for (int p = 0; p < more.kParts; p++) {
      DoubleVec& lanes = sum.part[half * more.kParts + p];
      lanes = add(lanes, more.part[p]);
    }
  }
}

// Tokens [t, count), where t is a multiple of 32: each goes to lane t mod 32. What is missing of the last 32 is +0,
// which changes no lane, for no lane is ever -0.
template <class T>
COLLAPSAR_INLINE void addRest(TokenSum& sum, const T* tokens, int64_t t, int64_t count) {
  for (; t + kTokenLanes <= count; t += kTokenLanes) add32(sum, tokens + t);
  addFirst(sum, tokens + t, static_cast<int>(count - t));
}

template <class T>
void addTokensOf(const void* source, int64_t count, double* lanes) {
  TokenSum sum;
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = load(lanes + i * DoubleVec::kLanes);
  addRest(sum, static_cast<const T*>(source), 0, count);
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) store(lanes + i * DoubleVec::kLanes, sum.part[i]);
}

double foldTokens(const double* lanes) {
  TokenSum sum;
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts; i++) sum.part[i] = load(lanes + i * DoubleVec::kLanes);
  return reduceSum<kTokenLanes>(sum);
}

}  // namespace
}  // namespace collapsar
