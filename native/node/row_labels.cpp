#include "row_labels.h"

#include <limits>
#include <string>

namespace collapsar {

RowLabels RowLabels::take(Arguments& arguments, const char* prefix, std::int64_t rows, std::int64_t columns) {
  const std::string own = std::string(prefix) + "own";
  const std::string lengths = std::string(prefix) + "lengths";
  const std::string signatures = std::string(prefix) + "signatures";
  const std::int32_t lastColumn = static_cast<std::int32_t>(columns - 1);
  RowLabels labels;
  labels.own = integers32(arguments.next(), own.c_str(), 0, lastColumn);
  expectCount(arguments.env(), own.c_str(), labels.own.size(), rows, "row");
  labels.lengths = integers64(arguments.next(), lengths.c_str(), 0, std::numeric_limits<std::int64_t>::max());
  expectCount(arguments.env(), lengths.c_str(), labels.lengths.size(), rows, "row");
  const Napi::Value given = arguments.next();
  if (!given.IsUndefined()) {
    labels.signatures = integers32(given, signatures.c_str(), 0, lastColumn);
    expectCount(arguments.env(), signatures.c_str(), labels.signatures.size(), columns, "column");
  }
  return labels;
}

void expectScoreShape(Napi::Env env, const char* name, std::int64_t rows, std::int64_t columns) {
  if (rows > 0 && columns == 0) rejectArgument(env, name, "has rows but no columns");
  if (columns > std::numeric_limits<std::int32_t>::max()) {
    rejectArgument(env, name, "has " + std::to_string(columns) + " columns, at most 2147483647 are possible");
  }
}

}  // namespace collapsar
