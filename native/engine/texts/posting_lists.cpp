// A counting sort of each tile, then a hash table for each partition.
#include "posting_lists.h"

namespace collapsar {

namespace {

// As many slots as leave a third of them empty.
std::uint64_t tableSize(std::int64_t entries) {
  return std::bit_ceil(static_cast<std::uint64_t>(entries + entries / 2 + 1));
}

}  // namespace

PostingLists::PostingLists(const std::vector<std::int64_t>& entries, int workers)
    : entriesOf_(entries), scratch_(static_cast<std::size_t>(workers)) {
  std::int64_t total = 0, most = 0;
  Tile tile{0, 0, 0, 0};
  for (std::size_t text = 0; text < entries.size(); text++) {
    tile.endText++;
    tile.entries += entries[text];
    total += entries[text];
    if (tile.entries < kTileEntries && tile.endText - tile.firstText < 1 << kTextBits && text + 1 < entries.size()) {
      continue;
    }
    tiles_.push_back(tile);
    most = std::max(most, tile.entries);
    tile = {tile.endText, tile.endText, total, 0};
  }
  const auto wanted = static_cast<std::uint64_t>(total / kPartitionEntries);
  partitionBits_ = std::clamp(static_cast<int>(std::bit_width(wanted)), kTextBits, kMostPartitionBits);
  entries_ = UnsetArray<std::uint64_t>(static_cast<std::size_t>(total));
  offsets_ = UnsetArray<std::uint32_t>(tiles_.size() * static_cast<std::size_t>(partitions() + 1));
  before_.resize(static_cast<std::size_t>(partitions() + 1));
  for (Scratch& scratch : scratch_) {
    scratch.hashes = UnsetArray<std::uint64_t>(static_cast<std::size_t>(most));
    scratch.ends.resize(static_cast<std::size_t>(partitions()));
  }
}

void PostingLists::place(std::int64_t index, Scratch& scratch, const std::uint64_t* textEnds) {
  const Tile& tile = tiles_[static_cast<std::size_t>(index)];
  const std::uint64_t* const hashes = scratch.hashes.get();
  const int shift = 64 - partitionBits_;
  std::uint32_t* const ends = scratch.ends.data();
  std::fill(scratch.ends.begin(), scratch.ends.end(), 0);
  for (std::int64_t i = 0; i < tile.entries; i++) ends[hashes[i] >> shift]++;
  std::uint32_t* const starts = offsets(index);
  std::uint32_t at = 0;
  for (std::int64_t partition = 0; partition < partitions(); partition++) {
    starts[partition] = at;
    at += ends[partition];
    ends[partition] = starts[partition];
  }
  starts[partitions()] = at;
  std::uint64_t* const out = entries_.get() + tile.firstEntry;
  std::uint64_t i = 0;
  for (std::int64_t text = tile.firstText; text < tile.endText; text++) {
    const auto number = static_cast<std::uint64_t>(text - tile.firstText);
    for (; i < textEnds[number]; i++) {
      out[ends[hashes[i] >> shift]++] = (hashes[i] & kHashMask) | number << (64 - kTextBits);
    }
  }
}

void PostingLists::makeScratchForGroups() {
  std::int64_t most = 0, before = 0;
  for (std::int64_t partition = 0; partition < partitions(); partition++) {
    std::int64_t entries = 0;
    for (std::int64_t tile = 0; tile < static_cast<std::int64_t>(tiles_.size()); tile++) {
      entries += offsets(tile)[partition + 1] - offsets(tile)[partition];
    }
    before_[static_cast<std::size_t>(partition)] = before;
    before += entries;
    most = std::max(most, entries);
  }
  before_[static_cast<std::size_t>(partitions())] = before;
  for (Scratch& scratch : scratch_) {
    scratch.hashes.reset();
    scratch.table = UnsetArray<std::uint32_t>(tableSize(most));
    scratch.ngrams = UnsetArray<Ngram>(static_cast<std::size_t>(most));
    scratch.postings = UnsetArray<Posting>(static_cast<std::size_t>(most));
  }
}

// Returns the number of n-grams.
std::int64_t PostingLists::groupPartition(std::int64_t partition, Scratch& scratch, const JobControl& control) {
  const std::uint64_t size = tableSize(entriesBefore(partition + 1) - entriesBefore(partition));
  const int shift = 64 - std::countr_zero(size);
  std::uint32_t* const table = scratch.table.get();
  Ngram* const ngrams = scratch.ngrams.get();
  Posting* const postings = scratch.postings.get();
  std::fill_n(table, size, 0);
  std::uint32_t ngramCount = 0, postingCount = 0;
  for (std::int64_t index = 0; index < static_cast<std::int64_t>(tiles_.size()); index++) {
    if (control.cancelled.load(std::memory_order_relaxed)) return 0;
    const Tile& tile = tiles_[static_cast<std::size_t>(index)];
    const std::uint64_t* entry = entries_.get() + tile.firstEntry + offsets(index)[partition];
    const std::uint64_t* const end = entries_.get() + tile.firstEntry + offsets(index)[partition + 1];
    for (; entry < end; entry++) {
      const std::uint64_t hash = *entry & kHashMask;
      const auto text =
          static_cast<std::uint32_t>(tile.firstText + static_cast<std::int64_t>(*entry >> (64 - kTextBits)));
      std::uint64_t slot = hash * 0x9e3779b97f4a7c15u >> shift;
      // A slot has an n-gram's number and 1.
      while (table[slot] != 0 && ngrams[table[slot] - 1].hash != hash) slot = (slot + 1) & (size - 1);
      if (table[slot] == 0) {
        ngrams[ngramCount] = {hash, postingCount, postingCount, 1};
        table[slot] = ++ngramCount;
      } else {
        Ngram& ngram = ngrams[table[slot] - 1];
        Posting& last = postings[ngram.last];
        if (last.text == text) {
          last.count++;
          continue;
        }
        last.next = postingCount;
        ngram.last = postingCount;
        ngram.postings++;
      }
      postings[postingCount++] = {text, 1, kNoPosting};
    }
  }
  return ngramCount;
}

}  // namespace collapsar
