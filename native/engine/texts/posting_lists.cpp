// A counting sort of each tile; in each partition a sieve for hashes that come once, then a hash table for the others.
#include "posting_lists.h"

namespace collapsar {

namespace {

constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15u;  // 2^64 / the golden ratio

constexpr int kPrefetchedLines = 8;  // of a tile's entries of a partition

// As many slots as leave half of them empty.
std::uint64_t tableSize(std::int64_t entries) { return std::bit_ceil(static_cast<std::uint64_t>(2 * entries + 2)); }

// Bits of the sieve: 8 to a hash, one word at least.
std::uint64_t sieveSize(std::int64_t entries) { return std::bit_ceil(static_cast<std::uint64_t>(8 * entries + 64)); }

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
    const auto room = static_cast<std::size_t>(most) + 1;
    scratch.hashes = UnsetArray<std::uint64_t>(room);
    scratch.seen = UnsetArray<std::uint64_t>(sieveSize(most) / 32);
    scratch.table = UnsetArray<std::uint32_t>(tableSize(most));
    scratch.ngrams = UnsetArray<Ngram>(room);
    scratch.texts = UnsetArray<std::uint32_t>(room);
    scratch.numbers = UnsetArray<std::uint32_t>(room);
    scratch.ofNgrams = UnsetArray<std::uint32_t>(room);
  }
}

// Writes hashes and texts of the partition's entries, but for most of those whose hash comes once, and returns how many
// these are. Nothing in here branches on a hash: what comes next cannot be foretold.
std::int64_t PostingLists::takeRepeated(std::int64_t partition, Scratch& scratch, const JobControl& control) {
  const std::uint64_t bits = sieveSize(entriesBefore(partition + 1) - entriesBefore(partition));
  const int shift = 64 - std::countr_zero(bits);
  std::uint64_t* const seen = scratch.seen.get();
  std::fill_n(seen, bits / 32, 0);
  const auto tiles = static_cast<std::int64_t>(tiles_.size());
  const auto eachTile = [&](auto use) {
    for (std::int64_t index = 0; index < tiles; index++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return false;
      const Tile& tile = tiles_[static_cast<std::size_t>(index)];
      const std::uint32_t* const starts = offsets(index) + partition;
      const std::uint64_t* const ofTile = entries_.get() + tile.firstEntry;
      if (index + 1 < tiles) {
        const std::uint64_t* const next = ofTile + tile.entries + offsets(index + 1)[partition];
        for (int line = 0; line < kPrefetchedLines; line++) __builtin_prefetch(next + 8 * line);
      }
      use(static_cast<std::uint32_t>(tile.firstText), ofTile + starts[0], ofTile + starts[1]);
    }
    return true;
  };
  const bool sieved = eachTile([&](std::uint32_t, const std::uint64_t* entry, const std::uint64_t* end) {
    for (; entry < end; entry++) {
      const std::uint64_t at = (*entry & kHashMask) * kSpread >> shift;
      std::uint64_t* const word = seen + at / 64 * 2;
      const std::uint64_t bit = std::uint64_t{1} << at % 64;
      word[1] |= word[0] & bit;
      word[0] |= bit;
    }
  });
  if (!sieved) return 0;
  std::uint64_t* const hashes = scratch.hashes.get();
  std::uint32_t* const texts = scratch.texts.get();
  std::int64_t taken = 0;
  const bool all = eachTile([&](std::uint32_t firstText, const std::uint64_t* entry, const std::uint64_t* end) {
    for (; entry < end; entry++) {
      const std::uint64_t hash = *entry & kHashMask, at = hash * kSpread >> shift;
      hashes[taken] = hash;
      texts[taken] = firstText + static_cast<std::uint32_t>(*entry >> (64 - kTextBits));
      taken += static_cast<std::int64_t>(seen[at / 64 * 2 + 1] >> at % 64 & 1);
    }
  });
  return all ? taken : 0;
}

// Returns the number of n-grams.
std::int64_t PostingLists::groupPartition(std::int64_t partition, Scratch& scratch, const JobControl& control) {
  const std::int64_t entries = takeRepeated(partition, scratch, control);
  const std::uint64_t size = tableSize(entries);
  const int shift = 64 - std::countr_zero(size);
  std::uint32_t* const table = scratch.table.get();
  Ngram* const ngrams = scratch.ngrams.get();
  std::fill_n(table, size, 0);
  std::uint32_t count = 0;
  for (std::int64_t i = 0; i < entries; i++) {
    const std::uint64_t hash = scratch.hashes.get()[i];
    ngrams[count] = {hash, 0, 0};
    // A slot has an n-gram's number and 1. An empty one would have the next n-gram, so that new and known take one way.
    for (std::uint64_t slot = hash * kSpread >> shift;; slot = (slot + 1) & (size - 1)) {
      const std::uint32_t number = table[slot] == 0 ? count : table[slot] - 1;
      if (ngrams[number].hash != hash) continue;
      table[slot] = number + 1;
      count += number == count;
      ngrams[number].end++;
      scratch.numbers.get()[i] = number;
      break;
    }
  }
  std::uint32_t before = 0;
  for (Ngram* ngram = ngrams; ngram < ngrams + count; ngram++) {
    ngram->first = before;
    before += ngram->end;
    ngram->end = ngram->first;
  }
  for (std::int64_t i = 0; i < entries; i++) {
    scratch.ofNgrams.get()[ngrams[scratch.numbers.get()[i]].end++] = scratch.texts.get()[i];
  }
  return count;
}

}  // namespace collapsar
