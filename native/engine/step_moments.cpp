// Exact sums over rows: the order in which rows come, or shards are merged, cannot change a bit.
#include "step_moments.h"

#include <cmath>

#include "exact_sum.h"

namespace collapsar {

namespace {

// Mean and population deviation of value(row) over all rows.
template <class Value>
Moments momentsOf(std::int64_t rows, Value value) {
  ExactSum sum;
  for (std::int64_t r = 0; r < rows; r++) sum.add(value(r));
  const auto count = static_cast<double>(rows);
  const double mean = sum.round() / count;
  ExactSum squares;
  for (std::int64_t r = 0; r < rows; r++) {
    const double deviation = value(r) - mean;
    squares.addProduct(deviation, deviation);
  }
  return {mean, std::sqrt(squares.round() / count)};
}

}  // namespace

StepMoments stepMoments(const RowStats& stats, const std::int64_t* lengths, std::int64_t rowCount) {
  StepMoments out{};
  out.rows = rowCount;
  const auto of = [&](const double* values) {
    return momentsOf(rowCount, [values](std::int64_t r) { return values[r]; });
  };
  const auto excess = [&](const double* matched, const double* marginal) {
    return momentsOf(rowCount, [=](std::int64_t r) { return matched[r] - marginal[r]; });
  };
  out.matchedToken = of(stats.matchedToken);
  out.marginalToken = of(stats.marginalToken);
  out.matchedSeq = of(stats.matchedSeq);
  out.marginalSeq = of(stats.marginalSeq);
  out.excessSeq = excess(stats.matchedSeq, stats.marginalSeq);
  out.excessToken = excess(stats.matchedToken, stats.marginalToken);
  out.excessPerToken = momentsOf(rowCount, [&](std::int64_t r) {
    const std::int64_t length = lengths[r] > 1 ? lengths[r] : 1;
    return (stats.matchedSeq[r] - stats.marginalSeq[r]) / static_cast<double>(length);
  });
  out.looExcessSeq = excess(stats.matchedSeq, stats.looMarginalSeq);
  out.posteriorEntropy = of(stats.posteriorEntropy);

  for (std::int64_t r = 0; r < rowCount; r++) {
    for (int j = 0; j < 4; j++) out.hits[j] += stats.hitRank[r] < 1 << j;
  }
  return out;
}

}  // namespace collapsar
