// Ranks columns by falling score, NaN first; ties by rising column. Rows come from the cache, mostly for hitRank alone.
#include "rank_columns.h"

#include "cuda/kernel_launch.h"
#include "cuda/rows/with_type.h"
#include "score_row_ends.cuh"

namespace collapsar::cuda {

namespace {

constexpr int64_t kMostRowsOfGroup = 32;
constexpr int64_t kBlockRowBytes = 1 << 15;  // from there on a block shares a row, not a warp

// kLanes threads a row, rowsOfGroup rows one after the other.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads) rankColumns(const ScoreRowsJob job, const int rowsOfGroup) {
  using Group = ThreadGroup<kLanes>;
  using Column = Ranked<OrderOf<T>>;
  const RankedFirst<OrderOf<T>> firstOf;
  const int lane = Group::lane();
  const int begin = (static_cast<int>(blockIdx.x) * Group::kGroups + Group::index()) * rowsOfGroup;
  const int end = begin + rowsOfGroup < job.cut.rows ? begin + rowsOfGroup : job.cut.rows;
  COLLAPSAR_ROLLED
  for (int entry = begin; entry < end; entry++) {
    const int row = job.firstRow + entry;
    const T* const scores = rowAt<T>(job, entry);
    const auto at = [&](int64_t column) {
      return Column{orderOf(floatOf(scores[column])), static_cast<int32_t>(column)};
    };

    if (job.out.hitRank != nullptr && job.out.hitRank[row] == kHitRankUnknown) {
      const int own = job.own[row];
      Column best = at(own);
      if (job.equivalent.signature != nullptr) {
        const int32_t label = job.equivalent.signature[own];
        COLLAPSAR_ROLLED
        for (int i = job.equivalent.start[label] + lane; i < job.equivalent.start[label + 1]; i += kLanes) {
          best = firstOf(best, at(job.equivalent.columns[i]));
        }
        best = Group::allReduce(best, firstOf);
      }
      int before = 0;
      COLLAPSAR_ROLLED_BY_4
      for (int64_t column = lane; column < job.columns; column += kLanes) before += isBefore(at(column), best) ? 1 : 0;
      before = Group::sum(before);
      __syncwarp();  // before the first lane writes what the others have looked at
      if (lane == 0) job.out.hitRank[row] = before;
    }

    if (job.out.topColumns == nullptr) continue;
    Column last{static_cast<OrderOf<T>>(~OrderOf<T>{0}), -1};
    COLLAPSAR_ROLLED
    for (int k = 0; k < job.out.topK; k++) {
      Column first{0, kNoColumn};
      COLLAPSAR_ROLLED_BY_4
      for (int64_t column = lane; column < job.columns; column += kLanes) {
        const Column x = at(column);
        if (isBefore(last, x)) first = firstOf(first, x);
      }
      last = Group::allReduce(first, firstOf);
      if (lane == 0) job.out.topColumns[static_cast<int64_t>(row) * job.out.topK + k] = last.column;
    }
  }
}

template <class T, int kLanes>
void start(const ScoreRowsJob& job, int64_t groupsAtOnce, cudaStream_t stream) {
  int64_t rows = job.cut.rows / groupsAtOnce;
  rows = rows < 1 ? 1 : rows > kMostRowsOfGroup ? kMostRowsOfGroup : rows;
  COLLAPSAR_LAUNCH((rankColumns<T, kLanes>), blocksOf(job.cut.rows, rows * ThreadGroup<kLanes>::kGroups), kBlockThreads,
                   stream, job, static_cast<int>(rows));
}

}  // namespace

cudaError_t launchRankColumns(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream) {
  if (job.cut.rows == 0 || (job.out.hitRank == nullptr && job.out.topColumns == nullptr)) return cudaSuccess;
  withType(job.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int64_t kBlocksOfMultiprocessor = 8;
    const int64_t blocks = kBlocksOfMultiprocessor * multiprocessors;
    if (job.columns * static_cast<int64_t>(sizeof(T)) >= kBlockRowBytes) {
      start<T, kBlockThreads>(job, blocks, stream);
    } else {
      start<T, kWarpLanes>(job, blocks * ThreadGroup<kWarpLanes>::kGroups, stream);
    }
  });
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
