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
constexpr double kRounding = 0x1p-40;  // of a score, relative to the largest

// What no value of a figure exceeds: ln of the columns, per token of those of the row.
struct Bound {
  double sum = 0;               // over rows
  std::vector<double> without;  // [columns]: over the rows of the other prompts, without the column itself
};

Bound boundOf(const StepColumns& columns, Figure figure) {
  double all = 0;
  std::vector<double> rowsOf(static_cast<std::size_t>(columns.columns), 0.0);  // per token: each as 1 / its length
  for (std::int64_t r = 0; r < columns.rows; r++) {
    const std::int64_t length = std::max<std::int64_t>(1, columns.labels.lengths[r]);
    const double row = figure == kMiPerToken ? 1.0 / static_cast<double>(length) : 1.0;
    rowsOf[static_cast<std::size_t>(columns.labels.own[r])] += row;
    all += row;
  }
  Bound bound{columns.logOthers[columns.columns] * all, {}};
  for (const double own : rowsOf) bound.without.push_back(columns.logOthers[columns.columns - 1] * (all - own));
  return bound;
}

// Upper limit of the share of prompts that are like another one, where none with rows is: the most that could be
// missed.
double unseenShare(const StepColumns& columns, const Confidence& confidence) {
  return confidence.mostUnseen / static_cast<double>(columns.sampledColumns);
}

// The upper limit of the mean of a sum of rare events: of as many as there are if each is variance / sum, by Byar's
// formula for the mean of a Poisson distribution (Breslow and Day 1987, p. 69).
double largestMean(double sum, double variance, double quantile) {
  if (!(variance > 0)) return sum;
  const double size = variance / sum, count = sum / size + 1;
  const double root = 1 - 1 / (9 * count) + quantile / (3 * std::sqrt(count));
  return size * count * root * root * root;
}

// Upper end of the interval of a positive, skewed mean of `size`: log-normal to second order, at most half as far
// again.
double skewedHalf(double half, double size) { return half > 0 ? half * (1 + half / (2 * std::max(size, half))) : half; }

bool isHit(Figure figure) { return figure >= kRetrieval1 && figure < kFigures; }
bool isEntropy(Figure figure) { return figure >= kEntropySeq; }
// Figures without an upper bound: a row unlike its prompt's others weighs more than the posterior expects.
bool isUnbounded(Figure figure) { return figure == kMiSeqLoo || isEntropy(figure); }

constexpr double kUsualLevel = 0.95;

}  // namespace

Confidence::Confidence(double confidence)
    : level(confidence),
      // The constant is -ln .025, which (1 - .95) / 2 is not to the last bit.
      mostUnseen(level == kUsualLevel ? 3.6888794541139363 : -deterministicLog((1 - level) / 2)) {}

double Confidence::quantile(double degrees) const {
  return level == kUsualLevel ? studentT975(degrees) : studentT(degrees, level);
}

double roundingOf(const StepColumns& columns, const StepSums& sums, Figure figure) {
  const bool ofSums = figure == kMiSeq || figure == kMiSeqLoo || figure == kEntropySeq;
  return kRounding * (ofSums ? sums.scoreScale : sums.scoreScaleToken) / static_cast<double>(columns.rows);
}

Interval wilson(double proportion, double count, double quantile, double error) {
  const double z2 = quantile * quantile;
  const double centre = (proportion + z2 / (2 * count)) / (1 + z2 / count);
  const double half =
      quantile / (1 + z2 / count) * std::sqrt(proportion * (1 - proportion) / count + z2 / (4 * count * count));
  return {std::max(0.0, std::min(centre - half, proportion)), std::min(1.0, std::max(centre + half, proportion)),
          error};
}

double effectiveCount(double proportion, double variance, double rows, double least, double most) {
  const double spread = proportion * (1 - proportion);
  if (!(spread > kLeastSpread) || !(variance * rows > kLeastSpread)) return least;
  return std::min(most, std::max(least, spread / variance));
}

bool scoresDescribeSampling(const StepColumns& columns, const StepSums& sums, double variance) {
  double total = 0;
  for (const double value : sums.values[kMiSeq]) total += value;
  const double surprise = std::fabs(total - sums.expected[kMiSeq]);
  return surprise <= kCalibrationDeviations * std::sqrt(variance) +
                         roundingOf(columns, sums, kMiSeq) * static_cast<double>(columns.rows);
}

Interval batchInterval(const StepColumns& columns, const StepSums& sums, Figure figure, double estimate,
                       bool calibrated, const Confidence& confidence) {
  if (columns.rows < 2 || columns.columns < 2) return kUnknown;
  const auto rows = static_cast<double>(columns.rows);
  Variance variance = posteriorVariance(columns.rows, sums, figure);
  bool singles = false;
  for (const std::int64_t count : columns.rowsOf) singles = singles || count == 1;
  if (!calibrated || singles || isUnbounded(figure)) {
    const bool alike = figure == kMiSeq || isHit(figure);
    const Variance strata = stratifiedVariance(columns.labels.own, columns.columns, sums.values[figure], alike);
    const Variance& larger = strata.value > variance.value ? strata : variance;
    // Both are too large for single rows: there neither is short of pieces.
    const double degrees = singles ? std::max(variance.degrees, strata.degrees) : larger.degrees;
    variance = {larger.value, calibrated ? degrees : strata.degrees};
  }
  const double quantile = confidence.quantile(variance.degrees), error = std::sqrt(variance.value);
  if (isHit(figure)) {
    const double proportion = calibrated ? sums.expected[figure] / rows : estimate;
    // Hits that are certain under their prompts amount to ever more draws; but rows show rare misses badly.
    return wilson(estimate, effectiveCount(proportion, variance.value, rows, rows, 4 * rows), quantile, error);
  }
  const double half = quantile * error + roundingOf(columns, sums, figure);
  double high = estimate + (isEntropy(figure) ? skewedHalf(half, estimate) : half);
  // No row's value exceeds ln P: neither does their expectation.
  if (figure == kMiSeq || figure == kMiToken)
    high = std::min(high, std::max(estimate, columns.logOthers[columns.columns]));
  return {estimate - half, high, error};
}

AmongIntervals::AmongIntervals(const StepColumns& columns, const RowSums& sums, bool calibrated)
    : columns_(columns), sums_(sums), calibrated_(calibrated) {
  if (!calibrated || columns.rows < 2) return;
  whole_ = posteriorVariance(columns.rows, sums, kMiSeq);
  ofRows_ = stratifiedVariance(columns.labels.own, columns.columns, sums.values[kMiSeq], false).value;
}

Interval AmongIntervals::of(int size, double estimate) const {
  if (columns_.rows < 2) return kUnknown;
  const std::int64_t k = std::int64_t{2} << size;
  const std::vector<double>& values = sums_.among[static_cast<std::size_t>(size)];
  Variance variance = stratifiedVariance(columns_.labels.own, columns_.columns, values, false);
  // Near the bound few rows differ; there the posterior of the label tells more. What a row lacks of ln k is at least
  // (k - 1) / (D - 1) of what it lacks of ln D: the mean over subsets of the log of a sum is concave in their size.
  // Equality if one other prompt makes most of the sum, or all of it is small.
  if (calibrated_) {
    const double least = static_cast<double>(k - 1) / static_cast<double>(columns_.distinct - 1);
    const double ratio = ofRows_ > 0 ? variance.value / ofRows_ : 0.0;
    const double expected = whole_.value * std::clamp(ratio, least * least, 1.0);
    if (expected > variance.value) variance = {expected, whole_.degrees};
  }
  const double error = std::sqrt(variance.value);
  const double half = studentT975(variance.degrees) * error + roundingOf(columns_, sums_, kMiSeq);
  const double most = columns_.logOthers[static_cast<std::size_t>(k)];
  // What rows lack of ln k is positive and skewed.
  const double down = skewedHalf(half, std::max(0.0, most - estimate));
  return {estimate - down, std::min(estimate + half, std::max(estimate, most)), error};
}

Interval marginInterval(const StepColumns& columns, const RowSums& sums, const std::vector<std::int32_t>& own,
                        const std::vector<double>& margins, double estimate) {
  if (margins.size() < 2) return kUnknown;
  const Variance variance = stratifiedVariance(own.data(), columns.columns, margins, false);
  const double error = std::sqrt(variance.value);
  const double half = studentT975(variance.degrees) * error + roundingOf(columns, sums, kMiSeq);
  return {estimate - half, estimate + half, error};
}

Interval populationInterval(const StepColumns& columns, const StepSums& sums, Figure figure, double estimate,
                            bool calibrated, const Confidence& confidence) {
  // Without a prompt of three there are two columns left, the fewest that can differ.
  if (columns.columns < 3 || columns.rows < 2) return kUnknown;
  if (columns.sampledColumns < 2) return kUnknown;
  const auto rows = static_cast<double>(columns.rows), prompts = static_cast<double>(columns.columns);
  const bool expectations = calibrated && !isUnbounded(figure);

  // With the label's share of the variance taken out and computed apart, prompts are compared by their expectations,
  // which are far less noisy: near the bound, where few rows differ, that decides.
  const std::vector<double>& without = expectations ? sums.expectedWithout[figure] : sums.without[figure];
  const double between = jackknifeVariance(columns, without);
  const double labels = expectations ? sums.labelVariance[figure] / (rows * rows) : 0.0;
  const double variance = between + labels, error = std::sqrt(variance);
  if (std::isnan(error)) return kUnknown;
  const double within = std::max(0.0, posteriorVariance(columns.rows, sums, figure).value - labels);
  const double perPrompts = between * between / promptDegrees(columns, between, within);
  const double perRows = labels * labels / (rows - 1);
  const double least = isHit(figure) ? kLeastSpread / rows : 0.0;
  const double quantile =
      confidence.quantile(variance > least ? variance * variance / (perPrompts + perRows) : prompts - 1);

  if (isHit(figure)) {
    const double proportion = expectations ? sums.expected[figure] / rows : estimate;
    Interval interval =
        wilson(estimate, effectiveCount(proportion, variance, rows, std::min(prompts, rows), rows), quantile, error);
    // Of the rows of two prompts that are alike, half are retrieved.
    if (figure == kRetrieval1)
      interval.low = std::min(interval.low, std::max(0.0, 1 - unseenShare(columns, confidence) / 2));
    return interval;
  }
  const double rounding = roundingOf(columns, sums, figure), half = quantile * error;
  if (isUnbounded(figure)) {
    const double up = isEntropy(figure) ? skewedHalf(half, estimate) : half;
    return {estimate - half - rounding, estimate + up + rounding, error};
  }

  // The gap to the bound is positive and skewed: few prompts are hard to tell apart. Takes the larger of the sampled
  // and the expected size, for the sampled one may be 0. Equal prompts, which the batch may lack, cost ln 2 each.
  const Bound attainable = boundOf(columns, figure);
  const double logColumns = columns.logOthers[columns.columns], bound = attainable.sum / rows;
  const double expected = expectations ? sums.expected[figure] / rows : estimate;
  const double gap = std::max(0.0, std::max(bound - estimate, bound - expected));
  const bool seen = gap > rounding;
  const double unseen = unseenShare(columns, confidence) * std::numbers::ln2 / logColumns * bound;
  std::vector<double> gaps = attainable.without;
  for (std::size_t j = 0; j < gaps.size(); j++) gaps[j] -= without[j];
  const double betweenGaps = jackknifeVariance(columns, gaps);
  const double unlike = std::max(seen ? largestMean(gap, betweenGaps, quantile) : 0.0, unseen) - gap;
  const double down = std::max(half, std::sqrt(unlike * unlike + quantile * quantile * labels));
  // An information is not negative: below zero, symmetric noise is all there is to fear.
  const double low = std::min(estimate, std::max(estimate - down, std::min(0.0, estimate - half)));
  // Upwards, the gap's logarithm varies; no row's value exceeds a bound that is the same for all. Per token it is not.
  const double up = seen ? gap * (1 - deterministicExp(-half / gap)) : 0.0;
  const double high = std::min(estimate + up, std::max(bound, estimate));
  if (figure != kMiPerToken) return {low - rounding, high + rounding, error};
  // There the mean of the bound over rows is skewed, by short ones.
  const double longer = std::min(estimate + skewedHalf(half, bound), std::max(logColumns, estimate));
  return {low - rounding, longer + rounding, error};
}

}  // namespace collapsar
