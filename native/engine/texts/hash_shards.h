// Hashes of n-grams, dealt into shards by their highest bits: a shard is counted by one thread, in a table that stays
// in a second-level cache, and no count depends on how many threads there are.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "unset_array.h"

namespace collapsar {

// Numbers different hashes from 0 on, in the order in which they come.
class HashNumbers {
 public:
  HashNumbers() = default;
  // Throws std::bad_alloc.
  explicit HashNumbers(std::int64_t most) { clear(most); }

  // Forgets all, and makes room for `most` different hashes. Throws std::bad_alloc.
  void clear(std::int64_t most) {
    const std::uint64_t size = std::bit_ceil(static_cast<std::uint64_t>(2 * most + 2));
    slots_.assign(size, kNone);
    shift_ = 64 - std::countr_zero(size);
    hashes_.clear();
    hashes_.reserve(static_cast<std::size_t>(most));
  }

  std::uint32_t add(std::uint64_t hash) {
    std::uint32_t& slot = slots_[placeOf(hash)];
    if (slot == kNone) {
      slot = count();
      hashes_.push_back(hash);
    }
    return slot;
  }

  // kNone where it was not added.
  std::uint32_t find(std::uint64_t hash) const { return slots_[placeOf(hash)]; }

  std::uint32_t count() const { return static_cast<std::uint32_t>(hashes_.size()); }
  std::uint64_t hash(std::uint32_t number) const { return hashes_[number]; }

  static constexpr std::uint32_t kNone = UINT32_MAX;

 private:
  std::uint64_t placeOf(std::uint64_t hash) const {
    std::uint64_t place = hash * 0x9e3779b97f4a7c15u >> shift_;  // 2^64 / the golden ratio
    while (slots_[place] != kNone && hashes_[slots_[place]] != hash) place = (place + 1) & (slots_.size() - 1);
    return place;
  }

  std::vector<std::uint32_t> slots_;
  std::vector<std::uint64_t> hashes_;
  int shift_ = 63;
};

class HashShards {
 public:
  // The hashes of one shard, by rising text, without most of those that come once. A user may write over them.
  struct Entries {
    std::uint64_t* hashes;
    std::uint32_t* texts;
    std::int64_t count;
  };

  // counts: [texts]: how many hashes each text has. write(text, out) writes them; it is called twice for each text.
  // Throws std::bad_alloc.
  Outcome fill(const std::vector<std::int64_t>& counts,
               const std::function<void(std::int64_t text, std::uint64_t* out)>& write, ThreadPool& pool,
               JobControl& control);

  std::int64_t count() const { return static_cast<std::int64_t>(counts_.size()); }
  Entries of(std::int64_t shard) const {
    const std::int64_t first = firsts_[static_cast<std::size_t>(shard)];
    return {hashes_.get() + first, texts_.get() + first, counts_[static_cast<std::size_t>(shard)]};
  }

 private:
  std::vector<std::int64_t> firsts_, counts_;  // [shards]
  UnsetArray<std::uint64_t> hashes_;
  UnsetArray<std::uint32_t> texts_;
};

}  // namespace collapsar
