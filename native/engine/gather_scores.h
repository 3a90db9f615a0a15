// Picks rows and columns of a score matrix: sampled rows, canonical column order, rows to leave out.
#pragma once

#include "job_control.h"
#include "score_stats.h"
#include "thread_pool.h"

namespace collapsar {

// out[i*outColumns + j] = scores(rowIndex ? rowIndex[i] : i, columnIndex ? columnIndex[j] : j) as float64.
// Indices are in range; they may repeat. out is dense [outRows, outColumns].
Outcome gatherScores(const ScoreMatrix& scores, const std::int32_t* rowIndex, std::int64_t outRows,
                     const std::int32_t* columnIndex, std::int64_t outColumns, double* out, ThreadPool& pool,
                     JobControl& control);

}  // namespace collapsar
