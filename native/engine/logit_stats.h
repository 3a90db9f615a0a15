// One row of vocabulary logits [N,V] -> log-sum-exp, entropy, and how its target stands in it, in one pass over the
// row.
#pragma once

#include "dtype.h"
#include "job_control.h"
#include "thread_pool.h"

namespace collapsar {

// Element (n, v) stands at data[n*rowStride + v*columnStride] (strides in elements, any sign).
struct LogitMatrix {
  const void* data;
  DType dtype;
  std::int64_t rows, columns;  // columns <= INT32_MAX
  std::int64_t rowStride, columnStride;
};

// Temperatures between these are computed with; further out a float32 cannot tell logits apart.
constexpr double kLowestTemperature = 1e-18, kHighestTemperature = 1e18;

struct LogitRows {
  const std::int32_t* targets;  // [rows], each in [0, columns), or null
  const std::uint8_t* mask;     // [rows] or null; 0: the row is not read
  double temperature;           // the distribution is softmax(logits / temperature)
};

// One array a field, each [rows]; null fields are not computed. In nats, of the logits divided by the temperature.
struct LogitStats {
  double* logsumexp;
  double* entropy;
  double* targetLogprob;    // the target's logit - logsumexp; needs targets
  std::int32_t* argmax;     // the first NaN, else the lowest column of the maximum
  std::int32_t* rankAbove;  // columns strictly above the target; needs targets
  std::int32_t* rankEqual;  // columns equal to the target, itself included; needs targets
};

// Means over the rows [begins[i], ends[i]) that the mask leaves; NaN if it leaves none. Null fields are not computed;
// those that are need the same field of LogitStats.
struct LogitSequences {
  std::int64_t count;
  const std::int64_t* begins;
  const std::int64_t* ends;
  double* meanEntropy;
  double* meanTargetLogprob;
};

// float64 is computed in float64, other types in float32 lanes with float64 accumulation. As torch: any NaN -> NaN, any
// +inf -> log-sum-exp +inf, all -inf -> -inf, entropy and target log-prob of such a row NaN; a -inf beside finite
// logits contributes 0. Masked rows get NaN and -1. Without columns the log-sum-exp is -inf, argmax -1. The same bits
// on every instruction set and with any threads; means are of exact sums.
Outcome logitStats(const LogitMatrix& logits, const LogitRows& rows, const LogitStats& out,
                   const LogitSequences& sequences, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
