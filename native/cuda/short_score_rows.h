// Rows of scores so short that a part of a warp holds all of one in its registers.
#pragma once

#include "score_rows.h"

namespace collapsar::cuda {

// Whether the rows of `job`, whose cut.rows says how many there are, are such.
bool areShortScoreRows(const ScoreRowsJob& job);
cudaError_t launchShortScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

}  // namespace collapsar::cuda
