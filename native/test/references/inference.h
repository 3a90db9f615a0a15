// What inferStep must give, in long double and the plainest form: prompts are really left out and posteriors really
// summed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/inference/inference.h"
#include "scores.h"

namespace collapsar::test {

// A step: scores [rows, columns] and the labels of its rows and columns.
struct Step {
  std::int64_t columns = 0;
  std::vector<double> scores;
  std::vector<std::int32_t> own, signature;  // signature empty: all columns differ
  std::vector<std::int64_t> lengths;

  std::int64_t rows() const { return static_cast<std::int64_t>(own.size()); }
  std::vector<double> row(std::int64_t r) const {
    return {scores.begin() + r * columns, scores.begin() + (r + 1) * columns};
  }
  std::int32_t signatureOf(std::int32_t p) const {
    return signature.empty() ? p : signature[static_cast<std::size_t>(p)];
  }
};

using Values = std::vector<long double>;

// A figure's value of one row whose label were `own`.
inline long double rowValue(const Step& step, std::int64_t r, std::int32_t own, Figure figure) {
  const std::int64_t length = step.lengths[static_cast<std::size_t>(r)];
  const std::vector<double> scores = step.row(r);
  const ReferenceRow row = referenceRow(scores, own, length, step.signature.empty() ? nullptr : step.signature.data());
  const long double score = scores[static_cast<std::size_t>(own)],
                    tokens = static_cast<long double>(std::max<std::int64_t>(length, 1));
  switch (figure) {
    case kMiSeq:
      return score - row.marginalSeq;
    case kMiSeqLoo:
      return score - row.looMarginalSeq;
    case kMiPerToken:
      return (score - row.marginalSeq) / tokens;
    case kMiToken:
      return score / tokens - row.marginalToken;
    default:
      break;
  }
  const std::size_t k = std::min<std::size_t>(std::size_t{1} << (figure - kRetrieval1), scores.size());
  for (std::size_t i = 0; i < k; i++) {
    if (step.signatureOf(row.byRank[i]) == step.signatureOf(own)) return 1;
  }
  return 0;
}

inline std::vector<std::int64_t> groupSizes(const Step& step) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(step.columns), 0);
  for (const std::int32_t own : step.own) sizes[static_cast<std::size_t>(own)]++;
  return sizes;
}

// P(label | row), labels weighted by their rows.
inline Values posterior(const Step& step, std::int64_t r) {
  const std::vector<std::int64_t> sizes = groupSizes(step);
  const std::vector<double> scores = step.row(r);
  long double largest = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::size_t p = 0; p < scores.size(); p++) {
    if (sizes[p] > 0) largest = std::max<long double>(largest, scores[p]);
  }
  Values weights;
  for (std::size_t p = 0; p < scores.size(); p++) {
    weights.push_back(static_cast<long double>(sizes[p]) * std::exp(scores[p] - largest));
    total += weights.back();
  }
  for (long double& weight : weights) weight /= total;
  return weights;
}

inline std::vector<Values> posteriors(const Step& step) {
  std::vector<Values> out;
  for (std::int64_t r = 0; r < step.rows(); r++) out.push_back(posterior(step, r));
  return out;
}

inline long double expectation(const Step& step, std::int64_t r, Figure figure) {
  const Values weights = posterior(step, r);
  long double sum = 0;
  for (std::size_t p = 0; p < weights.size(); p++) {
    if (weights[p] > 0) sum += weights[p] * rowValue(step, r, static_cast<std::int32_t>(p), figure);
  }
  return sum;
}

// The step without prompt j: no column of it, no rows of it.
inline Step without(const Step& step, std::int32_t j) {
  Step out;
  out.columns = step.columns - 1;
  out.signature.clear();
  for (std::int64_t r = 0; r < step.rows(); r++) {
    const std::int32_t own = step.own[static_cast<std::size_t>(r)];
    if (own == j) continue;
    std::vector<double> scores = step.row(r);
    scores.erase(scores.begin() + j);
    out.scores.insert(out.scores.end(), scores.begin(), scores.end());
    out.own.push_back(own > j ? own - 1 : own);
    out.lengths.push_back(step.lengths[static_cast<std::size_t>(r)]);
  }
  if (!step.signature.empty()) {
    // Any numbers below columns do that are equal where they were equal.
    for (std::int32_t p = 0; p < step.columns; p++) {
      if (p == j) continue;
      std::int32_t first = 0;
      for (std::int32_t q = 0; q <= p; q++) {
        if (q != j && step.signatureOf(q) == step.signatureOf(p)) {
          first = q > j ? q - 1 : q;
          break;
        }
      }
      out.signature.push_back(first);
    }
  }
  return out;
}

inline long double meanOver(const Step& step, Figure figure, bool expected) {
  long double sum = 0;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    sum += expected ? expectation(step, r, figure) : rowValue(step, r, step.own[static_cast<std::size_t>(r)], figure);
  }
  return sum / static_cast<long double>(step.rows());
}

// Of an estimate, from what it is without each of the prompts.
inline long double jackknifeVariance(const Values& left) {
  const auto prompts = static_cast<long double>(left.size());
  long double mean = 0, squares = 0;
  for (const long double value : left) mean += value / prompts;
  for (const long double value : left) squares += (value - mean) * (value - mean);
  return (prompts - 1) / prompts * squares;
}

// What of a mean's variance the label alone explains.
inline long double naiveLabelVariance(const Step& step, Figure figure) {
  long double sum = 0;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    const Values weights = posterior(step, r);
    const long double centre = expectation(step, r, figure);
    for (std::size_t p = 0; p < weights.size(); p++) {
      if (weights[p] == 0) continue;
      const long double off = rowValue(step, r, static_cast<std::int32_t>(p), figure) - centre;
      sum += weights[p] * off * off;
    }
  }
  const auto rows = static_cast<long double>(step.rows());
  return sum / (rows * rows);
}

inline long double naivePopulationError(const Step& step, Figure figure, bool calibrated) {
  const bool expected = calibrated && figure != kMiSeqLoo;
  Values left;
  for (std::int32_t j = 0; j < step.columns; j++) left.push_back(meanOver(without(step, j), figure, expected));
  return std::sqrt(jackknifeVariance(left) + (expected ? naiveLabelVariance(step, figure) : 0));
}

inline long double naivePosteriorVariance(const Step& step, Figure figure) {
  const auto rows = static_cast<long double>(step.rows());
  const std::vector<Values> likely = posteriors(step);
  long double sum = 0;
  for (std::int32_t p = 0; p < step.columns; p++) {
    Values weights, values;
    long double total = 0, mean = 0, squares = 0, own = 0;
    for (std::int64_t r = 0; r < step.rows(); r++) {
      const long double weight = likely[static_cast<std::size_t>(r)][static_cast<std::size_t>(p)];
      if (weight == 0) continue;
      weights.push_back(weight);
      values.push_back(rowValue(step, r, p, figure));
      total += weight;
      mean += weight * values.back();
    }
    if (total > 0) mean /= total;
    for (std::size_t i = 0; i < values.size(); i++) {
      const long double off = weights[i] * (values[i] - mean) * (values[i] - mean);
      squares += off;
      own += weights[i] * off;
    }
    // Figures per token: about the true mean rows spread further than about the mean of a few.
    const bool perToken = figure == kMiPerToken || figure == kMiToken;
    const long double leverage = perToken && squares > 0 ? std::min(0.5L, own / (total * squares)) : 1 / rows;
    sum += squares / (1 - leverage);
  }
  return sum / (rows * rows);
}

inline long double naiveStratifiedVariance(const Step& step, Figure figure) {
  Values values;
  for (std::int64_t r = 0; r < step.rows(); r++) {
    values.push_back(rowValue(step, r, step.own[static_cast<std::size_t>(r)], figure));
  }
  const auto variance = [](const Values& sample) {
    long double mean = 0, squares = 0;
    for (const long double value : sample) mean += value / static_cast<long double>(sample.size());
    for (const long double value : sample) squares += (value - mean) * (value - mean);
    return squares / static_cast<long double>(sample.size() - 1);
  };
  long double sum = 0;
  for (std::int32_t p = 0; p < step.columns; p++) {
    Values group;
    for (std::size_t r = 0; r < values.size(); r++) {
      if (step.own[r] == p) group.push_back(values[r]);
    }
    if (group.empty()) continue;
    sum += static_cast<long double>(group.size()) * variance(group.size() > 1 ? group : values);
  }
  const auto rows = static_cast<long double>(step.rows());
  return sum / (rows * rows);
}

}  // namespace collapsar::test
