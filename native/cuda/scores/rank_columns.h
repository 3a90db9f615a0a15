// A second pass over rows of scores: the hit rank where the first could not tell it.
#pragma once

#include "score_rows.h"

namespace collapsar::cuda {

// After the job's rows, on the same stream.
cudaError_t launchRankColumns(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

}  // namespace collapsar::cuda
