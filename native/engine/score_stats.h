// One row of cross-scores [R,P] -> that row's statistics (docs/reference/metrics.md), in one pass over the row.
#pragma once

#include "dtype.h"
#include "job_control.h"
#include "thread_pool.h"

namespace collapsar {

// Element (r, p) stands at data[r*rowStride + p*columnStride] (strides in elements, any sign).
struct ScoreMatrix {
  const void* data;
  DType dtype;
  std::int64_t rows, columns;
  std::int64_t rowStride, columnStride;
};

// What tells a row's own column. Every own[r] lies in [0, columns); every signature in [0, columns).
struct ScoreRows {
  const std::int32_t* own;        // [rows]
  const std::int64_t* lengths;    // [rows]; per-token values divide by max(length, 1)
  const std::int32_t* signature;  // [columns] or null (all distinct): equal values mean equivalent prompts
};

constexpr int kMaxTopK = 8;

// One array a field, each [rows] ([rows, topK] for topColumns). Null fields are not written.
// Suffix Seq: of the sums S; suffix Token: of the per-token means M = S/max(length,1). All in nats.
struct RowStats {
  double* matchedSeq;      // S[r][own]
  double* matchedToken;    // M[r][own]
  double* marginalSeq;     // logsumexp_p S - ln P
  double* marginalToken;   // logsumexp_p M - ln P
  double* looMarginalSeq;  // over the columns whose signature differs from own's, - ln(their number); NaN if none
  double* looMarginalToken;
  double* posteriorEntropy;  // of softmax_p S
  std::int32_t* argmax;      // the first NaN, else the lowest column of the maximum
  std::int32_t* rankAbove;   // columns strictly above own
  std::int32_t* rankEqual;   // columns equal to own, own included
  std::int32_t* hitRank;  // columns before the first of own's equivalents, as topColumns has them: hit@k is hitRank < k
  std::int32_t* topColumns;  // [rows, topK], topK <= columns: by falling score (NaN first), ties by rising column
  int topK;                  // 0..kMaxTopK; takes a second pass over the matrix
};

// float64 is computed in float64, other types in float32 lanes with float64 accumulation per block. As torch: any NaN
// -> NaN marginal, any +inf -> +inf, all -inf -> -inf, the entropy of such a row NaN; a -inf beside finite scores
// contributes 0. The same bits on every instruction set.
Outcome scoreStats(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, ThreadPool& pool,
                   JobControl& control);

}  // namespace collapsar
