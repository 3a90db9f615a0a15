// The 95% intervals that inferStep must give: docs/reference/intervals.md taken word for word, in long double, from the
// sums of references/inference.h. Columns of one signature are taken to have one prompt's scores.
#pragma once

#include <numbers>

#include "engine/inference/student_t.h"
#include "inference.h"

namespace collapsar::test {

struct ReferenceInterval {
  long double low, high;
};
constexpr long double kNoBound = std::numeric_limits<long double>::quiet_NaN();

inline bool isHit(Figure figure) { return figure >= kRetrieval1; }
inline bool isPerToken(Figure figure) { return figure == kMiPerToken || figure == kMiToken; }
inline long double tokensOf(const Step& step, std::int64_t r) {
  return static_cast<long double>(std::max<std::int64_t>(step.lengths[static_cast<std::size_t>(r)], 1));
}
inline long double lnPrompts(const Step& step) { return std::log(static_cast<long double>(step.columns)); }

// 2^-40 of the mean size of the scores.
inline long double roundingOf(const Step& step, Figure figure) {
  long double sum = 0;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    long double size = lnPrompts(step);
    for (const double score : step.row(r)) {
      if (std::isfinite(score)) size = std::max<long double>(size, std::abs(score));
    }
    sum += isPerToken(figure) ? size / tokensOf(step, r) : size;
  }
  return 0x1p-40L * sum / static_cast<long double>(step.rows());
}

// Parts of a variance, each with degrees of freedom of its own -> those of their sum, after Welch (1947).
struct WelchParts {
  long double sum = 0, squares = 0;
  void add(long double part, long double degrees) {
    sum += part;
    squares += part * part / (degrees + 2);
  }
  long double degrees(long double most) const {
    return squares > 0 ? std::min(most, std::max(2.0L, sum * sum / squares - 2)) : most;
  }
};

// Of the batch variance of a figure per token: prompts' parts, however many columns a prompt has.
inline long double perTokenDegrees(const Step& step, Figure figure) {
  const auto rows = static_cast<long double>(step.rows());
  const std::vector<Values> likely = posteriors(step);
  WelchParts parts;
  long double spreads = 0, leverages = 0;
  for (std::int32_t prompt = 0; prompt < step.columns; prompt++) {
    Values weights, values;
    long double total = 0, mean = 0, spread = 0, own = 0;
    for (std::int64_t r = 0; r < step.rows(); r++) {
      long double weight = 0;
      for (std::int32_t p = 0; p < step.columns; p++) {
        if (step.signatureOf(p) == prompt) weight += likely[static_cast<std::size_t>(r)][static_cast<std::size_t>(p)];
      }
      if (weight == 0) continue;
      weights.push_back(weight);
      values.push_back(rowValue(step, r, prompt, figure));
      total += weight;
      mean += weight * values.back();
    }
    if (total == 0) continue;
    mean /= total;
    for (std::size_t i = 0; i < values.size(); i++) {
      const long double square = weights[i] * (values[i] - mean) * (values[i] - mean);
      spread += square;
      own += weights[i] * square;
    }
    if (spread == 0) continue;
    const long double h = std::min(0.5L, own / (total * spread));
    parts.add(spread / (1 - h), 1 / h - 1);
    spreads += spread;
    leverages += h * spread;
  }
  const long double most = spreads > 0 ? rows * (1 - leverages / spreads) : rows;
  return parts.degrees(std::min(rows - 1, most));
}

inline long double strataDegrees(const Step& step, Figure figure) {
  Values values;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    values.push_back(rowValue(step, r, step.own[static_cast<std::size_t>(r)], figure));
  }
  const auto squaresOf = [](const Values& sample) {
    long double mean = 0, squares = 0;
    for (const long double value : sample) mean += value / static_cast<long double>(sample.size());
    for (const long double value : sample) squares += (value - mean) * (value - mean);
    return squares;
  };
  WelchParts parts;
  long double degrees = 0, singles = 0;
  for (std::int32_t p = 0; p < step.columns; p++) {
    Values group;
    for (std::size_t r = 0; r < values.size(); r++) {
      if (step.own[r] == p) group.push_back(values[r]);
    }
    const auto size = static_cast<long double>(group.size());
    if (group.size() == 1) singles++;
    if (group.size() < 2) continue;
    parts.add(size * squaresOf(group) / (size - 1), size - 1);
    degrees += size - 1;
  }
  if (singles > 0) {  // their spread is that of all rows
    const long double free = std::max(1.0L, singles - 1);
    parts.add(singles * squaresOf(values) / static_cast<long double>(values.size() - 1), free);
    degrees += free;
  }
  return figure == kMiSeq || isHit(figure) ? degrees : parts.degrees(degrees);
}

inline ReferenceInterval wilson(long double share, long double draws, long double t) {
  const long double centre = (share + t * t / (2 * draws)) / (1 + t * t / draws);
  const long double root = std::sqrt(share * (1 - share) / draws + t * t / (4 * draws * draws));
  const long double half = t / (1 + t * t / draws) * root;
  return {std::max(0.0L, std::min(share, centre - half)), std::min(1.0L, std::max(share, centre + half))};
}

// As many draws as the variance amounts to; the fewest where a share, or what rows vary by, is certain to 1e-9.
inline long double drawsOf(const Step& step, long double share, long double variance, long double least,
                           long double most) {
  const long double spread = share * (1 - share), ofRows = variance * static_cast<long double>(step.rows());
  return spread > 0x1p-30L && ofRows > 0x1p-30L ? std::clamp(spread / variance, least, most) : least;
}

inline ReferenceInterval naiveBatchInterval(const Step& step, Figure figure, bool calibrated) {
  if (step.rows() < 2 || step.columns < 2) return {kNoBound, kNoBound};
  const auto rows = static_cast<long double>(step.rows());
  bool singles = false;
  for (const std::int64_t size : groupSizes(step)) singles = singles || size == 1;
  long double variance = naivePosteriorVariance(step, figure);
  long double degrees = isPerToken(figure) ? perTokenDegrees(step, figure) : rows - 1;
  if (singles || !calibrated || figure == kMiSeqLoo) {
    const long double strata = naiveStratifiedVariance(step, figure), ofStrata = strataDegrees(step, figure);
    if (!calibrated) {
      degrees = ofStrata;
    } else if (singles) {
      degrees = std::max(degrees, ofStrata);
    } else if (strata > variance) {
      degrees = ofStrata;
    }
    variance = std::max(variance, strata);
  }
  const long double estimate = meanOver(step, figure, false);
  const auto t = static_cast<long double>(studentT975(static_cast<double>(degrees)));
  if (isHit(figure)) {
    return wilson(estimate, drawsOf(step, meanOver(step, figure, calibrated), variance, rows, 4 * rows), t);
  }
  const long double half = t * std::sqrt(variance) + roundingOf(step, figure);
  const bool bounded = figure == kMiSeq || figure == kMiToken;
  return {estimate - half, bounded ? std::min(estimate + half, std::max(estimate, lnPrompts(step))) : estimate + half};
}

// The mean over rows of what no value of a figure exceeds.
inline long double boundOf(const Step& step, Figure figure) {
  long double sum = 0;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    sum += figure == kMiPerToken ? lnPrompts(step) / tokensOf(step, r) : lnPrompts(step);
  }
  return sum / static_cast<long double>(step.rows());
}

inline ReferenceInterval naivePopulationInterval(const Step& step, Figure figure, bool calibrated) {
  const auto rows = static_cast<long double>(step.rows()), columns = static_cast<long double>(step.columns);
  const std::vector<std::int64_t> sizes = groupSizes(step);
  long double prompts = 0, squaredSizes = 0;
  for (const std::int64_t size : sizes) {
    prompts += size > 0;
    squaredSizes += static_cast<long double>(size * size);
  }
  if (step.columns < 3 || step.rows() < 2 || prompts < 2) return {kNoBound, kNoBound};
  const bool expected = calibrated && figure != kMiSeqLoo;

  Values left, gaps;
  for (std::int32_t j = 0; j < step.columns; j++) {
    const Step rest = without(step, j);
    left.push_back(meanOver(rest, figure, expected));
    gaps.push_back(boundOf(rest, figure) - left.back());
  }
  const long double between = jackknifeVariance(left);
  const long double labels = expected ? naiveLabelVariance(step, figure) : 0;
  const long double variance = between + labels;

  const long double within = std::max(0.0L, naivePosteriorVariance(step, figure) - labels);
  const long double ofRows = between > within ? within / between : 1;
  long double uneven = 0;  // the squared coefficient of variation of the prompts' shares
  for (const std::int64_t size : sizes) {
    if (size == 0) continue;
    const auto count = static_cast<long double>(size);
    const long double share = ofRows * count / rows + (1 - ofRows) * count * count / squaredSizes;
    uneven += (share * prompts - 1) * (share * prompts - 1) / prompts;
  }
  const long double ofPrompts = std::max(std::min(2.0L, prompts - 1), (prompts - 1) / (1 + uneven));
  const long double certain = isHit(figure) ? 0x1p-30L / rows : 0;
  const long double degrees = variance > certain
                                  ? variance * variance / (between * between / ofPrompts + labels * labels / (rows - 1))
                                  : columns - 1;
  const auto t = static_cast<long double>(studentT975(static_cast<double>(degrees)));
  const long double estimate = meanOver(step, figure, false);
  const long double centre = meanOver(step, figure, expected);
  const long double unseen = -std::log(0.025L) / prompts;
  if (isHit(figure)) {
    ReferenceInterval out = wilson(estimate, drawsOf(step, centre, variance, std::min(columns, rows), rows), t);
    if (figure == kRetrieval1) out.low = std::min(out.low, std::max(0.0L, 1 - unseen / 2));
    return out;
  }
  const long double half = t * std::sqrt(variance), rounding = roundingOf(step, figure);
  if (figure == kMiSeqLoo) return {estimate - half - rounding, estimate + half + rounding};

  const long double bound = boundOf(step, figure);
  const long double gap = std::max({0.0L, bound - estimate, bound - centre});
  const bool seen = gap > rounding;
  long double most = unseen * std::numbers::ln2_v<long double> / lnPrompts(step) * bound;
  if (seen) {
    const long double size = jackknifeVariance(gaps) / gap;
    long double byar = gap;
    if (size > 0) {
      const long double events = gap / size + 1;
      byar = size * events * std::pow(1 - 1 / (9 * events) + t / (3 * std::sqrt(events)), 3.0L);
    }
    most = std::max(most, byar);
  }
  const long double down = std::max(half, std::hypot(most - gap, t * std::sqrt(labels)));
  const long double low = std::min(estimate, std::max(estimate - down, std::min(0.0L, estimate - half))) - rounding;
  if (figure == kMiPerToken) {
    const long double up = half > 0 ? half * (1 + half / (2 * std::max(bound, half))) : 0;
    return {low, std::min(estimate + up, std::max(estimate, lnPrompts(step))) + rounding};
  }
  const long double up = seen ? gap * (1 - std::exp(-half / gap)) : 0;
  return {low, std::min(estimate + up, std::max(estimate, bound)) + rounding};
}

// The mean of matched - marginal within three standard deviations of what the scores say it should be.
inline bool naiveCalibrated(const Step& step) {
  const long double surprise = std::abs(meanOver(step, kMiSeq, false) - meanOver(step, kMiSeq, true));
  return surprise <= 3 * std::sqrt(naiveLabelVariance(step, kMiSeq)) + roundingOf(step, kMiSeq);
}

}  // namespace collapsar::test
