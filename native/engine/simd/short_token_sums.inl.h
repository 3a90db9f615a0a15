// Token sums of short segments: a handful of vectors each, taken without a branch that depends on a segment's length.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernel_table.h"
#include "token_sums.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// With random lengths branches on them are mispredicted, which costs more than a short sum. Eight segments at a time
// take the way of their longest, with masked vectors: half the time at 16 tokens, two thirds at 64 (AVX-512, float32).
constexpr int64_t kShortTokens = 96;
constexpr int kShortGroup = 8;

constexpr uintptr_t kLineBytes = 64;
enum class Cache { L1, L2 };

template <Cache kInto>
COLLAPSAR_INLINE void askFor(uintptr_t address) {
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, kInto == Cache::L1 ? 3 : 2);
}

// What memory is asked for segments to come. L2First: in .9 of the time of L1 (Emerald Rapids, 64 tokens).
enum class Asking { Nothing, L1, L2First };
constexpr int64_t kShortAhead = 32;                        // segments
constexpr int kShortNearLines = 32, kShortFarLines = 128;  // by way of the L2 cache

// For one segment, as long as they may be: to leave out what is padding takes longer.
template <int Halves, Cache kInto, class T>
COLLAPSAR_INLINE void askForSegment(const T* tokens) {
  const auto begin = reinterpret_cast<uintptr_t>(tokens);
#pragma GCC unroll 16
  for (uintptr_t at = 0; at < Halves * kHalfLanes * sizeof(T); at += kLineBytes) askFor<kInto>(begin + at);
}

// Segments [begin, end) of `count`, none longer than Halves times 16 tokens.
template <int Halves, Asking kAsking, class T>
void sumHalves(const T* tokens, const int64_t* starts, const int64_t* lengths, int64_t begin, int64_t end,
               int64_t count, double* sums) {
  constexpr int kLines = (Halves * kHalfLanes * static_cast<int>(sizeof(T)) + kLineBytes - 1) / kLineBytes;
  const auto later = [&](int64_t i, int64_t ahead) { return tokens + starts[i + ahead < count ? i + ahead : i]; };
  for (int64_t i = begin; i < end; i++) {
    if constexpr (kAsking == Asking::L1) {
      askForSegment<Halves, Cache::L1>(later(i, kShortAhead));
    } else if constexpr (kAsking == Asking::L2First) {
      askForSegment<Halves, Cache::L2>(later(i, kShortFarLines / kLines));
      askForSegment<Halves, Cache::L1>(later(i, kShortNearLines / kLines));
    }
    // Lanes begin with their first token, not with +0: that differs for -0 alone, which the last addition makes +0.
    Wide<DoubleVec, kHalfLanes> low, high = splat<DoubleVec, kHalfLanes>(0.0);
    const T* from = tokens + starts[i];
    const int length = static_cast<int>(lengths[i]);
    loadHalf(from, length, low);
    if (Halves > 1) loadHalf(from + kHalfLanes, length - kHalfLanes, high);
#pragma GCC unroll 8
    for (int h = 2; h < Halves; h++) {
      Wide<DoubleVec, kHalfLanes> more;
      loadHalf(from + h * kHalfLanes, length - h * kHalfLanes, more);
      Wide<DoubleVec, kHalfLanes>& sum = h % 2 == 0 ? low : high;
#pragma GCC unroll 16
      for (int p = 0; p < sum.kParts; p++) sum.part[p] = add(sum.part[p], more.part[p]);
    }
    if (Halves > 1) {
#pragma GCC unroll 16
      for (int p = 0; p < low.kParts; p++) low.part[p] = add(low.part[p], high.part[p]);
    }
    sums[i] = reduceSum<kHalfLanes>(low) + 0.0;
  }
}

COLLAPSAR_INLINE int64_t longestOf(const int64_t* lengths, int64_t count) {
  int64_t longest = 0;
  for (int64_t i = 0; i < count; i++) longest = longest < lengths[i] ? lengths[i] : longest;
  return longest;
}

// No segment longer than kShortTokens.
template <Asking kAsking, class T>
void sumShortSegments(const T* tokens, const int64_t* starts, const int64_t* lengths, int64_t count, double* sums) {
  using Sum = void (*)(const T*, const int64_t*, const int64_t*, int64_t, int64_t, int64_t, double*);
  constexpr Sum kSums[kShortTokens / kHalfLanes + 1] = {
      sumHalves<1, kAsking, T>, sumHalves<1, kAsking, T>, sumHalves<2, kAsking, T>, sumHalves<3, kAsking, T>,
      sumHalves<4, kAsking, T>, sumHalves<6, kAsking, T>, sumHalves<6, kAsking, T>};
  int64_t begin = 0;
  for (; begin + kShortGroup <= count; begin += kShortGroup) {
    int64_t longest = 0;
#pragma GCC unroll 8
    for (int i = 0; i < kShortGroup; i++) longest = longest < lengths[begin + i] ? lengths[begin + i] : longest;
    kSums[(longest + kHalfLanes - 1) / kHalfLanes](tokens, starts, lengths, begin, begin + kShortGroup, count, sums);
  }
  sumHalves<kShortTokens / kHalfLanes, kAsking>(tokens, starts, lengths, begin, count, count, sums);
}

}  // namespace
}  // namespace collapsar
