// Which kernel takes rows of scores, with how many threads a row; kernels are compiled once for each element type.
#include "score_rows.h"

#include "cuda/kernel_launch.h"
#include "cuda/rows/with_type.h"
#include "short_score_rows.h"

namespace collapsar::cuda {

int scoreLanes(int64_t rows, int64_t columns, int64_t elementBytes, int multiprocessors) {
  if (columns <= 32) return 1;
  const int64_t bytes = columns * elementBytes;
  if (bytes <= 8192) return kWarpLanes;
  const int64_t warps = scoreGroupsAtOnce(kWarpLanes, elementBytes, multiprocessors), left = rows % warps;
  if (rows < warps) return kBlockThreads;
  // Only blocks can cut the rows of their last round: a few long rows left to warps would take as long as a full round.
  const bool isLastRoundFull = left == 0 || left >= warps * 9 / 10;
  const bool isLong = bytes > 2 * kLeastPieceBytes && rows / warps < 16;
  return isLong && !isLastRoundFull ? kBlockThreads : kWarpLanes;
}

int64_t scoreGroupsAtOnce(int lanes, int64_t elementBytes, int multiprocessors) {
  return int64_t{kBlockThreads} / lanes * scoreBlocksPerMultiprocessor(elementBytes) * multiprocessors;
}

cudaError_t launchScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream) {
  if (job.cut.rows == 0) return cudaSuccess;
  withType(job.dtype, [&](auto type) { startScoreRows<decltype(type)>(job, multiprocessors, stream); });
  return cudaGetLastError();
}

bool areShortScoreRows(const ScoreRowsJob& job) {
  if (job.columns <= 32) return false;  // a thread each: scoreLanes()
  return withType(job.dtype, [&](auto type) { return haveShortRows<decltype(type)>(job); });
}

cudaError_t launchShortScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream) {
  if (job.cut.rows == 0) return cudaSuccess;
  return withType(job.dtype,
                  [&](auto type) { return startShortScoreRows<decltype(type)>(job, multiprocessors, stream); });
}

}  // namespace collapsar::cuda
