// One row of scores -> its statistics in one pass. A row is shared by 1, 32 or 256 threads, so that the shortest fill
// their lanes and long ones the device (short_score_rows.cu has those between); the ends of rows are worked out side by
// side, one thread a row.
//
// The columns equivalent to a row's own are hidden (-inf) while the others are summed, so that the leave-one-out
// marginal needs no subtraction; mostly that is the own column alone, which one lane meets once. The loop has 18.8
// instructions an element of float32, both exponentials included; an H200's memory leaves time for 27.
#include "score_rows.h"

#include "kernel_launch.h"
#include "rank_counts.h"
#include "score_row_ends.cuh"
#include "top_columns.cuh"

namespace collapsar::cuda {

namespace {

// Terms so far below the reference, as powers of 2, are left out: together they are less than a rounding.
constexpr float kNegligible = -100.0f;

// The terms of a chunk, branches outside: between the vectors they cost a fifth of its instructions.
template <class T, bool kBased, bool kSequences, class C>
__device__ __forceinline__ void addChunkTo(const Vector (&v)[kChunkVectors], Sums<C>& seq, const Scale<C>& seqScale,
                                           Sums<C>& token, const Scale<C>& tokenScale) {
  C s[kChunkVectors], t[kChunkVectors], m[kChunkVectors], unused;
  COLLAPSAR_UNROLLED
  for (int j = 0; j < kChunkVectors; j++) {
    C x[Element<T>::kPerVector];
    unpack<T>(v[j], x);
    if (kSequences) sumTerms<kBased, true>(x, seq, seqScale, s[j], t[j]);
    sumTerms<kBased, false>(x, token, tokenScale, m[j], unused);
  }
  if (kSequences) addChunk<true>(seq, (s[0] + s[1]) + (s[2] + s[3]), (t[0] + t[1]) + (t[2] + t[3]));
  addChunk<false>(token, (m[0] + m[1]) + (m[2] + m[3]), C{0});
}

// The columns [begin, end) of a row, by one thread group. Its lane 0 writes `piece` (all but the top columns), one
// field as soon as it is there: registers are short.
template <class T, int kLanes>
__device__ void addPiece(const ScoreRowsJob& job, const T* row, int begin, int end, int ownColumn, T ownScore,
                         double length, const TopPlace& top, bool written, ScorePiece& piece) {
  using Group = ThreadGroup<kLanes>;
  using C = typename Element<T>::Compute;
  const C own = floatOf(ownScore);
  const Scale<C> seqScale = scaleOf<C>(1.0), tokenScale = scaleOf<C>(length);
  const RowVectors<T> columns(row, begin, end);
  const int lane = Group::lane();

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
  columns.template load<kLanes, true>(0, lane, next);
  COLLAPSAR_ROLLED
  for (int chunk = 0; chunk < chunks; chunk++) {
    Vector v[kChunkVectors];
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) v[j] = next[j];
    if (chunk + 1 < chunks) columns.template load<kLanes, true>(chunk + 1, lane, next);

    C largest = largestOf<T>(v);
    if (isBetter(largest, places.best)) {
      places.best = largest;
      places.chunk = chunk;
    }
    if (!(largest < own)) countRanks(v, ownScore, places.above, places.equal);
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
    if (isBetter(largest, othersBest)) othersBest = largest;
    if (!(largest < infinity<C>())) continue;  // NaN or +inf: the sums mean nothing

    raise(seq, largest, seqScale);
    raise(token, largest, tokenScale);
    const bool based = isBased(seq) || isBased(token);
    const bool sequences = powerOf<true>(largest, seq, seqScale) > static_cast<C>(kNegligible);
    if (based) {
      addChunkTo<T, true, true>(v, seq, seqScale, token, tokenScale);
    } else if (sequences) {
      addChunkTo<T, false, true>(v, seq, seqScale, token, tokenScale);
    } else {
      addChunkTo<T, false, false>(v, seq, seqScale, token, tokenScale);
    }
  }

  written = written && lane == 0;
  const WideSums groupSeq = combine<kLanes, true>(seq, seqScale);
  if (written) piece.others.seq = groupSeq;
  const WideSums groupToken = combine<kLanes, false>(token, tokenScale);
  if (written) piece.others.token = groupToken;
  const C best = places.best;
  const C groupOthers = Group::all(othersBest, BetterOf<C>{}), groupBest = Group::all(best, BetterOf<C>{});
  const bool topped = job.out.topK > 1;
  struct Counts {
    int above, equal, column;
  } counts{places.above, places.equal, end};
  if (!topped && places.chunk >= 0 && (best == groupBest || best != best)) {
    counts.column = columns.template firstIn<kLanes>(places.chunk, lane, groupBest);
  }
  counts = Group::all(counts, [](Counts a, Counts b) {
    return Counts{a.above + b.above, a.equal + b.equal, a.column < b.column ? a.column : b.column};
  });
  int argmax = groupBest == -infinity<C>() ? begin : counts.column;
  if (topped) argmax = topColumns<T, kLanes>(columns, lane, best, job.out.topK, top);
  if (written) {
    if (job.out.topK == 1) top.put(0, Ranked<uint64_t>{orderOf(static_cast<double>(groupBest)), argmax});
    piece.others.best = static_cast<double>(groupOthers);
    piece.best = static_cast<double>(groupBest);
    piece.argmax = argmax;
    piece.rankAbove = counts.above;
    piece.rankEqual = counts.equal - (own == -infinity<C>() ? static_cast<int>(columns.template filled<kLanes>()) : 0);
  }
  if (job.equivalent.signature != nullptr) {
    const ScoreGroup same = equivalentSums<T, kLanes>(job, row, begin, end, ownColumn, length);
    if (written) piece.same = same;
  } else if (written) {
    piece.same = aloneSums(here ? static_cast<double>(own) : -kHugeDouble);
  }
}

// What one thread of the block finishes, once its group has brought it together.
struct Finished {
  RowOfScores at;
  ScorePiece piece;
  bool wanted;
};

// One group a unit: a whole row, or a piece of one.
template <class T, int kLanes>
__global__ void __launch_bounds__(kBlockThreads, kScoreBlocksPerMultiprocessor) scoreRows(const ScoreRowsJob job) {
  using Group = ThreadGroup<kLanes>;
  const int units = job.cut.units();
  const int unit = static_cast<int>(blockIdx.x) * Group::kGroups + Group::index();
  // A group without work goes along with the last one's row and writes nothing.
  const bool real = unit < units;
  const int cutUnit = (real ? unit : units - 1) - job.cut.wholeRows;
  const bool isWhole = cutUnit < 0;
  const int entry = job.cut.wholeRows + (isWhole ? cutUnit : cutUnit / job.cut.pieces), row = job.firstRow + entry;
  const T* const data = static_cast<const T*>(job.data) + (job.gathered ? entry : row) * job.rowStride;
  int begin = 0, end = job.columns;
  if (!isWhole) {
    begin = cutUnit % job.cut.pieces * job.cut.pieceColumns;
    if (end - begin > job.cut.pieceColumns) end = begin + job.cut.pieceColumns;
  }
  const int ownColumn = job.own[row];
  const T ownScore = data[ownColumn];
  const double length = lengthOf(job, row);
  TopPlace top{nullptr, nullptr, real && job.out.topColumns != nullptr};
  if (job.out.topColumns != nullptr) top.columns = job.out.topColumns + static_cast<int64_t>(row) * job.out.topK;
  if (!isWhole) top = {job.pieces[cutUnit].topColumn, job.pieces[cutUnit].topOrder, real};

  const RowOfScores at{row, ownColumn, static_cast<double>(floatOf(ownScore)), length};
  if constexpr (kLanes == 1) {
    ScorePiece piece;
    addPiece<T, kLanes>(job, data, begin, end, ownColumn, ownScore, length, top, real, piece);
    if (real) storeRow(job, at, piece);
  } else {
    // Ends of rows side by side in one warp: alone, a row's logarithms take longer than a short row's columns.
    __shared__ Finished finished[Group::kGroups];
    Finished& mine = finished[Group::index()];
    if (Group::lane() == 0) {
      mine.at = at;
      mine.wanted = isWhole && real;
    }
    addPiece<T, kLanes>(job, data, begin, end, ownColumn, ownScore, length, top, real,
                        isWhole ? mine.piece : job.pieces[cutUnit]);
    __syncthreads();
    if (threadIdx.x < Group::kGroups && finished[threadIdx.x].wanted) {
      storeRow(job, finished[threadIdx.x].at, finished[threadIdx.x].piece);
    }
  }
}

// One thread a row that was cut: its pieces in the order of their columns.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) mergeScorePieces(const ScoreRowsJob job) {
  const int cutRow = static_cast<int>(blockIdx.x * kBlockThreads + threadIdx.x);
  if (cutRow >= job.cut.rows - job.cut.wholeRows) return;
  const int entry = job.cut.wholeRows + cutRow, row = job.firstRow + entry;
  const int ownColumn = job.own[row];
  const T* const data = static_cast<const T*>(job.data) + (job.gathered ? entry : row) * job.rowStride;
  const RowOfScores at{row, ownColumn, static_cast<double>(floatOf(data[ownColumn])), lengthOf(job, row)};
  const ScorePiece* const pieces = job.pieces + static_cast<int64_t>(cutRow) * job.cut.pieces;

  ScorePiece whole;
  whole.others = pieces[0].others;
  whole.same = pieces[0].same;
  whole.best = pieces[0].best;
  whole.argmax = pieces[0].argmax;
  whole.rankAbove = pieces[0].rankAbove;
  whole.rankEqual = pieces[0].rankEqual;
  const BetterOf<double> better;
  for (int i = 1; i < job.cut.pieces; i++) {
    const ScorePiece& piece = pieces[i];
    whole.others.seq = merged(whole.others.seq, piece.others.seq, kLog2e);
    whole.others.token = merged(whole.others.token, piece.others.token, kLog2e / at.length);
    whole.others.best = better(whole.others.best, piece.others.best);
    whole.same.seq = merged(whole.same.seq, piece.same.seq, kLog2e);
    whole.same.token = merged(whole.same.token, piece.same.token, kLog2e / at.length);
    whole.same.best = better(whole.same.best, piece.same.best);
    if (isBetter(piece.best, whole.best)) {
      whole.best = piece.best;
      whole.argmax = piece.argmax;
    }
    whole.rankAbove += piece.rankAbove;
    whole.rankEqual += piece.rankEqual;
  }
  storeRow(job, at, whole);
  if (job.out.topColumns == nullptr) return;
  TopList<uint64_t> list;
  for (int i = 0; i < job.cut.pieces; i++) {
    for (int k = 0; k < job.out.topK; k++) {
      if (pieces[i].topColumn[k] != kNoColumn) list.insert(pieces[i].topOrder[k], pieces[i].topColumn[k]);
    }
  }
  COLLAPSAR_UNROLLED
  for (int k = 0; k < kMostTop; k++) {
    if (k < job.out.topK) job.out.topColumns[static_cast<int64_t>(row) * job.out.topK + k] = list.column[k];
  }
}

template <class T, int kLanes>
void startShared(const ScoreRowsJob& job, cudaStream_t stream) {
  COLLAPSAR_LAUNCH((scoreRows<T, kLanes>), blocksOf(job.cut.units(), ThreadGroup<kLanes>::kGroups), kBlockThreads,
                   stream, job);
}

template <class T>
void start(const ScoreRowsJob& job, cudaStream_t stream) {
  switch (job.lanes) {
    case 1:
      startShared<T, 1>(job, stream);
      break;
    case 32:
      startShared<T, kWarpLanes>(job, stream);
      break;
    default:
      startShared<T, kBlockThreads>(job, stream);
  }
  const int cutRows = job.cut.rows - job.cut.wholeRows;
  if (cutRows > 0) {
    COLLAPSAR_LAUNCH(mergeScorePieces<T>, blocksOf(cutRows, kBlockThreads), kBlockThreads, stream, job);
  }
}

}  // namespace

int scoreLanes(int64_t rows, int64_t columns, int64_t elementBytes, int multiprocessors) {
  if (columns <= 32) return 1;
  if (columns * elementBytes <= 8192 || rows >= int64_t{16} * multiprocessors) return kWarpLanes;
  return kBlockThreads;
}

int64_t scoreGroupsAtOnce(int lanes, int multiprocessors) {
  return int64_t{kBlockThreads} / lanes * kScoreBlocksPerMultiprocessor * multiprocessors;
}

cudaError_t launchScoreRows(const ScoreRowsJob& job, cudaStream_t stream) {
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
  return cudaGetLastError();
}

}  // namespace collapsar::cuda
