// Variances from the posterior of the label, from strata, and from prompts left out.
#include "variances.h"

#include <algorithm>

namespace collapsar {

namespace {

// The most of its prompt's mean that one row may count for: a row that is all of the mean says nothing of the spread
// about it.
constexpr double kMostLeverage = 0.5;
// The fewest degrees of freedom that an approximation may come to. With fewer the quantile grows beyond all need: where
// one prompt decides, the estimate and its variance are large together.
constexpr double kLeastDegrees = 2;

// A variance that is a sum over prompts, each with degrees of freedom of its own.
class PromptVariances {
 public:
  // `part`: the column's share of its prompt's rows, where equivalent columns stand for one prompt.
  void add(double value, double degrees, double part = 1) {
    sum_ += value;
    squares_ += value * value / part / (degrees + 2);
  }
  double sum() const { return sum_; }
  // After Welch (1947), which errs less than Satterthwaite's where prompts have few rows. `most`: if all spread alike.
  double degrees(double most) const {
    if (!(squares_ > 0)) return most;
    return std::min(most, std::max(kLeastDegrees, sum_ * sum_ / squares_ - 2));
  }

 private:
  double sum_ = 0, squares_ = 0;
};

}  // namespace

Variance posteriorVariance(std::int64_t rowCount, const StepSums& sums, Figure figure) {
  double squares = 0, leverages = 0;  // the latter weighed by spread: where there is none, it is rounding
  PromptVariances aroundTrueMeans;
  for (std::size_t p = 0; p < sums.weight.size(); p++) {
    const double weight = sums.weight[p];
    if (weight == 0) continue;
    const double mean = sums.weighted[figure][p] / weight;
    const double spread = sums.weightedSquares[figure][p] - mean * sums.weighted[figure][p];
    if (!(spread > 0)) continue;
    squares += spread;
    if (!variesByLength(figure)) continue;
    // The mean of few rows lies nearer to them than the true mean does, so that they spread less about it: each row by
    // its own part of the mean, on average (weighed by spread) by `leverage`.
    const double own = sums.squareWeightedSquares[figure][p] - 2 * mean * sums.squareWeighted[figure][p] +
                       mean * mean * sums.squaredWeight[p];
    const double leverage = std::min(kMostLeverage, std::max(0.0, own / weight / spread));
    aroundTrueMeans.add(spread / (1 - leverage), 1 / leverage - 1, sums.part[p]);
    leverages += leverage * spread;
  }
  const auto rows = static_cast<double>(rowCount);
  // Where labels alone decide a figure, a row that is unlike its prompt's others is likely under another prompt too,
  // and has little part in either mean.
  if (!variesByLength(figure)) return {squares / (rows * (rows - 1)), rows - 1};
  const double most = squares > 0 ? rows * (1 - leverages / squares) : rows;
  return {aroundTrueMeans.sum() / (rows * rows), aroundTrueMeans.degrees(std::min(rows - 1, most))};
}

Variance stratifiedVariance(const std::int32_t* own, std::int64_t columns, const std::vector<double>& values,
                            bool alike) {
  std::vector<double> mean(static_cast<std::size_t>(columns), 0.0), squares(mean);
  std::vector<std::int64_t> rowsOf(mean.size(), 0);
  double total = 0;
  for (std::size_t r = 0; r < values.size(); r++) {
    mean[own[r]] += values[r];
    rowsOf[own[r]]++;
    total += values[r];
  }
  const auto rows = static_cast<double>(values.size());
  for (std::size_t p = 0; p < mean.size(); p++) mean[p] /= static_cast<double>(rowsOf[p]);
  double around = 0;
  for (std::size_t r = 0; r < values.size(); r++) {
    const double within = values[r] - mean[own[r]], overall = values[r] - total / rows;
    squares[own[r]] += within * within;
    around += overall * overall;
  }
  PromptVariances strata;
  double degrees = 0, singles = 0;
  for (std::size_t p = 0; p < mean.size(); p++) {
    const auto count = static_cast<double>(rowsOf[p]);
    if (count == 1) singles++;
    if (count < 2) continue;
    strata.add(count * squares[p] / (count - 1), count - 1);
    degrees += count - 1;
  }
  if (singles > 0) {
    const double free = std::max(1.0, singles - 1);
    strata.add(singles * around / (rows - 1), free);
    degrees += free;
  }
  return {strata.sum() / (rows * rows), alike ? degrees : strata.degrees(degrees)};
}

double jackknifeVariance(const StepColumns& columns, const std::vector<double>& without) {
  const auto prompts = static_cast<double>(columns.columns);
  std::vector<double> left(without.size());
  double mean = 0;
  for (std::size_t j = 0; j < left.size(); j++) {
    left[j] = without[j] / static_cast<double>(columns.rows - columns.rowsOf[j]);
    mean += left[j];
  }
  mean /= prompts;
  double squares = 0;
  for (const double value : left) squares += (value - mean) * (value - mean);
  return (prompts - 1) / prompts * squares;
}

double promptDegrees(const StepColumns& columns, double between, double within) {
  double prompts = 0, squares = 0;
  for (const std::int64_t rowsOf : columns.rowsOf) {
    const auto count = static_cast<double>(rowsOf);
    prompts += count > 0 ? 1 : 0;
    squares += count * count;
  }
  const double share = between > within ? within / between : 1.0;
  double uneven = 0;
  for (const std::int64_t rowsOf : columns.rowsOf) {
    if (rowsOf == 0) continue;
    const auto count = static_cast<double>(rowsOf);
    const double part = share * (count / static_cast<double>(columns.rows)) + (1 - share) * (count * count / squares);
    uneven += (part * prompts - 1) * (part * prompts - 1);
  }
  return std::max(std::min(kLeastDegrees, prompts - 1), (prompts - 1) / (1 + uneven / prompts));
}

}  // namespace collapsar
