// What a row's pairs say about retrieval. Whether the own prompt is the best of all P cannot be estimated without bias
// from fewer: the draws tell how many of n others were better, and 1{none of N is better} is no combination of the
// chances of that (N + 1 conditions, n + 1 unknowns). What they do tell: bounds that are certain, and, without bias,
// how often the own prompt is the best of c candidates, itself and c - 1 of the others drawn at random, for c up to
// n + 1.
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
