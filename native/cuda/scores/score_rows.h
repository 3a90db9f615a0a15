// What the kernels of scoreStats are given, and how they are started. Strides in elements; columns lie side by side.
#pragma once

#include <cuda_runtime.h>

#include "cuda/rows/pieces.h"
#include "cuda/rows/results.h"

namespace collapsar::cuda {

// One piece of a row, as the kernel leaves it.
struct ScorePiece {
  ScoreGroup others, same;  // `same`: what is equivalent to own, and in this piece
  double best;
  int32_t argmax, rankAbove, rankEqual;
};

// Device pointers; null fields are not written. Each [rows], topColumns [rows, topK].
struct ScoreOutputs {
  double *matchedSeq, *matchedToken, *marginalSeq, *marginalToken, *looMarginalSeq, *looMarginalToken,
      *posteriorEntropy;
  int32_t *argmax, *rankAbove, *rankEqual, *hitRank, *topColumns;
  int32_t topK;
};

// Which columns are equivalent: columns[start[s]..start[s+1]) have signature s, rising. All null if all are distinct.
struct SignatureColumns {
  const int32_t *signature, *start, *columns;
};

struct ScoreRowsJob {
  const void* data;
  int32_t dtype;
  int64_t rowStride;
  int32_t columns;
  double logColumns, logAllButOne;  // ln columns, and ln(columns - 1), NaN of one column
  // Row firstRow + i, i in [0, cut.rows), is at data + (firstRow + i) * rowStride, or, gathered, at data + i *
  // rowStride.
  int32_t firstRow;
  bool gathered;
  const int32_t* own;      // [rows]
  const int64_t* lengths;  // [rows]
  SignatureColumns equivalent;
  ScoreOutputs out;
  int32_t lanes;  // that share a row: scoreLanes()
  RowPieces cut;
  ScorePiece* pieces;  // [cut.cutUnits()], workspace
};

// Blocks of a multiprocessor at a time, as registers allow without spilling. Of float32 two take 1.07 times as long on
// an H200, and four, which spill, 1.17 times.
constexpr int scoreBlocksPerMultiprocessor(int64_t elementBytes) { return elementBytes == 8 ? 2 : 3; }

// How many threads share a row, if it is not a short one (short_score_rows.h): 1, 32 or 256.
int scoreLanes(int64_t rows, int64_t columns, int64_t elementBytes, int multiprocessors);
int64_t scoreGroupsAtOnce(int lanes, int64_t elementBytes, int multiprocessors);
cudaError_t launchScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

// The same of one element type, which the job has: each has a file of its own, as all together compile for a minute.
template <class T>
void startScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream);

}  // namespace collapsar::cuda
