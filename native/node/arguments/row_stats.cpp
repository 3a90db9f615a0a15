#include "row_stats.h"

#include <cmath>
#include <string>

namespace collapsar {
namespace {

void checkColumns(const std::int32_t* values, std::int64_t count, std::int64_t columns, const char* name) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] >= 0 && values[i] < columns) continue;
    throw ArgumentProblem{name, "entry " + std::to_string(i) + " is " + std::to_string(values[i]) + ", expected 0 to " +
                                    std::to_string(columns - 1)};
  }
}

void checkFinite(const double* values, std::int64_t rows, const char* name) {
  for (std::int64_t row = 0; row < rows; ++row) {
    if (std::isfinite(values[row])) continue;
    throw ArgumentProblem{name, "row " + std::to_string(row) + " is " + std::to_string(values[row]) +
                                    ": leave such rows out with gatherScores() first"};
  }
}

}  // namespace

void RowStatsInput::take(Job& job, Arguments& arguments) {
  rows = arguments.integer();
  columns = arguments.integer();
  const auto doubles = [&](const char* name) {
    const Napi::Value array = arguments.next();
    const bool protectedByCaller = arguments.flag();
    return const_cast<double*>(
        static_cast<const double*>(holdTensor(job, array, name, DType::Float64, {{rows, 1}}, protectedByCaller)));
  };
  const auto integers = [&](const char* name) {
    const Napi::Value array = arguments.next();
    const bool protectedByCaller = arguments.flag();
    return const_cast<std::int32_t*>(holdInt32(job, array, name, rows, protectedByCaller));
  };
  stats_.matchedSeq = doubles("stats.matchedSeq");
  stats_.matchedToken = doubles("stats.matchedToken");
  stats_.marginalSeq = doubles("stats.marginalSeq");
  stats_.marginalToken = doubles("stats.marginalToken");
  stats_.looMarginalSeq = doubles("stats.looMarginalSeq");
  stats_.looMarginalToken = doubles("stats.looMarginalToken");
  stats_.posteriorEntropy = doubles("stats.posteriorEntropy");
  stats_.argmax = integers("stats.argmax");
  stats_.rankAbove = integers("stats.rankAbove");
  stats_.rankEqual = integers("stats.rankEqual");
  stats_.hitRank = integers("stats.hitRank");
}

RowStats RowStatsInput::checked() const {
  checkColumns(stats_.argmax, rows, columns, "stats.argmax");
  checkColumns(stats_.hitRank, rows, columns, "stats.hitRank");
  return stats_;
}

RowStats RowStatsInput::checkedFinite() const {
  const RowStats stats = checked();
  checkFinite(stats.matchedSeq, rows, "stats.matchedSeq");
  checkFinite(stats.marginalSeq, rows, "stats.marginalSeq");
  return stats;
}

}  // namespace collapsar
