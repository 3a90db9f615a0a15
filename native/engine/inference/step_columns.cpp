#include "step_columns.h"

#include "engine/deterministic_math.h"

namespace collapsar {

StepColumns::StepColumns(const InferenceInput& input)
    : signature(input.columns), sharing(input.columns, 0), rowsOf(input.columns, 0), logOthers(input.columns + 1) {
  const std::int64_t columns = input.columns;
  for (std::int64_t p = 0; p < columns; p++) {
    signature[p] = input.labels.signature != nullptr ? input.labels.signature[p] : static_cast<std::int32_t>(p);
    sharing[signature[p]]++;
  }
  for (const std::int64_t count : sharing) distinct += count > 0;
  for (std::int64_t r = 0; r < input.rows; r++) rowsOf[input.labels.own[r]]++;
  for (const std::int64_t count : rowsOf) sampledColumns += count > 0;
  rowCounts.assign(rowsOf.begin(), rowsOf.end());
  for (std::int64_t n = 0; n <= columns; n++) logOthers[n] = deterministicLog(static_cast<double>(n));
}

}  // namespace collapsar
