// What the logit kernels are given, and how they are started. Strides in elements; columns lie side by side.
#pragma once

#include <cuda_runtime.h>

#include "cuda/rows/exponential_sums.h"
#include "cuda/rows/pieces.h"

namespace collapsar::cuda {

// One piece of a row, as the kernel leaves it.
struct LogitPiece {
  WideSums sums;
  double best;    // NaN if there is one
  double target;  // its logit, if there are targets
  int32_t argmax, rankAbove, rankEqual;
  int32_t reserved;
};

// Device pointers; null fields are not written. Each [rows].
struct LogitOutputs {
  double *logsumexp, *entropy, *targetLogprob;
  int32_t *argmax, *rankAbove, *rankEqual;
};

struct LogitRowsJob {
  const void* data;
  int32_t dtype;
  int64_t rowStride;
  int32_t columns;
  // Entry i of the rows to read, i in [firstListed, firstListed + cut.rows): row rowIndex[i], or i itself if null. It
  // stands at data + its number * rowStride, or, gathered, at data + (i - firstListed) * rowStride.
  const int32_t* rowIndex;
  int32_t firstListed;
  bool gathered;
  const int32_t* targets;  // [rows] or null
  double temperature;
  bool ranked, located;
  LogitOutputs out;
  RowPieces cut;
  LogitPiece* pieces;  // [cut.cutUnits()], workspace
};

// Rows up to so many bytes are a warp's.
constexpr int64_t kWarpRowBytes = 8192;
// 64 registers a thread are enough, but for float64; rows are cut as if they were on every GPU.
constexpr int logitBlocksPerMultiprocessor(int64_t elementBytes) { return elementBytes == 8 ? 3 : 4; }

// Groups that the device holds at once.
int64_t logitGroupsAtOnce(int64_t columns, int64_t elementBytes, int multiprocessors);
cudaError_t launchLogitRows(const LogitRowsJob& job, cudaStream_t stream);

// NaN and -1 in the rows that the mask leaves out.
cudaError_t launchMaskedLogits(const uint8_t* mask, int64_t rows, const LogitOutputs& out, cudaStream_t stream);

// What rows without columns have: log-sum-exp -inf, no entropy, no place. Those that the mask (or null) leaves.
cudaError_t launchEmptyLogits(const uint8_t* mask, int64_t rows, const LogitOutputs& out, cudaStream_t stream);

}  // namespace collapsar::cuda
