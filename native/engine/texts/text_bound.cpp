// Sums go by the rows' positions, which their content fixes.
#include "text_bound.h"

#include <algorithm>
#include <cmath>

#include "engine/inference/student_t.h"
#include "engine/simd/kernel_table.h"
#include "engine/special_values.h"

namespace collapsar {

namespace {

constexpr double kEpsilons[] = {0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1};
constexpr double kBetter = 1e-12;  // a later point of the grid must be, or rounding would choose
constexpr double kSaturated = 0.98;

// P q(own) of a row with this share of softmax.
double mixedShare(double share, double epsilon, std::int64_t prompts) {
  return (1 - epsilon) * share * static_cast<double>(prompts) + epsilon;
}

// Shares of softmax -> ln q(own) + ln P.
void toValues(std::vector<double>& shares, double epsilon, std::int64_t prompts) {
  const std::size_t count = shares.size();
  for (double& share : shares) share = mixedShare(share, epsilon, prompts);
  // Whole vectors.
  shares.resize((count + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles, 1.0);
  kernels().logarithms(shares.data(), static_cast<std::int64_t>(count), shares.data());
  shares.resize(count);
}

// The best point of the grid over rows at the positions of one parity.
TextPredictor bestPoint(const UsedRows& rows, const RowScores& scores, std::int64_t parity) {
  const double least = 1.0 / static_cast<double>(rows.rows);
  std::vector<double> epsilons = {least};
  for (const double epsilon : kEpsilons) {
    if (epsilon > least) epsilons.push_back(epsilon);
  }
  std::vector<double> weight, values;
  double weights = 0;
  for (std::int64_t at = parity; at < rows.rows; at += 2) {
    weight.push_back(rows.weight[rows.atPosition[at]]);
    weights += weight.back();
  }
  TextPredictor best;
  double bestMean = -kInfinity;
  for (int temperature = 0; temperature < kTemperatures; temperature++) {
    for (const double epsilon : epsilons) {
      values.clear();
      for (std::int64_t at = parity; at < rows.rows; at += 2) {
        values.push_back(scores.ownShare[rows.atPosition[at] * kTemperatures + temperature]);
      }
      toValues(values, epsilon, rows.prompts);
      double sum = 0;
      for (std::size_t i = 0; i < values.size(); i++) sum += weight[i] * values[i];
      if (sum / weights > bestMean + kBetter) {
        best = {temperature, epsilon};
        bestMean = sum / weights;
      }
    }
  }
  return best;
}

}  // namespace

double retrievedShare(const RowScores& scores, std::int64_t row, int i) {
  const double taken = ((1 << i) - scores.above[row]) / static_cast<double>(scores.equal[row]);
  return std::clamp(taken, 0.0, 1.0);
}

TextBound textBound(const UsedRows& rows, const RowScores& scores) {
  TextBound out{};
  const auto prompts = static_cast<double>(rows.prompts);
  const double ceiling = kernels().log(prompts);
  for (const int parity : {0, 1}) out.best[parity] = bestPoint(rows, scores, parity);
  std::vector<double>& values = out.values;
  values.resize(static_cast<std::size_t>(rows.rows));
  double mostWeight = 0;
  for (std::int64_t at = 0; at < rows.rows; at++) {
    const std::int64_t row = rows.atPosition[at];
    const TextPredictor& point = out.predictorOf(rows, row);
    const double share = scores.ownShare[row * kTemperatures + point.temperature];
    values[row] = kernels().log(mixedShare(share, point.epsilon, rows.prompts));
    out.bound += rows.weight[row] * values[row];
    mostWeight = std::max(mostWeight, rows.weight[row]);
    out.specificity += rows.weight[row] * scores.excess[row];
    for (int i = 0; i < kTextRetrievals; i++) {
      out.retrieval[i] += rows.weight[row] * retrievedShare(scores, row, i);
    }
  }
  for (int i = 0; i < kTextRetrievals; i++) {
    if (1 << i >= rows.prompts) out.retrieval[i] = kNaN;
  }
  double squares = 0;
  for (std::int64_t j = 0; j < rows.prompts; j++) {
    double ofPrompt = 0;
    for (std::int64_t row = rows.firstRow[j]; row < rows.firstRow[j + 1]; row++) {
      ofPrompt += rows.weight[row] * (values[row] - out.bound);
    }
    squares += ofPrompt * ofPrompt;
  }
  out.error = std::max(std::sqrt(prompts / (prompts - 1) * squares), ceiling * mostWeight);
  const double reach = studentT975(prompts - 1) * out.error;
  out.low = out.bound - reach;
  out.high = out.bound + reach;
  out.saturated = out.bound > kSaturated * ceiling;
  return out;
}

}  // namespace collapsar
