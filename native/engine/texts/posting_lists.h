// Hashes of n-grams, grouped: for each n-gram that occurs more than once, the texts that have it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "unset_array.h"

namespace collapsar {

struct Ngram {
  std::uint64_t hash;        // without the bits that all of a partition share
  std::uint32_t first, end;  // of its occurrences: texts, rising, each as often as it has the n-gram
};

// Hashes are first written by partition (of equal high bits), tile by tile of texts, then grouped partition by
// partition: each partition's table fits a second-level cache, and no result depends on which thread took what. In a
// partition n-grams come by the first text that has them. N-grams that occur once are left out; one in some dozens of
// them is not. Room for everything is made at construction, which throws std::bad_alloc; nothing below does.
class PostingLists {
 public:
  // entries: [texts]: hashes of each text; less than 2^32 together.
  PostingLists(const std::vector<std::int64_t>& entries, int workers);

  // hash(text, out) writes the text's entries[text] hashes.
  template <typename Hash>
  Outcome fill(ThreadPool& pool, JobControl& control, Hash hash);

  // use(partition, worker, ngrams, count, texts) for each partition of [first, end).
  template <typename Use>
  Outcome group(std::int64_t first, std::int64_t end, ThreadPool& pool, JobControl& control, Use use);

  std::int64_t partitions() const { return std::int64_t{1} << partitionBits_; }
  // Hashes in all partitions before this one.
  std::int64_t entriesBefore(std::int64_t partition) const { return before_[static_cast<std::size_t>(partition)]; }
  // The bits that Ngram::hash lacks.
  std::uint64_t hashBits(std::int64_t partition) const {
    return static_cast<std::uint64_t>(partition) << (64 - partitionBits_);
  }

 private:
  // The number of the text in its tile stands in bits that a partition's hashes share.
  static constexpr int kTextBits = 8;
  static constexpr std::uint64_t kHashMask = ~std::uint64_t{0} >> kTextBits;
  static constexpr std::int64_t kTileEntries = 1 << 15;
  static constexpr std::int64_t kPartitionEntries = 1 << 13;
  static constexpr int kMostPartitionBits = 12;

  struct Tile {
    std::int64_t firstText, endText, firstEntry, entries;
  };
  struct Scratch {
    UnsetArray<std::uint64_t> hashes;
    std::vector<std::uint32_t> ends;  // of each partition in the tile
    UnsetArray<std::uint64_t> seen;  // bits by hash: those seen once, and those seen again, word by word in turns
    UnsetArray<std::uint32_t> table;
    UnsetArray<Ngram> ngrams;
    UnsetArray<std::uint32_t> texts, numbers;  // of each occurrence: its text, its n-gram
    UnsetArray<std::uint32_t> ofNgrams;        // texts by n-gram
  };

  void makeScratchForGroups();
  std::uint32_t* offsets(std::int64_t tile) { return offsets_.get() + tile * (partitions() + 1); }
  void place(std::int64_t tile, Scratch& scratch, const std::uint64_t* textEnds);
  std::int64_t takeRepeated(std::int64_t partition, Scratch& scratch, const JobControl& control);
  std::int64_t groupPartition(std::int64_t partition, Scratch& scratch, const JobControl& control);

  std::vector<std::int64_t> entriesOf_;  // [texts]
  std::vector<Tile> tiles_;
  int partitionBits_;
  UnsetArray<std::uint64_t> entries_;  // tile by tile, in a tile partition by partition
  UnsetArray<std::uint32_t> offsets_;  // [tiles, partitions + 1]: in the tile
  std::vector<std::int64_t> before_;   // [partitions + 1]
  std::vector<Scratch> scratch_;
};

template <typename Hash>
Outcome PostingLists::fill(ThreadPool& pool, JobControl& control, Hash hash) {
  const Outcome outcome =
      pool.run(static_cast<std::int64_t>(tiles_.size()), control, [&](std::int64_t index, int worker) {
        const Tile& tile = tiles_[static_cast<std::size_t>(index)];
        Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
        std::uint64_t textEnds[1 << kTextBits];
        std::int64_t at = 0;
        for (std::int64_t text = tile.firstText; text < tile.endText; text++) {
          if (control.cancelled.load(std::memory_order_relaxed)) return;
          if (const std::int64_t count = entriesOf_[static_cast<std::size_t>(text)]; count > 0) {
            hash(text, scratch.hashes.get() + at);
            at += count;
          }
          textEnds[text - tile.firstText] = static_cast<std::uint64_t>(at);
        }
        place(index, scratch, textEnds);
        control.doneUnits.fetch_add(tile.entries, std::memory_order_relaxed);
      });
  // Cancelled in its last tile the pool has done all of them, and that one is not whole.
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  makeScratchForGroups();
  return outcome;
}

template <typename Use>
Outcome PostingLists::group(std::int64_t first, std::int64_t end, ThreadPool& pool, JobControl& control, Use use) {
  return pool.run(end - first, control, [&](std::int64_t index, int worker) {
    const std::int64_t partition = first + index;
    Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
    const std::int64_t count = groupPartition(partition, scratch, control);
    if (control.cancelled.load(std::memory_order_relaxed)) return;
    use(partition, worker, scratch.ngrams.get(), count, scratch.ofNgrams.get());
    control.doneUnits.fetch_add(entriesBefore(partition + 1) - entriesBefore(partition), std::memory_order_relaxed);
  });
}

}  // namespace collapsar
