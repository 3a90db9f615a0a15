// The exponential sums of a block of columns, and how they are taken into those of a row's columns before it.
#pragma once

#include <stdint.h>

#include "block_groups.inl.h"
#include "engine/deterministic_math.h"
#include "exponentials.inl.h"
#include "kernel_table.h"
#include "scalars.inl.h"
#include "score_sums.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

struct BlockSums {
  double s, t, sToken;
};

template <class V>
struct RunSums {
  Wide<V, kScoreLanes> s = splat<V, kScoreLanes>(0), t = s, sToken = s;
};

// N vectors into the sums of a run, the first to lanes `part` and up.
template <int N, class V, class Terms>
COLLAPSAR_INLINE void addVectors(const typename V::Scalar* x, int part, V origin, const Terms& terms, RunSums<V>& run) {
  V difference[N], d[N], e[2 * N];
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) difference[j] = sub(load(x + j * V::kLanes), origin);
  exponentials(difference, terms, d, e);
#pragma GCC unroll 8
  for (int j = 0; j < N; j++) {
    const int p = (part + j) % Wide<V, kScoreLanes>::kParts;
    run.s.part[p] = add(run.s.part[p], e[j]);
    run.t.part[p] = fma(e[j], d[j], run.t.part[p]);
    run.sToken.part[p] = add(run.sToken.part[p], e[N + j]);
  }
}

struct ColumnSums {
  ScoreSum s = splat<DoubleVec, kScoreLanes>(0.0), t = s, sToken = s;
};

template <class V>
COLLAPSAR_INLINE void flush(ColumnSums& sums, const RunSums<V>& run) {
  flush(sums.s, run.s);
  flush(sums.t, run.t);
  flush(sums.sToken, run.sToken);
}

// kGroupColumns columns, whose runs are added before they are widened: exact for like terms, and widening is costly.
template <class V, class Terms>
COLLAPSAR_INLINE void addGroup(const typename V::Scalar* x, V origin, const Terms& terms, uintptr_t ahead,
                               uintptr_t aheadStep, ColumnSums& sums) {
  using C = typename V::Scalar;
  constexpr int kParts = Wide<V, kScoreLanes>::kParts, kRun = kRunVectors<C> * kParts;
  RunSums<V> all;
#pragma GCC unroll 2
  for (int first = 0; first < kGroupColumns / V::kLanes; first += kRun) {
    RunSums<V> run;
#pragma GCC unroll 8
    for (int i = 0; i < kRunVectors<C>; i++, ahead += aheadStep) {
      __builtin_prefetch(reinterpret_cast<const void*>(ahead));
      if (sizeof(C) == 8) __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRun; i += kTogether<Terms>) {
      addVectors<kTogether<Terms>>(x + (first + i) * V::kLanes, i % kParts, origin, terms, run);
    }
    if (first == 0) {
      all = run;
      continue;
    }
#pragma GCC unroll 8
    for (int p = 0; p < kParts; p++) {
      all.s.part[p] = add(all.s.part[p], run.s.part[p]);
      all.t.part[p] = add(all.t.part[p], run.t.part[p]);
      all.sToken.part[p] = add(all.sToken.part[p], run.sToken.part[p]);
    }
  }
  flush(sums, all);
}

// Sums over `count` columns, a multiple of kScoreLanes, relative to a finite reference >= every x (or nearly);
// meanwhile prefetches `ahead`, aheadStep bytes for 16 columns. Groups that are near come first, in two lists: nothing
// to guess for the processor. Out of line: one copy for all types.
template <class V>
__attribute__((noinline)) BlockSums blockSums(const Groups<V>& groups, int64_t count, typename V::Scalar reference,
                                              double length, uintptr_t ahead, uintptr_t aheadStep) {
  using C = typename V::Scalar;
  const Exponential<V> exponential(length);
  const NearExponential<V> near(length);
  const V origin = splat(reference);
  const int whole = static_cast<int>(count / kGroupColumns);
  const C* list[2][kBlockGroups];
  int size[2] = {0, 0};
  for (int g = 0; g < whole; g++) {
    const int isNear = near.reaches(sub(groups.least[g], origin));
    list[isNear][size[isNear]++] = groups.from[g];
  }
  ColumnSums sums;
  const uintptr_t groupStep = kGroupColumns / kScoreLanes * aheadStep;
  for (int g = 0; g < size[1]; g++, ahead += groupStep) addGroup(list[1][g], origin, near, ahead, aheadStep, sums);
  for (int g = 0; g < size[0]; g++, ahead += groupStep) {
    addGroup(list[0][g], origin, exponential, ahead, aheadStep, sums);
  }
  for (int64_t begin = whole * kGroupColumns; begin < count;) {
    const C* x = groups.from[whole] - whole * kGroupColumns;
    const int64_t end = count - begin < kRunVectors<C> * kScoreLanes ? count : begin + kRunVectors<C> * kScoreLanes;
    RunSums<V> run;
    for (; begin < end; begin += kScoreLanes) {
#pragma GCC unroll 8
      for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
        addVectors<1>(x + begin + p * V::kLanes, p, origin, exponential, run);
      }
    }
    flush(sums, run);
  }
  BlockSums out = {reduceSum<kScoreLanes>(sums.s), reduceSum<kScoreLanes>(sums.t), reduceSum<kScoreLanes>(sums.sToken)};
  // e^d = 2^(d L) 2^(d (log2 e - L)), L = log2(e) as a float: to first order the second factor adds its share of t.
  if (sizeof(C) == 4) out.s = __builtin_fma(kLog2eFloatLack, out.t, out.s);
  return out;
}

COLLAPSAR_INLINE void rescaleTo(GroupSums& group, double reference, double length) {
  const double fall = group.reference - reference;
  if (group.reference != -kInfinity) {
    const double scale = deterministicExp(fall), scaleToken = deterministicExp(fall / length);
    group.t = scale * __builtin_fma(group.s, fall > -708.0 ? fall : -708.0, group.t);
    group.s *= scale;
    group.sLow *= scale;
    group.sToken *= scaleToken;
    group.sTokenLow *= scaleToken;
  }
  group.reference = reference;
}

// Differences from the reference must be exact, or like values would all err alike: below 32 a multiple of 2^-17 is
// near enough to the maximum, and every float x <= 0 at most 128 below it differs from it by a float.
COLLAPSAR_INLINE float referenceFor(float largest) {
  return largest < 32.0f && largest > -32.0f ? (largest + 96.0f) - 96.0f : largest;
}
COLLAPSAR_INLINE double referenceFor(double largest) { return largest; }

// Takes a block into a group of columns. `largest` is its maximum, NaN apart.
template <class V>
COLLAPSAR_INLINE void addBlock(GroupSums& group, const Groups<V>& groups, int64_t count, typename V::Scalar largest,
                               double length, uintptr_t ahead, uintptr_t aheadStep) {
  using C = typename V::Scalar;
  if (largest == static_cast<C>(kInfinity)) {
    group.invalid = true;
    return;
  }
  if (largest == -static_cast<C>(kInfinity)) {  // -inf and NaN only
    for (int64_t i = 0; i < count; i++) {
      const C x = groups.from[i / kGroupColumns][i % kGroupColumns];
      group.invalid |= x != x;
    }
    return;
  }
  const C reference = referenceFor(largest);
  if (reference > group.reference) rescaleTo(group, reference, length);
  const BlockSums sums = blockSums(groups, count, static_cast<C>(group.reference), length, ahead, aheadStep);
  group.invalid |= sums.t != sums.t;
  addExactly(group.s, group.sLow, sums.s);
  addExactly(group.sToken, group.sTokenLow, sums.sToken);
  group.t += sums.t;
}

// One column alone: exact.
template <class C>
COLLAPSAR_INLINE void addFirst(GroupSums& group, C x) {
  if (x != x || x == static_cast<C>(kInfinity)) {
    group.invalid = true;
  } else if (x != -static_cast<C>(kInfinity)) {
    group.reference = x;
    group.s = group.sToken = 1.0;
  }
}

}  // namespace
}  // namespace collapsar
