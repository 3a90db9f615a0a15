// The 95% intervals of a step's figures, from the sums over its rows. docs/reference/intervals.md has the estimands and
// the reasons.
#pragma once

#include "row_sums.h"
#include "variances.h"

namespace collapsar {

// Scores agree with the labels: the mean of matched - marginal lies within three standard deviations of what the scores
// themselves say it should be. False where rows were not sampled from the distributions that the scores describe
// (another temperature, a mask, rows chosen by reward); then no interval uses the posterior of the label.
bool scoresDescribeSampling(const InferenceInput& input, const RowSums& sums);

struct Interval {
  double low, high, error;
};

// The value for these very prompts; only the sampling of each row from its own prompt is random.
Interval batchInterval(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, Figure figure,
                       double estimate, bool calibrated);

// The same of the information among k distinct prompts, for one k after the other.
class AmongIntervals {
 public:
  AmongIntervals(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, bool calibrated);
  // k = 2^(size + 1)
  Interval of(int size, double estimate) const;

 private:
  const InferenceInput& input_;
  const StepColumns& columns_;
  const RowSums& sums_;
  const bool calibrated_;
  // Of kMiSeq: by the posterior of the label, and by the spread of rows.
  Variance whole_{0, 0};
  double ofRows_ = 0;
};

// The same of the contrastive margins of some rows. own: [margins.size()]
Interval marginInterval(const InferenceInput& input, const RowSums& sums, const std::vector<std::int32_t>& own,
                        const std::vector<double>& margins, double estimate);

// The expected value of the same estimator over batches of as many prompts drawn like these.
Interval populationInterval(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, Figure figure,
                            double estimate, bool calibrated);

}  // namespace collapsar
