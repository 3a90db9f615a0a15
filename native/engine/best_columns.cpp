// A pass over the matrix of its own, for whoever asks: row statistics need no list (hits are counted).
#include "best_columns.h"

#include <algorithm>
#include <vector>

#include "with_type.h"

namespace collapsar {

namespace {

constexpr std::int64_t kRankedElements = 1 << 17;
constexpr std::int64_t kRowsTogether = 16;
constexpr std::int64_t kBetweenLooks = 1 << 16;  // at `cancelled`, in elements

template <class T>
Outcome nameBest(const ScoreMatrix& scores, int topK, std::int32_t* out, ThreadPool& pool, JobControl& control) {
  using C = ComputeOf<T>;
  const T* const data = static_cast<const T*>(scores.data);
  const auto magnitude = [](std::int64_t stride) { return stride < 0 ? -stride : stride; };
  // Rows whose elements alternate in memory are read together.
  const std::int64_t together = magnitude(scores.rowStride) < magnitude(scores.columnStride) ? kRowsTogether : 1;
  const std::int64_t groups = (scores.rows + together - 1) / together;
  const std::int64_t groupsPerTile = std::max<std::int64_t>(1, kRankedElements / (scores.columns * together));
  return pool.run((groups + groupsPerTile - 1) / groupsPerTile, control, [&](std::int64_t tile, int) {
    const std::int64_t end = std::min(scores.rows, (tile + 1) * groupsPerTile * together);
    for (std::int64_t first = tile * groupsPerTile * together; first < end; first += together) {
      const std::int64_t count = std::min(together, end - first);
      BestColumns<C, kMaxTopK> best[kRowsTogether];
      std::fill_n(best, count, BestColumns<C, kMaxTopK>(topK));
      for (std::int64_t column = 0; column < scores.columns; column++) {
        if (column % kBetweenLooks == 0 && control.cancelled.load(std::memory_order_relaxed)) return;
        const T* const at = data + first * scores.rowStride + column * scores.columnStride;
        for (std::int64_t i = 0; i < count; i++) {
          best[i].take(static_cast<C>(valueOf(at[i * scores.rowStride])), static_cast<std::int32_t>(column));
        }
      }
      for (std::int64_t i = 0; i < count; i++) std::copy_n(best[i].columns(), topK, out + (first + i) * topK);
    }
  });
}

}  // namespace

Outcome nameBestColumns(const ScoreMatrix& scores, int topK, std::int32_t* out, ThreadPool& pool, JobControl& control) {
  return withType(scores.dtype, [&](auto type) { return nameBest<decltype(type)>(scores, topK, out, pool, control); });
}

}  // namespace collapsar
