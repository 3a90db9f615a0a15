// What one pass over a block of logits gives, run by run: the sums over its terms, its maximum, and how many of it lie
// above the target or equal it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernel_table.h"
#include "logit_terms.inl.h"
#include "scalars.inl.h"
#include "score_sums.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// A run is taken in steps of four vectors of 16 lanes. The four terms of a lane are added by pairs, then the steps of
// the run, and the sums of a run go to float64: like terms are doubled, exactly, where a longer chain would make the
// same rounding error again and again.
constexpr int kLogitLanes = 16;
constexpr int kStepColumns = 4 * kLogitLanes;
constexpr int kRunSteps = 8;
constexpr int kRunColumns = kRunSteps * kStepColumns;

// Part `part` of two vectors of 16 lanes.
template <class T, class V>
COLLAPSAR_INLINE void loadTwo(const T* source, int part, V& first, V& second) {
  first = load(source + part * V::kLanes);
  second = load(source + kLogitLanes + part * V::kLanes);
}
// Even columns make the first, odd ones the second: cheaper than to unpack them in order.
COLLAPSAR_INLINE void loadTwo(const BFloat16* source, int part, FloatVec& first, FloatVec& second) {
  loadEvenOdd(source + 2 * part * FloatVec::kLanes, first, second);
}

// As kPrefetchBytes, but what is asked for is spread over the run: memory takes few requests at a time.
constexpr uintptr_t kLogitPrefetch = 4096;

// `bound` is just below the target: runs that nothing of lies above are not counted in.
template <class V>
struct LogitScan {
  Wide<V, kLogitLanes> largest;
  ScoreSum s, t, sLow, tLow;
  V target, bound;
  Counter above, equal;
};

// Few runs reach up to a likely target.
template <class T, class V>
COLLAPSAR_INLINE void countRun(const T* source, const Wide<V, kLogitLanes>& largest, LogitScan<V>& scan) {
  bool reached = false;
#pragma GCC unroll 4
  for (int p = 0; p < Wide<V, kLogitLanes>::kParts; p++) reached |= any(below(scan.bound, largest.part[p]));
  if (!reached) return;
#pragma GCC unroll 2
  for (int i = 0; i < kRunColumns; i += V::kLanes) {
    const V x = load(source + i);
    count(scan.above, greater(x, scan.target));
    count(scan.equal, equal(x, scan.target));
  }
}

// A run of floats is far coarser than the float64 lanes that it is added to. For one of doubles what rounding takes is
// kept (Knuth's two-sum).
COLLAPSAR_INLINE void drainRun(ScoreSum& sum, ScoreSum&, const Wide<FloatVec, kScoreLanes>& run) { drain(sum, run); }
COLLAPSAR_INLINE void drainRun(ScoreSum& sum, ScoreSum& low, const Wide<DoubleVec, kScoreLanes>& run) {
#pragma GCC unroll 8
  for (int i = 0; i < ScoreSum::kParts; i++) {
    const DoubleVec high = sum.part[i], x = run.part[i];
    const DoubleVec total = add(high, x), part = sub(total, high);
    low.part[i] = add(low.part[i], add(sub(high, sub(total, part)), sub(x, part)));
    sum.part[i] = total;
  }
}

template <bool kRanked, class T, class Terms>
COLLAPSAR_INLINE void addRun(const T* source, uintptr_t ahead, const Terms& terms, LogitScan<typename Terms::V>& scan) {
  using V = typename Terms::V;
  using Run = Wide<V, kLogitLanes>;
  Run s = fill<V, kLogitLanes>(0), t = s, largest = fill<V, kLogitLanes>(-static_cast<typename V::Scalar>(kInfinity));
#pragma GCC unroll 1
  for (int step = 0; step < kRunSteps; step++) {
    const T* from = source + step * kStepColumns;
#pragma GCC unroll 8
    for (uintptr_t at = 0; at < kStepColumns * sizeof(T); at += 64) {
      __builtin_prefetch(reinterpret_cast<const void*>(ahead + step * kStepColumns * sizeof(T) + at));
    }
#pragma GCC unroll 4
    for (int p = 0; p < Run::kParts; p++) {
      V x[4], e[4], d[4];
      loadTwo(from, p, x[0], x[1]);
      loadTwo(from + 2 * kLogitLanes, p, x[2], x[3]);
      largest.part[p] = larger(x[0], largest.part[p]);
      largest.part[p] = larger(x[1], largest.part[p]);
      largest.part[p] = larger(x[2], largest.part[p]);
      largest.part[p] = larger(x[3], largest.part[p]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j += kSideBySide<V>) terms.template of<kSideBySide<V>>(x + j, e + j, d + j);
      const V stepS = add(add(e[0], e[1]), add(e[2], e[3]));
      const V stepT = fma(e[3], d[3], fma(e[2], d[2], fma(e[1], d[1], mul(e[0], d[0]))));
      s.part[p] = add(s.part[p], stepS);
      t.part[p] = add(t.part[p], stepT);
    }
  }
  drainRun(scan.s, scan.sLow, s);
  drainRun(scan.t, scan.tLow, t);
#pragma GCC unroll 4
  for (int p = 0; p < Run::kParts; p++) scan.largest.part[p] = larger(largest.part[p], scan.largest.part[p]);
  if (kRanked) countRun(source, largest, scan);
}

COLLAPSAR_INLINE void setMinusInfinity(double& x) { x = -kInfinity; }
COLLAPSAR_INLINE void setMinusInfinity(float& x) { x = -static_cast<float>(kInfinity); }
COLLAPSAR_INLINE void setMinusInfinity(Float16& x) { x.bits = 0xfc00; }
COLLAPSAR_INLINE void setMinusInfinity(BFloat16& x) { x.bits = 0xff80; }

template <int Elements, class T>
COLLAPSAR_INLINE void fillTail(T* tail) {
  for (int i = 0; i < Elements; i++) setMinusInfinity(tail[i]);
}

struct LogitBlockSums {
  double s, t, largest;
  int64_t above, equal;
};

// Out of line: it is large.
template <bool kRanked, class T, class Terms>
__attribute__((noinline)) LogitBlockSums sumBlock(const T* source, int64_t count, const Terms& given,
                                                  typename Terms::V::Scalar target) {
  using V = typename Terms::V;
  using C = typename V::Scalar;
  const Terms terms = given;
  LogitScan<V> scan;
  scan.largest = fill<V, kLogitLanes>(-static_cast<C>(kInfinity));
  scan.s = scan.t = scan.sLow = scan.tLow = fill<DoubleVec, kScoreLanes>(0.0);
  scan.target = set(target);
  scan.bound = set(nextBelow(target));  // NaN below -inf: every run is counted
  // The last run is filled up with -inf.
  const int64_t whole = count / kRunColumns * kRunColumns;
  T tail[kRunColumns];
  if (whole < count) {
    fillTail<kRunColumns>(tail);
    __builtin_memcpy(tail, source + whole, static_cast<size_t>(count - whole) * sizeof(T));
  }
  for (int64_t i = 0; i < count; i += kRunColumns) {
    addRun<kRanked>(i < whole ? source + i : tail, reinterpret_cast<uintptr_t>(source + i) + kLogitPrefetch, terms,
                    scan);
  }
  LogitBlockSums out;
  out.s = foldSum<kScoreLanes>(scan.s);
  out.t = foldSum<kScoreLanes>(scan.t);
  if (sizeof(C) == 8) {
    out.s += foldSum<kScoreLanes>(scan.sLow);
    out.t += foldSum<kScoreLanes>(scan.tLow);
  }
  out.largest = foldLarger<V, kLogitLanes>(scan.largest);
  out.above = total(scan.above);
  out.equal = total(scan.equal);
  if (whole < count && target == -static_cast<C>(kInfinity)) out.equal -= whole + kRunColumns - count;
  return out;
}

// The maximum of the first columns, NaN apart.
template <class V, class T>
COLLAPSAR_INLINE typename V::Scalar largestLogit(const T* source, int64_t count) {
  using C = typename V::Scalar;
  constexpr int kStep = kStepColumns;
  V largest = set(-static_cast<C>(kInfinity));
  const auto scan = [&largest](const T* x) __attribute__((always_inline)) {
#pragma GCC unroll 32
    for (int i = 0; i < kStep; i += V::kLanes) largest = larger(load(x + i), largest);
  };
  const int64_t whole = count / kStep * kStep;
  for (int64_t i = 0; i < whole; i += kStep) scan(source + i);
  if (whole < count) {
    T tail[kStep];
    fillTail<kStep>(tail);
    __builtin_memcpy(tail, source + whole, static_cast<size_t>(count - whole) * sizeof(T));
    scan(tail);
  }
  return foldLarger(largest);
}

}  // namespace
}  // namespace collapsar
