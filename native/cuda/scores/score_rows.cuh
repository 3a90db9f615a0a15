// One row of scores -> its statistics in one pass, by 1, 32 or 256 threads (short_score_rows.cuh has those between).
//
// Columns equivalent to the row's own are hidden (-inf) while the others are summed, so that the leave-one-out marginal
// needs no subtraction. The loop has 16.3 instructions an element of float32 on sm_90, 11 where nothing adds to sums of
// sequences, and 20 where a chunk is ranked. An H200 has time for 27 in a row of 4096.
#pragma once

#include <type_traits>

#include "cuda/kernel_launch.h"
#include "cuda/rows/rank_counts.h"
#include "score_row_ends.cuh"
#include "score_rows.h"

namespace collapsar::cuda {

namespace {

// Terms so far below the reference, as powers of 2, are left out: together they are less than a rounding.
constexpr float kNegligible = -100.0f;
// Stands for -inf and all below without a base: y is finite for sequences, and 2^y is 0 even for means of 2^63 tokens.
constexpr float kLowestScore = -0x1p+127f;

// Else the compiler converts a scale from double in every chunk again.
__device__ __forceinline__ void keep([[maybe_unused]] Scale<float>& scale) {
#if defined(__CUDA_ARCH__)
  asm("" : "+f"(scale.high), "+f"(scale.low));
#endif
}
__device__ __forceinline__ void keep(Scale<double>&) {}

// Whether all terms of a chunk are, for the sequences; the means of tokens lie nearer.
__device__ __forceinline__ bool isNegligible(const Sums<float>& sums, float largest, const Scale<float>& scale) {
  return largest * scale.high < sums.power + kNegligible;
}
__device__ __forceinline__ bool isNegligible(const Sums<double>& sums, double largest, const Scale<double>& scale) {
  return (largest - sums.base) * scale.exact() < static_cast<double>(kNegligible);
}

// The terms of a chunk, branches outside: between the vectors they cost a fifth of its instructions. Without a base the
// elements are bounded, once for both sums, and not the powers of each: 16 instructions of 187.
template <class T, bool kBased, bool kSequences, class C>
__device__ __forceinline__ void addChunkTo(const Vector (&v)[kChunkVectors], Sums<C>& seq, const Scale<C>& seqScale,
                                           Sums<C>& token, const Scale<C>& tokenScale) {
  C s[kChunkVectors], t[kChunkVectors], m[kChunkVectors], unused;
  COLLAPSAR_UNROLLED
  for (int j = 0; j < kChunkVectors; j++) {
    C x[Element<T>::kPerVector];
    unpack<T>(v[j], x);
    if constexpr (!kBased && std::is_same_v<C, float>) {
      COLLAPSAR_UNROLLED
      for (C& one : x) one = fmaxf(one, kLowestScore);
    }
    if (kSequences) sumTerms<kBased, true, !kBased>(x, seq, seqScale, s[j], t[j]);
    sumTerms<kBased, false, !kBased>(x, token, tokenScale, m[j], unused);
  }
  if (kSequences) addChunk<true>(seq, (s[0] + s[1]) + (s[2] + s[3]), (t[0] + t[1]) + (t[2] + t[3]));
  addChunk<false>(token, (m[0] + m[1]) + (m[2] + m[3]), C{0});
}

// As countRanks, but equals are counted only where there are any: 3 instructions an element of float32, not 4.
template <class T, int kVectors>
__device__ __forceinline__ void countOwnRanks(const Vector (&v)[kVectors], T target, int& above, int& equal) {
  if constexpr (kPaired<T>) {
    countRanks(v, target, above, equal);
  } else {
    const auto own = floatOf(target);
    decltype(oneIfAbove(own, own)) ones = 0;
    bool met = false;
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kVectors; j++) {
      typename Element<T>::Compute x[Element<T>::kPerVector];
      unpack<T>(v[j], x);
      COLLAPSAR_UNROLLED
      for (int e = 0; e < Element<T>::kPerVector; e++) {
        ones += oneIfAbove(x[e], own);
        met |= x[e] == own;
      }
    }
    above += static_cast<int>(ones);
    int unused = 0;
    if (met) countRanks(v, target, unused, equal);
  }
}

// Columns of a row, by one thread group; their first chunk is on its way to `next`, and then each next one. Lane 0
// writes `piece`, one field as soon as it is there: registers are short. `taken()`: `next` is free again.
template <class T, int kLanes, class Taken>
__device__ __forceinline__ void addPiece(const ScoreRowsJob& job, const RowVectors<T>& columns, const NextChunk& next,
                                         int ownColumn, T ownScore, double length,
                                         Scale<typename Element<T>::Compute> tokenScale, bool written,
                                         ScorePiece& piece, Taken taken) {
  using Group = ThreadGroup<kLanes>;
  using C = typename Element<T>::Compute;
  const C own = floatOf(ownScore);
  const Scale<C> seqScale = scaleOf<C>(1.0);
  keep(tokenScale);
  const int begin = columns.begin, end = columns.end, lane = Group::lane();

  const int32_t shared = sharedSignature(job.equivalent, ownColumn);
  const bool here = ownColumn >= begin && ownColumn < end;
  // The own column, counted from the first vector's first element; all bits set in the lanes that do not have it.
  unsigned ownAt = ~0u;
  if (here) {
    const unsigned at = static_cast<unsigned>(ownColumn - begin) + static_cast<unsigned>(columns.shift);
    if (static_cast<int>(at / Element<T>::kPerVector % kLanes) == lane) ownAt = at;
  }

  Sums<C> seq = noSums<C>(), token = seq;
  C othersBest = -infinity<C>();
  // Seldom changed or needed at the end alone: kept in shared memory, for registers are short.
  __shared__ C bestOf[kBlockThreads];     // NaN above all
  __shared__ int chunkOf[kBlockThreads];  // the first that holds it; -1 if that is -inf
  __shared__ int aboveOf[kBlockThreads], equalOf[kBlockThreads];
  bestOf[threadIdx.x] = -infinity<C>();
  chunkOf[threadIdx.x] = -1;
  aboveOf[threadIdx.x] = equalOf[threadIdx.x] = 0;

  const int chunks = columns.template chunks<kLanes>();
  const int wholeChunks = columns.endWhole() / (kLanes * kChunkVectors);  // of those after the first
  const Vector* following = reinterpret_cast<const Vector*>(columns.row + (begin - columns.shift)) + lane;
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    following += kLanes * kChunkVectors;
    Vector v[kChunkVectors];
    next.take(v);
    if (chunk + 1 < wholeChunks) {
      next.template start<kLanes>(following);
    } else if (chunk + 1 < chunks) {
      columns.template start<kLanes>(chunk + 1, lane, next);
    }

    C largest = largestOf<T>(v);
    if (isBetter(largest, bestOf[threadIdx.x])) {
      bestOf[threadIdx.x] = largest;
      chunkOf[threadIdx.x] = chunk;
    }
    if (!(largest < own)) countOwnRanks(v, ownScore, aboveOf[threadIdx.x], equalOf[threadIdx.x]);
    constexpr unsigned kChunkElements = Element<T>::kPerVector * kLanes * kChunkVectors;
    if (ownAt / kChunkElements == static_cast<unsigned>(chunk) || shared >= 0) {
      COLLAPSAR_UNROLLED
      for (int j = 0; j < kChunkVectors; j++) {
        const int vector = RowVectors<T>::template vectorOf<kLanes>(chunk, j, lane);
        const bool isOwn = static_cast<unsigned>(vector) == ownAt / Element<T>::kPerVector;
        uint32_t bits = isOwn ? 1u << ownAt % Element<T>::kPerVector : 0u;
        if (shared >= 0) bits = equivalentIn<T>(columns, vector, job.equivalent.signature, shared);
        if (bits != 0) v[j] = hiding<T>(v[j], bits);
      }
      largest = largestOf<T>(v);
    }
    othersBest = maxOrNan(othersBest, largest);

    // Means are nearer than the scores themselves: their power is no larger. In double, a largest of
    // -inf would be near, too.
    if (isNear(seq, largest, seqScale) & !isBased(token) & (sizeof(C) == 4 || fabs(largest) < infinity<C>())) {
      rescaleNear(seq, largest, seqScale);
      rescaleNear(token, largest, tokenScale);
      if (isNegligible(seq, largest, seqScale)) {
        addChunkTo<T, false, false>(v, seq, seqScale, token, tokenScale);
      } else {
        addChunkTo<T, false, true>(v, seq, seqScale, token, tokenScale);
      }
    } else if (fabs(largest) < infinity<C>()) {  // else nothing but -inf, or NaN or +inf: the sums mean nothing
      rescale(seq, largest, seqScale);
      rescale(token, largest, tokenScale);
      addChunkTo<T, true, true>(v, seq, seqScale, token, tokenScale);
    }
  }

  taken();

  written = written && lane == 0;
  const WideSums groupSeq = combine<kLanes, true>(seq, seqScale);
  if (written) piece.others.seq = groupSeq;
  const WideSums groupToken = combine<kLanes, false>(token, tokenScale);
  if (written) piece.others.token = groupToken;
  const C groupOthers = Group::best(othersBest);
  if (written) piece.others.best = static_cast<double>(groupOthers);
  // Mostly the own score is above all others: then it is the first, and nothing has to be looked for.
  if (here && shared < 0 && groupOthers < own) {
    if (written) {
      piece.best = static_cast<double>(own);
      piece.argmax = ownColumn;
      piece.rankAbove = 0;
      piece.rankEqual = 1;
    }
  } else {
    const int above = Group::sum(aboveOf[threadIdx.x]), equal = Group::sum(equalOf[threadIdx.x]);
    const C best = bestOf[threadIdx.x], groupBest = Group::best(best);
    int first = end;
    if (chunkOf[threadIdx.x] >= 0 && (best == groupBest || best != best)) {
      first = columns.template firstIn<kLanes>(chunkOf[threadIdx.x], lane, groupBest);
    }
    first = Group::least(first);
    if (written) {
      piece.best = static_cast<double>(groupBest);
      piece.argmax = groupBest == -infinity<C>() ? begin : first;
      piece.rankAbove = above;
      piece.rankEqual = equal - (own == -infinity<C>() ? static_cast<int>(columns.template filled<kLanes>()) : 0);
    }
  }
  if (job.equivalent.signature != nullptr) {
    const ScoreGroup same = equivalentSums<T, kLanes>(job, columns.row, begin, end, ownColumn, length);
    if (written) piece.same = same;
  } else if (written) {
    piece.same = aloneSums(here ? static_cast<double>(own) : -kHugeDouble);
  }
}

// Before compute capability 9.0 the compiler needs more registers for 16 bits not to spill.
template <class T>
constexpr int residentScoreBlocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  if (sizeof(T) == 2) return 2;
#endif
  return scoreBlocksPerMultiprocessor(sizeof(T));
}

// A thread each for rows of a few columns.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, residentScoreBlocks<T>()) scoreRowsByThreads(const ScoreRowsJob job) {
  const int number = static_cast<int>(blockIdx.x * kBlockThreads + threadIdx.x);
  // A thread without work goes along with the last row and writes nothing.
  const bool real = number < job.cut.rows;
  const int entry = real ? number : job.cut.rows - 1, row = job.firstRow + entry;
  const T* const data = rowAt<T>(job, entry);
  const RowVectors<T> columns(data, 0, job.columns);
  __shared__ Vector chunks[kNextChunkVectors];
  const NextChunk next(chunks);
  columns.template start<1>(0, 0, next);
  const int ownColumn = job.own[row];
  const T ownScore = data[ownColumn];
  const double length = lengthOf(job, row);
  ScorePiece piece;
  addPiece<T, 1>(job, columns, next, ownColumn, ownScore, length, scaleOf<typename Element<T>::Compute>(length), real,
                 piece, [] {});
  if (real) storeRow(job, {row, ownColumn, static_cast<double>(floatOf(ownScore)), length}, piece);
}

// Where a block shares a row, the compiler for sm_100 spills at three.
template <class T>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kResidentBlocksOfRows = 2;
#else
constexpr int kResidentBlocksOfRows = residentScoreBlocks<T>();
#endif

// One block a unit: a whole row, or a piece of one.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, kResidentBlocksOfRows<T>) scoreRowsByBlocks(const ScoreRowsJob job) {
  const int cutUnit = static_cast<int>(blockIdx.x) - job.cut.wholeRows;
  const bool isWhole = cutUnit < 0;
  const int entry = job.cut.wholeRows + (isWhole ? cutUnit : cutUnit / job.cut.pieces), row = job.firstRow + entry;
  const T* const data = rowAt<T>(job, entry);
  int begin = 0, end = job.columns;
  if (!isWhole) {
    begin = cutUnit % job.cut.pieces * job.cut.pieceColumns;
    if (end - begin > job.cut.pieceColumns) end = begin + job.cut.pieceColumns;
  }
  // On their way before anything waits for the row's label and length.
  const RowVectors<T> columns(data, begin, end);
  __shared__ Vector chunks[kNextChunkVectors];
  const NextChunk next(chunks);
  columns.template start<kBlockThreads>(0, static_cast<int>(threadIdx.x), next);
  const int ownColumn = job.own[row];
  const T ownScore = data[ownColumn];
  const double length = lengthOf(job, row);
  __shared__ RowOfScores at;
  __shared__ ScorePiece piece;
  if (threadIdx.x == 0) at = {row, ownColumn, static_cast<double>(floatOf(ownScore)), length};
  addPiece<T, kBlockThreads>(job, columns, next, ownColumn, ownScore, length,
                             scaleOf<typename Element<T>::Compute>(length), true, isWhole ? piece : job.pieces[cutUnit],
                             [] {});
  __syncthreads();
  if (!isWhole || threadIdx.x >= kRowParts) return;
  const int part = static_cast<int>(threadIdx.x);
  storeRowPart(job, at, piece, part, logCount(job, at.ownColumn, part >= 2));
}

// A row of a warp until its end is worked out.
template <class T>
struct HeldRow {
  RowOfScores at;
  Scale<typename Element<T>::Compute> tokenScale;
  T own;
  ScorePiece piece;
};

// Warps take row after row and do not wait for each other: the next row's first columns are loaded while an argmax is
// found. With one row a warp, a block would, by estimate, load nothing for a fourth of the time.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, residentScoreBlocks<T>()) scoreRowsByWarps(const ScoreRowsJob job) {
  using Group = ThreadGroup<kWarpLanes>;
  // So many rows end side by side, four lanes a row: one lane alone takes 1000 instructions one after the other.
  constexpr int kHeldRows = kWarpLanes / kRowParts;
  __shared__ HeldRow<T> heldOf[Group::kGroups][kHeldRows];
  HeldRow<T>* const held = heldOf[Group::index()];
  const int lane = Group::lane();
  const int step = static_cast<int>(gridDim.x) * Group::kGroups;
  int entry = static_cast<int>(blockIdx.x) * Group::kGroups + Group::index();
  if (entry >= job.cut.rows) return;
  const auto columnsOf = [&](int ofEntry) { return RowVectors<T>(rowAt<T>(job, ofEntry), 0, job.columns); };
  __shared__ Vector chunks[kNextChunkVectors];
  const NextChunk next(chunks);
  columnsOf(entry).template start<kWarpLanes>(0, lane, next);
  COLLAPSAR_ROLLED
  while (entry < job.cut.rows) {
    const int labelled = entry + lane * step;
    if (lane < kHeldRows && labelled < job.cut.rows) {
      const int row = job.firstRow + labelled, ownColumn = job.own[row];
      held[lane].own = rowAt<T>(job, labelled)[ownColumn];
      const double length = lengthOf(job, row);
      held[lane].at = {row, ownColumn, static_cast<double>(floatOf(held[lane].own)), length};
      held[lane].tokenScale = scaleOf<typename Element<T>::Compute>(length);
    }
    __syncwarp();
    int rows = 0;
    for (; rows < kHeldRows && entry < job.cut.rows; rows++) {
      HeldRow<T>& mine = held[rows];
      const RowVectors<T> columns = columnsOf(entry);
      entry += step;
      addPiece<T, kWarpLanes>(job, columns, next, mine.at.ownColumn, mine.own, mine.at.length, mine.tokenScale, true,
                              mine.piece, [&] {
                                if (entry >= job.cut.rows) return;
                                columnsOf(entry).template start<kWarpLanes>(0, lane, next);
                              });
    }
    __syncwarp();
    if (lane / kRowParts < rows) {
      const HeldRow<T>& ended = held[lane / kRowParts];
      const int part = lane % kRowParts;
      storeRowPart(job, ended.at, ended.piece, part, logCount(job, ended.at.ownColumn, part >= 2));
    }
    __syncwarp();  // before the next rows' labels come where these were read
  }
}

constexpr int kMergedAtOnce = kWarpLanes;      // pieces, a thread of the first warp each
constexpr int kMergeThreads = 2 * kWarpLanes;  // the sums, and what is counted and compared

// One block a row that was cut: fetches all its pieces at once and merges them with all warps, in the order of columns.
template <class T>
__global__ void __launch_bounds__(kMergeThreads) mergeScorePieces(const ScoreRowsJob job) {
  __shared__ ScorePiece fetched[kMergedAtOnce], whole;
  const int cutRow = static_cast<int>(blockIdx.x), entry = job.cut.wholeRows + cutRow, row = job.firstRow + entry;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes, lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int ownColumn = job.own[row];
  const RowOfScores at{row, ownColumn, static_cast<double>(floatOf(rowAt<T>(job, entry)[ownColumn])),
                       lengthOf(job, row)};
  const ScorePiece* const pieces = job.pieces + static_cast<int64_t>(cutRow) * job.cut.pieces;
  const bool ofTokens = lane % 2 == 1, ofSame = lane >= 2;  // of the first warp's lanes that merge sums

  WideSums sums = noWideSums();
  const BetterOf<double> better;
  for (int first = 0; first < job.cut.pieces; first += kMergedAtOnce) {
    const int count = job.cut.pieces - first < kMergedAtOnce ? job.cut.pieces - first : kMergedAtOnce;
    if (static_cast<int>(threadIdx.x) < count) fetched[threadIdx.x] = pieces[first + threadIdx.x];
    __syncthreads();
    if (warp == 0 && lane < kRowParts) {
      const double scale = ofTokens ? kLog2e / at.length : kLog2e;
      COLLAPSAR_ROLLED
      for (int i = 0; i < count; i++) {
        const ScoreGroup& group = ofSame ? fetched[i].same : fetched[i].others;
        sums = merged(sums, ofTokens ? group.token : group.seq, scale);
      }
    } else if (warp == 1 && lane == 0) {
      if (first == 0) whole = fetched[0];
      COLLAPSAR_ROLLED
      for (int i = first == 0 ? 1 : 0; i < count; i++) {
        const ScorePiece& piece = fetched[i];
        whole.others.best = better(whole.others.best, piece.others.best);
        whole.same.best = better(whole.same.best, piece.same.best);
        if (isBetter(piece.best, whole.best)) {
          whole.best = piece.best;
          whole.argmax = piece.argmax;
        }
        whole.rankAbove += piece.rankAbove;
        whole.rankEqual += piece.rankEqual;
      }
    }
    __syncthreads();
  }
  if (warp == 0 && lane < kRowParts) {
    ScoreGroup& group = ofSame ? whole.same : whole.others;
    (ofTokens ? group.token : group.seq) = sums;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < kRowParts) {
    storeRowPart(job, at, whole, lane, logCount(job, at.ownColumn, lane >= 2));
  }
}

}  // namespace

template <class T>
void startScoreRows(const ScoreRowsJob& job, int multiprocessors, cudaStream_t stream) {
  const int64_t rows = job.cut.rows;
  if (job.lanes == 1) {
    COLLAPSAR_LAUNCH(scoreRowsByThreads<T>, blocksOf(rows, kBlockThreads), kBlockThreads, stream, job);
  } else if (job.lanes == kWarpLanes) {
    // Shared memory may hold fewer blocks than registers do: two, not three, on a GPU of 8.9.
    int atOnce = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&atOnce, scoreRowsByWarps<T>, kBlockThreads, 0) != cudaSuccess) {
      return;  // the caller asks for the error
    }
    const int64_t blocks = blocksOf(rows, kBlockThreads / kWarpLanes), most = int64_t{multiprocessors} * atOnce;
    COLLAPSAR_LAUNCH(scoreRowsByWarps<T>, static_cast<unsigned>(blocks < most ? blocks : most), kBlockThreads, stream,
                     job);
  } else {
    COLLAPSAR_LAUNCH(scoreRowsByBlocks<T>, blocksOf(job.cut.units(), 1), kBlockThreads, stream, job);
  }
  const int cutRows = job.cut.rows - job.cut.wholeRows;
  if (cutRows > 0) {
    COLLAPSAR_LAUNCH(mergeScorePieces<T>, static_cast<unsigned>(cutRows), kMergeThreads, stream, job);
  }
}

}  // namespace collapsar::cuda
