// How a variance becomes an interval: of a mean, of a proportion, of a mean that nears a bound.
#include "intervals.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/deterministic_math.h"
#include "engine/special_values.h"
#include "student_t.h"
#include "variances.h"

namespace collapsar {

namespace {

constexpr Interval kUnknown = {kNaN, kNaN, kNaN};
constexpr double kCalibrationDeviations = 3;

// How far rounding of the scores may have moved a mean over rows: the least half width of an interval.
constexpr double kRounding = 0x1p-40;

double roundingOf(const InferenceInput& input, const RowSums& sums, Figure figure) {
  const double scale = figure == kMiSeq || figure == kMiSeqLoo ? sums.scoreScale : sums.scoreScaleToken;
  return kRounding * scale / static_cast<double>(input.rows);
}

// What no value of a figure exceeds: ln of the columns, per token of those of the row.
struct Bound {
  double sum = 0;               // over rows
  std::vector<double> without;  // [columns]: over the rows of the other prompts, without the column itself
};

Bound boundOf(const InferenceInput& input, const StepColumns& columns, Figure figure) {
  double all = 0;
  std::vector<double> rowsOf(static_cast<std::size_t>(input.columns), 0.0);  // per token: each as 1 / its length
  for (std::int64_t r = 0; r < input.rows; r++) {
    const std::int64_t length = std::max<std::int64_t>(1, input.labels.lengths[r]);
    const double row = figure == kMiPerToken ? 1.0 / static_cast<double>(length) : 1.0;
    rowsOf[static_cast<std::size_t>(input.labels.own[r])] += row;
    all += row;
  }
  Bound bound{columns.logOthers[input.columns] * all, {}};
  for (const double own : rowsOf) bound.without.push_back(columns.logOthers[input.columns - 1] * (all - own));
  return bound;
}

// Wilson's score interval of a proportion for `count` independent draws: inside [0, 1] and never of zero width.
Interval wilson(double proportion, double count, double quantile, double error) {
  const double z2 = quantile * quantile;
  const double centre = (proportion + z2 / (2 * count)) / (1 + z2 / count);
  const double half =
      quantile / (1 + z2 / count) * std::sqrt(proportion * (1 - proportion) / count + z2 / (4 * count * count));
  return {std::max(0.0, std::min(centre - half, proportion)), std::min(1.0, std::max(centre + half, proportion)),
          error};
}

// A proportion is taken as certain if its spread, or the variance of its hits times the rows, is no more than this:
// what is left is rounding, and would change with the order of rows.
constexpr double kLeastSpread = 0x1p-30;

// How many independent draws the variance of a proportion of `rows` amounts to, within the bounds given.
double effectiveCount(double proportion, double variance, double rows, double least, double most) {
  const double spread = proportion * (1 - proportion);
  if (!(spread > kLeastSpread) || !(variance * rows > kLeastSpread)) return least;
  return std::min(most, std::max(least, spread / variance));
}

// Upper limit of the share of prompts that are like another one, when none of those with rows is: a Poisson
// distribution of which nothing was drawn has a mean of at most -ln .025, here spread over the prompts with rows.
double unseenShare(const StepColumns& columns) {
  return 3.6888794541139363 / static_cast<double>(columns.sampledColumns);
}

// The upper limit of the mean of a sum of rare events: of as many as there are if each is variance / sum, by Byar's
// formula for the mean of a Poisson distribution (Breslow and Day 1987, p. 69).
double largestMean(double sum, double variance, double quantile) {
  if (!(variance > 0)) return sum;
  const double size = variance / sum, count = sum / size + 1;
  const double root = 1 - 1 / (9 * count) + quantile / (3 * std::sqrt(count));
  return size * count * root * root * root;
}

// How far up the interval of a positive, skewed mean of about `size` reaches: as if its logarithm were what varies, to
// the second order, and never more than half as far again.
double skewedHalf(double half, double size) { return half > 0 ? half * (1 + half / (2 * std::max(size, half))) : half; }

bool isHit(Figure figure) { return figure >= kRetrieval1; }

}  // namespace

bool scoresDescribeSampling(const InferenceInput& input, const RowSums& sums) {
  double total = 0;
  for (const double value : sums.values[kMiSeq]) total += value;
  const double surprise = std::fabs(total - sums.expected[kMiSeq]);
  return surprise <= kCalibrationDeviations * std::sqrt(sums.labelVariance[kMiSeq]) +
                         roundingOf(input, sums, kMiSeq) * static_cast<double>(input.rows);
}

Interval batchInterval(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, Figure figure,
                       double estimate, bool calibrated) {
  if (input.rows < 2 || input.columns < 2) return kUnknown;
  const auto rows = static_cast<double>(input.rows);
  Variance variance = posteriorVariance(input, columns, sums, figure);
  bool singles = false;
  for (const std::int64_t count : columns.rowsOf) singles = singles || count == 1;
  // Leave-one-out values have no bound: a row unlike its prompt's others weighs more than the posterior lets expect.
  if (!calibrated || singles || figure == kMiSeqLoo) {
    const bool alike = figure == kMiSeq || isHit(figure);
    const Variance strata = stratifiedVariance(input.labels.own, input.columns, sums.values[figure], alike);
    const Variance& larger = strata.value > variance.value ? strata : variance;
    // Both are too large for single rows: there neither is short of pieces.
    const double degrees = singles ? std::max(variance.degrees, strata.degrees) : larger.degrees;
    variance = {larger.value, calibrated ? degrees : strata.degrees};
  }
  const double quantile = studentT975(variance.degrees), error = std::sqrt(variance.value);
  if (isHit(figure)) {
    const double proportion = calibrated ? sums.expected[figure] / rows : estimate;
    // Hits that are certain under their prompts amount to ever more draws; but rows show rare misses badly.
    return wilson(estimate, effectiveCount(proportion, variance.value, rows, rows, 4 * rows), quantile, error);
  }
  const double half = quantile * error + roundingOf(input, sums, figure);
  double high = estimate + half;
  // No row's value exceeds ln P: neither does their expectation.
  if (figure == kMiSeq || figure == kMiToken)
    high = std::min(high, std::max(estimate, columns.logOthers[input.columns]));
  return {estimate - half, high, error};
}

AmongIntervals::AmongIntervals(const InferenceInput& input, const StepColumns& columns, const RowSums& sums,
                               bool calibrated)
    : input_(input), columns_(columns), sums_(sums), calibrated_(calibrated) {
  if (!calibrated || input.rows < 2) return;
  whole_ = posteriorVariance(input, columns, sums, kMiSeq);
  ofRows_ = stratifiedVariance(input.labels.own, input.columns, sums.values[kMiSeq], false).value;
}

Interval AmongIntervals::of(int size, double estimate) const {
  if (input_.rows < 2) return kUnknown;
  const std::int64_t k = std::int64_t{2} << size;
  const std::vector<double>& values = sums_.among[static_cast<std::size_t>(size)];
  Variance variance = stratifiedVariance(input_.labels.own, input_.columns, values, false);
  // Near the bound few rows differ, and by luck none: there the posterior of the label tells more, which is known of
  // ln D. Rows tell how much less they vary among k; but what a row lacks of ln k is at least (k - 1) / (D - 1) of what
  // it lacks of ln D, since the mean over subsets of the logarithm of a sum is concave in their size. It is that if one
  // other prompt makes most of the sum, or all of it is small.
  if (calibrated_) {
    const double least = static_cast<double>(k - 1) / static_cast<double>(columns_.distinct - 1);
    const double ratio = ofRows_ > 0 ? variance.value / ofRows_ : 0.0;
    const double expected = whole_.value * std::clamp(ratio, least * least, 1.0);
    if (expected > variance.value) variance = {expected, whole_.degrees};
  }
  const double error = std::sqrt(variance.value);
  const double half = studentT975(variance.degrees) * error + roundingOf(input_, sums_, kMiSeq);
  const double most = columns_.logOthers[static_cast<std::size_t>(k)];
  // What rows lack of ln k is positive and skewed.
  const double down = skewedHalf(half, std::max(0.0, most - estimate));
  return {estimate - down, std::min(estimate + half, std::max(estimate, most)), error};
}

Interval marginInterval(const InferenceInput& input, const RowSums& sums, const std::vector<std::int32_t>& own,
                        const std::vector<double>& margins, double estimate) {
  if (margins.size() < 2) return kUnknown;
  const Variance variance = stratifiedVariance(own.data(), input.columns, margins, false);
  const double error = std::sqrt(variance.value);
  const double half = studentT975(variance.degrees) * error + roundingOf(input, sums, kMiSeq);
  return {estimate - half, estimate + half, error};
}

Interval populationInterval(const InferenceInput& input, const StepColumns& columns, const RowSums& sums, Figure figure,
                            double estimate, bool calibrated) {
  // Without a prompt of three there are two columns left, the fewest that can differ.
  if (input.columns < 3 || input.rows < 2) return kUnknown;
  if (columns.sampledColumns < 2) return kUnknown;
  const auto rows = static_cast<double>(input.rows), prompts = static_cast<double>(input.columns);
  const bool expectations = calibrated && figure != kMiSeqLoo;

  // With the label's share of the variance taken out and computed apart, prompts are compared by their expectations,
  // which are far less noisy: near the bound, where few rows differ, that decides.
  const std::vector<double>& without = expectations ? sums.expectedWithout[figure] : sums.without[figure];
  const double between = jackknifeVariance(input, columns, without);
  const double labels = expectations ? sums.labelVariance[figure] / (rows * rows) : 0.0;
  const double variance = between + labels, error = std::sqrt(variance);
  if (std::isnan(error)) return kUnknown;
  const double within = std::max(0.0, posteriorVariance(input, columns, sums, figure).value - labels);
  const double perPrompts = between * between / promptDegrees(input, columns, between, within);
  const double perRows = labels * labels / (rows - 1);
  const double least = isHit(figure) ? kLeastSpread / rows : 0.0;
  const double quantile = studentT975(variance > least ? variance * variance / (perPrompts + perRows) : prompts - 1);

  if (isHit(figure)) {
    const double proportion = expectations ? sums.expected[figure] / rows : estimate;
    Interval interval =
        wilson(estimate, effectiveCount(proportion, variance, rows, std::min(prompts, rows), rows), quantile, error);
    // Of the rows of two prompts that are alike, half are retrieved.
    if (figure == kRetrieval1) interval.low = std::min(interval.low, std::max(0.0, 1 - unseenShare(columns) / 2));
    return interval;
  }
  const double rounding = roundingOf(input, sums, figure), half = quantile * error;
  if (figure == kMiSeqLoo) return {estimate - half - rounding, estimate + half + rounding, error};

  // The gap to the bound is positive and skewed: a sum over prompts of which few are hard to tell apart. Its size is
  // the larger of the sampled and the expected one, for the sampled one may be zero by luck. Prompts that are alike,
  // which the batch may not have, cost their rows ln 2 each.
  const Bound attainable = boundOf(input, columns, figure);
  const double logColumns = columns.logOthers[input.columns], bound = attainable.sum / rows;
  const double expected = expectations ? sums.expected[figure] / rows : estimate;
  const double gap = std::max(0.0, std::max(bound - estimate, bound - expected));
  const bool seen = gap > rounding;
  const double unseen = unseenShare(columns) * std::numbers::ln2 / logColumns * bound;
  std::vector<double> gaps = attainable.without;
  for (std::size_t j = 0; j < gaps.size(); j++) gaps[j] -= without[j];
  const double betweenGaps = jackknifeVariance(input, columns, gaps);
  const double unlike = std::max(seen ? largestMean(gap, betweenGaps, quantile) : 0.0, unseen) - gap;
  const double down = std::max(half, std::sqrt(unlike * unlike + quantile * quantile * labels));
  // An information is not negative: below zero, symmetric noise is all there is to fear.
  const double low = std::min(estimate, std::max(estimate - down, std::min(0.0, estimate - half)));
  // Up, the gap's logarithm is what varies; no row's value exceeds the bound where that is the same for all. Per token
  // it is not.
  const double up = seen ? gap * (1 - deterministicExp(-half / gap)) : 0.0;
  const double high = std::min(estimate + up, std::max(bound, estimate));
  if (figure != kMiPerToken) return {low - rounding, high + rounding, error};
  // There the mean of the bound over rows is skewed, by short ones.
  const double longer = std::min(estimate + skewedHalf(half, bound), std::max(logColumns, estimate));
  return {low - rounding, longer + rounding, error};
}

}  // namespace collapsar
