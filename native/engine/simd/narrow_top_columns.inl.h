// The best columns of rows that are lanes. Those of a block: block_top_columns.inl.h.
//
// A score and its column are one number: the score's distance below the row's maximum, with the column in its lowest
// bits. Such keys take a maximum and a minimum to put in order, where a score beside its column takes a comparison and
// four selections, and a network orders eight at a time: float32 rows take 1/6 less time at 64 columns, 1/5 at 256.
// Included by narrow_rows.inl.h.
#pragma once

#include <stdint.h>

#include "kernel_table.h"
#include "scalars.inl.h"

namespace collapsar {
namespace {

template <class C>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Bits = uint32_t;
};
template <>
struct BitsOf<double> {
  using Bits = uint64_t;
};

// The sign and a column, as the bits of a score: of keys alike but for their columns the lowest column is the largest.
template <class C>
struct ColumnTags {
  using Bits = typename BitsOf<C>::Bits;
  static constexpr Bits kColumn = kNarrowColumns - 1;
  C tag[kNarrowColumns];
  constexpr ColumnTags() : tag() {
    for (Bits column = 0; column < kNarrowColumns; column++)
      tag[column] = ofBits(Bits{1} << (sizeof(C) * 8 - 1) | column);
  }
  static constexpr C ofBits(Bits bits) { return __builtin_bit_cast(C, bits); }
};
template <class C>
constexpr ColumnTags<C> kColumnTags;

template <class V>
COLLAPSAR_INLINE void order(V& high, V& low) {
  const V least = smaller(high, low);
  high = larger(high, low);
  low = least;
}

constexpr int kSortingNetwork[19][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 1}, {2, 3},
                                        {4, 5}, {6, 7}, {2, 4}, {3, 5}, {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};

// Falling.
template <class V>
COLLAPSAR_INLINE void sortEight(V (&v)[8]) {
#pragma GCC unroll 19
  for (int i = 0; i < 19; i++) order(v[kSortingNetwork[i][0]], v[kSortingNetwork[i][1]]);
}

// The best eight of two falling lists of eight into the first; `dropped` rises to the best of the others.
template <class V>
COLLAPSAR_INLINE void mergeEight(V (&best)[8], const V (&more)[8], V& dropped) {
  V low[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    low[i] = smaller(best[i], more[7 - i]);
    best[i] = larger(best[i], more[7 - i]);
  }
#pragma GCC unroll 3
  for (int half = 4; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < half; i++) low[i] = larger(low[i], low[i + half]);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      if ((i & half) == 0) order(best[i], best[i + half]);
    }
  }
  dropped = larger(low[0], dropped);
}

// Whether the columns listed in the lanes `used` are the best by the scores themselves, in their order: no other is
// above the last. Of equal scores the keys are in order, and so it is the lowest columns that are listed.
template <class C>
__attribute__((noinline)) bool listsHold(const C* x, int columns, int at, uint32_t used,
                                         const int32_t (*topColumn)[kBatchRows]) {
  using V = typename VecOf<C>::V;
  const int size = columns < kTopListSize ? columns : kTopListSize;
  C value[kTopListSize][V::kLanes];
  for (int k = 0; k < kTopListSize; k++) {  // column 0 stands where there are fewer
    for (int i = 0; i < V::kLanes; i++) value[k][i] = x[topColumn[k][at + i] * kBatchRows + at + i];
  }
  const V last = load(value[size - 1]), one = set(static_cast<C>(1));
  V listed = set(static_cast<C>(0)), above = listed;
  uint32_t wrong = 0;
  for (int k = 0; k + 1 < size; k++) {
    const V here = load(value[k]);
    wrong |= laneBits(below(here, load(value[k + 1])));
    listed = addWhere(greater(here, last), listed, one);
  }
  for (int c = 0; c < columns; c++) above = addWhere(greater(load(x + c * kBatchRows + at), last), above, one);
  return ((wrong | ~laneBits(equal(above, listed))) & used) == 0;
}

// Names the best eight of `columns`, where `largest` is the maximum, in the first `rows` lanes from `at`. False where
// they are not sure, for scores are almost alike, or NaN or +inf.
template <class C>
COLLAPSAR_INLINE bool topLanes(const C* x, int columns, typename VecOf<C>::V largest, int at, int rows,
                               int32_t (*topColumn)[kBatchRows]) {
  using V = typename VecOf<C>::V;
  using Bits = typename BitsOf<C>::Bits;
  constexpr int kList = kTopListSize;
  const V none = set(static_cast<C>(-kInfinity)), zero = set(static_cast<C>(0));
  const V sign = set(static_cast<C>(-0.0)),
          least = set(static_cast<C>(sizeof(C) == 4 ? -__FLT_MAX__ : -__DBL_MAX__));  // of -inf no bits are free
  const V scoreBits = set(ColumnTags<C>::ofBits(~ColumnTags<C>::kColumn & ~(Bits{1} << (sizeof(C) * 8 - 1))));
  const V origin = select(equal(largest, none), zero, largest);
  const auto keyOf = [&](int c) __attribute__((always_inline)) {
    const V distance = larger(least, sub(load(x + c * kBatchRows + at), origin));
    return combineBits(distance, scoreBits, set(kColumnTags<C>.tag[c]));
  };
  V best[kList], dropped = none;
  const auto firstKeys = [&](V(&keys)[kList], int begin) __attribute__((always_inline)) {
    if (begin + kList <= columns) {
#pragma GCC unroll 8
      for (int i = 0; i < kList; i++) keys[i] = keyOf(begin + i);
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < kList; i++) keys[i] = begin + i < columns ? keyOf(begin + i) : none;
    }
    sortEight(keys);
  };
  firstKeys(best, 0);
  for (int begin = kList; begin < columns; begin += kList) {
    V more[kList];
    firstKeys(more, begin);
    mergeEight(best, more, dropped);
  }

  uint32_t certain = ~0u;
#pragma GCC unroll 8
  for (int k = 0; k < kList; k++) {
    const V next = k + 1 < kList ? best[k + 1] : dropped;
    const uint32_t apart = laneBits(greater(combineBits(best[k], scoreBits, sign), combineBits(next, scoreBits, sign)));
    certain &= k + 1 < columns ? apart : ~0u;
    C keys[V::kLanes];
    Bits bits[V::kLanes];
    store(keys, best[k]);
    __builtin_memcpy(bits, keys, sizeof bits);
    for (int i = 0; i < V::kLanes; i++) {
      topColumn[k][at + i] = static_cast<int32_t>(bits[i] & ColumnTags<C>::kColumn);
    }
  }
  const uint32_t used = ~0u >> (32 - rows);
  return (certain & used) == used || listsHold(x, columns, at, used, topColumn);
}

}  // namespace
}  // namespace collapsar
