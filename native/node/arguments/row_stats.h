// A RowStats that comes back from JavaScript as an argument (src/engine/operations/operations.ts, RowStats).
#pragma once

#include <cstdint>
#include <vector>

#include "arguments.h"
#include "engine/score_stats.h"

namespace collapsar {

class RowStatsInput {
 public:
  // Takes rows, columns, topK and the eleven arrays, each followed by whether the caller protects it.
  void take(Job& job, Arguments& arguments);

  // On the job's thread: the statistics, with the arrays that hold column numbers copied and checked, since whoever has
  // the memory may write anything into it and the engine uses them as indices. Throws ArgumentProblem.
  RowStats checked();

  std::int64_t rows = 0, columns = 0;
  int topK = 0;

 private:
  RowStats stats_{};
  std::vector<std::int32_t> argmax_, topColumns_;
};

}  // namespace collapsar
