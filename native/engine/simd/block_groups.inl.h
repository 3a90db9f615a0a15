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

template <class V>
COLLAPSAR_INLINE typename V::Scalar largestOf(const Groups<V>& groups, int64_t count) {
  Wide<V, kScoreLanes> largest = fill<V, kScoreLanes>(-static_cast<typename V::Scalar>(kInfinity));
  for (int64_t i = 0; i < count; i += kScoreLanes) {
    const auto* x = groups.from[i / kGroupColumns] + i % kGroupColumns;
#pragma GCC unroll 8
    for (int p = 0; p < Wide<V, kScoreLanes>::kParts; p++) {
      largest.part[p] = larger(load(x + p * V::kLanes), largest.part[p]);
    }
  }
  return foldLarger<V, kScoreLanes>(largest);
}

}  // namespace
}  // namespace collapsar
