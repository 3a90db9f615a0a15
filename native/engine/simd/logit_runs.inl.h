// One pass over logits, run by run: sums over their terms, their maximum, and their counts above and equal to the
// target.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/prefetch.h"
#include "kernel_table.h"
#include "logit_terms.inl.h"
#include "scalars.inl.h"
#include "score_sums.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// A run is taken in steps of four vectors of 16 lanes. A lane's four terms are added by pairs, then the steps, and a
// run's sums go to float64: like terms are doubled exactly. Beside a term of 1 the others of its lane may be lost five
// times, each time up to 2^-24: below 3e-7, the gate of log-sum-exp (docs/reference/logits.md). Runs of twice the
// length are 4% faster.
constexpr int kLogitLanes = kScoreLanes;
constexpr int kStepColumns = 4 * kLogitLanes;
constexpr int kRunSteps = kLogitRun / kStepColumns;
constexpr int kLeafRuns = kLogitLeafColumns / kLogitRun;

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

// What is asked for ahead of a run is spread over its steps: memory takes few requests at a time.
struct Prefetch {
  uintptr_t near, far;

  template <class T>
  COLLAPSAR_INLINE void step(int step) const {
    const uintptr_t begin = step * kStepColumns * sizeof(T);
#pragma GCC unroll 8
    for (uintptr_t at = begin; at < begin + kStepColumns * sizeof(T); at += 64) {
      __builtin_prefetch(reinterpret_cast<const void*>(near + at));
      __builtin_prefetch(reinterpret_cast<const void*>(far + at), 0, 2);
    }
  }
};

// Columns above the target, and equal to it.
struct Ranks {
  Counter above, equal;

  template <class V>
  COLLAPSAR_INLINE void add(V x, V target) {
    count(above, greater(x, target));
    count(equal, collapsar::equal(x, target));
  }
};

// When columns are ranked. Along: as they are summed, among instructions that wait, where most runs reach an unlikely
// target (Zen 5: 2 cycles a vector instead of 3). After: the few runs that reach a likely one are noted and counted at
// the end, without branches that are guessed wrong (1 cycle a vector).
enum class Ranking { Along, After };

template <class V>
struct LogitScan {
  Wide<V, kLogitLanes> largest;
  ScoreSum s, t, sLow, tLow;
  V target;
  Ranks ranks;
};

// A run of floats is coarser than its float64 lanes. For doubles, what rounding takes is kept (Knuth's two-sum).
COLLAPSAR_INLINE void drainRun(ScoreSum& sum, ScoreSum&, const Wide<FloatVec, kScoreLanes>& run) { flush(sum, run); }
COLLAPSAR_INLINE void drainRun(ScoreSum& sum, ScoreSum& low, const Wide<DoubleVec, kScoreLanes>& run) {
#pragma GCC unroll 8
  for (int i = 0; i < ScoreSum::kParts; i++) {
    const DoubleVec high = sum.part[i], x = run.part[i];
    const DoubleVec total = add(high, x), part = sub(total, high);
    low.part[i] = add(low.part[i], add(sub(high, sub(total, part)), sub(x, part)));
    sum.part[i] = total;
  }
}

// One run by itself; `ranks`, if it is counted, from those before it on.
template <class V>
struct LogitRun {
  Wide<V, kLogitLanes> s, t, largest;
  Ranks ranks;
};

template <bool kCounted, class T, class Terms>
COLLAPSAR_INLINE LogitRun<typename Terms::V> sumRun(const T* source, const Prefetch& ahead, const Terms& terms,
                                                    const LogitScan<typename Terms::V>& scan) {
  using V = typename Terms::V;
  LogitRun<V> run;
  run.s = run.t = splat<V, kLogitLanes>(0);
  run.largest = splat<V, kLogitLanes>(-static_cast<typename V::Scalar>(kInfinity));
  run.ranks = scan.ranks;
#pragma GCC unroll 1
  for (int step = 0; step < kRunSteps; step++) {
    const T* from = source + step * kStepColumns;
    ahead.step<T>(step);
#pragma GCC unroll 4
    for (int p = 0; p < Wide<V, kLogitLanes>::kParts; p++) {
      V x[4], e[4], d[4];
      loadTwo(from, p, x[0], x[1]);
      loadTwo(from + 2 * kLogitLanes, p, x[2], x[3]);
      V& largest = run.largest.part[p];
      largest = max(x[0], largest);
      largest = max(x[1], largest);
      largest = max(x[2], largest);
      largest = max(x[3], largest);
#pragma GCC unroll 4
      for (int j = 0; kCounted && j < 4; j++) run.ranks.add(x[j], scan.target);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j += kSideBySide<V>) terms.template of<kSideBySide<V>>(x + j, e + j, d + j);
      const V stepS = add(add(e[0], e[1]), add(e[2], e[3]));
      const V stepT = fma(e[3], d[3], fma(e[2], d[2], fma(e[1], d[1], mul(e[0], d[0]))));
      run.s.part[p] = add(run.s.part[p], stepS);
      run.t.part[p] = add(run.t.part[p], stepT);
    }
  }
  return run;
}

COLLAPSAR_INLINE void setMinusInfinity(double& x) { x = -kInfinity; }
COLLAPSAR_INLINE void setMinusInfinity(float& x) { x = -static_cast<float>(kInfinity); }
COLLAPSAR_INLINE void setMinusInfinity(Float16& x) { x.bits = 0xfc00; }
COLLAPSAR_INLINE void setMinusInfinity(BFloat16& x) { x.bits = 0xff80; }

template <int Elements, class T>
COLLAPSAR_INLINE void fillTail(T* tail) {
  for (int i = 0; i < Elements; i++) setMinusInfinity(tail[i]);
}

COLLAPSAR_INLINE ScoreSum loadLanes(const double* lanes) {
  ScoreSum out;
#pragma GCC unroll 8
  for (int i = 0; i < ScoreSum::kParts; i++) out.part[i] = load(lanes + i * DoubleVec::kLanes);
  return out;
}
COLLAPSAR_INLINE void storeLanes(double* lanes, const ScoreSum& sum) {
#pragma GCC unroll 8
  for (int i = 0; i < ScoreSum::kParts; i++) store(lanes + i * DoubleVec::kLanes, sum.part[i]);
}

// The largest logit that has come, and the first column of the run it was in; -1: of none of these.
template <class C>
struct LogitPeak {
  C value;
  int64_t run;
};

template <class T, class V>
COLLAPSAR_INLINE void countRun(const T* source, LogitScan<V>& scan) {
#pragma GCC unroll 2
  for (int i = 0; i < kLogitRun; i += V::kLanes) scan.ranks.add(load(source + i), scan.target);
}

template <class V>
COLLAPSAR_INLINE bool notAllUpTo(const Wide<V, kLogitLanes>& largest, V bound) {
  bool found = false;
#pragma GCC unroll 4
  for (int p = 0; p < Wide<V, kLogitLanes>::kParts; p++) found |= any(notGreaterEqual(bound, largest.part[p]));
  return found;
}
template <class V>
COLLAPSAR_INLINE bool anyAbove(const Wide<V, kLogitLanes>& largest, V bound) {
  bool found = false;
#pragma GCC unroll 4
  for (int p = 0; p < Wide<V, kLogitLanes>::kParts; p++) found |= any(greater(largest.part[p], bound));
  return found;
}

// Takes columns [first, count), from a run's start, up to a run above `ceiling`: returns its start, or `count`.
template <Ranking kRanking, class T, class Terms, class C>
__attribute__((noinline)) int64_t addRuns(const T* source, int64_t first, int64_t count, const Terms& given, C ceiling,
                                          LogitRow<C>& row, LogitPeak<C>& peak) {
  using V = typename Terms::V;
  const Terms terms = given;
  LogitLanes& lanes = row.leaf.lanes;
  LogitScan<V> scan;
  scan.largest = splat<V, kLogitLanes>(row.leaf.largest);
  scan.s = scan.t = scan.sLow = scan.tLow = splat<DoubleVec, kScoreLanes>(0.0);
  if (lanes.filled) {
    scan.s = loadLanes(lanes.s);
    scan.t = loadLanes(lanes.t);
    scan.sLow = loadLanes(lanes.sLow);
    scan.tLow = loadLanes(lanes.tLow);
  }
  scan.target = splat(row.target);
  const V bound = splat(nextBelow(row.target));  // NaN below -inf: every run is counted
  V notable = splat(peak.value < ceiling ? peak.value : ceiling);
  // The last run is filled up with -inf.
  const int64_t whole = first + (count - first) / kLogitRun * kLogitRun;
  T tail[kLogitRun];
  if (whole < count) {
    fillTail<kLogitRun>(tail);
    __builtin_memcpy(tail, source + whole, static_cast<size_t>(count - whole) * sizeof(T));
  }
  const T* reaching[kLeafRuns];  // the runs that reach up to the target
  int reached = 0;
  // What the L1 cache is asked for at once is at hand when the L2 cache is.
  const bool l2First = asksL2First();
  const uintptr_t near = l2First ? 2048 : 16384, far = l2First ? 16384 : 0;
  int64_t at = first;
  for (; at < count; at += kLogitRun) {
    const T* const from = at < whole ? source + at : tail;
    const auto here = reinterpret_cast<uintptr_t>(source + at);
    const Prefetch ahead = {here + near, here + far};
    const LogitRun<V> run = sumRun<kRanking == Ranking::Along>(from, ahead, terms, scan);
    if (anyAbove(run.largest, notable)) {
      const C highest = reduceMax<V, kLogitLanes>(run.largest);
      if (highest > ceiling) break;
      peak = {highest, at};
      notable = splat(highest);
    }
    drainRun(scan.s, scan.sLow, run.s);
    drainRun(scan.t, scan.tLow, run.t);
    scan.ranks = run.ranks;
#pragma GCC unroll 4
    for (int p = 0; p < Wide<V, kLogitLanes>::kParts; p++) {
      scan.largest.part[p] = max(run.largest.part[p], scan.largest.part[p]);
    }
    reaching[reached] = from;
    reached += notAllUpTo(run.largest, bound);
  }
  if (kRanking == Ranking::After) {
    for (int i = 0; i < reached; i++) countRun(reaching[i], scan);
  }
  row.ranksAlong = 2 * reached * kLogitRun > at - first;
  lanes.filled |= at > first;
  storeLanes(lanes.s, scan.s);
  storeLanes(lanes.t, scan.t);
  storeLanes(lanes.sLow, scan.sLow);
  storeLanes(lanes.tLow, scan.tLow);
  row.leaf.largest = reduceMax<V, kLogitLanes>(scan.largest);
  row.above += total(scan.ranks.above);
  row.equal += total(scan.ranks.equal);
  if (at <= count) return at;
  if (row.target == -static_cast<C>(kInfinity)) row.equal -= at - count;
  return count;
}

// The maximum, NaN apart.
template <class V, class T>
COLLAPSAR_INLINE typename V::Scalar largestLogit(const T* source, int64_t count) {
  using C = typename V::Scalar;
  constexpr int kStep = kStepColumns;
  V largest = splat(-static_cast<C>(kInfinity));
  const auto scan = [&largest](const T* x) __attribute__((always_inline)) {
#pragma GCC unroll 32
    for (int i = 0; i < kStep; i += V::kLanes) largest = max(load(x + i), largest);
  };
  const int64_t whole = count / kStep * kStep;
  for (int64_t i = 0; i < whole; i += kStep) scan(source + i);
  if (whole < count) {
    T tail[kStep];
    fillTail<kStep>(tail);
    __builtin_memcpy(tail, source + whole, static_cast<size_t>(count - whole) * sizeof(T));
    scan(tail);
  }
  return reduceMax(largest);
}

}  // namespace
}  // namespace collapsar
