// The kernels of logitStats and their table, under the rules of kernels.inl.h.
//
// One pass: a run is summed relative to the reference of the runs before it. Only if its maximum lies far above is the
// reference raised and the run, still in the L1 cache, summed again. Near the reference ln s - t/s does not cancel.
#include <stdint.h>

#include "engine/deterministic_math.h"
#include "kernel_table.h"
#include "logit_kernel_table.h"
#include "logit_runs.inl.h"
#include "logit_terms.inl.h"
#include "scalars.inl.h"

namespace collapsar {
namespace {

// A maximum so far above the reference (in units of T) raises it: the nearer, the less ln s - t/s cancels, and the less
// is lost of small terms beside the largest one's part of t (float: five roundings of 2^-24 times this, entropy 1e-6).
template <class C>
constexpr double kLogitRise = sizeof(C) == 4 ? 2.0 : 0.5;
template <class C>
constexpr C kLargest = sizeof(C) == 4 ? static_cast<C>(0x1.fffffep127) : static_cast<C>(0x1.fffffffffffffp1023);

COLLAPSAR_INLINE int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }

// Calls `action` with the terms that the row's reference asks for.
template <class Action>
COLLAPSAR_INLINE void withTerms(const LogitRow<float>& row, const Action& action) {
  if (row.temperature == 1.0 && row.leaf.reference.base == 0.0) {
    action(UnitTerms(row.leaf.reference, row.temperature));
  } else {
    action(ScaledTerms(row.leaf.reference, row.temperature));
  }
}
template <class Action>
COLLAPSAR_INLINE void withTerms(const LogitRow<double>& row, const Action& action) {
  if (row.temperature == 1.0) {
    action(UnitTerms64(row.leaf.reference, row.temperature));
  } else {
    action(ScaledTerms64(row.leaf.reference, row.temperature));
  }
}

// What is in the lanes goes to the sums.
template <class C>
void foldLanes(LogitRow<C>& row) {
  LogitLeaf<C>& leaf = row.leaf;
  if (!leaf.lanes.filled) return;
  double s = reduceSum<kScoreLanes>(loadLanes(leaf.lanes.s)), t = reduceSum<kScoreLanes>(loadLanes(leaf.lanes.t));
  if (sizeof(C) == 8) {
    s += reduceSum<kScoreLanes>(loadLanes(leaf.lanes.sLow));
    t += reduceSum<kScoreLanes>(loadLanes(leaf.lanes.tLow));
  } else {
    // From the origin as a float to the origin itself.
    t = __builtin_fma(s, static_cast<double>(static_cast<C>(leaf.reference.origin)) - leaf.reference.origin, t);
  }
  withTerms(row, [&](const auto& terms) { addLack(terms, s, t); });
  row.invalid |= t != t;
  addExactly(leaf.s, leaf.sLow, s);
  addExactly(leaf.t, leaf.tLow, t);
  leaf.lanes.filled = false;
}

template <class C>
void rescaleTo(LogitRow<C>& row, C largest) {
  LogitLeaf<C>& leaf = row.leaf;
  const double before = leaf.reference.value;
  if (before != -kInfinity) foldLanes(row);
  leaf.reference = placeReference<C>(static_cast<double>(largest), row.temperature);
  if (before == -kInfinity) return;
  const double lowest = -708.0 * row.temperature, fall = before - leaf.reference.value;
  const double scale = deterministicExp(fall / row.temperature);
  leaf.t = scale * __builtin_fma(leaf.s, fall > lowest ? fall : lowest, leaf.t);
  leaf.s *= scale;
  leaf.sLow *= scale;
  leaf.tLow *= scale;
}

// Up to a run that asks for a higher reference; returns where that begins, or `count`.
template <class T, class C>
int64_t addRunsOf(const T* source, int64_t first, int64_t count, LogitRow<C>& row, LogitPeak<C>& peak) {
  const double rise = row.leaf.reference.value + kLogitRise<C> * row.temperature;
  const C ceiling = rise < static_cast<double>(kLargest<C>) ? static_cast<C>(rise) : kLargest<C>;
  int64_t end = count;
  withTerms(row, [&](const auto& terms) {
    end = row.ranksAlong ? addRuns<Ranking::Along>(source, first, count, terms, ceiling, row, peak)
                         : addRuns<Ranking::After>(source, first, count, terms, ceiling, row, peak);
  });
  return end;
}

// Of -inf alone nothing stays: the depth of the exponentials would leave its part of each.
template <class C>
COLLAPSAR_INLINE void reset(LogitLeaf<C>& leaf) {
  leaf.s = leaf.t = leaf.sLow = leaf.tLow = 0.0;
  leaf.reference.value = -kInfinity;
}

// Runs at the beginning of a leaf in which nothing is above -inf; returns where they end. Their sums are taken relative
// to 0, for what is NaN, and thrown away.
template <class T, class C>
int64_t addEmptyRuns(const T* source, int64_t first, int64_t count, LogitRow<C>& row, LogitPeak<C>& peak) {
  using V = typename VecOf<C>::V;
  int64_t end = first;
  while (end < count && largestLogit<V>(source + end, minOf(kLogitRun, count - end)) == -kInfinity) {
    end += kLogitRun;
  }
  if (end == first) return first;
  row.leaf.reference = placeReference<C>(0.0, row.temperature);
  end = addRunsOf(source, first, minOf(end, count), row, peak);
  foldLanes(row);
  reset(row.leaf);
  return end;
}

// The first column that holds `value`, which is there and above -inf.
template <class V, class T>
COLLAPSAR_INLINE int64_t firstEqual(const T* source, int64_t count, typename V::Scalar value) {
  const V wanted = splat(value);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    const uint32_t found = movemask(equal(load(source + i), wanted));
    if (found != 0) return i + __builtin_ctz(found);
  }
  T tail[V::kLanes];
  fillTail<V::kLanes>(tail);
  __builtin_memcpy(tail, source + i, static_cast<size_t>(count - i) * sizeof(T));
  return i + __builtin_ctz(movemask(equal(load(static_cast<const T*>(tail)), wanted)));
}

// Leaves that begin with one reference mostly keep it, and are merged without an exponential.
template <class T, class C>
void beginRowOf(const void* source, int64_t columns, LogitRow<C>* row) {
  const C largest = largestLogit<typename VecOf<C>::V>(static_cast<const T*>(source), minOf(kLogitRun, columns));
  const bool finite = largest > -static_cast<C>(kInfinity) && largest < static_cast<C>(kInfinity);
  row->start = placeReference<C>(finite ? static_cast<double>(largest) : 0.0, row->temperature);
  if (!finite) row->start.value = -kInfinity;
  row->ranksAlong = largest > row->target;
}

template <class T, class C>
void addColumnsOf(const void* sourceData, int64_t count, int64_t firstColumn, LogitRow<C>* rowState) {
  using V = typename VecOf<C>::V;
  const T* source = static_cast<const T*>(sourceData);
  LogitRow<C>& row = *rowState;
  const C infinity = static_cast<C>(kInfinity);
  LogitPeak<C> peak = {row.located ? row.best : infinity, -1};
  for (int64_t at = 0; at < count;) {
    at = row.leaf.reference.value == -kInfinity ? addEmptyRuns(source, at, count, row, peak)
                                                : addRunsOf(source, at, count, row, peak);
    if (at == count) break;
    const C largest = largestLogit<V>(source + at, minOf(kLogitRun, count - at));
    if (largest == infinity) {
      row.invalid = true;
      return;
    }
    rescaleTo(row, largest);
  }
  if (peak.run < 0) return;
  row.best = peak.value;
  row.argmax =
      firstColumn + peak.run + firstEqual<V>(source + peak.run, minOf(kLogitRun, count - peak.run), peak.value);
}

// A leaf of one term is made 1 relative to itself: a row with one finite logit has that as its log-sum-exp, and entropy
// 0. Allowed for in t: the rounding of one product, and what the depth of the exponentials left of -inf.
template <class C>
COLLAPSAR_INLINE void setSingleTerm(LogitLeaf<C>& leaf, double term, double difference) {
  const double product = term * difference, rest = leaf.t + leaf.tLow - product;
  const double allowed = __builtin_fma(sizeof(C) == 4 ? 0x1p-23 : 0x1p-52, __builtin_fabs(product), 0x1p-100);
  if (leaf.s != term || leaf.sLow != 0.0 || !(__builtin_fabs(rest) <= allowed)) return;
  leaf.reference.value = static_cast<double>(leaf.largest);
  leaf.s = 1.0;
  leaf.t = leaf.tLow = 0.0;
}

// The largest term, which a confident row has almost all its mass in, is put in exactly.
template <class Terms>
COLLAPSAR_INLINE void addLargestExactly(const Terms& terms, LogitRow<float>& row) {
  LogitLeaf<float>& leaf = row.leaf;
  const FloatVec largest[1] = {splat(leaf.largest)};
  FloatVec e[1], d[1];
  terms.template of<1>(largest, e, d);
  const double rounded = static_cast<double>(reduceMax(e[0]));
  const double origin = static_cast<double>(static_cast<float>(leaf.reference.origin));
  const FloatVec product = mul(e[0], d[0]);  // rounded as in the run
  double s = rounded,
         t = __builtin_fma(rounded, origin - leaf.reference.origin, static_cast<double>(reduceMax(product)));
  addLack(terms, s, t);
  const double difference = static_cast<double>(leaf.largest) - leaf.reference.base - leaf.reference.origin;
  const double exact = deterministicExp(difference / row.temperature);
  addExactly(leaf.s, leaf.sLow, exact - s);
  addExactly(leaf.t, leaf.tLow, __builtin_fma(exact, difference, -t));
  setSingleTerm(leaf, exact, difference);
}

template <class Terms>
COLLAPSAR_INLINE void addLargestExactly(const Terms& terms, LogitRow<double>& row) {
  const DoubleVec largest[1] = {splat(row.leaf.largest)};
  DoubleVec e[1], d[1];
  terms.template of<1>(largest, e, d);
  setSingleTerm(row.leaf, reduceMax(e[0]), reduceMax(d[0]));
}

// Whether anything above -inf has come.
template <class C>
bool closeLeaf(LogitRow<C>& row) {
  if (row.leaf.reference.value == -kInfinity) return false;
  foldLanes(row);
  if (row.leaf.largest > -static_cast<C>(kInfinity)) return true;
  reset(row.leaf);
  return false;
}

template <class C>
void finishLeafOf(LogitRow<C>* row) {
  if (closeLeaf(*row)) withTerms(*row, [&](const auto& terms) { addLargestExactly(terms, *row); });
}

constexpr LogitKernelTable kLogitTable = {
    beginRowOf<double, double>,
    {nullptr, beginRowOf<float, float>, beginRowOf<Float16, float>, beginRowOf<BFloat16, float>},
    addColumnsOf<double, double>,
    {nullptr, addColumnsOf<float, float>, addColumnsOf<Float16, float>, addColumnsOf<BFloat16, float>},
    finishLeafOf<double>,
    finishLeafOf<float>,
};

}  // namespace
}  // namespace collapsar
