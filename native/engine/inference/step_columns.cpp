#include "step_columns.h"

#include "engine/deterministic_math.h"

namespace collapsar {

StepColumns::StepColumns(const ScoreRows& given, std::int64_t rowCount, std::int64_t columnCount)
    : labels(given),
      rows(rowCount),
      columns(columnCount),
      signature(columnCount),
      sharing(columnCount, 0),
      rowsOf(columnCount, 0),
      logOthers(columnCount + 1) {
  for (std::int64_t p = 0; p < columns; p++) {
    signature[p] = labels.signature != nullptr ? labels.signature[p] : static_cast<std::int32_t>(p);
    sharing[signature[p]]++;
  }
  for (const std::int64_t count : sharing) distinct += count > 0;
  for (std::int64_t r = 0; r < rows; r++) rowsOf[labels.own[r]]++;
  for (const std::int64_t count : rowsOf) sampledColumns += count > 0;
  rowCounts.assign(rowsOf.begin(), rowsOf.end());
  for (std::int64_t n = 0; n <= columns; n++) logOthers[n] = deterministicLog(static_cast<double>(n));
}

}  // namespace collapsar
