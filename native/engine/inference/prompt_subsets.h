// What a step's figures are among fewer prompts than it has: each row's information among its own and k - 1 other
// distinct prompts for k = 2, 4, 8, ..., and its contrastive margin (docs/reference/metrics.md, repair 10).
#pragma once

#include <vector>

#include "engine/simd/kernel_table.h"
#include "inference.h"
#include "step_columns.h"

namespace collapsar {

// Which prompts are drawn: random orders of the distinct prompts, by their number and the seed alone. Read-only.
struct PromptSubsets {
  PromptSubsets(const StepColumns& columns, std::uint64_t seed);

  std::int64_t distinct;                     // D
  int sizes = 0;                             // k = 2, 4, ..., 2^sizes <= D
  std::int64_t orders;                       // prompts take them in turn, so that the error of the draws averages out
  std::vector<std::int32_t> representative;  // [D]: a column of each distinct prompt, rising
  std::vector<std::int32_t> promptOf;        // [columns]: which of them the column stands for
  std::vector<std::int32_t> columnAt;        // [orders, D]: representative column at each place
  std::vector<std::int32_t> orderOf;         // [D]: the order that a prompt's rows take
  std::vector<std::int32_t> placeOf;         // [D]: its place there
  std::vector<double> draws;                 // [sizes]: of others for a row
  std::vector<double> logSize;               // [sizes]: ln k
};

// One worker's scratch. Exact for k = 2, the mean over all other prompts, and for k = D. Between, a random order of
// prompts is cut into floor(D / k) blocks of k, each a draw without replacement: of the block with the row's own prompt
// k - 1 others are taken, of any other all but one. Blocks of 2k are two of k, so that all sizes take two additions a
// column.
class SubsetValues {
 public:
  SubsetValues(const InferenceInput& input, const PromptSubsets& subsets);

  // terms: [columns] exp(score - top), top the row's largest score.
  void compute(std::int64_t r, const double* terms, double top);

  double margin = 0;       // own score - mean of those under the other distinct prompts; inf where one of them is -inf
  std::vector<double> at;  // [sizes]: own score - ln of the mean of exp(score) over own and others, among 2^(i + 1)

 private:
  void computeBody(std::int64_t r, const double* terms, double top);
  void computeAvx2(std::int64_t r, const double* terms, double top);
  void computeAvx512(std::int64_t r, const double* terms, double top);
  void multiply(double own, double* values, std::int64_t count, int size);
  double marginOf(const double* scores, std::int32_t own) const;
  void computeInLogs(const double* scores, std::int32_t own, const std::int32_t* columnAt, std::int64_t place);

  const InferenceInput& input_;
  const PromptSubsets& subsets_;
  const KernelTable& kernels_;
  // Whole vectors. Of each block: the sum of its terms, and the same without its first.
  std::vector<double> sum_, rest_;
  // Of each size: a product is product_ 2^power_.
  static constexpr int kMostSizes = 32;
  double product_[kMostSizes] = {}, power_[kMostSizes] = {}, log_[kMostSizes] = {};
};

}  // namespace collapsar
