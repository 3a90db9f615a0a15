// One row of logits -> its statistics in one pass, bound by memory: an H200 has time for 13.8 instructions an element
// of bfloat16. The hot loop has 8.9 on sm_90 (9.1 on sm_80, 9.2 on sm_89, 9.0 on sm_100), copies included, and 10.8
// (14.4, 14.4, 10.9) where a chunk is ranked; scripts/test-cuda.mjs counts them.
//
// The next chunk is copied to shared memory while the present one is used, so that 64 registers a thread suffice for
// four blocks a multiprocessor. The packed maximum of a chunk comes first, so that the reference rises at most once
// a chunk; the argmax is found in the chunk in which the maximum rose, at the end of the row.
#include "logit_rows.h"

#include <type_traits>

#include "cuda/kernel_launch.h"
#include "cuda/rows/rank_counts.h"
#include "cuda/rows/results.h"
#include "cuda/rows/thread_group.cuh"
#include "cuda/rows/vectors.cuh"
#include "cuda/rows/with_type.h"

namespace collapsar::cuda {

namespace {

// Hides from the compiler that the value is the same: what is computed anew from it holds no registers until then.
__device__ __forceinline__ int launder(int number) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(number));
#endif
  return number;
}
__device__ __forceinline__ Scale<float> launder(Scale<float> scale) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+f"(scale.high), "+f"(scale.low));
#endif
  return scale;
}
__device__ __forceinline__ Scale<double> launder(Scale<double> scale) { return scale; }

// lowestFinite in both elements of a word.
__device__ __forceinline__ uint32_t lowestPair(double temperature) {
  return (bitsOfFloat(lowestFinite(temperature)) >> 16) * 0x10001u;
}

// The terms of a chunk. In bfloat16, -inf is replaced two elements at a time before unpacking, which saves 16
// instructions of 32.
template <class T, bool kBased, class C>
__device__ __forceinline__ void addTerms(const Vector (&v)[kChunkVectors], Sums<C>& sums, const Scale<C>& scale,
                                         uint32_t lowest) {
  constexpr bool kFinite = std::is_same_v<T, BFloat16> && !kBased;
  C s[kChunkVectors], t[kChunkVectors];
  COLLAPSAR_UNROLLED
  for (int j = 0; j < kChunkVectors; j++) {
    Vector kept = v[j];
    if constexpr (kFinite) {
      COLLAPSAR_UNROLLED
      for (int w = 0; w < 4; w++) kept.words[w] = maxPair(kept.words[w], lowest, T{});
    }
    C x[Element<T>::kPerVector];
    unpack<T>(kept, x);
    sumTerms<kBased, true, kFinite>(x, sums, scale, s[j], t[j]);
  }
  addChunk<true>(sums, (s[0] + s[1]) + (s[2] + s[3]), (t[0] + t[1]) + (t[2] + t[3]));
}

// The columns [begin, end) of row number `number`, by one group. Each warp writes its part of `piece` early: registers
// are short.
template <class T, int kLanes>
__device__ void addPiece(const LogitRowsJob& job, const T* row, int number, int begin, int end, LogitPiece& piece) {
  using Group = ThreadGroup<kLanes>;
  using C = typename Element<T>::Compute;
  using Warp = ThreadGroup<kWarpLanes>;
  const RowVectors<T> columns(row, begin, end);
  const int lane = Group::lane();
  // Seldom changed, and registers are short: each thread has a place of its own in shared memory.
  struct alignas(sizeof(Vector)) ThreadSlot {
    C best;
    int above, equal, chunk;
  };
  __shared__ struct {
    Vector ahead[kNextChunkVectors];
    ThreadSlot slots[kBlockThreads];
  } ofBlock;  // together, so that one register is the address of both
  const NextChunk next(ofBlock.ahead);
  columns.template start<kLanes>(0, lane, next);
  // Two loads one after the other, behind the first columns'.
  const T targetElement = job.targets != nullptr ? row[job.targets[number]] : T{0};
  const Scale<C> scale = scaleOf<C>(job.temperature);
  const uint32_t lowest = lowestPair(job.temperature);
  const bool writes = Warp::lane() == 0;
  if (writes) piece.target = static_cast<double>(floatOf(targetElement));
  Sums<C> sums = noSums<C>();
  ThreadSlot& slot = ofBlock.slots[threadIdx.x];
  slot = {-infinity<C>(), 0, 0, -1};

  const int chunks = columns.template chunks<kLanes>();
  const int endWholeChunks = columns.endWhole() / (kLanes * kChunkVectors);
  const Vector* following = reinterpret_cast<const Vector*>(row + (begin - columns.shift)) + lane;
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    following += kLanes * kChunkVectors;
    Vector v[kChunkVectors];
    next.take(v);
    if (chunk + 1 < endWholeChunks) {
      next.template start<kLanes>(following);
    } else if (chunk + 1 < chunks) {
      columns.template start<kLanes>(chunk + 1, lane, next);
    }

    const C largest = largestOf<T>(v);
    if (isBetter(largest, slot.best)) {
      slot.best = largest;
      slot.chunk = chunk;
    }
    if (job.ranked && !(largest < floatOf(targetElement))) {
      int above = 0, equal = 0;
      countRanks(v, targetElement, above, equal);
      slot.above += above;
      slot.equal += equal;
    }
    if (isNear(sums, largest, scale)) {
      rescaleNear(sums, largest, scale);
      addTerms<T, false>(v, sums, scale, lowest);
    } else if (largest < infinity<C>()) {  // after NaN or +inf the row's sums mean nothing
      rescale(sums, largest, launder(scale));
      addTerms<T, true>(v, sums, scale, lowest);
    }
  }

  const C best = slot.best, groupBest = Group::allReduce(best, BetterOf<C>{});
  struct Found {
    int above, equal, column;
  } found{slot.above, slot.equal, end};
  if (job.located && slot.chunk >= 0 && (best == groupBest || best != best)) {
    found.column = columns.template firstIn<kLanes>(slot.chunk, lane, groupBest);
  }
  found = Warp::allReduce(found, [](Found a, Found b) {
    return Found{a.above + b.above, a.equal + b.equal, a.column < b.column ? a.column : b.column};
  });
  if (writes) {
    piece.best = static_cast<double>(groupBest);
    piece.argmax = groupBest == -infinity<C>() ? begin : found.column;
    piece.rankAbove = found.above;
    const bool filledUp = lane == 0 && piece.target == -kHugeDouble;
    piece.rankEqual = found.equal - (filledUp ? static_cast<int>(columns.template filled<kLanes>()) : 0);
  }
  const WideSums warpSums = combine<kWarpLanes, true>(sums, scale);
  if (writes) piece.sums = warpSums;
}

// What stands for a piece that there is not: all of its columns lie after the row's.
__device__ __forceinline__ LogitPiece noPiece(int columns) {
  return {noWideSums(), -kHugeDouble, 0.0, columns, 0, 0, 0};
}

// Two pieces of a row in either order: of equal maxima the first column counts.
struct Merging {
  double scale;  // log2(e)/T
  __device__ LogitPiece operator()(LogitPiece a, const LogitPiece& b) const {
    a.sums = merged(a.sums, b.sums, scale);
    if (isBetter(b.best, a.best) || (b.argmax < a.argmax && !isBetter(a.best, b.best))) {
      a.best = b.best;
      a.argmax = b.argmax;
    }
    a.rankAbove += b.rankAbove;
    a.rankEqual += b.rankEqual;
    return a;
  }
};

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

// For compute capability 10.0 the compiler needs more registers not to spill.
template <class T>
constexpr int residentLogitBlocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  return sizeof(T) == 8 ? 2 : 3;
#else
  return logitBlocksPerMultiprocessor(sizeof(T));
#endif
}

// One group a unit: a whole row, or a piece of one.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads, residentLogitBlocks<T>()) logitRows(const LogitRowsJob job) {
  using Group = ThreadGroup<kLanes>;
  const int number = static_cast<int>(blockIdx.x) * Group::kGroups + Group::index();
  constexpr int kWarps = ThreadGroup<kWarpLanes>::kGroups;
  __shared__ LogitPiece ofWarp[kWarps];
  {
    // A group without work goes along with the last one's row and writes nothing.
    const int last = job.cut.units() - 1;
    const Unit unit = unitOf(job, number < last ? number : last);
    const T* const data = static_cast<const T*>(job.data) + (job.gathered ? unit.listed : unit.row) * job.rowStride;
    addPiece<T, kLanes>(job, data, unit.row, unit.begin, unit.end, ofWarp[threadIdx.x / kWarpLanes]);
  }
  LogitPiece whole;
  if constexpr (kLanes > kWarpLanes) {
    __syncthreads();
    if (threadIdx.x >= kWarpLanes) return;
    whole = reduceLanes<kWarps>(ofWarp[threadIdx.x % kWarps], Merging{kLog2e / job.temperature});
  }
  const int again = launder(static_cast<int>(blockIdx.x)) * Group::kGroups + Group::index();
  if (Group::lane() != 0 || again >= job.cut.units()) return;
  if constexpr (kLanes == kWarpLanes) whole = ofWarp[Group::index()];
  const Unit unit = unitOf(job, again);
  if (unit.cutUnit < 0) {
    storeRow(job, unit.row, whole);
  } else {
    job.pieces[unit.cutUnit] = whole;
  }
}

// One warp a row that was cut: its lanes take the pieces, in a fixed order, and do not wait for each one in turn.
__global__ void __launch_bounds__(kBlockThreads) mergeLogitPieces(const LogitRowsJob job) {
  using Group = ThreadGroup<kWarpLanes>;
  const int cutRow = static_cast<int>(blockIdx.x) * Group::kGroups + Group::index();
  if (cutRow >= job.cut.rows - job.cut.wholeRows) return;
  const Merging merging{kLog2e / job.temperature};
  const LogitPiece* const pieces = job.pieces + cutRow * job.cut.pieces;
  LogitPiece whole = noPiece(job.columns);
  for (int i = Group::lane(); i < job.cut.pieces; i += kWarpLanes) whole = merging(whole, pieces[i]);
  whole = Group::allReduce(whole, merging);
  whole.target = pieces[0].target;
  if (Group::lane() == 0) storeRow(job, rowOf(job, job.cut.wholeRows + cutRow), whole);
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
  return groups * logitBlocksPerMultiprocessor(elementBytes) * multiprocessors;
}

cudaError_t launchLogitRows(const LogitRowsJob& job, cudaStream_t stream) {
  if (job.cut.rows == 0) return cudaSuccess;
  withType(job.dtype, [&](auto type) { start<decltype(type)>(job, stream); });
  const int64_t cutRows = job.cut.rows - job.cut.wholeRows;
  if (cutRows > 0) {
    COLLAPSAR_LAUNCH(mergeLogitPieces, blocksOf(cutRows, ThreadGroup<kWarpLanes>::kGroups), kBlockThreads, stream, job);
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
