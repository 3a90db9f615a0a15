// Short rows of scores -> their statistics. 2 to 32 threads hold a whole row in registers: its maximum is known before
// the first exponential. A warp takes as many rows as it has such groups, and finishes 32 rows side by side, one thread
// a row; warps do not wait for each other. An H200 has time for 980 instructions of a warp for 4 rows of 256 float32.
#pragma once

#include "cuda/kernel_launch.h"
#include "cuda/rows/rank_counts.h"
#include "score_row_ends.cuh"
#include "short_score_rows.h"

namespace collapsar::cuda {

namespace {

constexpr int kShortThreads = 128;
constexpr int kShortWarps = kShortThreads / kWarpLanes;
// As registers allow without spilling.
template <class T>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kShortBlocksPerMultiprocessor = sizeof(T) == 8 ? 3 : 5;
#else
constexpr int kShortBlocksPerMultiprocessor = sizeof(T) == 8 ? 4 : 5;
#endif
// A lane holds 32 elements, or 128 bytes of them.
template <class T>
constexpr int kLaneChunks = sizeof(T) == 2 ? 1 : 2;
template <class T>
constexpr int kLaneVectors = kChunkVectors* kLaneChunks<T>;
// As few threads as can hold a row: a warp then shares its fixed work among more rows (128 float32 columns: 1450
// instructions for 8 rows, against 880 for 4). Two threads have too few 16-bit vectors, and too little shared memory in
// float64.
template <class T>
constexpr int kFewestLanes = sizeof(T) == 4 ? 2 : 4;

// A row between its turn and its end.
template <class T>
struct ShortRow {
  using C = typename Element<T>::Compute;
  int32_t ownColumn;
  T own;
  Scale<C> tokenScale;
  C othersBest;
  int32_t argmax, rankAbove, rankEqual;
  double s, t, tokenS;  // of the others, relative to the best of them
};

// A warp's part of shared memory.
template <class T>
struct WarpRows {
  ShortRow<T> rows[kWarpLanes];
};

// A lane's elements of a row: as vectors, and numbered in bits.
template <class T, int kLanes>
struct LaneElements {
  using Type = T;
  static constexpr int kPerVector = Element<T>::kPerVector;
  static constexpr int kVectors = kLaneVectors<T>;
  static constexpr int kCount = kVectors * kPerVector;
  using C = typename Element<T>::Compute;
  static_assert(kCount <= 32, "a bit for each");

  Vector v[kVectors];

  __device__ __forceinline__ void load(const RowVectors<T>& columns, int lane) {
    COLLAPSAR_UNROLLED
    for (int chunk = 0; chunk < kLaneChunks<T>; chunk++) {
      Vector loaded[kChunkVectors];
      columns.template load<kLanes, true>(chunk, lane, loaded);
      COLLAPSAR_UNROLLED
      for (int j = 0; j < kChunkVectors; j++) v[chunk * kChunkVectors + j] = loaded[j];
    }
  }

  __device__ static int columnOf(const RowVectors<T>& columns, int lane, int element) {
    const auto at = static_cast<unsigned>(element);
    return static_cast<int>(at / kPerVector * (kLanes * kPerVector) + at % kPerVector) + lane * kPerVector -
           columns.shift;
  }

  // Of the bits those that stand for a column.
  __device__ static uint32_t inRow(const RowVectors<T>& columns, int lane, uint32_t bits) {
    for (uint32_t left = bits; left != 0; left &= left - 1) {
      const int column = columnOf(columns, lane, __ffs(static_cast<int>(left)) - 1);
      if (column < 0 || column >= columns.end) bits &= ~(left & (~left + 1));
    }
    return bits;
  }

  // The own column, or all that are equivalent to it.
  __device__ uint32_t ownBits(const RowVectors<T>& columns, int lane, int ownColumn, const int32_t* signature,
                              int32_t shared) const {
    uint32_t bits = 0;
    if (shared < 0) {
      const auto at = static_cast<unsigned>(ownColumn + columns.shift), vector = at / kPerVector;
      const bool here = vector % kLanes == static_cast<unsigned>(lane);
      bits = (here ? 1u : 0u) << (vector / kLanes * kPerVector + at % kPerVector);
    } else {
      for (int j = 0; j < kVectors; j++) {
        bits |= equivalentIn<T>(columns, j * kLanes + lane, signature, shared) << (j * kPerVector);
      }
    }
    return bits;
  }

  __device__ __forceinline__ void hide(uint32_t bits) {
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kVectors; j++) v[j] = hiding<T>(v[j], bits >> (j * kPerVector));
  }
};

template <class C>
struct Terms {
  C s, t, tokenS;
};

template <class C>
__device__ __forceinline__ Terms<C> sumOf(const Terms<C>& a, const Terms<C>& b) {
  return {a.s + b.s, a.t + b.t, a.tokenS + b.tokenS};
}

// y of an element so far from the largest. (Of sequences' scores, a factor of log2(e) in one float is enough: it is
// wrong by 1.3e-8 of itself.) Elements are never infinitely far: 0 * infinity were NaN.
__device__ __forceinline__ float powerBelow(float distance, const Scale<float>& scale) {
  return fmaf(distance, scale.low, distance * scale.high);
}
__device__ __forceinline__ double powerBelow(double distance, const Scale<double>& scale) {
  return distance * scale.value;
}
__device__ __forceinline__ float distanceOf(float x, float best) { return fmaxf(x - best, -0x1p100f); }
__device__ __forceinline__ double distanceOf(double x, double best) { return fmax(x - best, -0x1p100); }

// All ones if a >= b, else 0.
__device__ __forceinline__ uint32_t onesIfReaching(float a, float b) {
#if defined(__CUDA_ARCH__)
  uint32_t ones;
  asm("set.ge.u32.f32 %0, %1, %2;" : "=r"(ones) : "f"(a), "f"(b));
  return ones;
#else
  return a >= b ? ~0u : 0u;
#endif
}
__device__ __forceinline__ uint32_t onesIfReaching(double a, double b) { return a >= b ? ~0u : 0u; }

// The terms of elements [kFirst, kFirst + kCount) of x, added by pairs.
template <int kFirst, int kCount, class C, int kAll>
__device__ __forceinline__ Terms<C> termsOf(const C (&x)[kAll], C best, const Scale<C>& tokenScale) {
  if constexpr (kCount == 1) {
    const C distance = distanceOf(x[kFirst], best), y = distance * static_cast<C>(kLog2e), e = powerOfTwo(y);
    return {e, e * y, powerOfTwo(powerBelow(distance, tokenScale))};
  } else {
    return sumOf(termsOf<kFirst, kCount / 2>(x, best, tokenScale),
                 termsOf<kFirst + kCount / 2, kCount / 2>(x, best, tokenScale));
  }
}

// Vectors [kFirst, kFirst + kCount) relative to `best`, which no element exceeds: fewer than 10 instructions an element
// of float32, where a rising reference takes 18.8 (score_rows.cuh).
template <int kFirst, int kCount, class Elements, class C>
__device__ __forceinline__ Terms<C> termsBelow(const Elements& elements, C best, const Scale<C>& tokenScale) {
  if constexpr (kCount == 1) {
    C x[Elements::kPerVector];
    unpack<typename Elements::Type>(elements.v[kFirst], x);
    return termsOf<0, Elements::kPerVector>(x, best, tokenScale);
  } else {
    const Terms<C> first = termsBelow<kFirst, kCount / 2>(elements, best, tokenScale);
    return sumOf(first, termsBelow<kFirst + kCount / 2, kCount / 2>(elements, best, tokenScale));
  }
}

// Which elements equal `best`.
template <class Elements, class C>
__device__ __forceinline__ uint32_t reachingOf(const Elements& elements, C best) {
  uint32_t reaching = 0;
  COLLAPSAR_UNROLLED
  for (int j = 0; j < Elements::kVectors; j++) {
    C x[Elements::kPerVector];
    unpack<typename Elements::Type>(elements.v[j], x);
    COLLAPSAR_UNROLLED
    for (int e = 0; e < Elements::kPerVector; e++) {
      reaching |= onesIfReaching(x[e], best) & 1u << (j * Elements::kPerVector + e);
    }
  }
  return reaching;
}

template <class T>
__device__ __forceinline__ RowVectors<T> columnsOf(const ScoreRowsJob& job, int entry) {
  return RowVectors<T>(rowAt<T>(job, entry), 0, job.columns);
}

template <class T>
__device__ __forceinline__ void labelRow(const ScoreRowsJob& job, int entry, ShortRow<T>& held) {
  const int row = job.firstRow + entry;
  held.ownColumn = job.own[row];
  held.own = rowAt<T>(job, entry)[held.ownColumn];
  held.tokenScale = scaleOf<typename Element<T>::Compute>(lengthOf(job, row));
}

template <class T>
__device__ __forceinline__ void endRow(const ScoreRowsJob& job, int entry, const ShortRow<T>& held) {
  const RowOfScores at{job.firstRow + entry, held.ownColumn, static_cast<double>(floatOf(held.own)),
                       lengthOf(job, job.firstRow + entry)};
  ScorePiece whole;
  const double best = static_cast<double>(held.othersBest);
  whole.others.seq = whole.others.token = noWideSums();
  whole.others.best = best;
  if (best > -kHugeDouble) {
    whole.others.seq = {best, 0.0, held.s, held.t};
    whole.others.token = {best, 0.0, held.tokenS, 0.0};
  }
  whole.same = job.equivalent.signature == nullptr
                   ? aloneSums(at.own)
                   : equivalentSums<T, 1>(job, rowAt<T>(job, entry), 0, job.columns, at.ownColumn, at.length);
  whole.argmax = held.argmax;
  whole.rankAbove = held.rankAbove;
  whole.rankEqual = held.rankEqual;
  storeRow(job, at, whole);
}

// How many elements of the row are above the own score (times 2^16) and how many equal it. `hidden`: so many that equal
// it are not seen.
template <int kLanes, class T, class Elements>
__device__ __forceinline__ int ranksOf(const RowVectors<T>& columns, const Elements& elements, T own, int hidden) {
  using C = typename Element<T>::Compute;
  int above = 0, equal = 0;
  countRanks(elements.v, own, above, equal);
  const int ranks = reduceLanes<kLanes>(above << 16 | equal, [](int a, int b) { return a + b; });
  // What fills the row up, and what was hidden, is -inf.
  if (floatOf(own) == -infinity<C>()) return ranks - (Elements::kCount * kLanes - columns.end);
  return floatOf(own) == floatOf(own) ? ranks + hidden : ranks;
}

// The sums of what is not hidden, whose largest is `best`.
template <int kLanes, class T, class Elements>
__device__ __forceinline__ void sumOthers(bool writes, const Elements& elements, typename Element<T>::Compute best,
                                          ShortRow<T>& row) {
  using C = typename Element<T>::Compute;
  const Terms<C> terms = termsBelow<0, Elements::kVectors>(elements, best, row.tokenScale);
  const Terms<double> sums = reduceLanes<kLanes>(
      Terms<double>{static_cast<double>(terms.s), static_cast<double>(terms.t), static_cast<double>(terms.tokenS)},
      sumOf<double>);
  if (writes) {
    row.othersBest = best;
    row.s = sums.s;
    row.t = sums.t;
    row.tokenS = sums.tokenS;
  }
}

// The lane's elements that may be the row's first.
struct Candidates {
  uint32_t bits;
  bool undefined;  // there is a NaN in the row
};

// The argmax.
template <class Elements, int kLanes, class T>
__device__ __forceinline__ int32_t firstOf(const RowVectors<T>& columns, int lane, Candidates candidates) {
  using First = RankedFirst<OrderOf<T>>;
  Ranked<OrderOf<T>> first{0, kNoColumn};
  const auto take = [&](int column) {
    first = First{}(first, Ranked<OrderOf<T>>{orderOf(floatOf(columns.row[column])), column});
  };
  COLLAPSAR_ROLLED
  for (uint32_t bits = candidates.bits; bits != 0; bits &= bits - 1) {
    take(Elements::columnOf(columns, lane, __ffs(static_cast<int>(bits)) - 1));
  }
  if (candidates.undefined) {
    COLLAPSAR_ROLLED
    for (int column = lane; column < columns.end; column += kLanes) take(column);
  }
  return reduceLanes<kLanes>(first, First{}).column;
}

// Of the warp's rows before `end` the first 32 from `first`. A group without a row goes along with the last one's.
template <class T, int kLanes>
__device__ __forceinline__ void takeRows(const ScoreRowsJob& job, int first, int end, WarpRows<T>& space) {
  using Elements = LaneElements<T, kLanes>;
  constexpr int kGroups = kWarpLanes / kLanes;
  const int group = static_cast<int>(threadIdx.x % kWarpLanes / kLanes);
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int labelled = static_cast<int>(threadIdx.x % kWarpLanes);

  int entry = first + group < end ? first + group : end - 1;
  RowVectors<T> next = columnsOf<T>(job, entry);
  Elements elements;
  elements.load(next, lane);
  if (first + labelled < end) labelRow(job, first + labelled, space.rows[labelled]);
  __syncwarp();
  for (int turn = first; turn < end && turn < first + kWarpLanes; turn += kGroups) {
    const RowVectors<T> columns = next;
    ShortRow<T>& row = space.rows[entry - first];
    const bool real = kGroups == 1 || turn + group < end, writes = real && lane == 0;
    using C = typename Element<T>::Compute;
    // Columns equivalent to own are hidden with it, and have to be ranked before.
    const bool grouped = job.equivalent.signature != nullptr;
    int ranks = grouped ? ranksOf<kLanes>(columns, elements, row.own, 0) : 1;
    const uint32_t own = elements.ownBits(columns, lane, row.ownColumn, job.equivalent.signature,
                                          sharedSignature(job.equivalent, row.ownColumn));
    elements.hide(own);
    const C best = reduceLanes<kLanes>(largestOf<T>(elements.v), [](C a, C b) { return maxOrNan(a, b); });
    // Mostly the own score is above all others, in all of the warp's rows: then it is the first and the argmax, and a
    // fourth of the instructions are spared.
    const bool searched = grouped || __ballot_sync(kAllLanes, !(best < floatOf(row.own))) != 0;
    Candidates candidates{own, best != best};
    if (searched) {
      if (!grouped) ranks = ranksOf<kLanes>(columns, elements, row.own, 1);
      const uint32_t reaching = reachingOf(elements, best);
      candidates.bits |= best == -infinity<C>() ? Elements::inRow(columns, lane, reaching) : reaching;
    }
    if (writes) {
      row.rankAbove = ranks >> 16;
      row.rankEqual = ranks & 0xffff;
    }
    sumOthers<kLanes>(writes, elements, best, row);
    // The next row comes while the argmax is found, into the registers that are free by then.
    const int following = turn + kGroups;
    if (following < end && following < first + kWarpLanes) {
      entry = following + group < end ? following + group : end - 1;
      next = columnsOf<T>(job, entry);
      elements.load(next, lane);
    }
    int32_t argmax = row.ownColumn;
    if (searched) argmax = firstOf<Elements, kLanes>(columns, lane, candidates);
    if (writes) row.argmax = argmax;
  }
  __syncwarp();
  if (first + labelled < end) endRow(job, first + labelled, space.rows[labelled]);
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kShortThreads, kShortBlocksPerMultiprocessor<T>)
    shortScoreRows(const ScoreRowsJob job, const int rowsOfWarp) {
  __shared__ WarpRows<T> ofWarps[kShortWarps];
  const int warp = static_cast<int>(threadIdx.x / kWarpLanes);
  const int begin = (static_cast<int>(blockIdx.x) * kShortWarps + warp) * rowsOfWarp;  // kMostRows is far below 2^31
  const int end = begin + rowsOfWarp < job.cut.rows ? begin + rowsOfWarp : job.cut.rows;
  COLLAPSAR_ROLLED
  for (int first = begin; first < end; first += kWarpLanes) {
    takeRows<T, kLanes>(job, first, end, ofWarps[warp]);
  }
}

// The most vectors that a row of `job` may lie in.
template <class T>
int64_t vectorsOfRows(const ScoreRowsJob& job) {
  constexpr int64_t kPerVector = Element<T>::kPerVector;
  const bool aligned = reinterpret_cast<uintptr_t>(job.data) % kVectorBytes == 0 && job.rowStride % kPerVector == 0;
  return (job.columns + kPerVector - 1 + (aligned ? 0 : kPerVector - 1)) / kPerVector;
}

template <class T, int kLanes = kFewestLanes<T>>
cudaError_t startByLanes(const ScoreRowsJob& job, int64_t vectors, int multiprocessors, cudaStream_t stream) {
  if constexpr (kLanes < kWarpLanes) {
    if (vectors > kLanes * kLaneVectors<T>) return startByLanes<T, 2 * kLanes>(job, vectors, multiprocessors, stream);
  }
  constexpr int kGroups = kWarpLanes / kLanes;
  // All warps run at once, and end at once. Shared memory may hold fewer blocks than registers do: of float32 by two
  // lanes a GPU of 8.0 has room for three, one of 8.9 for two, and the others would begin when these have ended.
  int blocks = 0;
  const cudaError_t asked =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shortScoreRows<T, kLanes>, kShortThreads, 0);
  if (asked != cudaSuccess) return asked;
  const int64_t warps = int64_t{multiprocessors} * (blocks > 0 ? blocks : 1) * kShortWarps;
  const int rowsOfWarp = static_cast<int>((job.cut.rows + warps * kGroups - 1) / (warps * kGroups)) * kGroups;
  COLLAPSAR_LAUNCH((shortScoreRows<T, kLanes>), blocksOf(job.cut.rows, int64_t{kShortWarps} * rowsOfWarp),
                   kShortThreads, stream, job, rowsOfWarp);
  return cudaGetLastError();
}

}  // namespace

template <class T>
bool haveShortRows(const ScoreRowsJob& job) {
  return vectorsOfRows<T>(job) <= kWarpLanes * kLaneVectors<T>;
}

template <class T>
cudaError_t startShortScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream) {
  return startByLanes<T>(job, vectorsOfRows<T>(job), multiprocessors, stream);
}

}  // namespace collapsar::cuda
