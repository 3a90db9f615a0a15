// Sums one byte of each cache line that has a valid token of the log-probs: what memory must move for rows
// with padding between them, whatever is computed of it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/thread_pool.h"

namespace collapsar {

// Where tokens lie, side by side: row r of prompt p has lengths[r] elements from p * promptStride + offsets[r] on.
struct TokenPlaces {
  const unsigned char* data;
  std::int64_t elementBytes, prompts, promptStride;
  std::vector<std::int64_t> offsets, lengths;
};

// Sums the first byte of a valid token's in each 64-byte line, row by row: a line that two rows share counts for both.
std::uint64_t touchLines(const TokenPlaces& tokens, ThreadPool& pool);

}  // namespace collapsar
