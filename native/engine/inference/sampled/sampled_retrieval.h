// What a row's pairs say about retrieval. Whether the own prompt is the best of all P has no unbiased estimate from n
// draws (N + 1 conditions, n + 1 unknowns). There are certain bounds, and, without bias, how often the own prompt is
// the best of c candidates, itself and c - 1 others at random, for c up to n + 1.
#pragma once

#include "engine/columns_by_signature.h"
#include "sampled_rows.h"

namespace collapsar {

// How many columns stand before the own prompt, and how many nobody has scored. A tie goes to the lower column.
struct Standing {
  std::int64_t ahead, unseen;
};

Standing standingOf(const ScoredRow& row, const Strata& strata, const ColumnsBySignature& columns);

// The chance that the own prompt is the best of so many different ones, in [0, 1]; NaN if there are too few negatives.
double bestOfCandidates(const ScoredRow& row, const Strata& strata, std::int64_t candidates);

}  // namespace collapsar
