// Sums over scores in float64 lanes, and how runs in the type that is computed in are added to them.
#pragma once

#include "kernel_table.h"
#include "virtual_lanes.inl.h"

namespace collapsar {
namespace {

using ScoreSum = Wide<DoubleVec, kScoreLanes>;

COLLAPSAR_INLINE void flush(ScoreSum& sum, const Wide<DoubleVec, kScoreLanes>& run) {
#pragma GCC unroll 16
  for (int i = 0; i < ScoreSum::kParts; i++) sum.part[i] = add(sum.part[i], run.part[i]);
}
COLLAPSAR_INLINE void flush(ScoreSum& sum, const Wide<FloatVec, kScoreLanes>& run) {
  constexpr int kRatio = FloatVec::kLanes / DoubleVec::kLanes;
#pragma GCC unroll 8
  for (int i = 0; i < Wide<FloatVec, kScoreLanes>::kParts; i++) {
    DoubleVec wide[kRatio];
    widen(run.part[i], wide);
#pragma GCC unroll 2
    for (int j = 0; j < kRatio; j++) sum.part[i * kRatio + j] = add(sum.part[i * kRatio + j], wide[j]);
  }
}

// Runs of so many vectors are added in the type that is computed in, then to float64 lanes: in a longer run of like
// terms the same rounding error comes again and again (1e-6 for 128 floats).
template <class C>
constexpr int kRunVectors = sizeof(C) == 4 ? 4 : 8;

}  // namespace
}  // namespace collapsar
