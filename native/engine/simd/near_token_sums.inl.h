// Token sums of what is in a cache: segments are summed two at a time, and nothing is asked for ahead.
#pragma once

#include <stdint.h>

#include "kernel_table.h"
#include "short_token_sums.inl.h"
#include "token_sums.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// Two segments at once, where registers hold the lanes of both: additions wait less for the ones before them.
constexpr bool kPairsFit = TokenSum::kParts <= 4;

template <class T>
COLLAPSAR_INLINE void addPair(TokenSum& a, const T* tokensA, int64_t countA, TokenSum& b, const T* tokensB,
                              int64_t countB) {
  int64_t t = 0;
  if constexpr (kPairsFit) {
    const int64_t common = countA < countB ? countA : countB;
    for (; t + kTokenLanes <= common; t += kTokenLanes) {
      add32(a, tokensA + t);
      add32(b, tokensB + t);
    }
  }
  addRest(a, tokensA, t, countA);
  addRest(b, tokensB, t, countB);
}

// 16-bit elements are widened into strips in the L1 cache: converting to float64 from memory costs half.
constexpr int64_t kStripTokens = 512;

// The order in which a strip stands, and how its lanes are folded. Float16: as the tokens came.
COLLAPSAR_INLINE void widenStrip(const Float16* tokens, int64_t count, float* strip) {
  int64_t t = 0;
  for (; t + FloatVec::kLanes <= count; t += FloatVec::kLanes) store(strip + t, load(tokens + t));
  if (t < count) store(strip + t, maskload(tokens + t, static_cast<int>(count - t), 0));
}
COLLAPSAR_INLINE double foldStrips(const TokenSum& sum, const Float16*) { return reduceSum<kTokenLanes>(sum); }

// BFloat16: of every 32 tokens first those of even number, then the odd ones, which takes no shuffling. Folded by
// halves, the even lanes are one sum and the odd ones another until the last addition.
COLLAPSAR_INLINE void widenStrip(const BFloat16* tokens, int64_t count, float* strip) {
  constexpr int kPair = 2 * FloatVec::kLanes;  // elements that one loadEvenOdd takes
  const auto widen32 = [](const BFloat16* from, float* to) {
#pragma GCC unroll 4
    for (int i = 0; i < kTokenLanes / kPair; i++) {
      FloatVec even, odd;
      loadEvenOdd(from + i * kPair, even, odd);
      store(to + i * FloatVec::kLanes, even);
      store(to + kTokenLanes / 2 + i * FloatVec::kLanes, odd);
    }
  };
  int64_t t = 0;
  for (; t + kTokenLanes <= count; t += kTokenLanes) widen32(tokens + t, strip + t);
  if (t < count) {
    BFloat16 rest[kTokenLanes] = {};
    for (int64_t i = 0; i < count - t; i++) rest[i] = tokens[t + i];
    widen32(rest, strip + t);
  }
}
COLLAPSAR_INLINE double foldStrips(const TokenSum& sum, const BFloat16*) {
  Wide<DoubleVec, kTokenLanes / 2> even, odd;
#pragma GCC unroll 16
  for (int i = 0; i < TokenSum::kParts / 2; i++) {
    even.part[i] = sum.part[i];
    odd.part[i] = sum.part[TokenSum::kParts / 2 + i];
  }
  return reduceSum<kTokenLanes / 2>(even) + reduceSum<kTokenLanes / 2>(odd);
}

// In a strip the last 32 tokens are all there: +0 stands for what is missing of them.
COLLAPSAR_INLINE int64_t stripLength(int64_t count) {
  if (count <= 0) return 0;
  return count < kStripTokens ? (count + kTokenLanes - 1) / kTokenLanes * kTokenLanes : kStripTokens;
}
template <class T>
COLLAPSAR_INLINE void fillStrip(const T* tokens, int64_t count, float* strip) {
  const int64_t present = count < kStripTokens ? count : kStripTokens;
  if (present <= 0) return;
  const int64_t length = stripLength(count);
  for (int64_t t = length - kTokenLanes; t < length; t += FloatVec::kLanes) store(strip + t, splat(0.0f));
  widenStrip(tokens, present, strip);
}

template <class T>
COLLAPSAR_INLINE void sumPair(const T* tokensA, int64_t countA, const T* tokensB, int64_t countB, double* sums) {
  TokenSum a = splat<DoubleVec, kTokenLanes>(0.0), b = splat<DoubleVec, kTokenLanes>(0.0);
  if constexpr (sizeof(T) > 2) {
    addPair(a, tokensA, countA, b, tokensB, countB);
    sums[0] = reduceSum<kTokenLanes>(a);
    sums[1] = reduceSum<kTokenLanes>(b);
  } else {
    alignas(64) float strips[2][kStripTokens];
    const int64_t longest = countA < countB ? countB : countA;
    for (int64_t begin = 0; begin < longest; begin += kStripTokens) {
      fillStrip(tokensA + begin, countA - begin, strips[0]);
      fillStrip(tokensB + begin, countB - begin, strips[1]);
      addPair(a, strips[0], stripLength(countA - begin), b, strips[1], stripLength(countB - begin));
    }
    sums[0] = foldStrips(a, tokensA);
    sums[1] = foldStrips(b, tokensB);
  }
}

template <class T>
void sumNearSegmentsOf(const void* data, const int64_t* starts, const int64_t* lengths, int64_t count, double* sums) {
  const T* tokens = static_cast<const T*>(data);
  if (kHasMaskload<T> && longestOf(lengths, count) <= kShortTokens) {
    return sumShortSegments<Asking::Nothing>(tokens, starts, lengths, count, sums);
  }
  int64_t i = 0;
  for (; i + 2 <= count; i += 2) {
    sumPair(tokens + starts[i], lengths[i], tokens + starts[i + 1], lengths[i + 1], sums + i);
  }
  if (i < count) {
    double pair[2];
    sumPair(tokens + starts[i], lengths[i], tokens + starts[i], 0, pair);
    sums[i] = pair[0];
  }
}

}  // namespace
}  // namespace collapsar
