// Rows of scores so short that a part of a warp holds all of one in its registers.
#pragma once

#include "score_rows.h"

namespace collapsar::cuda {

bool areShortScoreRows(const ScoreRowsJob& job);
// Of the job's own `cut` the number of rows alone is looked at; `lanes` and `pieces` are not.
cudaError_t launchShortScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

// The same of one element type, which the job has.
template <class T>
bool haveShortRows(const ScoreRowsJob& job);
template <class T>
cudaError_t startShortScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

}  // namespace collapsar::cuda
