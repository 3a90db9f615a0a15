// Rows of few columns: each row is a lane, and columns pass one after the other. Nothing is folded and hardly a branch
// depends on a score: 7 times as fast as a row at a time at 16 and 64 columns, 4 times at 256 (float32). A row's bits
// depend on that row alone. Included by kernels.inl.h.
#pragma once

#include <stdint.h>

#include "exponentials.inl.h"
#include "kernel_table.h"
#include "scalars.inl.h"
#include "score_sums.inl.h"

namespace collapsar {
namespace {

template <class V>
COLLAPSAR_INLINE void transpose(V* v) {
  constexpr int kLanes = V::kLanes;
  // Each round interleaves the first half with the second; after log2(lanes) of them rows are columns.
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    V next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; i++) {
      next[2 * i] = interleaveLow(v[i], v[i + kLanes / 2]);
      next[2 * i + 1] = interleaveHigh(v[i], v[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; i++) v[i] = next[i];
  }
}

// Element (r, c) of up to kBatchRows rows -> x[c * kBatchRows + r], in full vectors: there is room for columns up to
// the next multiple of 16. What is missing is 0.
template <class T, class C>
COLLAPSAR_INLINE void loadTransposed(const T* source, int64_t rowStride, int64_t columnStride, int rows, int columns,
                                     C* x) {
  using V = typename VecOf<C>::V;
  constexpr int kLanes = V::kLanes;
  for (int firstRow = 0; firstRow < rows; firstRow += kLanes) {
    const int rowsHere = rows - firstRow < kLanes ? rows - firstRow : kLanes;
    const T* from = source + firstRow * rowStride;
    if (columnStride == 1) {
      for (int column = 0; column < columns; column += kLanes) {
        const int columnsHere = columns - column < kLanes ? columns - column : kLanes;
        V v[kLanes];
        if (rowsHere == kLanes && columnsHere == kLanes) {
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; i++) v[i] = load(from + i * rowStride + column);
        } else {
          for (int i = 0; i < kLanes; i++) {
            v[i] = i < rowsHere ? maskload(from + i * rowStride + column, columnsHere, 0) : splat(static_cast<C>(0));
          }
        }
        transpose(v);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; i++) store(x + (column + i) * kBatchRows + firstRow, v[i]);
      }
    } else if (rowStride == 1 && rowsHere == kLanes) {
      for (int column = 0; column < columns; column++) {
        store(x + column * kBatchRows + firstRow, load(from + column * columnStride));
      }
    } else {
      for (int column = 0; column < columns; column++) {
        T one[kLanes] = {};
        for (int i = 0; i < rowsHere; i++) one[i] = from[i * rowStride + column * columnStride];
        store(x + column * kBatchRows + firstRow, load(static_cast<const T*>(one)));
      }
    }
  }
}

// Near enough to the maximum, and such that differences from it are exact: see block_sums.inl.h.
COLLAPSAR_INLINE FloatVec referenceFor(FloatVec largest) {
  const FloatVec rounded = sub(add(largest, splat(96.0f)), splat(96.0f));
  return select(greater(splat(32.0f), largest), select(greater(largest, splat(-32.0f)), rounded, largest), largest);
}
COLLAPSAR_INLINE DoubleVec referenceFor(DoubleVec largest) { return largest; }

COLLAPSAR_INLINE void storeWide(double* to, FloatVec a) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
  DoubleVec wide[kRatio];
  widen(a, wide);
#pragma GCC unroll 2
  for (int j = 0; j < kRatio; j++) store(to + j * DoubleVec::kLanes, wide[j]);
}
COLLAPSAR_INLINE void storeWide(double* to, DoubleVec a) { store(to, a); }

// The float64 sums of one lane vector.
template <class V>
struct LaneSums {
  static constexpr int kParts = V::kLanes / DoubleVec::kLanes;
  DoubleVec part[kParts];
};
COLLAPSAR_INLINE void flush(LaneSums<FloatVec>& sum, FloatVec run) {
  DoubleVec wide[LaneSums<FloatVec>::kParts];
  widen(run, wide);
#pragma GCC unroll 2
  for (int j = 0; j < LaneSums<FloatVec>::kParts; j++) sum.part[j] = add(sum.part[j], wide[j]);
}
COLLAPSAR_INLINE void flush(LaneSums<DoubleVec>& sum, DoubleVec run) { sum.part[0] = add(sum.part[0], run); }
template <class V>
COLLAPSAR_INLINE LaneSums<V> noSums() {
  LaneSums<V> out;
#pragma GCC unroll 2
  for (int j = 0; j < LaneSums<V>::kParts; j++) out.part[j] = splat(0.0);
  return out;
}

template <class V>
struct GroupLanes {
  LaneSums<V> s = noSums<V>(), t = s, sToken = s;
};

// The sums of a few columns in the type computed in.
template <class V>
struct RunLanes {
  V s, t, sToken, sameS, sameT, sameToken;
};

template <class V>
COLLAPSAR_INLINE void storeGroup(BatchSums& to, int at, V largest, GroupLanes<V>& sums) {
  storeWide(to.reference + at,
            select(equal(largest, splat(static_cast<typename V::Scalar>(-kInfinity))), largest, referenceFor(largest)));
#pragma GCC unroll 2
  for (int j = 0; j < LaneSums<V>::kParts; j++) {
    const int lane = at + j * DoubleVec::kLanes;
    // e^d = 2^(d L) 2^(d (log2 e - L)): see blockSums.
    const DoubleVec t = sums.t.part[j];
    store(to.s + lane,
          sizeof(typename V::Scalar) == 4 ? fma(splat(kLog2eFloatLack), t, sums.s.part[j]) : sums.s.part[j]);
    store(to.t + lane, t);
    store(to.sToken + lane, sums.sToken.part[j]);
  }
}

// Numbers that stand in the type computed in.
template <class V>
COLLAPSAR_INLINE void storeCounts(int32_t* to, V counts) {
  typename V::Scalar lanes[V::kLanes];
  store(lanes, counts);
  for (int i = 0; i < V::kLanes; i++) to[i] = static_cast<int32_t>(lanes[i]);
}

// Of each row the columns before the first of its best equivalent one: by falling score, ties by rising column.
template <bool Distinct, class C>
__attribute__((noinline)) void countBefore(const C* x, int columns, const C* labels, const C* ownLabel, int at,
                                           typename VecOf<C>::V best, int32_t* before) {
  using V = typename VecOf<C>::V;
  const V zero = splat(static_cast<C>(0)), one = splat(static_cast<C>(1)), label = load(ownLabel + at);
  V above = zero, alike = zero, ahead = one;  // `ahead` is 0 from the best column on
  for (int c = 0; c < columns; c++) {
    const V v = load(x + c * kBatchRows + at);
    const auto isBest = equal(v, best), isSame = equal(splat(Distinct ? static_cast<C>(c) : labels[c]), label);
    above = maskAdd(greater(v, best), above, one);
    ahead = select(isSame, select(isBest, zero, ahead), ahead);
    alike = maskAdd(isBest, alike, ahead);
  }
  storeCounts(before + at, add(above, alike));
}

// What is compared: the maximum's column, ranks, and the maxima of both groups. If own's group is own alone (Distinct),
// the others' maximum is that of all or, where own is that, the next.
template <bool Distinct, class C>
COLLAPSAR_INLINE void compareLanes(const C* x, int columns, const C* labels, const C* ownLabel, const C* own, int at,
                                   typename VecOf<C>::V& otherLargest, typename VecOf<C>::V& sameLargest,
                                   NarrowRows<C>& rows) {
  using V = typename VecOf<C>::V;
  const V minusInfinity = splat(static_cast<C>(-kInfinity)), one = splat(static_cast<C>(1));
  const V ownValue = load(own + at), label = load(ownLabel + at);
  V above = splat(static_cast<C>(0)), equalCount = above, argmax = above;
  V others = minusInfinity, same = minusInfinity, next = minusInfinity;
  for (int c = 0; c < columns; c++) {
    const V v = load(x + c * kBatchRows + at);
    above = maskAdd(greater(v, ownValue), above, one);
    equalCount = maskAdd(equal(v, ownValue), equalCount, one);
    if (Distinct) {
      argmax = select(greater(v, others), splat(static_cast<C>(c)), argmax);
      next = max(min(v, others), next);
      others = max(v, others);
    } else {
      const auto isSame = equal(splat(labels[c]), label);
      argmax = select(greater(v, max(others, same)), splat(static_cast<C>(c)), argmax);
      others = max(select(isSame, minusInfinity, v), others);
      same = max(select(isSame, v, minusInfinity), same);
    }
  }
  otherLargest = Distinct ? select(equal(others, ownValue), next, others) : others;
  sameLargest = Distinct ? ownValue : same;
  storeCounts(rows.places.argmax + at, argmax);
  storeCounts(rows.places.above + at, above);
  storeCounts(rows.places.equal + at, equalCount);
  if (!Distinct || any(greater(equalCount, one))) {
    countBefore<Distinct>(x, columns, labels, ownLabel, at, sameLargest, rows.places.before);
  } else {
    storeCounts(rows.places.before + at, above);
  }
}

template <class C, bool Distinct>
COLLAPSAR_INLINE void sumLanes(const C* x, int columns, const C* labels, const C* ownLabel, int at,
                               const Exponential<typename VecOf<C>::V>& exponential, typename VecOf<C>::V otherLargest,
                               typename VecOf<C>::V sameLargest, BatchSums& othersOut, BatchSums& sameOut,
                               const char* ahead, int64_t aheadStep) {
  using V = typename VecOf<C>::V;
  constexpr C kNone = static_cast<C>(-kInfinity);
  const V zero = splat(static_cast<C>(0)), label = load(ownLabel + at);
  // Where all are -inf their exponentials shall stay out of the way of a NaN's, and so are taken against 0.
  const V otherOrigin = select(equal(otherLargest, splat(kNone)), zero, referenceFor(otherLargest));
  const V sameOrigin = select(equal(sameLargest, splat(kNone)), zero, referenceFor(sameLargest));
  GroupLanes<V> others, same;
  const auto addColumn = [&](RunLanes<V> & run, int c, V d, V e, V eToken) __attribute__((always_inline)) {
    if (Distinct) {
      run.s = add(run.s, e);
      run.t = fma(e, d, run.t);
      run.sToken = add(run.sToken, eToken);
    } else {
      const auto isSame = equal(splat(labels[c]), label);
      run.s = add(run.s, select(isSame, zero, e));
      run.t = select(isSame, run.t, fma(e, d, run.t));
      run.sToken = add(run.sToken, select(isSame, zero, eToken));
      run.sameS = maskAdd(isSame, run.sameS, e);
      run.sameT = select(isSame, fma(e, d, run.sameT), run.sameT);
      run.sameToken = maskAdd(isSame, run.sameToken, eToken);
    }
  };
  const auto differenceOf = [&](int c) __attribute__((always_inline)) {
    const V v = load(x + c * kBatchRows + at);
    return sub(v, Distinct ? otherOrigin : select(equal(splat(labels[c]), label), sameOrigin, otherOrigin));
  };
  for (int begin = 0; begin < columns; begin += kRunVectors<C>) {
    const int end = columns - begin < kRunVectors<C> ? columns : begin + kRunVectors<C>;
    RunLanes<V> run = {zero, zero, zero, zero, zero, zero};
    int c = begin;
#pragma GCC unroll 2
    for (; c + 2 <= end; c += 2) {
      __builtin_prefetch(ahead + c * aheadStep);
      __builtin_prefetch(ahead + (c + 1) * aheadStep);
      const V difference[2] = {differenceOf(c), differenceOf(c + 1)};
      V d[2], e[4];
      exponentials(difference, exponential, d, e);
      addColumn(run, c, d[0], e[0], e[2]);
      addColumn(run, c + 1, d[1], e[1], e[3]);
    }
    if (c < end) {
      const V difference[1] = {differenceOf(c)};
      V d[1], e[2];
      exponentials(difference, exponential, d, e);
      addColumn(run, c, d[0], e[0], e[1]);
    }
    flush(others.s, run.s);
    flush(others.t, run.t);
    flush(others.sToken, run.sToken);
    if (!Distinct) {
      flush(same.s, run.sameS);
      flush(same.t, run.sameT);
      flush(same.sToken, run.sameToken);
    }
  }
  if (Distinct) {  // one column against itself: e^0; the difference is NaN if it is NaN or +inf
    flush(same.s, splat(static_cast<C>(1)));
    flush(same.sToken, splat(static_cast<C>(1)));
    const V own = select(equal(sameLargest, splat(kNone)), zero, sameLargest);
    flush(same.t, sub(own, own));
    storeWide(sameOut.reference + at, sameLargest);
#pragma GCC unroll 2
    for (int j = 0; j < LaneSums<V>::kParts; j++) {
      store(sameOut.s + at + j * DoubleVec::kLanes, same.s.part[j]);
      store(sameOut.t + at + j * DoubleVec::kLanes, same.t.part[j]);
      store(sameOut.sToken + at + j * DoubleVec::kLanes, same.sToken.part[j]);
    }
  } else {
    storeGroup(sameOut, at, sameLargest, same);
  }
  storeGroup(othersOut, at, otherLargest, others);
}

template <class C, bool Distinct>
void narrowRowsAs(const C* labels, const int32_t* own, int columns, int count, const char* ahead, int64_t rowStep,
                  int64_t columnStep, NarrowRows<C>* rowsOut, NarrowScratch<C>* scratch) {
  using V = typename VecOf<C>::V;
  constexpr C kNone = static_cast<C>(-kInfinity);
  NarrowRows<C>& rows = *rowsOut;
  C* x = scratch->x;
  for (int at = 0; at < count; at += V::kLanes) {
    const int lanes = count - at < V::kLanes ? count - at : V::kLanes;
    V otherLargest, sameLargest;
    compareLanes<Distinct>(x, columns, labels, rows.ownLabel, rows.own, at, otherLargest, sameLargest, rows);
    if (Distinct) {
      for (int i = 0; i < lanes; i++) x[own[at + i] * kBatchRows + at + i] = kNone;
    }
    const Exponential<V> exponential(load(rows.scale[0] + at), load(rows.scale[1] + at), load(rows.scale[2] + at),
                                     load(rows.scale[3] + at));
    sumLanes<C, Distinct>(x, columns, labels, rows.ownLabel, at, exponential, otherLargest, sameLargest, rows.others,
                          rows.same, ahead + at * rowStep, columnStep);
  }
}

template <class T, class C>
void addNarrowRowsOf(const void* sourceData, int64_t rowStride, int64_t columnStride, int count, int columns,
                     const int32_t* own, const C* labels, NarrowRows<C>* rows, NarrowScratch<C>* scratch) {
  const T* source = static_cast<const T*>(sourceData);
  loadTransposed(source, rowStride, columnStride, count, columns, scratch->x);
  for (int i = 0; i < kBatchRows; i++) {
    const int column = i < count ? own[i] : 0;
    rows->own[i] = i < count ? scratch->x[column * kBatchRows + i] : static_cast<C>(0);
    rows->places.own[i] = rows->own[i];
    rows->ownLabel[i] = labels != nullptr ? labels[column] : static_cast<C>(column);
  }
  Exponential<typename VecOf<C>::V>::scalesOf(rows->length, rows->scale);
  // While these rows are worked on, the next come from memory: the same bytes of each next vector of rows, if rows lie
  // side by side line after line, else column by column.
  constexpr int64_t kSize = sizeof(T), kLanes = VecOf<C>::V::kLanes;
  const bool lines = columnStride == 1;
  const int64_t rowStep = (lines ? columns : rowStride) * kSize, columnStep = (lines ? kLanes : columnStride) * kSize;
  const char* ahead = static_cast<const char*>(sourceData) + kBatchRows * rowStride * kSize;
  const auto kernel = labels == nullptr ? narrowRowsAs<C, true> : narrowRowsAs<C, false>;
  kernel(labels, own, columns, count, ahead, rowStep, columnStep, rows, scratch);
}

}  // namespace
}  // namespace collapsar
