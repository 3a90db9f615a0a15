// A second look at rows of scores: the rank of own's equivalents where the first look could not tell it, and the best
// columns for whoever asks.
#pragma once

#include "score_rows.h"

namespace collapsar::cuda {

// After the job's rows, on the same stream.
cudaError_t launchRankColumns(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

}  // namespace collapsar::cuda
