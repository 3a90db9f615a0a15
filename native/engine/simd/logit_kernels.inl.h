// The kernels of logitStats, written once over FloatVec and DoubleVec like those of kernels.inl.h, and the table of
// them. Each kernels_<isa>.cpp includes this file after kernels.inl.h, whose rules hold here too.
//
// One pass: a block is summed relative to the reference that the blocks before it had, and its maximum is found on the
// way. Only if that lies far above the reference is the reference raised and the block, which is still in the L1 cache,
// summed again. Near the reference the entropy ln s - t/s does not cancel.
#include <stdint.h>

#include "../deterministic_math.h"
#include "kernel_table.h"
#include "logit_block_sums.inl.h"
#include "logit_kernel_table.h"
#include "logit_terms.inl.h"
#include "scalars.inl.h"

namespace collapsar {
namespace {

// A maximum so far above the reference (in units of T) raises it: the nearer, the less ln s - t/s cancels.
template <class C>
constexpr double kLogitRise = sizeof(C) == 4 ? 4.0 : 0.5;
// Where the first block's reference is looked for: enough that the rest is seldom far above.
constexpr int64_t kFirstLook = 512;

template <class C>
COLLAPSAR_INLINE void raiseTo(LogitSums<C>& sums, double largest, double temperature) {
  const double before = sums.reference;
  placeReference(sums, largest, temperature);
  if (before == -kInfinity) return;
  const double lowest = -708.0 * temperature, fall = before - sums.reference;
  const double scale = deterministicExp(fall / temperature);
  sums.t = scale * __builtin_fma(sums.s, fall > lowest ? fall : lowest, sums.t);
  sums.s *= scale;
  sums.sLow *= scale;
  sums.tLow *= scale;
}

template <class Terms, class T, class C>
COLLAPSAR_INLINE LogitBlockSums sumBlockAs(const T* source, int64_t count, const LogitRow<C>& row) {
  const Terms terms(row.leaf, row.temperature);
  LogitBlockSums out =
      row.ranked ? sumBlock<true>(source, count, terms, row.target) : sumBlock<false>(source, count, terms, row.target);
  // From the origin as a float to the origin itself.
  if (sizeof(C) == 4) {
    const double origin = static_cast<double>(static_cast<C>(row.leaf.origin));
    out.t = __builtin_fma(out.s, origin - row.leaf.origin, out.t);
  }
  addLack<Terms>(out.s, out.t);
  return out;
}

template <class T>
COLLAPSAR_INLINE LogitBlockSums sumBlockOf(const T* source, int64_t count, const LogitRow<float>& row) {
  return row.temperature == 1.0 && row.leaf.base == 0.0 ? sumBlockAs<UnitTerms>(source, count, row)
                                                        : sumBlockAs<ScaledTerms>(source, count, row);
}
template <class T>
COLLAPSAR_INLINE LogitBlockSums sumBlockOf(const T* source, int64_t count, const LogitRow<double>& row) {
  return row.temperature == 1.0 ? sumBlockAs<UnitTerms64>(source, count, row)
                                : sumBlockAs<ScaledTerms64>(source, count, row);
}

// The first column that holds `value`, which is there.
template <class V, class T>
COLLAPSAR_INLINE int64_t firstEqual(const T* source, int64_t count, typename V::Scalar value) {
  const V wanted = set(value);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    if (any(equal(load(source + i), wanted))) break;
  }
  for (; i < count; i++) {
    T one[kScoreLanes];
    fillTail<kScoreLanes>(one);
    one[0] = source[i];
    if (foldLarger(load(static_cast<const T*>(one))) == value) return i;
  }
  return -1;
}

template <class T, class C>
void addBlockOf(const void* sourceData, int64_t count, int64_t firstColumn, LogitRow<C>* rowState) {
  using V = typename VecOf<C>::V;
  const T* source = static_cast<const T*>(sourceData);
  LogitRow<C>& row = *rowState;
  LogitSums<C>& leaf = row.leaf;
  if (leaf.reference == -kInfinity) {
    C largest = largestLogit<V>(source, count < kFirstLook ? count : kFirstLook);
    if (largest == -static_cast<C>(kInfinity)) largest = largestLogit<V>(source, count);
    if (largest == static_cast<C>(kInfinity)) {
      row.invalid = true;
      return;
    }
    // Of -inf alone the sums are taken relative to 0, and thrown away.
    placeReference(leaf, largest == -static_cast<C>(kInfinity) ? 0.0 : static_cast<double>(largest), row.temperature);
    if (largest == -static_cast<C>(kInfinity)) {
      const LogitBlockSums sums = sumBlockOf(source, count, row);
      row.invalid |= sums.t != sums.t;
      row.equal += sums.equal;
      leaf.reference = -kInfinity;
      return;
    }
  }
  LogitBlockSums sums = sumBlockOf(source, count, row);
  if (sums.largest > leaf.reference + kLogitRise<C> * row.temperature) {
    if (sums.largest == kInfinity) {
      row.invalid = true;
      return;
    }
    raiseTo(leaf, sums.largest, row.temperature);
    sums = sumBlockOf(source, count, row);
  }
  row.invalid |= sums.t != sums.t;
  addExactly(leaf.s, leaf.sLow, sums.s);
  addExactly(leaf.t, leaf.tLow, sums.t);
  const C largest = static_cast<C>(sums.largest);
  row.above += sums.above;
  row.equal += sums.equal;
  if (largest > leaf.largest) leaf.largest = largest;
  if (largest > row.best) {
    row.best = largest;
    if (row.located) row.argmax = firstColumn + firstEqual<V>(source, count, largest);
  }
}

// The largest term, which a confident row has almost all its mass in, is put in exactly.
template <class Terms>
COLLAPSAR_INLINE void sharpenLargest(LogitRow<float>& row) {
  LogitSums<float>& leaf = row.leaf;
  const FloatVec largest[1] = {set(leaf.largest)};
  FloatVec e[1], d[1];
  Terms(leaf, row.temperature).template of<1>(largest, e, d);
  const double rounded = static_cast<double>(foldLarger(e[0]));
  const double origin = static_cast<double>(static_cast<float>(leaf.origin));
  const FloatVec product = mul(e[0], d[0]);  // rounded as in the run
  double s = rounded, t = __builtin_fma(rounded, origin - leaf.origin, static_cast<double>(foldLarger(product)));
  addLack<Terms>(s, t);
  const double difference = static_cast<double>(leaf.largest) - leaf.base - leaf.origin;
  const double exact = deterministicExp(difference / row.temperature);
  addExactly(leaf.s, leaf.sLow, exact - s);
  addExactly(leaf.t, leaf.tLow, __builtin_fma(exact, difference, -t));
}

void finishLeafOf(LogitRow<float>* row) {
  if (row->leaf.reference == -kInfinity) return;
  if (row->temperature == 1.0 && row->leaf.base == 0.0) {
    sharpenLargest<UnitTerms>(*row);
  } else {
    sharpenLargest<ScaledTerms>(*row);
  }
}

constexpr LogitKernelTable kLogitTable = {
    addBlockOf<double, double>,
    {nullptr, addBlockOf<float, float>, addBlockOf<Float16, float>, addBlockOf<BFloat16, float>},
    finishLeafOf,
};

}  // namespace
}  // namespace collapsar
