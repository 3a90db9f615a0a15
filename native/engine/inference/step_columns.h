// A step's labels -> what is counted of its columns once for all of its rows.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/score_stats.h"

namespace collapsar {

// Read-only once made.
struct StepColumns {
  StepColumns(const ScoreRows& labels, std::int64_t rows, std::int64_t columns);

  ScoreRows labels;
  std::int64_t rows, columns;
  std::vector<std::int32_t> signature;  // [columns], the identity where the caller gave none
  std::vector<std::int64_t> sharing;    // [columns] by signature: columns that have it
  std::vector<std::int64_t> rowsOf;     // [columns] rows whose own column this is
  std::vector<double> rowCounts;        // the same as doubles
  std::vector<double> logOthers;        // [columns + 1]: ln n
  std::int64_t distinct = 0;            // distinct signatures
  std::int64_t sampledColumns = 0;      // columns with rows
};

}  // namespace collapsar
