// What the kernels for scores have in common: where a row lies, the columns equivalent to its own, and its end.
#pragma once

#include "cuda/rows/thread_group.cuh"
#include "cuda/rows/vectors.cuh"
#include "score_rows.h"

namespace collapsar::cuda {

// Of rows where own has equals or equivalents, or a NaN before it: rank_columns.cu counts.
constexpr int32_t kHitRankUnknown = -1;

// Of an own column that others are equivalent to: its signature, which all columns to hide have. Else -1.
__device__ __forceinline__ int32_t sharedSignature(const SignatureColumns& equivalent, int ownColumn) {
  if (equivalent.signature == nullptr) return -1;
  const int32_t label = equivalent.signature[ownColumn];
  return equivalent.start[label + 1] - equivalent.start[label] > 1 ? label : -1;
}

// Which of a vector's columns have the signature `own`.
template <class T>
__device__ uint32_t equivalentIn(const RowVectors<T>& columns, int vector, const int32_t* signature, int32_t own) {
  if (vector >= columns.vectors()) return 0;
  const int64_t first = columns.columnOf(vector);
  uint32_t bits = 0;
  COLLAPSAR_UNROLLED
  for (int e = 0; e < Element<T>::kPerVector; e++) {
    const int64_t column = first + e;
    if (column >= columns.begin && column < columns.end && signature[column] == own) bits |= 1u << e;
  }
  return bits;
}

// Columns equivalent to own in [begin, end), one by one: the largest first, so that the reference does not rise.
template <class T, int kLanes>
__device__ ScoreGroup equivalentSums(const ScoreRowsJob& job, const T* row, int begin, int end, int own,
                                     double length) {
  using Group = ThreadGroup<kLanes>;
  const Scale<double> seqScale{kLog2e}, tokenScale{kLog2e / length};
  const int32_t label = job.equivalent.signature[own];
  const auto forEach = [&](auto visit) {
    for (int i = job.equivalent.start[label] + Group::lane(); i < job.equivalent.start[label + 1]; i += kLanes) {
      const int column = job.equivalent.columns[i];
      if (column >= begin && column < end) visit(static_cast<double>(floatOf(row[column])));
    }
  };
  double best = -kHugeDouble;
  forEach([&](double x) {
    if (isBetter(x, best)) best = x;
  });
  Sums<double> seq = noSums<double>(), token = seq;
  if (best < kHugeDouble) {
    seq.base = token.base = best;
    forEach([&](double x) {
      addElement(seq, x, seqScale);
      addElement(token, x, tokenScale);
    });
  }
  const WideSums wideSeq = combine<kLanes, true>(seq, seqScale), wideToken = combine<kLanes, false>(token, tokenScale);
  return {wideSeq, wideToken, Group::allReduce(best, BetterOf<double>{})};
}

// The own column, where none is equivalent to it.
__device__ __forceinline__ ScoreGroup aloneSums(double own) {
  const WideSums alone = own > -kHugeDouble ? WideSums{own, 0.0, 1.0, 0.0} : noWideSums();
  return {alone, alone, own};
}

template <class V>
__device__ __forceinline__ void store(V* field, int64_t row, V value) {
  if (field != nullptr) field[row] = value;
}

template <class T>
using OrderOf = decltype(orderOf(typename Element<T>::Compute{}));

template <class T>
__device__ __forceinline__ const T* rowAt(const ScoreRowsJob& job, int entry) {
  return static_cast<const T*>(job.data) + (job.gathered ? entry : job.firstRow + entry) * job.rowStride;
}

__device__ __forceinline__ double canonical(double x) { return x == x ? x : undefined(); }

// What the end of a row needs besides its sums.
struct RowOfScores {
  int32_t row, ownColumn;
  double own, length;
};

// With the own column itself.
__device__ __forceinline__ int equivalentColumns(const ScoreRowsJob& job, int ownColumn) {
  if (job.equivalent.signature == nullptr) return 1;
  const int32_t label = job.equivalent.signature[ownColumn];
  return job.equivalent.start[label + 1] - job.equivalent.start[label];
}

// ln of the number of all columns or of the others; NaN for none. A logarithm takes 70 instructions.
__device__ __forceinline__ double logCount(const ScoreRowsJob& job, int ownColumn, bool ofAll) {
  if (ofAll) return job.logColumns;
  const int equivalents = equivalentColumns(job, ownColumn);
  if (equivalents == 1) return job.logAllButOne;
  return equivalents < job.columns ? log(static_cast<double>(job.columns - equivalents)) : undefined();
}

// A fourth of a row's end: the mean of others (parts 0, 1) or of all, of sequences (0, 2) or of tokens.
constexpr int kRowParts = 4;
__device__ __forceinline__ void storeRowPart(const ScoreRowsJob& job, const RowOfScores& at, const ScorePiece& whole,
                                             int part, double logColumns) {
  const bool ofTokens = part % 2 == 1, ofAll = part >= 2;
  const double length = ofTokens ? at.length : 1.0;
  WideSums sums = ofTokens ? whole.others.token : whole.others.seq;
  double best = whole.others.best;
  if (ofAll) {
    sums = merged(sums, ofTokens ? whole.same.token : whole.same.seq, kLog2e / length);
    best = BetterOf<double>{}(best, whole.same.best);
  }
  const ScoreOutputs& out = job.out;
  const double mean = logColumns == logColumns ? logMeanOf(sums, best, length, logColumns) : undefined();
  store(
      ofAll ? (ofTokens ? out.marginalToken : out.marginalSeq) : (ofTokens ? out.looMarginalToken : out.looMarginalSeq),
      at.row, mean);
  if (part == 2) store(out.posteriorEntropy, at.row, posteriorEntropyOf(sums, best));
  if (!ofAll) store(ofTokens ? out.matchedToken : out.matchedSeq, at.row, canonical(at.own / length));
  if (part == 3) {
    store(out.argmax, at.row, whole.argmax);
    if (out.topK == 1) store(out.topColumns, at.row, whole.argmax);
    store(out.rankAbove, at.row, whole.rankAbove);
    store(out.rankEqual, at.row, whole.rankEqual);
    const bool isAlone = whole.rankEqual == 1 && equivalentColumns(job, at.ownColumn) == 1 && best == best;
    store(out.hitRank, at.row, isAlone ? whole.rankAbove : kHitRankUnknown);
  }
}

__device__ __forceinline__ void storeRow(const ScoreRowsJob& job, const RowOfScores& at, const ScorePiece& whole) {
  const double logOthers = logCount(job, at.ownColumn, false), logAll = logCount(job, at.ownColumn, true);
  COLLAPSAR_UNROLLED
  for (int part = 0; part < kRowParts; part++) storeRowPart(job, at, whole, part, part < 2 ? logOthers : logAll);
}

__device__ __forceinline__ double lengthOf(const ScoreRowsJob& job, int row) {
  const int64_t length = job.lengths[row];
  return static_cast<double>(length > 1 ? length : 1);
}

}  // namespace collapsar::cuda
