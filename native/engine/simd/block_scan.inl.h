// What is compared of a block of columns: ranks, the extremes of each group, and where the maximum stands.
#pragma once

#include <stdint.h>

#include "block_groups.inl.h"
#include "kernel_table.h"
#include "scalars.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

template <class V, class T>
COLLAPSAR_INLINE Wide<V, kScoreLanes> loadLanes(const T* source) {
  Wide<V, kScoreLanes> out;
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) out.part[p] = load(source + p * V::kLanes);
  return out;
}
template <class V>
COLLAPSAR_INLINE void storeLanes(typename V::Scalar* x, const Wide<V, kScoreLanes>& value) {
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) store(x + p * V::kLanes, value.part[p]);
}

template <class V>
struct ScanCounters {
  Wide<V, kScoreLanes> largest;
  Counter above, equal;
  Groups<V> groups;
  V groupLargest[kBlockGroups];  // as Groups::least
};

template <class V>
struct Extremes {
  Wide<V, kScoreLanes> largest = splat<V, kScoreLanes>(-static_cast<typename V::Scalar>(kInfinity));
  Wide<V, kScoreLanes> least = splat<V, kScoreLanes>(static_cast<typename V::Scalar>(kInfinity));
};

// What is compared of 16 columns rather than summed.
template <class V>
COLLAPSAR_INLINE void scanLanes(const Wide<V, kScoreLanes>& value, V own, ScanCounters<V>& scan, Extremes<V>& group) {
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
    group.largest.part[p] = max(value.part[p], group.largest.part[p]);
    group.least.part[p] = min(value.part[p], group.least.part[p]);
    count(scan.above, greater(value.part[p], own));
    count(scan.equal, equal(value.part[p], own));
  }
}

template <class V>
COLLAPSAR_INLINE void endGroup(ScanCounters<V>& scan, int64_t group, const Extremes<V>& extremes) {
  V largest = extremes.largest.part[0], least = extremes.least.part[0];
  scan.largest.part[0] = max(largest, scan.largest.part[0]);
#pragma GCC unroll 8
  for (int p = 1; p < Wide<V, kScoreLanes>::kParts; p++) {
    scan.largest.part[p] = max(extremes.largest.part[p], scan.largest.part[p]);
    largest = max(extremes.largest.part[p], largest);
    least = min(extremes.least.part[p], least);
  }
  scan.groupLargest[group] = largest;
  scan.groups.least[group] = least;
}

// The first column that holds the block's maximum, which is above -inf.
template <class V>
COLLAPSAR_INLINE int64_t firstOf(const ScanCounters<V>& scan, typename V::Scalar largest) {
  int g = 0;
  while (!any(equal(scan.groupLargest[g], splat(largest)))) g++;
  const auto* x = scan.groups.from[g];
  for (int i = 0;; i += V::kLanes) {
    const uint32_t bits = movemask(equal(load(x + i), splat(largest)));
    if (bits != 0) return g * kGroupColumns + i + __builtin_ctz(bits);
  }
}

// The columns of a block above `best`, and those before `at` equal to it. `count`: a multiple of kScoreLanes.
template <class V>
__attribute__((noinline)) int64_t countBefore(const Groups<V>& groups, int64_t count, typename V::Scalar best,
                                              int64_t at) {
  Counter before;
  int64_t last = 0;  // of the vector that `at` stands in
  for (int64_t i = 0; i < count; i += V::kLanes) {
    const V v = load(groups.from[i / kGroupColumns] + i % kGroupColumns);
    collapsar::count(before, greater(v, splat(best)));
    if (i + V::kLanes <= at) {
      collapsar::count(before, equal(v, splat(best)));
    } else if (i < at) {
      last = __builtin_popcount(movemask(equal(v, splat(best))) & ((1u << (at - i)) - 1));
    }
  }
  return total(before) + last;
}

}  // namespace
}  // namespace collapsar
