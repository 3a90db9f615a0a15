// Token log-probs -> a sum over one byte of each cache line that a valid token lies in: what memory must move for rows
// with padding between them, whatever is computed of it. For benchmarks, beside read_bytes.h.
#pragma once

#include <cstdint>

#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "engine/tokens/sum_tokens.h"

namespace collapsar {

// Tokens lie side by side (tokenStride 1). `sum`: of the first byte of a valid token's in each 64-byte line, row by
// row: a line that two rows share counts for both.
Outcome touchLines(const TokenScores& scores, ThreadPool& pool, JobControl& control, std::uint64_t* sum);

}  // namespace collapsar
