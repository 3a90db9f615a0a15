// [P,R,T] token log-probs -> [R,P] sums over the valid tokens of each row (docs/reference/metrics.md: S[r][p]).
#pragma once

#include "engine/dtype.h"
#include "engine/job_control.h"
#include "engine/thread_pool.h"

namespace collapsar {

// Token t of row r under prompt p stands at data[p*promptStride + rowStart(r) + t*tokenStride] (strides in elements),
// where rowStart(r) is rowOffsets[r]*tokenStride for packed scores and r*rowStride for padded ones (rowOffsets null).
// Strides may be zero or negative; the caller has checked that every valid token lies inside its memory.
struct TokenScores {
  const void* data;
  DType dtype;
  std::int64_t prompts, rows;
  std::int64_t promptStride, rowStride, tokenStride;
  const std::int64_t* lengths;     // [rows], >= 0; tokens past a row's length are never read
  const std::int64_t* rowOffsets;  // [rows] or null
};

// In elements from data, of token 0 of (prompt, row).
inline std::int64_t segmentStart(const TokenScores& scores, std::int64_t prompt, std::int64_t row) {
  const std::int64_t inPrompt =
      scores.rowOffsets != nullptr ? scores.rowOffsets[row] * scores.tokenStride : row * scores.rowStride;
  return prompt * scores.promptStride + inPrompt;
}

// Where the sum of (p, r) goes: sums[r*columns + (columnOf ? columnOf[p] : p)].
struct TokenSums {
  double* sums;
  std::int64_t columns;
  const std::int32_t* columnOf;  // [prompts] or null
};

// The first (lowest prompt*rows+row, then token) used log-prob that is NaN or +inf; prompt < 0 if there is none.
struct InvalidToken {
  std::int64_t prompt = -1, row = -1, token = -1;
};

// Adds in float64 whatever the input type, over 32 fixed lanes and leaves of 4096 tokens, so that the bits depend on
// nothing but the row's tokens. An empty row sums to +0. firstInvalid: null if it is not wanted.
Outcome sumTokens(const TokenScores& scores, const TokenSums& out, ThreadPool& pool, JobControl& control,
                  InvalidToken* firstInvalid);

}  // namespace collapsar
