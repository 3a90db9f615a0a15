// The kernels of logitStats, written once over FloatVec and DoubleVec like those of kernels.inl.h, after which each
// kernels_<isa>.cpp includes this file; its rules hold here too.
//
// One pass: a block is summed relative to the reference that the blocks before it had, and its maximum is found on the
// way. Only if that lies far above the reference is the reference raised and the block, which is still in the L1 cache,
// summed again. Near the reference the entropy ln s - t/s does not cancel.
#include <stddef.h>
#include <stdint.h>

#include "../deterministic_math.h"
#include "exponentials.inl.h"
#include "logit_kernel_table.h"
#include "scalars.inl.h"
#include "score_sums.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// --- e^((x-reference)/T) -----------------------------------------------------------------------------------------

// e^r = 1 + r (c0 + c1 r + ...) on |r| <= ln2/2, minimax with the constant held at 1 and coefficients in float;
// relative error 9.2e-8.
constexpr float kExpCoefficientsFloat[5] = {0x1.fffff6p-1f, 0x1.fffdc4p-2f, 0x1.555a82p-3f, 0x1.573adap-5f,
                                            0x1.0f9ee4p-7f};
constexpr float kLn2Float = 0x1.62e43p-1f;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2FloatExcess = 0x1.79a8dc2f503a2p-29;  // kLn2Float / ln2 - 1

// Terms below e^-86 of the reference are taken for that: 2^-125 p stays a normal number.
constexpr double kLogitDepth = 86.0;
// A maximum so far above the reference (in units of T) raises it: the nearer, the less ln s - t/s cancels.
template <class C>
constexpr double kLogitRise = sizeof(C) == 4 ? 4.0 : 0.5;
// Beyond this many powers of 2 the reference is subtracted before the power is taken.
constexpr double kLargestPower = 0x1p+20;
// From here on a multiple of 2^-46 near the maximum is one in units of T, too.
constexpr double kLeastRoundedT = 0x1p-40;

// The reference of a temperature is `base + power T ln 2`: a multiple of ln 2 costs nothing, for it goes into the
// exponent, and x itself (not a rounded difference) is what the exponential is taken of. `base` is 0 unless x is huge.
template <class C>
COLLAPSAR_INLINE void placeReference(LogitSums<C>& sums, double largest, double temperature) {
  if (sizeof(C) == 8) {
    // Differences from a multiple of 2^-46 are exact for most of what is near. Divided by a tiny T the rounding of the
    // maximum itself would be an exponent.
    const bool rounds = temperature > kLeastRoundedT && largest < 32.0 && largest > -32.0;
    sums.base = rounds ? (largest + 96.0) - 96.0 : largest;
    sums.power = sums.origin = 0.0;
    sums.reference = sums.base;
    return;
  }
  const double power = largest * kLog2e / temperature;
  if (power < kLargestPower && power > -kLargestPower) {
    sums.base = 0.0;
    sums.power = (power + kRoundingShift) - kRoundingShift;
    sums.origin = temperature == 1.0 ? sums.power * static_cast<double>(kLn2Float) : sums.power * kLn2 * temperature;
  } else {
    sums.base = largest;
    sums.power = sums.origin = 0.0;
  }
  sums.reference = sums.base + sums.origin;
}

// Several vectors at once, step by step side by side: one exponential is a chain of dependent operations, and a
// processor looks only so far ahead for others.
#define COLLAPSAR_EACH _Pragma("GCC unroll 8") for (int j = 0; j < N; j++)

// As many as the registers hold.
template <class V>
constexpr int kSideBySide = sizeof(V) == 64 ? 4 : 2;

// T = 1: n = round(x log2 e), r = x - n ln 2, with ln 2 as a float. What it exceeds ln 2 by is e^(-excess
// (x-reference)) and made good by addLack().
struct UnitTerms {
  using V = FloatVec;
  static constexpr double kExcess = kLn2FloatExcess;
  FloatVec shift, floor, origin;

  COLLAPSAR_INLINE UnitTerms(const LogitSums<float>& sums, double) {
    shift = set(static_cast<float>(static_cast<double>(kRoundingShiftFloat) - sums.power));
    floor = set(static_cast<float>(sums.origin - kLogitDepth));
    origin = set(static_cast<float>(sums.origin));
  }
  template <int N>
  COLLAPSAR_INLINE void of(const FloatVec* value, FloatVec* e, FloatVec* d) const {
    FloatVec x[N], shifted[N], r[N];
    COLLAPSAR_EACH x[j] = larger(floor, value[j]);
    COLLAPSAR_EACH shifted[j] = fma(x[j], set(kLog2eFloat), shift);
    COLLAPSAR_EACH r[j] = fma(sub(shift, shifted[j]), set(kLn2Float), x[j]);
    COLLAPSAR_EACH d[j] = sub(x[j], origin);
    COLLAPSAR_EACH e[j] = set(kExpCoefficientsFloat[4]);
#pragma GCC unroll 4
    for (int i = 3; i >= 0; i--) COLLAPSAR_EACH e[j] = fma(e[j], r[j], set(kExpCoefficientsFloat[i]));
    COLLAPSAR_EACH e[j] = timesPowerOf2(fma(e[j], r[j], set(1.0f)), shifted[j]);
  }
};

// Any T, and huge x: n = round(x c), f = x c - n, with c = log2(e)/T in two floats.
struct ScaledTerms {
  using V = FloatVec;
  static constexpr double kExcess = 0.0;
  FloatVec base, shift, floor, origin, scaleHigh, scaleLow;

  COLLAPSAR_INLINE ScaledTerms(const LogitSums<float>& sums, double temperature) {
    const double scale = kLog2e / temperature;
    const float high = static_cast<float>(scale);
    base = set(static_cast<float>(sums.base));
    shift = set(static_cast<float>(static_cast<double>(kRoundingShiftFloat) - sums.power));
    floor = set(static_cast<float>(sums.origin - kLogitDepth * temperature));
    origin = set(static_cast<float>(sums.origin));
    scaleHigh = set(high);
    scaleLow = set(static_cast<float>(scale - static_cast<double>(high)));
  }
  template <int N>
  COLLAPSAR_INLINE void of(const FloatVec* value, FloatVec* e, FloatVec* d) const {
    FloatVec x[N], shifted[N], f[N];
    COLLAPSAR_EACH x[j] = larger(floor, sub(value[j], base));
    COLLAPSAR_EACH shifted[j] = fma(x[j], scaleHigh, shift);
    COLLAPSAR_EACH f[j] = fma(x[j], scaleLow, fma(x[j], scaleHigh, sub(shift, shifted[j])));
    COLLAPSAR_EACH d[j] = sub(x[j], origin);
    FloatVec out[N];
    Exponential<FloatVec>::powers(f, shifted, out);
    COLLAPSAR_EACH e[j] = out[j];
  }
};

struct UnitTerms64 {
  using V = DoubleVec;
  static constexpr double kExcess = 0.0;
  DoubleVec base, floor;

  COLLAPSAR_INLINE UnitTerms64(const LogitSums<double>& sums, double) {
    base = set(sums.base);
    floor = set(Exponential<DoubleVec>::kFloor);
  }
  template <int N>
  COLLAPSAR_INLINE void of(const DoubleVec* value, DoubleVec* e, DoubleVec* d) const {
    DoubleVec r[N], shifted[N];
    COLLAPSAR_EACH {
      d[j] = larger(floor, sub(value[j], base));
      Exponential<DoubleVec>::reduce(d[j], r[j], shifted[j]);
    }
    DoubleVec out[N];
    Exponential<DoubleVec>::powers(r, shifted, out);
    COLLAPSAR_EACH e[j] = out[j];
  }
};

struct ScaledTerms64 {
  using V = DoubleVec;
  static constexpr double kExcess = 0.0;
  Exponential<DoubleVec> exponential;
  DoubleVec base;

  COLLAPSAR_INLINE ScaledTerms64(const LogitSums<double>& sums, double temperature) : exponential(temperature) {
    base = set(sums.base);
  }
  template <int N>
  COLLAPSAR_INLINE void of(const DoubleVec* value, DoubleVec* e, DoubleVec* d) const {
    DoubleVec r[N], shifted[N];
    COLLAPSAR_EACH {
      d[j] = larger(exponential.floorToken, sub(value[j], base));
      exponential.reduceToken(d[j], r[j], shifted[j]);
    }
    DoubleVec out[N];
    Exponential<DoubleVec>::powers(r, shifted, out);
    COLLAPSAR_EACH e[j] = out[j];
  }
};

// --- a run of columns --------------------------------------------------------------------------------------------

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

// --- a block -----------------------------------------------------------------------------------------------------

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

// Sums over the terms of kExcess > 0 -> without the excess: Σ e^((1-excess) d) and its like, to first order. The mean
// of d stays: ln s - t/s is then exactly the entropy at (1-excess).
template <class Terms>
COLLAPSAR_INLINE void addLack(double& s, double& t) {
  if (Terms::kExcess == 0.0) return;
  const double lack = Terms::kExcess * t;
  t = __builtin_fma(t, lack / s, t);
  s += lack;
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
