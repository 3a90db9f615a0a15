// What is compared of a block of columns while it is read: ranks, and the extremes of each group.
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
  Wide<V, kScoreLanes> largest = fill<V, kScoreLanes>(-static_cast<typename V::Scalar>(kInfinity));
  Wide<V, kScoreLanes> least = fill<V, kScoreLanes>(static_cast<typename V::Scalar>(kInfinity));
};

// What is compared of 16 columns rather than summed.
template <class V>
COLLAPSAR_INLINE void scanLanes(const Wide<V, kScoreLanes>& value, V own, ScanCounters<V>& scan, Extremes<V>& group) {
#pragma GCC unroll 8
  for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
    group.largest.part[p] = larger(value.part[p], group.largest.part[p]);
    group.least.part[p] = smaller(value.part[p], group.least.part[p]);
    count(scan.above, greater(value.part[p], own));
    count(scan.equal, equal(value.part[p], own));
  }
}

template <class V>
COLLAPSAR_INLINE void endGroup(ScanCounters<V>& scan, int64_t group, const Extremes<V>& extremes) {
  V largest = extremes.largest.part[0], least = extremes.least.part[0];
  scan.largest.part[0] = larger(largest, scan.largest.part[0]);
#pragma GCC unroll 8
  for (int p = 1; p < Wide<V, kScoreLanes>::kParts; p++) {
    scan.largest.part[p] = larger(extremes.largest.part[p], scan.largest.part[p]);
    largest = larger(extremes.largest.part[p], largest);
    least = smaller(extremes.least.part[p], least);
  }
  scan.groupLargest[group] = largest;
  scan.groups.least[group] = least;
}

}  // namespace
}  // namespace collapsar
