#include "row_labels.h"

#include <limits>
#include <string>

namespace collapsar {

namespace {

std::vector<std::int32_t> ownColumns(Arguments& arguments, const std::string& prefix, std::int64_t rows,
                                     std::int64_t columns) {
  const std::string name = prefix + "own";
  std::vector<std::int32_t> own = integers32(arguments.next(), name.c_str(), 0, static_cast<std::int32_t>(columns - 1));
  expectCount(arguments.env(), name.c_str(), own.size(), rows, "row");
  return own;
}

std::vector<std::int32_t> columnSignatures(Arguments& arguments, const std::string& prefix, std::int64_t columns) {
  const Napi::Value given = arguments.next();
  if (given.IsUndefined()) return {};
  const std::string name = prefix + "signatures";
  std::vector<std::int32_t> signatures = integers32(given, name.c_str(), 0, static_cast<std::int32_t>(columns - 1));
  expectCount(arguments.env(), name.c_str(), signatures.size(), columns, "column");
  return signatures;
}

}  // namespace

RowLabels RowLabels::take(Arguments& arguments, const char* prefix, std::int64_t rows, std::int64_t columns) {
  const std::string lengths = std::string(prefix) + "lengths";
  RowLabels labels;
  labels.own = ownColumns(arguments, prefix, rows, columns);
  labels.lengths = integers64(arguments.next(), lengths.c_str(), 0, std::numeric_limits<std::int64_t>::max());
  expectCount(arguments.env(), lengths.c_str(), labels.lengths.size(), rows, "row");
  labels.signatures = columnSignatures(arguments, prefix, columns);
  return labels;
}

RowLabels RowLabels::takeOwn(Arguments& arguments, const char* prefix, std::int64_t rows, std::int64_t columns) {
  RowLabels labels;
  labels.own = ownColumns(arguments, prefix, rows, columns);
  labels.signatures = columnSignatures(arguments, prefix, columns);
  return labels;
}

}  // namespace collapsar
