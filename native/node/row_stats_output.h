// The memory that row statistics are computed into, and the JavaScript object made of it (src/engine/operations.ts,
// RowStats).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/score_stats.h"
#include "memory_block.h"
#include "napi_setup.h"

namespace collapsar {

// One block: seven float64 arrays, then argmax, rankAbove, rankEqual and topColumns, each [rows] ([rows, topK] the
// last).
class RowStatsOutput {
 public:
  std::size_t bytes() const { return integersAt(3) + rowCount() * 4 * static_cast<std::size_t>(topK); }

  // Allocates the block. Throws std::bad_alloc.
  RowStats allocate();

  Napi::Object value(Napi::Env env);

  std::int64_t rows = 0, columns = 0;
  int topK = 0;

 private:
  std::size_t rowCount() const { return static_cast<std::size_t>(rows); }
  std::size_t doublesAt(int field) const { return rowCount() * 8 * field; }
  std::size_t integersAt(int field) const { return rowCount() * (8 * 7 + 4 * field); }

  std::shared_ptr<MemoryBlock> memory_;
};

}  // namespace collapsar
