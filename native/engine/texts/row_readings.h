// A few rows, token by token: how specific each token is to the row's prompt (docs/reference/text-figures.md).
#pragma once

#include <cstdint>
#include <vector>

#include "row_scores.h"

namespace collapsar {

struct RowReading {
  std::int64_t row;     // in the step
  double specificity;   // of the whole row: nats a feature
  std::int64_t tokens;  // of the whole row
  // Of each token that was read, one after the other: where it begins and ends, in bytes of the text. Empty for ids.
  std::vector<double> places;
  std::vector<double> nats;  // of each token that was read
};

// The most generic rows and the most specific ones, half each, rising; of each its first `mostTokens` tokens. A token
// has its own feature's part of S own - mean of S over the other prompts, and half of each pair's that it is in; a pair
// with a mark is its one token's. Neither threads nor the order of the rows change a bit. Throws std::bad_alloc.
Outcome readRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                 const RowScores& scores, std::int64_t count, std::int64_t mostTokens, std::vector<RowReading>& out,
                 ThreadPool& pool, JobControl& control);

}  // namespace collapsar
