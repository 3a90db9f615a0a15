// Memory for every field of RowStats, poisoned, and a way to look at all of its bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/score_stats.h"

namespace collapsar::test {

struct RowStatsBuffers {
  RowStatsBuffers(std::int64_t rows, int topK)
      : doubles(static_cast<std::size_t>(rows) * 7, -777.0),
        indices(static_cast<std::size_t>(rows) * static_cast<std::size_t>(4 + topK), -7),
        stats{} {
    double* d = doubles.data();
    for (double** field : {&stats.matchedSeq, &stats.matchedToken, &stats.marginalSeq, &stats.marginalToken,
                           &stats.looMarginalSeq, &stats.looMarginalToken, &stats.posteriorEntropy}) {
      *field = d;
      d += rows;
    }
    std::int32_t* i = indices.data();
    for (std::int32_t** field :
         {&stats.argmax, &stats.rankAbove, &stats.rankEqual, &stats.hitRank, &stats.topColumns}) {
      *field = i;
      i += rows;
    }
    stats.topK = topK;
  }

  std::vector<double> doubles;
  std::vector<std::int32_t> indices;
  RowStats stats;
};

}  // namespace collapsar::test
