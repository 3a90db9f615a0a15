// How sure a step's figures are: intervals of two estimands and permutation p-values (docs/reference/intervals.md).
#pragma once

#include <vector>

#include "engine/job_control.h"
#include "engine/score_stats.h"
#include "engine/thread_pool.h"

namespace collapsar {

// The figures that get an interval and a p-value; every one is a mean over rows of a row's value.
enum Figure {
  kMiSeq,       // matchedSeq - marginalSeq
  kMiSeqLoo,    // matchedSeq - looMarginalSeq
  kMiPerToken,  // (matchedSeq - marginalSeq) / length
  kMiToken,     // matchedToken - marginalToken (`mi_estimate`)
  kRetrieval1,
  kRetrieval2,
  kRetrieval4,
  kRetrieval8,  // hit in the top k
  kFigures,
  // Of sampled pairs alone (sampled/): -marginalSeq, -marginalToken.
  kEntropySeq = kFigures,
  kEntropyToken,
  kAllFigures
};

struct FigureInference {
  double estimate;
  double batchLow, batchHigh, batchError;  // 95%; NaN where it cannot be given
  double populationLow, populationHigh, populationError;
  double pValue;  // (1 + #{permuted >= observed}) / (permutations + 1); NaN when permutations = 0
};

// A figure with the interval of its value for these very prompts alone.
struct SubsetInference {
  double estimate;
  double batchLow, batchHigh, batchError;  // 95%; NaN where it cannot be given
};

// Over different prompts, each counted once (prompt_jackknife.h).
struct OverPrompts {
  double estimate;
  double error;  // the jackknife's; NaN where fewer than three prompts are, or rows of one alone
};

struct AmongInference : SubsetInference {
  OverPrompts overPrompts;
};

struct InferenceInput {
  const double* scores;  // dense [rows, columns] sums S, all rows used and finite in matched and marginal
  std::int64_t rows, columns;
  ScoreRows labels;       // own column, lengths, signatures
  const RowStats* stats;  // of these rows
  std::int64_t permutations;
  std::uint64_t seed;
  // Most scores for which permutations use tables of 9 bytes a score; beyond, values are computed anew, to the same
  // bits.
  std::int64_t mostTabled = 1 << 21;
};

struct Inference {
  FigureInference figures[kFigures];
  OverPrompts overPrompts;            // the information among all distinct prompts
  std::vector<AmongInference> among;  // entry i: information among 2^(i + 1) distinct prompts, as far as there are
  SubsetInference margin;             // own score - mean of those under the other distinct prompts; NaN without rows
  std::int64_t marginRows;            // the rows that it is the mean of: impossible under no other prompt
  bool withinVariance;  // false: a prompt has one row only, so the batch intervals hold between-prompt variance as well
  bool calibrated;      // false: rows do not look sampled from the scored distributions; intervals use no posterior
};

// Methods: docs/reference/intervals.md. An interval is NaN under two rows or columns (batch), under three columns or
// two prompts with rows (population), or if its estimate is not finite. Same bits for any number of threads. Memory:
// tens of megabytes, and what is proportional to rows or columns. `control.doneUnits` counts rows times (columns +
// permutations).
Outcome inferStep(const InferenceInput& input, Inference& out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
