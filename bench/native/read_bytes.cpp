#include "read_bytes.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace collapsar {
namespace {

constexpr std::size_t kTile = 1u << 17;  // a multiple of every step, so that words do not straddle tiles

template <std::size_t kWidth>
struct Words {
  typedef std::uint64_t Vector __attribute__((vector_size(kWidth)));
};

// 256 bytes a step: enough loads in flight to hide the latency of the second-level cache.
template <std::size_t kWidth, bool kPrefetch>
[[gnu::always_inline]] inline std::uint64_t readBlock(const char* data, std::size_t bytes, std::int64_t ahead) {
  using Vector = typename Words<kWidth>::Vector;
  constexpr std::size_t kVectors = 256 / kWidth;
  Vector sums[kVectors] = {};
  std::size_t at = 0;
  for (; at + 256 <= bytes; at += 256) {
    if constexpr (kPrefetch) {
      for (std::size_t line = 0; line < 256; line += 64) __builtin_prefetch(data + at + line + ahead, 0, 3);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kVectors; ++i) {
      Vector words;  // by memcpy: the data need not be aligned
      std::memcpy(&words, data + at + i * kWidth, kWidth);
      sums[i] += words;
    }
  }
  std::uint64_t sum = 0;
  for (const Vector& part : sums) {
    for (std::size_t lane = 0; lane < kWidth / 8; ++lane) sum += part[lane];
  }
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    sum += word;
  }
  for (; at < bytes; ++at) sum += static_cast<unsigned char>(data[at]);
  return sum;
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline std::uint64_t readWide(const char* data, std::size_t bytes, std::int64_t ahead) {
  return ahead > 0 ? readBlock<kWidth, true>(data, bytes, ahead) : readBlock<kWidth, false>(data, bytes, 0);
}

// No header's inline function may be compiled with flags that other machines lack: these are functions of their own.
std::uint64_t read16(const char* data, std::size_t bytes, std::int64_t ahead) {
  return readWide<16>(data, bytes, ahead);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::uint64_t read32(const char* data, std::size_t bytes, std::int64_t ahead) {
  return readWide<32>(data, bytes, ahead);
}

__attribute__((target("avx512f"))) std::uint64_t read64(const char* data, std::size_t bytes, std::int64_t ahead) {
  return readWide<64>(data, bytes, ahead);
}
#endif

using Read = std::uint64_t (*)(const char*, std::size_t, std::int64_t);

Read widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read64;
  if (__builtin_cpu_supports("avx2")) return read32;
#endif
  return read16;
}

}  // namespace

std::uint64_t readBytes(const void* data, std::size_t bytes, std::int64_t prefetchBytes, ThreadPool& pool) {
  static const Read read = widest();
  const char* const start = static_cast<const char*>(data);
  const std::int64_t tiles = static_cast<std::int64_t>((bytes + kTile - 1) / kTile);
  std::atomic<std::uint64_t> total{0};
  JobControl control;
  pool.run(tiles, control, [&](std::int64_t tile, int) {
    const std::size_t from = static_cast<std::size_t>(tile) * kTile;
    total.fetch_add(read(start + from, std::min(kTile, bytes - from), prefetchBytes), std::memory_order_relaxed);
  });
  return total.load(std::memory_order_relaxed);
}

}  // namespace collapsar
