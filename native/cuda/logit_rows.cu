// One row of logits -> its statistics in one pass. Bound by memory, if the arithmetic keeps up: an H200 has time
// for 13.8 instructions an element of bfloat16, and one exponential takes half of its special-function unit's time. The
// hot loop has 10.3 on sm_90 and sm_100 (10.5 on sm_80 and sm_89), loads included, and 12.8 (15.6) where a chunk
// reaches the target and is ranked, which with 1024 columns a warp most do; scripts/test-cuda.mjs counts them.
//
// The packed maximum of a chunk comes first, so that the reference is raised at most once a chunk, not once an element;
// the argmax is the chunk in which the maximum rose, looked through again at the end of the row.
#include "logit_rows.h"

#include "kernel_launch.h"
#include "rank_counts.h"
#include "row_results.h"
#include "row_vectors.cuh"
#include "thread_group.cuh"

namespace collapsar::cuda {

namespace {

// The columns [begin, end) of a row, by one thread group; complete in its lane 0.
template <class T, int kLanes>
__device__ LogitPiece pieceOf(const LogitRowsJob& job, const T* row, int begin, int end, T targetElement) {
  using Group = ThreadGroup<kLanes>;
  using C = typename Element<T>::Compute;
  const C target = floatOf(targetElement);
  const Scale<C> scale = scaleOf<C>(job.temperature);
  const RowVectors<T> columns(row, begin, end);
  const int lane = Group::lane();
  const bool ranked = job.ranked;

  Sums<C> sums = noSums<C>();
  // Seldom changed, and registers are short: each thread has a place of its own in shared memory.
  struct Places {
    C best;
    int above, equal, chunk;
  };
  __shared__ Places placesOf[kBlockThreads];
  Places& places = placesOf[threadIdx.x];
  places = {-infinity<C>(), 0, 0, -1};

  const int chunks = columns.template chunks<kLanes>();
  Vector next[kChunkVectors];
  columns.template load<kLanes, false>(0, lane, next);
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    Vector v[kChunkVectors];
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) v[j] = next[j];
    if (chunk + 1 < chunks) columns.template load<kLanes, false>(chunk + 1, lane, next);

    const C largest = largestOf<T>(v);
    if (isBetter(largest, places.best)) {
      places.best = largest;
      places.chunk = chunk;
    }
    if (ranked && !(largest < target)) {
      int above = 0, equal = 0;
      countRanks(v, targetElement, above, equal);
      places.above += above;
      places.equal += equal;
    }
    if (!(largest < infinity<C>())) continue;  // NaN or +inf: the row's sums mean nothing
    raise(sums, largest, scale);
    C s[kChunkVectors], t[kChunkVectors];
    const bool based = isBased(sums);
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) {
      C x[Element<T>::kPerVector];
      unpack<T>(v[j], x);
      if (!based) {
        sumTerms<false, true>(x, sums, scale, s[j], t[j]);
      } else {
        sumTerms<true, true>(x, sums, scale, s[j], t[j]);
      }
    }
    addChunk<true>(sums, (s[0] + s[1]) + (s[2] + s[3]), (t[0] + t[1]) + (t[2] + t[3]));
  }

  LogitPiece piece;
  piece.sums = combine<kLanes, true>(sums, scale);
  const C best = places.best, groupBest = Group::all(best, BetterOf<C>{});
  struct Found {
    int above, equal, column;
  } found{places.above, places.equal, end};
  if (job.located && places.chunk >= 0 && (best == groupBest || best != best)) {
    found.column = columns.template firstIn<kLanes>(places.chunk, lane, groupBest);
  }
  found = Group::all(found, [](Found a, Found b) {
    return Found{a.above + b.above, a.equal + b.equal, a.column < b.column ? a.column : b.column};
  });
  piece.best = static_cast<double>(groupBest);
  piece.target = static_cast<double>(target);
  piece.argmax = groupBest == -infinity<C>() ? begin : found.column;
  piece.rankAbove = found.above;
  piece.rankEqual = found.equal - (target == -infinity<C>() ? static_cast<int>(columns.template filled<kLanes>()) : 0);
  piece.reserved = 0;
  return piece;
}

template <class V>
__device__ __forceinline__ void store(V* field, int64_t row, V value) {
  if (field != nullptr) field[row] = value;
}

__device__ void storeRow(const LogitRowsJob& job, int64_t row, const LogitPiece& whole) {
  const LogitResult result = logitResult(whole.sums, whole.best, whole.target, job.targets != nullptr, job.temperature);
  store(job.out.logsumexp, row, result.logsumexp);
  store(job.out.entropy, row, result.entropy);
  store(job.out.targetLogprob, row, result.targetLogprob);
  store(job.out.argmax, row, whole.argmax);
  store(job.out.rankAbove, row, whole.rankAbove);
  store(job.out.rankEqual, row, whole.rankEqual);
}

__device__ __forceinline__ int rowOf(const LogitRowsJob& job, int listed) {
  const int entry = job.firstListed + listed;
  return job.rowIndex != nullptr ? job.rowIndex[entry] : entry;
}

// The same number, of which the compiler does not know that it is the same.
__device__ __forceinline__ int keptApart(int number) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(number));
#endif
  return number;
}

// What a group is to work on.
struct Unit {
  int row, listed;  // its number in the results, and in the list of rows
  int cutUnit;      // negative: a whole row
  int begin, end;   // columns
};

__device__ __forceinline__ Unit unitOf(const LogitRowsJob& job, int number) {
  Unit unit{0, 0, number - job.cut.wholeRows, 0, job.columns};
  unit.listed = job.cut.wholeRows + (unit.cutUnit < 0 ? unit.cutUnit : unit.cutUnit / job.cut.pieces);
  unit.row = rowOf(job, unit.listed);
  if (unit.cutUnit >= 0) {
    unit.begin = unit.cutUnit % job.cut.pieces * job.cut.pieceColumns;
    if (unit.end - unit.begin > job.cut.pieceColumns) unit.end = unit.begin + job.cut.pieceColumns;
  }
  return unit;
}

// One group a unit: a whole row, or a piece of one.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads, kLogitBlocksPerMultiprocessor) logitRows(const LogitRowsJob job) {
  using Group = ThreadGroup<kLanes>;
  const int units = job.cut.units();
  const int number = static_cast<int>(blockIdx.x) * Group::kGroups + Group::index();
  LogitPiece done;
  {
    // A group without work goes along with the last one's row and writes nothing.
    const Unit unit = unitOf(job, number < units ? number : units - 1);
    const T* const data = static_cast<const T*>(job.data) + (job.gathered ? unit.listed : unit.row) * job.rowStride;
    const T target = job.targets != nullptr ? data[job.targets[unit.row]] : T{0};
    done = pieceOf<T, kLanes>(job, data, unit.begin, unit.end, target);
  }
  if (Group::lane() != 0 || number >= units) return;
  // Worked out again: kept all along, it would take registers that the columns need.
  const int again = keptApart(number);
  const Unit unit = unitOf(job, again);
  if (unit.cutUnit < 0) {
    storeRow(job, unit.row, done);
  } else {
    job.pieces[unit.cutUnit] = done;
  }
}

// One thread a row that was cut: its pieces in the order of their columns.
__global__ void __launch_bounds__(kBlockThreads) mergeLogitPieces(const LogitRowsJob job) {
  const int cutRow = static_cast<int>(blockIdx.x * kBlockThreads + threadIdx.x);
  if (cutRow >= job.cut.rows - job.cut.wholeRows) return;
  const int listed = job.cut.wholeRows + cutRow;
  const int row = rowOf(job, listed);
  const LogitPiece* const pieces = job.pieces + cutRow * job.cut.pieces;
  LogitPiece whole = pieces[0];
  for (int i = 1; i < job.cut.pieces; i++) {
    const LogitPiece& piece = pieces[i];
    whole.sums = merged(whole.sums, piece.sums, kLog2e / job.temperature);
    if (isBetter(piece.best, whole.best)) {
      whole.best = piece.best;
      whole.argmax = piece.argmax;
    }
    whole.rankAbove += piece.rankAbove;
    whole.rankEqual += piece.rankEqual;
  }
  storeRow(job, row, whole);
}

// Rows of which the mask, if any, has `kept`: NaN and -1, but for the log-sum-exp.
__global__ void __launch_bounds__(kBlockThreads)
    fillLogits(const uint8_t* mask, bool kept, int64_t rows, double logsumexp, const LogitOutputs out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (row >= rows || (mask != nullptr && (mask[row] != 0) != kept)) return;
  store(out.logsumexp, row, logsumexp);
  store(out.entropy, row, undefined());
  store(out.targetLogprob, row, undefined());
  store(out.argmax, row, int32_t{-1});
  store(out.rankAbove, row, int32_t{-1});
  store(out.rankEqual, row, int32_t{-1});
}

bool isWarpRow(int64_t columns, int64_t elementBytes) { return columns * elementBytes <= kWarpRowBytes; }

template <class T>
void start(const LogitRowsJob& job, cudaStream_t stream) {
  if (isWarpRow(job.columns, sizeof(T))) {
    COLLAPSAR_LAUNCH((logitRows<T, kWarpLanes>), blocksOf(job.cut.units(), ThreadGroup<kWarpLanes>::kGroups),
                     kBlockThreads, stream, job);
  } else {
    COLLAPSAR_LAUNCH((logitRows<T, kBlockThreads>), blocksOf(job.cut.units(), 1), kBlockThreads, stream, job);
  }
}

}  // namespace

int64_t logitGroupsAtOnce(int64_t columns, int64_t elementBytes, int multiprocessors) {
  const int64_t groups =
      isWarpRow(columns, elementBytes) ? ThreadGroup<kWarpLanes>::kGroups : ThreadGroup<kBlockThreads>::kGroups;
  return groups * kLogitBlocksPerMultiprocessor * multiprocessors;
}

cudaError_t launchLogitRows(const LogitRowsJob& job, cudaStream_t stream) {
  if (job.cut.rows == 0) return cudaSuccess;
  switch (job.dtype) {
    case 0:
      start<double>(job, stream);
      break;
    case 1:
      start<float>(job, stream);
      break;
    case 2:
      start<Float16>(job, stream);
      break;
    default:
      start<BFloat16>(job, stream);
  }
  const int64_t cutRows = job.cut.rows - job.cut.wholeRows;
  if (cutRows > 0) {
    COLLAPSAR_LAUNCH(mergeLogitPieces, blocksOf(cutRows, kBlockThreads), kBlockThreads, stream, job);
  }
  return cudaGetLastError();
}

cudaError_t launchMaskedLogits(const uint8_t* mask, int64_t rows, const LogitOutputs& out, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  COLLAPSAR_LAUNCH(fillLogits, blocksOf(rows, kBlockThreads), kBlockThreads, stream, mask, false, rows, undefined(),
                   out);
  return cudaGetLastError();
}

cudaError_t launchEmptyLogits(const uint8_t* mask, int64_t rows, const LogitOutputs& out, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  COLLAPSAR_LAUNCH(fillLogits, blocksOf(rows, kBlockThreads), kBlockThreads, stream, mask, true, rows, -kHugeDouble,
                   out);
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
