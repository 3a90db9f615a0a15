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

std::uint64_t touchLines(const TokenPlaces& tokens, ThreadPool& pool) {
  const auto rows = static_cast<std::int64_t>(tokens.lengths.size());
  const std::int64_t runs = (rows + kTileRows - 1) / kTileRows;
  std::atomic<std::uint64_t> total{0};
  JobControl control;
  pool.run(tokens.prompts * runs, control, [&](std::int64_t tile, int) {
    const std::int64_t prompt = tile / runs, first = tile % runs * kTileRows;
    std::uint64_t part = 0;
    for (std::int64_t row = first; row < std::min(first + kTileRows, rows); row++) {
      const std::size_t at = static_cast<std::size_t>(row);
      const unsigned char* const begin =
          tokens.data + (prompt * tokens.promptStride + tokens.offsets[at]) * tokens.elementBytes;
      part += touch(begin, begin + tokens.lengths[at] * tokens.elementBytes);
    }
    total.fetch_add(part, std::memory_order_relaxed);
  });
  return total.load(std::memory_order_relaxed);
}

}  // namespace collapsar
