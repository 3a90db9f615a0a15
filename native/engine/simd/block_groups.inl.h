// A block of columns cut into groups, each of which is looked through and summed on its own.
#pragma once

#include <stdint.h>

#include "kernel_table.h"
#include "scalars.inl.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

// Columns that are taken together: in the search for the best ones, and in the sums.
constexpr int kGroupColumns = 8 * kScoreLanes;
constexpr int kBlockGroups = kBlockColumns / kGroupColumns;

// A block cut into groups: where each stands, and its least values, over some of its columns each lane.
template <class V>
struct Groups {
  const typename V::Scalar* from[kBlockGroups];
  V least[kBlockGroups];
};

// The maximum over some of `count` columns, a multiple of kScoreLanes, each lane.
template <class V>
COLLAPSAR_INLINE V largestLanes(const typename V::Scalar* x, int64_t count) {
  Wide<V, kScoreLanes> largest = splat<V, kScoreLanes>(-static_cast<typename V::Scalar>(kInfinity));
  for (int64_t i = 0; i < count; i += kScoreLanes) {
#pragma GCC unroll 8
    for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
      largest.part[p] = max(load(x + i + p * V::kLanes), largest.part[p]);
    }
  }
  V all = largest.part[0];
#pragma GCC unroll 8
  for (int p = 1; p < Wide<V, kScoreLanes>::kParts; p++) all = max(largest.part[p], all);
  return all;
}

// The maximum of `count` columns: `changed` groups (a bit each) anew, others from `known`, as largestLanes gives it.
template <class V>
COLLAPSAR_INLINE typename V::Scalar largestOf(const Groups<V>& groups, int64_t count, const V* known,
                                              uint32_t changed) {
  V largest = splat(-static_cast<typename V::Scalar>(kInfinity));
  for (int64_t g = 0; g * kGroupColumns < count; g++) {
    const int64_t rest = count - g * kGroupColumns, here = rest < kGroupColumns ? rest : kGroupColumns;
    largest = max((changed >> g & 1) != 0 ? largestLanes<V>(groups.from[g], here) : known[g], largest);
  }
  return reduceMax(largest);
}

}  // namespace
}  // namespace collapsar
