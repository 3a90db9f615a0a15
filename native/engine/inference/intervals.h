// The intervals of a step's figures, from the sums over its rows. docs/reference/intervals.md has the estimands and the
// reasons.
#pragma once

#include "row_sums.h"
#include "step_columns.h"
#include "variances.h"

namespace collapsar {

// How often an interval is to hold the true value.
struct Confidence {
  explicit Confidence(double level);
  // What an interval multiplies a standard error by that rests on so many degrees of freedom.
  double quantile(double degrees) const;

  double level;
  // The mean of a Poisson distribution of which nothing was drawn is at most this.
  double mostUnseen;
};

// How many standard deviations a sum of surprises may lie off 0 if the rows are sampled as the scores say.
constexpr double kCalibrationDeviations = 3;

// Whether scores agree with the labels: the mean of matched - marginal lies within three standard deviations of what
// the scores say. False where rows were not sampled from them (temperature, mask, selection by reward): then no
// interval uses the posterior of the label. `variance`: of the sum over rows.
bool scoresDescribeSampling(const StepColumns& columns, const StepSums& sums, double variance);

struct Interval {
  double low, high, error;
};

// How far rounding of the scores may have moved a mean over rows: the least half width of an interval.
double roundingOf(const StepColumns& columns, const StepSums& sums, Figure figure);

// Wilson's score interval of a proportion for `count` independent draws: inside [0, 1] and never of zero width.
Interval wilson(double proportion, double count, double quantile, double error);

// A proportion of no more spread than this is certain: what is left is rounding, and would change with the order of
// rows.
constexpr double kLeastSpread = 0x1p-30;

// How many independent draws the variance of a proportion of `rows` amounts to, within the bounds given.
double effectiveCount(double proportion, double variance, double rows, double least, double most);

// The value for these very prompts; only the sampling of each row from its own prompt is random.
Interval batchInterval(const StepColumns& columns, const StepSums& sums, Figure figure, double estimate,
                       bool calibrated, const Confidence& confidence);

// The same of the information among k distinct prompts, for one k after the other. 95%.
class AmongIntervals {
 public:
  AmongIntervals(const StepColumns& columns, const RowSums& sums, bool calibrated);
  // k = 2^(size + 1)
  Interval of(int size, double estimate) const;

 private:
  const StepColumns& columns_;
  const RowSums& sums_;
  const bool calibrated_;
  // Of kMiSeq: by the posterior of the label, and by the spread of rows.
  Variance whole_{0, 0};
  double ofRows_ = 0;
};

// The same of the contrastive margins of some rows. own: [margins.size()]
Interval marginInterval(const StepColumns& columns, const RowSums& sums, const std::vector<std::int32_t>& own,
                        const std::vector<double>& margins, double estimate);

// The expected value of the same estimator over batches of as many prompts drawn like these.
Interval populationInterval(const StepColumns& columns, const StepSums& sums, Figure figure, double estimate,
                            bool calibrated, const Confidence& confidence);

}  // namespace collapsar
