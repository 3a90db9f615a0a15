// Counts the columns before a row's own, or before the first that is equivalent to it: by falling score, NaN first;
// ties by rising column. Few rows of float32 need it, and many of bfloat16, whose scores are often equal.
#include "rank_columns.h"

#include "cuda/kernel_launch.h"
#include "cuda/rows/with_type.h"
#include "score_row_ends.cuh"

namespace collapsar::cuda {

namespace {

constexpr int64_t kBlockRowBytes = 1 << 15;  // from there on a block shares a row, not a warp

// The first in rank of the columns that are equivalent to own.
template <class T, int kLanes>
__device__ __forceinline__ Ranked<OrderOf<T>> bestEquivalent(const ScoreRowsJob& job, const T* scores, int own) {
  using Column = Ranked<OrderOf<T>>;
  const RankedFirst<OrderOf<T>> firstOf;
  const auto at = [&](int column) { return Column{orderOf(floatOf(scores[column])), column}; };
  Column best = at(own);
  if (job.equivalent.signature == nullptr) return best;
  const int32_t label = job.equivalent.signature[own];
  COLLAPSAR_ROLLED
  for (int i = job.equivalent.start[label] + ThreadGroup<kLanes>::lane(); i < job.equivalent.start[label + 1];
       i += kLanes) {
    best = firstOf(best, at(job.equivalent.columns[i]));
  }
  return ThreadGroup<kLanes>::allReduce(best, firstOf);
}

// How many of the lane's columns are before `best`.
template <class T, int kLanes>
__device__ __forceinline__ int countBefore(const RowVectors<T>& columns, Ranked<OrderOf<T>> best) {
  using C = typename Element<T>::Compute;
  const C score = scoreOf(best.order);
  const bool isNumber = score == score;
  const int lane = ThreadGroup<kLanes>::lane(), chunks = columns.template chunks<kLanes>();
  int before = 0;
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    Vector v[kChunkVectors];
    columns.template load<kLanes, true>(chunk, lane, v);
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) {
      const int64_t first = columns.columnOf(RowVectors<T>::template vectorOf<kLanes>(chunk, j, lane));
      C x[Element<T>::kPerVector];
      unpack<T>(v[j], x);
      COLLAPSAR_UNROLLED
      for (int e = 0; e < Element<T>::kPerVector; e++) {
        const bool isNan = x[e] != x[e], above = isNumber & (isNan | (x[e] > score));
        const bool equal = (x[e] == score) | (isNan & !isNumber);
        before += above | (equal & (first + e >= 0) & (first + e < best.column)) ? 1 : 0;
      }
    }
  }
  return before;
}

// kLanes threads a row, rowsOfGroup rows, at most as many as a warp has lanes, one after the other.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads) rankColumns(const ScoreRowsJob job, const int rowsOfGroup) {
  using Group = ThreadGroup<kLanes>;
  const int begin = (static_cast<int>(blockIdx.x) * Group::kGroups + Group::index()) * rowsOfGroup;
  const int end = begin + rowsOfGroup < job.cut.rows ? begin + rowsOfGroup : job.cut.rows;
  const int looked = begin + static_cast<int>(threadIdx.x) % kWarpLanes;
  const bool isUnknown = looked < end && job.out.hitRank[job.firstRow + looked] == kHitRankUnknown;
  uint32_t unknown = __ballot_sync(kAllLanes, isUnknown);
  __syncwarp();  // a ballot orders no memory: all have looked before one writes
  COLLAPSAR_ROLLED
  for (; unknown != 0; unknown &= unknown - 1) {
    const int entry = begin + __ffs(static_cast<int>(unknown)) - 1, row = job.firstRow + entry;
    const RowVectors<T> columns(rowAt<T>(job, entry), 0, job.columns);
    const auto best = bestEquivalent<T, kLanes>(job, columns.row, job.own[row]);
    // Of a block's row all warps have looked whether it is unknown when the first of their sums are added.
    const int before = Group::sum(countBefore<T, kLanes>(columns, best));
    if (Group::lane() == 0) job.out.hitRank[row] = before;
  }
}

template <class T, int kLanes>
void start(const ScoreRowsJob& job, int64_t groupsAtOnce, cudaStream_t stream) {
  int64_t rows = job.cut.rows / groupsAtOnce;
  rows = rows < 1 ? 1 : rows > kWarpLanes ? kWarpLanes : rows;
  COLLAPSAR_LAUNCH((rankColumns<T, kLanes>), blocksOf(job.cut.rows, rows * ThreadGroup<kLanes>::kGroups), kBlockThreads,
                   stream, job, static_cast<int>(rows));
}

}  // namespace

cudaError_t launchRankColumns(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream) {
  if (job.cut.rows == 0 || job.out.hitRank == nullptr) return cudaSuccess;
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
