// Tests whether the text depends on the prompt at all: a permutation p-value over the rows that test the half split.
#pragma once

#include "row_scores.h"

namespace collapsar {

struct HalfSplit {
  double statistic;
  double pValue;  // (1 + #{permuted >= observed}) / (permutations + 1); NaN without permutations
};

// Permutation b shuffles the labels of the tested rows, in their order, as LabelShuffles does for (seed, b).
Outcome halfSplit(const RowScores& scores, std::int64_t prompts, std::int64_t permutations, std::uint64_t seed,
                  HalfSplit& out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
