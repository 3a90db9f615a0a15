// A RowStats that comes back from JavaScript as an argument (src/engine/operations/row-stats.ts, RowStats).
#pragma once

#include <cstdint>

#include "arguments.h"
#include "engine/score_stats.h"

namespace collapsar {

class RowStatsInput {
 public:
  // Takes rows, columns and the eleven arrays [rows], each followed by whether the caller protects it.
  void take(Job& job, Arguments& arguments);

  // On the job's thread: the statistics, if the arrays hold columns and ranks. Throws ArgumentProblem.
  RowStats checked() const;

  // The same where matched and marginal sums must be finite in every row as well.
  RowStats checkedFinite() const;

  std::int64_t rows = 0, columns = 0;

 private:
  RowStats stats_{};
};

}  // namespace collapsar
