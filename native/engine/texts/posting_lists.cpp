// A counting sort of each tile; in each partition a sieve for hashes that come once, then a hash table for the others.
#include "posting_lists.h"

namespace collapsar {

namespace {

constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15u;  // 2^64 / the golden ratio

constexpr int kPrefetchedLines = 8;  // of a tile's entries of a partition

// As many slots as leave half of them empty.
std::uint64_t tableSize(std::int64_t entries) { return std::bit_ceil(static_cast<std::uint64_t>(2 * entries + 2)); }

constexpr std::uint64_t kSieveBits = 4;  // for each hash, about

}  // namespace

PostingLists::PostingLists(const std::vector<std::int64_t>& most, std::vector<TextOwner> owners, Entries entries,
                           int workers)
    : entriesOf_(most), owners_(std::move(owners)), kind_(entries), scratch_(static_cast<std::size_t>(workers)) {
  std::int64_t total = 0;
  for (const std::int64_t count : most) total += count;
  const auto wanted = static_cast<std::uint64_t>(total / kPartitionEntries);
  partitionBits_ = std::clamp(static_cast<int>(std::bit_width(wanted)), kLeastPartitionBits, kMostPartitionBits);

  std::int64_t largest = 0;
  Tile tile{0, 0, 0, 0};
  for (std::size_t text = 0; text < most.size(); text++) {
    tile.endText++;
    tile.entries += most[text];
    if (tile.entries < kTileEntries && tile.endText - tile.firstText < partitions() && text + 1 < most.size()) continue;
    tiles_.push_back(tile);
    largest = std::max(largest, tile.entries);
    tile = {tile.endText, tile.endText, tile.firstEntry + tile.entries, 0};
  }
  entries_ = UnsetArray<std::uint64_t>(static_cast<std::size_t>(total));
  if (isCounted()) counts_ = UnsetArray<std::uint32_t>(static_cast<std::size_t>(total));
  offsets_ = UnsetArray<std::uint32_t>(tiles_.size() * static_cast<std::size_t>(partitions() + 1));
  before_.resize(static_cast<std::size_t>(partitions() + 1));
  for (Scratch& scratch : scratch_) {
    scratch.hashes = UnsetArray<std::uint64_t>(static_cast<std::size_t>(largest));
    if (isCounted()) scratch.counts = UnsetArray<std::uint32_t>(static_cast<std::size_t>(largest));
    scratch.ends.resize(static_cast<std::size_t>(partitions()));
    scratch.textEnds.resize(static_cast<std::size_t>(partitions()));
  }
}

void PostingLists::place(std::int64_t index, Scratch& scratch) {
  const Tile& tile = tiles_[static_cast<std::size_t>(index)];
  const std::int64_t texts = tile.endText - tile.firstText;
  const std::uint64_t* const hashes = scratch.hashes.get();
  const std::uint64_t* const textEnds = scratch.textEnds.data();
  const auto entries = textEnds[texts - 1];
  const int shift = 64 - partitionBits_;
  std::uint32_t* const ends = scratch.ends.data();
  std::fill(scratch.ends.begin(), scratch.ends.end(), 0);
  for (std::uint64_t i = 0; i < entries; i++) ends[hashes[i] >> shift]++;
  std::uint32_t* const starts = offsets(index);
  std::uint32_t at = 0;
  for (std::int64_t partition = 0; partition < partitions(); partition++) {
    starts[partition] = at;
    at += ends[partition];
    ends[partition] = starts[partition];
  }
  starts[partitions()] = at;
  std::uint64_t* const out = entries_.get() + tile.firstEntry;
  std::uint32_t* const outCounts = isCounted() ? counts_.get() + tile.firstEntry : nullptr;
  const std::uint64_t mask = hashMask();
  std::uint64_t i = 0;
  for (std::int64_t text = 0; text < texts; text++) {
    const std::uint64_t number = static_cast<std::uint64_t>(text) << shift;
    for (; i < textEnds[text]; i++) {
      const std::uint32_t to = ends[hashes[i] >> shift]++;
      out[to] = (hashes[i] & mask) | number;
      if (outCounts != nullptr) outCounts[to] = scratch.counts.get()[i];
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
  if (!isCounted()) {
    sieveBits_ =
        std::max(6, static_cast<int>(std::bit_width(kSieveBits * static_cast<std::uint64_t>(before))) - partitionBits_);
    again_.shift = 64 - partitionBits_ - sieveBits_;
    again_.words = UnsetArray<std::uint64_t>(std::size_t{1} << (partitionBits_ + sieveBits_ - 6));
  }
  for (Scratch& scratch : scratch_) {
    const auto room = static_cast<std::size_t>(most) + 1;
    scratch.hashes = UnsetArray<std::uint64_t>(room);
    if (isCounted()) {
      scratch.counts = UnsetArray<std::uint32_t>(room);
    } else {
      scratch.once.resize(std::size_t{1} << (sieveBits_ - 6));
    }
    scratch.table = UnsetArray<std::uint32_t>(tableSize(most));
    scratch.ngrams = UnsetArray<Ngram>(room);
    scratch.texts = UnsetArray<std::uint32_t>(room);
    scratch.numbers = UnsetArray<std::uint32_t>(room);
    scratch.ofNgrams = UnsetArray<std::uint32_t>(room);
  }
}

// use(firstText, begin, end): each tile's part of the partition: which of all entries. False if cancelled.
template <typename Use>
bool PostingLists::eachTile(std::int64_t partition, const JobControl& control, Use use) {
  const auto tiles = static_cast<std::int64_t>(tiles_.size());
  for (std::int64_t index = 0; index < tiles; index++) {
    if (control.cancelled.load(std::memory_order_relaxed)) return false;
    const Tile& tile = tiles_[static_cast<std::size_t>(index)];
    const std::uint32_t* const starts = offsets(index) + partition;
    if (index + 1 < tiles) {
      const std::uint64_t* const next = entries_.get() + tile.firstEntry + tile.entries + offsets(index + 1)[partition];
      for (int line = 0; line < kPrefetchedLines; line++) __builtin_prefetch(next + 8 * line);
    }
    use(static_cast<std::uint32_t>(tile.firstText), tile.firstEntry + starts[0], tile.firstEntry + starts[1]);
  }
  return true;
}

// Writes hashes and texts of the partition's entries, but for most of those whose hash comes once, and returns how many
// these are. Nothing in here branches on a hash: what comes next cannot be foretold.
std::int64_t PostingLists::takeRepeated(std::int64_t partition, Scratch& scratch, const JobControl& control) {
  const std::uint64_t mask = hashMask();
  const int shift = 64 - partitionBits_ - sieveBits_, textShift = 64 - partitionBits_;
  const std::uint64_t* const entries = entries_.get();
  const std::size_t words = scratch.once.size();
  std::uint64_t* const once = scratch.once.data();
  std::uint64_t* const again = again_.words.get() + static_cast<std::size_t>(partition) * words;
  std::fill_n(once, words, 0);
  std::fill_n(again, words, 0);
  const bool sieved = eachTile(partition, control, [&](std::uint32_t, std::int64_t at, std::int64_t end) {
    for (; at < end; at++) {
      const std::uint64_t place = (entries[at] & mask) >> shift, bit = std::uint64_t{1} << place % 64;
      again[place / 64] |= once[place / 64] & bit;
      once[place / 64] |= bit;
    }
  });
  if (!sieved) return 0;
  std::uint64_t* const hashes = scratch.hashes.get();
  std::uint32_t* const texts = scratch.texts.get();
  std::int64_t taken = 0;
  const bool all = eachTile(partition, control, [&](std::uint32_t firstText, std::int64_t at, std::int64_t end) {
    for (; at < end; at++) {
      const std::uint64_t hash = entries[at] & mask, place = hash >> shift;
      hashes[taken] = hash;
      texts[taken] = firstText + static_cast<std::uint32_t>(entries[at] >> textShift);
      taken += static_cast<std::int64_t>(again[place / 64] >> place % 64 & 1);
    }
  });
  return all ? taken : 0;
}

// The same of entries that were counted: all of them.
std::int64_t PostingLists::takeCounted(std::int64_t partition, Scratch& scratch, const JobControl& control) {
  const std::uint64_t mask = hashMask();
  const int textShift = 64 - partitionBits_;
  std::int64_t taken = 0;
  const bool all = eachTile(partition, control, [&](std::uint32_t firstText, std::int64_t at, std::int64_t end) {
    for (; at < end; at++, taken++) {
      scratch.hashes.get()[taken] = entries_.get()[at] & mask;
      scratch.texts.get()[taken] = firstText + static_cast<std::uint32_t>(entries_.get()[at] >> textShift);
      scratch.counts.get()[taken] = counts_.get()[at];
    }
  });
  return all ? taken : 0;
}

NgramGroup PostingLists::groupPartition(std::int64_t partition, Scratch& scratch, const JobControl& control) {
  const std::int64_t entries =
      isCounted() ? takeCounted(partition, scratch, control) : takeRepeated(partition, scratch, control);
  const std::uint64_t size = tableSize(entries);
  const int shift = 64 - std::countr_zero(size);
  std::uint32_t* const table = scratch.table.get();
  Ngram* const ngrams = scratch.ngrams.get();
  std::fill_n(table, size, UINT32_MAX);
  const std::uint32_t* const counts = scratch.counts.get();
  std::uint32_t count = 0;
  for (std::int64_t i = 0; i < entries; i++) {
    const std::uint64_t hash = scratch.hashes.get()[i];
    ngrams[count] = {hash, 0, 0, 0, UINT32_MAX, UINT32_MAX, 0, 0};
    // In place of an empty slot's number comes that of the next n-gram, so that new and known take one way.
    std::uint64_t slot = hash * kSpread >> shift;
    while (ngrams[std::min(table[slot], count)].hash != hash) slot = (slot + 1) & (size - 1);
    const std::uint32_t number = std::min(table[slot], count), text = scratch.texts.get()[i];
    table[slot] = number;
    count += number == count;
    scratch.numbers.get()[i] = number;
    const TextOwner owner = owners_[text];
    Ngram& ngram = ngrams[number];
    ngram.texts += ngram.lastText != text;
    ngram.lastText = text;
    ngram.prompts += ngram.lastPrompt != owner.prompt;
    ngram.lastPrompt = owner.prompt;
    ngram.total += (counts == nullptr ? 1 : counts[i]) & owner.rowMask;
  }
  return {ngrams, count, scratch.texts.get(), scratch.numbers.get(), counts, entries, scratch.ofNgrams.get()};
}

const std::uint32_t* NgramGroup::byNgram() const {
  for (std::int64_t i = 0; i < entries; i++) ngrams[numbers[i]].end++;
  std::uint32_t before = 0;
  for (Ngram* ngram = ngrams; ngram < ngrams + count; ngram++) {
    ngram->first = before;
    before += ngram->end;
    ngram->end = ngram->first;
  }
  for (std::int64_t i = 0; i < entries; i++) room[ngrams[numbers[i]].end++] = texts[i];
  return room;
}

}  // namespace collapsar
