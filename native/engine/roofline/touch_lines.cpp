#include "touch_lines.h"

#include <algorithm>
#include <atomic>

namespace collapsar {
namespace {

constexpr std::int64_t kTileRows = 2048;
constexpr std::uintptr_t kLine = 64;

std::uint64_t touch(const unsigned char* begin, const unsigned char* end) {
  std::uint64_t sum = 0;
  if (begin < end) sum += *begin;
  const std::uintptr_t behind = kLine - reinterpret_cast<std::uintptr_t>(begin) % kLine;
  for (std::int64_t at = static_cast<std::int64_t>(behind); at < end - begin; at += kLine) sum += begin[at];
  return sum;
}

}  // namespace

Outcome touchLines(const TokenScores& scores, ThreadPool& pool, JobControl& control, std::uint64_t* sum) {
  const auto* const data = static_cast<const unsigned char*>(scores.data);
  const auto bytes = static_cast<std::int64_t>(sizeOf(scores.dtype));
  const std::int64_t runs = (scores.rows + kTileRows - 1) / kTileRows, tiles = scores.prompts * runs;
  control.totalUnits.store(tiles, std::memory_order_relaxed);
  std::atomic<std::uint64_t> total{0};
  const Outcome outcome = pool.run(tiles, control, [&](std::int64_t tile, int) {
    const std::int64_t prompt = tile / runs, first = tile % runs * kTileRows;
    std::uint64_t part = 0;
    for (std::int64_t row = first; row < std::min(first + kTileRows, scores.rows); row++) {
      const unsigned char* const begin = data + segmentStart(scores, prompt, row) * bytes;
      part += touch(begin, begin + scores.lengths[row] * bytes);
    }
    total.fetch_add(part, std::memory_order_relaxed);
    control.doneUnits.fetch_add(1, std::memory_order_relaxed);
  });
  *sum = total.load(std::memory_order_relaxed);
  return outcome;
}

}  // namespace collapsar
