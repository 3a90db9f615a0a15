// Scores how well each used row fits each prompt, and keeps of that what the figures need.
#pragma once

#include <cstdint>
#include <vector>

#include "ngrams.h"
#include "used_rows.h"

namespace collapsar {

constexpr int kTemperatures = 9;  // 1, 2, 4, ..., 256

struct RowScores {
  std::vector<double> ownShare;            // [R, kTemperatures]: softmax(S / temperature) of the own prompt
  std::vector<std::int32_t> above, equal;  // [R]: prompts that score higher, or the same (own included)
  std::vector<double> excess;              // [R]: (S own - mean of S over the other prompts) / features
  // [R, P]: S of each row by its fold, but for what is the same under every prompt. Empty unless it was asked for.
  std::vector<double> all;
  // Rows that test the half split, in the order of positions, each with (S' - mean of S') / features under every
  // prompt.
  std::vector<std::int32_t> testedOwn;  // [tested]
  std::vector<double> testedExcess;     // [tested, P]
};

// scoreBytes: of scores that are kept at a time, about. Throws std::bad_alloc. `tokens` and `promptTokens` are of all
// texts of the step. keepsAll: whether `all` is wanted.
Outcome scoreRows(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, NgramHash hash,
                  std::int64_t scoreBytes, bool keepsAll, RowScores& out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
