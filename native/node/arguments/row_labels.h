// The arguments own, lengths and signatures of three operations (src/engine/operations/row-stats.ts, RowLabels).
#pragma once

#include <cstdint>
#include <vector>

#include "arguments.h"
#include "engine/score_stats.h"

namespace collapsar {

struct RowLabels {
  std::vector<std::int32_t> own;
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> signatures;  // empty: all columns differ

  // Takes own, lengths, signatures | undefined. `prefix` is how the caller wrote them, such as "options.".
  static RowLabels take(Arguments& arguments, const char* prefix, std::int64_t rows, std::int64_t columns);

  // Takes own, signatures | undefined, where the lengths are known from elsewhere.
  static RowLabels takeOwn(Arguments& arguments, const char* prefix, std::int64_t rows, std::int64_t columns);

  ScoreRows rows() const { return {own.data(), lengths.data(), signatures.empty() ? nullptr : signatures.data()}; }
};

}  // namespace collapsar
