// One pass over the rows, then intervals and permutations from its sums: every figure with how sure it is.
#include "inference.h"

#include <cmath>

#include "engine/exact_sum.h"
#include "engine/special_values.h"
#include "intervals.h"
#include "permutation.h"

namespace collapsar {

namespace {

// The mean over rows as stepMoments has it, bit for bit.
double estimateOf(const InferenceInput& input, const RowSums& sums, Figure figure) {
  const RowStats& stats = *input.stats;
  ExactSum sum;
  for (std::int64_t r = 0; r < input.rows; r++) {
    if (figure == kMiSeq) {
      sum.add(stats.matchedSeq[r] - stats.marginalSeq[r]);
    } else if (figure == kMiSeqLoo) {
      sum.add(stats.matchedSeq[r] - stats.looMarginalSeq[r]);
    } else if (figure == kMiPerToken) {
      const std::int64_t length = input.labels.lengths[r] > 1 ? input.labels.lengths[r] : 1;
      sum.add((stats.matchedSeq[r] - stats.marginalSeq[r]) / static_cast<double>(length));
    } else if (figure == kMiToken) {
      sum.add(stats.matchedToken[r] - stats.marginalToken[r]);
    } else {
      sum.add(sums.values[figure][r]);
    }
  }
  return sum.round() / static_cast<double>(input.rows);
}

double meanOf(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.round() / static_cast<double>(values.size());
}

// Over the rows whose margin is finite.
void inferMargin(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, Inference& out) {
  std::vector<double> margins;
  std::vector<std::int32_t> own;
  margins.reserve(sums.margins.size());
  own.reserve(sums.margins.size());
  for (std::int64_t r = 0; r < input.rows; r++) {
    if (!std::isfinite(sums.margins[r])) continue;
    margins.push_back(sums.margins[r]);
    own.push_back(input.labels.own[r]);
  }
  out.marginRows = static_cast<std::int64_t>(margins.size());
  if (margins.empty()) return;
  const double estimate = meanOf(margins);
  const Interval batch = marginInterval(columns, sums, own, margins, estimate);
  out.margin = {estimate, batch.low, batch.high, batch.error};
}

}  // namespace

Outcome inferStep(const InferenceInput& input, Inference& out, ThreadPool& pool, JobControl& control) {
  for (FigureInference& figure : out.figures) figure = {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN};
  out.overPrompts = {kNaN, kNaN};
  out.among.clear();
  out.margin = {kNaN, kNaN, kNaN, kNaN};
  out.marginRows = 0;
  out.withinVariance = false;
  out.calibrated = true;
  control.totalUnits.store(input.rows * (input.columns + input.permutations), std::memory_order_relaxed);
  if (input.rows < 1 || input.columns < 1) return Outcome::Done;

  const StepColumns columns(input.labels, input.rows, input.columns);
  const Confidence confidence(0.95);
  const PromptSubsets subsets(columns, input.seed);
  RowSums sums;
  if (sumRows(input, columns, subsets, sums, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  double pValues[kFigures];
  if (permutationPValues(input, columns, sums, pValues, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;

  out.withinVariance = true;
  for (const std::int64_t count : columns.rowsOf) out.withinVariance = out.withinVariance && count != 1;
  out.calibrated = scoresDescribeSampling(columns, sums, sums.labelVariance[kMiSeq]);
  for (int f = 0; f < kFigures; f++) {
    const auto figure = static_cast<Figure>(f);
    FigureInference& result = out.figures[f];
    result.estimate = estimateOf(input, sums, figure);
    if (!std::isfinite(result.estimate)) continue;
    const Interval batch = batchInterval(columns, sums, figure, result.estimate, out.calibrated, confidence);
    const Interval population = populationInterval(columns, sums, figure, result.estimate, out.calibrated, confidence);
    result.batchLow = batch.low;
    result.batchHigh = batch.high;
    result.batchError = batch.error;
    result.populationLow = population.low;
    result.populationHigh = population.high;
    result.populationError = population.error;
    result.pValue = pValues[f];
  }
  out.overPrompts = sums.overPrompts.all;
  const AmongIntervals among(columns, sums, out.calibrated);
  for (int size = 0; size < subsets.sizes; size++) {
    const double estimate = meanOf(sums.among[size]);
    const Interval batch = among.of(size, estimate);
    const OverPrompts& overPrompts = sums.overPrompts.among[static_cast<std::size_t>(size)];
    out.among.push_back({{estimate, batch.low, batch.high, batch.error}, overPrompts});
  }
  if (subsets.sizes > 0) inferMargin(input, columns, sums, out);
  return Outcome::Done;
}

}  // namespace collapsar
