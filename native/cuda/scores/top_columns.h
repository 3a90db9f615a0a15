// A second pass over rows of scores, on request: their best columns, if more than the argmax.
#pragma once

#include "score_rows.h"

namespace collapsar::cuda {

// Of workspace for so many of the job's rows.
int64_t topColumnsBytes(const ScoreRowsJob& job, int64_t rows);
// After the job's rows, on the same stream.
cudaError_t launchTopColumns(const ScoreRowsJob& job, void* workspace, cudaStream_t stream);

}  // namespace collapsar::cuda
