// The 95% intervals of a step's figures, from the sums over its rows. docs/intervals.md has the estimands and the
// reasons.
#pragma once

#include "row_sums.h"

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

// The same of any mean over rows, from the spread of their values within prompts alone. `scoreScale` as RowSums has it;
// no value exceeds `highest`.
Interval stratifiedInterval(const std::vector<std::int32_t>& own, std::int64_t columns,
                            const std::vector<double>& values, double estimate, double scoreScale, double highest);

// The expected value of the same estimator over batches of as many prompts drawn like these.
Interval populationInterval(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, Figure figure,
                            double estimate, bool calibrated);

}  // namespace collapsar
