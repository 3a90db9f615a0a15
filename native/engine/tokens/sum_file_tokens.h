// [P,R,T] token log-probs in an open file -> [R,P] sums over the valid tokens of each row, read and summed in one go.
#pragma once

#include "engine/dtype.h"
#include "engine/file_reader.h"
#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "sum_tokens.h"

namespace collapsar {

// Little-endian elements, row-major and dense: token t of row r under prompt p stands at byte
// offset + ((p*rows + r)*tokens + t) * sizeOf(dtype). The offset need not be aligned.
struct FileScores {
  int fd;  // open for reading; its position is neither used nor moved
  std::int64_t offset;
  DType dtype;
  std::int64_t prompts, rows, tokens;
  const std::int64_t* lengths;  // [rows], 0 to tokens; what is past one is read only where skipping it costs more
};

// The bits of sumTokens on the same scores in memory, for any threads. Each thread reads a piece into a small buffer
// and sums it there: nothing but the sums grows with the file. If reading fails (`failure->offset` >= 0) or the outcome
// is Cancelled, `out` is undefined.
Outcome sumFileTokens(const FileScores& scores, const TokenSums& out, ThreadPool& pool, JobControl& control,
                      InvalidToken* firstInvalid, ReadFailure* failure);

}  // namespace collapsar
