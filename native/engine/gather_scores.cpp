// Copies picked elements, widened to float64; a tile is a run of output rows, or a part of a long one.
#include "gather_scores.h"

#include <algorithm>

#include "with_type.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileElements = 1 << 16;

template <class T>
Outcome gather(const ScoreMatrix& scores, const std::int32_t* rowIndex, std::int64_t outRows,
               const std::int32_t* columnIndex, std::int64_t outColumns, double* out, ThreadPool& pool,
               JobControl& control) {
  const T* data = static_cast<const T*>(scores.data);
  const std::int64_t columnStride = scores.columnStride;
  control.totalUnits.store(outRows * outColumns, std::memory_order_relaxed);
  if (outColumns == 0) return Outcome::Done;
  const std::int64_t rowsPerTile = std::max<std::int64_t>(1, kTileElements / outColumns);
  const std::int64_t tilesOfRow = (outColumns + kTileElements - 1) / kTileElements;
  const std::int64_t tiles = (outRows + rowsPerTile - 1) / rowsPerTile * tilesOfRow;
  return pool.run(tiles, control, [&](std::int64_t tile, int) {
    const std::int64_t begin = tile / tilesOfRow * rowsPerTile, end = std::min(begin + rowsPerTile, outRows);
    const std::int64_t first = tile % tilesOfRow * kTileElements, last = std::min(first + kTileElements, outColumns);
    for (std::int64_t i = begin; i < end; i++) {
      const T* row = data + (rowIndex != nullptr ? rowIndex[i] : i) * scores.rowStride;
      double* target = out + i * outColumns;
      for (std::int64_t j = first; j < last; j++) {
        target[j] = valueOf(row[(columnIndex != nullptr ? columnIndex[j] : j) * columnStride]);
      }
    }
    control.doneUnits.fetch_add((end - begin) * (last - first), std::memory_order_relaxed);
  });
}

}  // namespace

Outcome gatherScores(const ScoreMatrix& scores, const std::int32_t* rowIndex, std::int64_t outRows,
                     const std::int32_t* columnIndex, std::int64_t outColumns, double* out, ThreadPool& pool,
                     JobControl& control) {
  return withType(scores.dtype, [&](auto type) {
    return gather<decltype(type)>(scores, rowIndex, outRows, columnIndex, outColumns, out, pool, control);
  });
}

}  // namespace collapsar
