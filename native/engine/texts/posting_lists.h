// Hashes of n-grams, grouped: for each n-gram that occurs more than once, the texts that have it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/job_control.h"
#include "engine/thread_pool.h"
#include "unset_array.h"

namespace collapsar {

struct Ngram {
  std::uint64_t hash;  // without the bits that all of a partition share
  std::uint32_t texts, prompts;
  std::uint32_t total;                 // in rows
  std::uint32_t lastText, lastPrompt;  // that have it
  std::uint32_t first, end;  // of its texts in NgramGroup::byNgram(), rising, each as often as it has the n-gram
};

// Whose a text is.
struct TextOwner {
  std::uint32_t prompt;
  std::uint32_t rowMask;  // of a row: all bits; of a prompt's own text: none
};

// Which hashes may have come more than once: bits by their highest bits.
struct HashSieve {
  UnsetArray<std::uint64_t> words;
  int shift = 0;

  // 1 or 0.
  std::uint64_t mayRepeat(std::uint64_t hash) const {
    const std::uint64_t place = hash >> shift;
    return words.get()[place / 64] >> place % 64 & 1;
  }
};

// The entries of one partition, by rising text; of a plain list but for most of those that occur once.
struct NgramGroup {
  Ngram* ngrams;
  std::int64_t count;
  const std::uint32_t *texts, *numbers;  // [entries]: the text, and which of the n-grams
  const std::uint32_t* counts;           // [entries]: how often; null: once
  std::int64_t entries;
  std::uint32_t* room;  // [entries]

  std::uint32_t countOf(std::int64_t entry) const { return counts == nullptr ? 1 : counts[entry]; }

  // The texts by n-gram. Sets `first` and `end`.
  const std::uint32_t* byNgram() const;
};

// Hashes are first written by partition (of equal high bits), tile by tile of texts, then grouped partition by
// partition: each partition's table fits a second-level cache, and no result depends on which thread took what. In a
// partition n-grams come by the first text that has them. Room for everything is made at construction, which throws
// std::bad_alloc; nothing below does.
class PostingLists {
 public:
  enum class Entries {
    Plain,    // an entry for each occurrence: n-grams that occur once are left out; one in some dozens of them is not
    Counted,  // an entry for each n-gram of a text, with a count
  };

  // most: [texts]: entries of each text, at most; less than 2^32 together. owners: [texts], prompt by prompt.
  PostingLists(const std::vector<std::int64_t>& most, std::vector<TextOwner> owners, Entries entries, int workers);

  // hash(text, worker, hashes, counts) writes the text's entries and returns their number. Not called for texts that
  // have none; `counts` is null for plain entries.
  template <typename Hash>
  Outcome fill(ThreadPool& pool, JobControl& control, Hash hash);

  // use(partition, worker, group) for each partition of [first, end).
  template <typename Use>
  Outcome group(std::int64_t first, std::int64_t end, ThreadPool& pool, JobControl& control, Use use);

  std::int64_t partitions() const { return std::int64_t{1} << partitionBits_; }
  // Entries of all partitions before this one.
  std::int64_t entriesBefore(std::int64_t partition) const { return before_[static_cast<std::size_t>(partition)]; }
  // Of plain entries; once all partitions were grouped.
  HashSieve takeSieve() { return std::move(again_); }
  // The bits that Ngram::hash lacks.
  std::uint64_t hashBits(std::int64_t partition) const {
    return static_cast<std::uint64_t>(partition) << (64 - partitionBits_);
  }

 private:
  static constexpr std::int64_t kTileEntries = 1 << 13;
  static constexpr std::int64_t kPartitionEntries = 1 << 16;
  static constexpr int kLeastPartitionBits = 4, kMostPartitionBits = 12;

  struct Tile {
    std::int64_t firstText, endText, firstEntry, entries;
  };
  struct Scratch {
    UnsetArray<std::uint64_t> hashes;
    UnsetArray<std::uint32_t> counts;
    std::vector<std::uint32_t> ends;      // of each partition in the tile
    std::vector<std::uint64_t> textEnds;  // of each text in the tile
    std::vector<std::uint64_t> once;      // bits by hash of a partition: those that came
    UnsetArray<std::uint32_t> table;
    UnsetArray<Ngram> ngrams;
    UnsetArray<std::uint32_t> texts, numbers;  // of each entry: its text, its n-gram
    UnsetArray<std::uint32_t> ofNgrams;        // texts by n-gram
  };

  bool isCounted() const { return kind_ == Entries::Counted; }
  // The number of the text in its tile stands in the bits that a partition's hashes share.
  std::uint64_t hashMask() const { return ~std::uint64_t{0} >> partitionBits_; }
  void makeScratchForGroups();
  std::uint32_t* offsets(std::int64_t tile) { return offsets_.get() + tile * (partitions() + 1); }
  void place(std::int64_t tile, Scratch& scratch);
  template <typename Use>
  bool eachTile(std::int64_t partition, const JobControl& control, Use use);
  std::int64_t takeRepeated(std::int64_t partition, Scratch& scratch, const JobControl& control);
  std::int64_t takeCounted(std::int64_t partition, Scratch& scratch, const JobControl& control);
  NgramGroup groupPartition(std::int64_t partition, Scratch& scratch, const JobControl& control);

  std::vector<std::int64_t> entriesOf_;  // [texts]
  std::vector<TextOwner> owners_;        // [texts]
  Entries kind_;
  std::vector<Tile> tiles_;
  int partitionBits_;
  UnsetArray<std::uint64_t> entries_;  // tile by tile, in a tile partition by partition
  UnsetArray<std::uint32_t> counts_;   // likewise
  UnsetArray<std::uint32_t> offsets_;  // [tiles, partitions + 1]: in the tile
  std::vector<std::int64_t> before_;   // [partitions + 1]
  int sieveBits_ = 0;                  // of a hash, beside those of its partition
  HashSieve again_;                    // those that came again
  std::vector<Scratch> scratch_;
};

template <typename Hash>
Outcome PostingLists::fill(ThreadPool& pool, JobControl& control, Hash hash) {
  const Outcome outcome =
      pool.run(static_cast<std::int64_t>(tiles_.size()), control, [&](std::int64_t index, int worker) {
        const Tile& tile = tiles_[static_cast<std::size_t>(index)];
        Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
        std::int64_t at = 0;
        for (std::int64_t text = tile.firstText; text < tile.endText; text++) {
          if (control.cancelled.load(std::memory_order_relaxed)) return;
          if (entriesOf_[static_cast<std::size_t>(text)] > 0) {
            at += hash(text, worker, scratch.hashes.get() + at, isCounted() ? scratch.counts.get() + at : nullptr);
          }
          scratch.textEnds[static_cast<std::size_t>(text - tile.firstText)] = static_cast<std::uint64_t>(at);
        }
        place(index, scratch);
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
    const NgramGroup found = groupPartition(partition, scratch_[static_cast<std::size_t>(worker)], control);
    if (control.cancelled.load(std::memory_order_relaxed)) return;
    use(partition, worker, found);
    control.doneUnits.fetch_add(entriesBefore(partition + 1) - entriesBefore(partition), std::memory_order_relaxed);
  });
}

}  // namespace collapsar
