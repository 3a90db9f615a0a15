#include "row_stats.h"

#include <string>

namespace collapsar {
namespace {

std::vector<std::int32_t> checkedColumns(const std::int32_t* source, std::int64_t count, std::int64_t columns,
                                         const char* name) {
  std::vector<std::int32_t> copy(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < copy.size(); ++i) {
    const std::int32_t column = *const_cast<const volatile std::int32_t*>(source + i);
    if (column < 0 || column >= columns) {
      throw ArgumentProblem{name, "entry " + std::to_string(i) + " is " + std::to_string(column) + ", expected 0 to " +
                                      std::to_string(columns - 1)};
    }
    copy[i] = column;
  }
  return copy;
}

}  // namespace

void RowStatsInput::take(Job& job, Arguments& arguments) {
  rows = arguments.integer();
  columns = arguments.integer();
  topK = static_cast<int>(arguments.integer());
  const auto doubles = [&](const char* name) {
    const Napi::Value array = arguments.next();
    const bool protectedByCaller = arguments.flag();
    return const_cast<double*>(
        static_cast<const double*>(holdTensor(job, array, name, DType::Float64, {{rows, 1}}, protectedByCaller)));
  };
  const auto integers = [&](const char* name, std::int64_t perRow) {
    const Napi::Value array = arguments.next();
    const bool protectedByCaller = arguments.flag();
    return const_cast<std::int32_t*>(holdInt32(job, array, name, rows * perRow, protectedByCaller));
  };
  stats_.matchedSeq = doubles("stats.matchedSeq");
  stats_.matchedToken = doubles("stats.matchedToken");
  stats_.marginalSeq = doubles("stats.marginalSeq");
  stats_.marginalToken = doubles("stats.marginalToken");
  stats_.looMarginalSeq = doubles("stats.looMarginalSeq");
  stats_.looMarginalToken = doubles("stats.looMarginalToken");
  stats_.posteriorEntropy = doubles("stats.posteriorEntropy");
  stats_.argmax = integers("stats.argmax", 1);
  stats_.rankAbove = integers("stats.rankAbove", 1);
  stats_.rankEqual = integers("stats.rankEqual", 1);
  stats_.topColumns = integers("stats.topColumns", topK);
  stats_.topK = topK;
}

RowStats RowStatsInput::checked() {
  argmax_ = checkedColumns(stats_.argmax, rows, columns, "stats.argmax");
  topColumns_ = checkedColumns(stats_.topColumns, rows * topK, columns, "stats.topColumns");
  RowStats stats = stats_;
  stats.argmax = argmax_.data();
  stats.topColumns = topColumns_.data();
  return stats;
}

}  // namespace collapsar
