// A counting sort by shard: tiles of texts are counted, then written where their place is.
#include "hash_shards.h"

#include <algorithm>

namespace collapsar {

namespace {

constexpr std::int64_t kShardEntries = 1 << 14, kTileEntries = 1 << 15, kMostTiles = 256;
constexpr int kLeastShardBits = 4, kMostShardBits = 12;

// Tiles of texts [begins[i], begins[i + 1]) with about as many hashes each.
std::vector<std::int64_t> tilesOf(const std::vector<std::int64_t>& counts, std::int64_t total) {
  const std::int64_t wanted = std::max(kTileEntries, total / kMostTiles);
  std::vector<std::int64_t> begins = {0};
  std::int64_t held = 0;
  for (std::size_t text = 0; text < counts.size(); text++) {
    held += counts[text];
    if (held < wanted && text + 1 < counts.size()) continue;
    begins.push_back(static_cast<std::int64_t>(text) + 1);
    held = 0;
  }
  return begins;
}

// Leaves out most of the hashes that come once, as most n-grams do, and returns how many are left.
std::int64_t leaveOutSingles(const HashShards::Entries& entries, int shardBits, std::vector<std::uint8_t>& times) {
  const std::uint64_t size = std::bit_ceil(static_cast<std::uint64_t>(8 * entries.count + 2));
  const int shift = 64 - std::countr_zero(size);
  times.assign(size, 0);
  for (std::int64_t i = 0; i < entries.count; i++) {
    std::uint8_t& time = times[entries.hashes[i] << shardBits >> shift];
    time = time == 0 ? 1 : 2;
  }
  std::int64_t left = 0;
  for (std::int64_t i = 0; i < entries.count; i++) {
    const std::uint64_t hash = entries.hashes[i];
    entries.hashes[left] = hash;
    entries.texts[left] = entries.texts[i];
    left += times[hash << shardBits >> shift] == 2;
  }
  return left;
}

}  // namespace

Outcome HashShards::fill(const std::vector<std::int64_t>& counts,
                         const std::function<void(std::int64_t text, std::uint64_t* out)>& write, ThreadPool& pool,
                         JobControl& control) {
  std::int64_t total = 0, most = 0;
  for (const std::int64_t count : counts) {
    total += count;
    most = std::max(most, count);
  }
  const int wanted = std::bit_width(static_cast<std::uint64_t>(total / kShardEntries));
  const int bits = std::clamp(wanted, kLeastShardBits, kMostShardBits), shift = 64 - bits;
  const std::size_t shards = std::size_t{1} << bits;
  const std::vector<std::int64_t> begins = tilesOf(counts, total);
  const std::size_t tiles = begins.size() - 1;
  std::vector<std::vector<std::uint64_t>> buffers(static_cast<std::size_t>(pool.threads()));
  // use(text, hash) for all hashes of each tile. places: [tiles, shards].
  std::vector<std::int64_t> places(tiles * shards);
  const auto eachHash = [&](auto use) {
    return pool.run(static_cast<std::int64_t>(tiles), control, [&](std::int64_t tile, int worker) {
      std::vector<std::uint64_t>& buffer = buffers[static_cast<std::size_t>(worker)];
      buffer.resize(static_cast<std::size_t>(most));
      std::int64_t* const ofTile = places.data() + static_cast<std::size_t>(tile) * shards;
      for (std::int64_t text = begins[tile]; text < begins[tile + 1]; text++) {
        if (control.cancelled.load(std::memory_order_relaxed)) return;
        write(text, buffer.data());
        for (std::int64_t i = 0; i < counts[text]; i++) use(ofTile[buffer[i] >> shift], text, buffer[i]);
        control.doneUnits.fetch_add(counts[text] / 2, std::memory_order_relaxed);
      }
    });
  };
  const Outcome counted = eachHash([](std::int64_t& place, std::int64_t, std::uint64_t) { place++; });
  if (counted == Outcome::Cancelled) return counted;
  firsts_.clear();
  counts_.clear();
  std::int64_t before = 0;
  for (std::size_t shard = 0; shard < shards; shard++) {
    firsts_.push_back(before);
    for (std::size_t tile = 0; tile < tiles; tile++) {
      const std::int64_t number = places[tile * shards + shard];
      places[tile * shards + shard] = before;
      before += number;
    }
    counts_.push_back(before - firsts_.back());
  }
  hashes_ = UnsetArray<std::uint64_t>(static_cast<std::size_t>(total));
  texts_ = UnsetArray<std::uint32_t>(static_cast<std::size_t>(total));
  const Outcome written = eachHash([&](std::int64_t& place, std::int64_t text, std::uint64_t hash) {
    hashes_.get()[place] = hash;
    texts_.get()[place++] = static_cast<std::uint32_t>(text);
  });
  // A job that is cancelled in its last tile has not written all of it.
  if (written == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  std::vector<std::vector<std::uint8_t>> times(static_cast<std::size_t>(pool.threads()));
  return pool.run(count(), control, [&](std::int64_t shard, int worker) {
    counts_[static_cast<std::size_t>(shard)] =
        leaveOutSingles(of(shard), bits, times[static_cast<std::size_t>(worker)]);
  });
}

}  // namespace collapsar
