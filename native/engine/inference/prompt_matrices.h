// A step's rows by prompt: how well the rows of each prompt tell it from every other, and how sure that is.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/job_control.h"
#include "engine/score_stats.h"
#include "engine/thread_pool.h"

namespace collapsar {

struct PromptMatrixInput {
  const double* scores;  // dense [rows, columns] sums S, finite in matched and marginal
  std::int64_t rows, columns;
  ScoreRows labels;       // own column; signatures where columns share a prompt
  const RowStats* stats;  // of these rows
  bool matrices;          // whether `posterior` and `nats` are wanted
};

// P = columns. Of a prompt without rows everything is NaN, but for its row of `posterior`, which is 0.
struct PromptMatrices {
  std::vector<std::int64_t> rows;       // [P] rows whose own column this is
  std::vector<double> mi, low, high;    // [P] mean over them of matched - marginal; its 95% batch interval, or NaN
  std::vector<double> retrieval;        // [P] share of them that are retrieved
  std::vector<std::uint8_t> posterior;  // [P, P] row i, column p: mean over the rows of i of P(label = p | row); 255: 1
  std::vector<std::uint16_t> nats;      // [P, P] float16: mean over the rows of i of S[r][p] - marginal
};

// docs/reference/intervals.md has the posterior of the label and the interval. Same bits for any threads and
// instruction set. Memory is proportional to columns. `control.doneUnits` counts rows times columns.
Outcome promptMatrices(const PromptMatrixInput& input, PromptMatrices& out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
