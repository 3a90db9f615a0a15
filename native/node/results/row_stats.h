// The memory that row statistics are computed into, and the JavaScript object made of it
// (src/engine/operations/row-stats.ts, RowStats).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "device_results.h"
#include "engine/score_stats.h"
#include "node/memory_block.h"
#include "node/napi_setup.h"

namespace collapsar {

// Seven float64 arrays, then argmax, rankAbove, rankEqual, hitRank and topColumns, each [rows] ([rows, topK] the last):
// one block of host memory, or one piece of a GPU's memory each.
class RowStatsOutput {
 public:
  // Of the block.
  std::size_t bytes() const {
    return onDevice ? 0 : integersAt(kIntegers - 1) + rowCount() * 4 * static_cast<std::size_t>(topK);
  }

  // Allocates the block. Throws std::bad_alloc.
  RowStats allocate();
  // In its place: the pieces on the GPU. Throws DeviceProblem.
  RowStats allocateOn(Device& device, DeviceResults& results);

  // With arrays, or with the numbers of the pieces on the GPU.
  Napi::Object value(Napi::Env env);

  std::int64_t rows = 0, columns = 0;
  int topK = 0;
  bool onDevice = false;

 private:
  static constexpr int kDoubles = 7, kIntegers = 5;

  RowStats fields(const std::function<double*(int)>& doubles, const std::function<std::int32_t*(int)>& integers) const;
  std::size_t rowCount() const { return static_cast<std::size_t>(rows); }
  std::size_t doublesAt(int field) const { return rowCount() * 8 * field; }
  std::size_t integersAt(int field) const { return rowCount() * (8 * kDoubles + 4 * field); }

  std::shared_ptr<MemoryBlock> memory_;
  std::uint32_t numbers_[kDoubles + kIntegers] = {};
};

}  // namespace collapsar
