// Each text by itself: cut into tokens, hashed.
#include "texts.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "words.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileBytes = 1 << 16;  // texts of about this many bytes or ids at a time

// Decimal digits, the way a key takes them.
struct Digits {
  explicit Digits(std::int64_t id) { end = std::to_chars(text, text + sizeof text, id).ptr; }
  char text[24];
  char* end;
};

}  // namespace

TokenHashes::TokenHashes(const Texts& texts)
    : texts_(texts),
      hashes_(static_cast<std::size_t>(texts.size())),
      counts_(static_cast<std::size_t>(texts.count)),
      keys_(static_cast<std::size_t>(texts.count)) {}

Outcome TokenHashes::compute(ThreadPool& pool, JobControl& control) {
  std::vector<std::int64_t> tiles = {0};
  std::int64_t begun = texts_.count == 0 ? 0 : texts_.offsets[0];
  for (std::int64_t text = 0; text < texts_.count; text++) {
    if (texts_.offsets[text + 1] - begun < kTileBytes && text + 1 - tiles.back() < kTileBytes) continue;
    tiles.push_back(text + 1);
    begun = texts_.offsets[text + 1];
  }
  if (tiles.back() < texts_.count) tiles.push_back(texts_.count);
  return pool.run(static_cast<std::int64_t>(tiles.size()) - 1, control, [&](std::int64_t tile, int) {
    const auto at = static_cast<std::size_t>(tile);
    for (std::int64_t text = tiles[at]; text < tiles[at + 1]; text++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      computeText(text);
    }
    control.doneUnits.fetch_add(texts_.offsets[tiles[at + 1]] - texts_.offsets[tiles[at]], std::memory_order_relaxed);
  });
}

void TokenHashes::computeText(std::int64_t text) {
  std::uint64_t* const first = hashes_.get() + (texts_.offsets[text] - texts_.offsets[0]);
  const std::int64_t begin = texts_.offsets[text], end = texts_.offsets[text + 1];
  std::uint64_t key = kFnvStart, *out = first;
  if (texts_.bytes == nullptr) {
    for (const std::int64_t *id = texts_.ids + begin, *last = texts_.ids + end; id < last; id++) {
      if (out > first) key = fnvOf(key, '\n');
      const Digits digits(*id);
      for (const char* digit = digits.text; digit < digits.end; digit++) {
        key = fnvOf(key, static_cast<std::uint8_t>(*digit));
      }
      *out++ = mixed(static_cast<std::uint64_t>(*id) + 0x9e3779b97f4a7c15u);
    }
  } else {
    WordReader reader(texts_.bytes + begin, texts_.bytes + end);
    for (const std::uint8_t *byte, *wordEnd; reader.next(byte, wordEnd);) {
      if (out > first) key = fnvOf(key, '\n');
      std::uint64_t hash = kFnvStart;
      for (; byte < wordEnd; byte++) {
        const std::uint8_t lower = words::kTables.lower[*byte];
        key = fnvOf(key, lower);
        hash = fnvOf(hash, lower);
      }
      *out++ = mixed(hash);
    }
  }
  counts_[static_cast<std::size_t>(text)] = out - first;
  keys_[static_cast<std::size_t>(text)] = key;
}

bool TokenHashes::equal(std::int64_t text, std::int64_t other) const {
  return key(text) == key(other) && count(text) == count(other) &&
         std::equal(of(text), of(text) + count(text), of(other));
}

std::vector<std::string> TokenHashes::words(std::int64_t text) const {
  std::vector<std::string> found;
  const std::uint8_t* const bytes = texts_.bytes;
  WordReader reader(bytes + texts_.offsets[text], bytes + texts_.offsets[text + 1]);
  for (const std::uint8_t *begin, *end; reader.next(begin, end);) {
    std::string& word = found.emplace_back(begin, end);
    for (char& c : word) c = static_cast<char>(words::kTables.lower[static_cast<std::uint8_t>(c)]);
  }
  return found;
}

std::string TokenHashes::written(std::int64_t text, std::int64_t first, std::int64_t count) const {
  std::string joined;
  const std::vector<std::string> all = texts_.bytes == nullptr ? std::vector<std::string>() : words(text);
  for (std::int64_t i = first; i < first + count; i++) {
    if (i > first) joined.push_back(' ');
    if (texts_.bytes == nullptr) {
      const Digits digits(texts_.ids[texts_.offsets[text] + i]);
      joined.append(digits.text, static_cast<std::size_t>(digits.end - digits.text));
    } else {
      joined.append(all[static_cast<std::size_t>(i)]);
    }
  }
  return joined;
}

int TokenHashes::compare(std::int64_t text, std::int64_t other) const {
  const auto order = [](bool before, bool after) { return before ? -1 : after ? 1 : 0; };
  if (texts_.bytes == nullptr) {
    const std::int64_t *a = texts_.ids + texts_.offsets[text], *b = texts_.ids + texts_.offsets[other];
    const std::int64_t *aEnd = a + count(text), *bEnd = b + count(other);
    return order(std::lexicographical_compare(a, aEnd, b, bEnd), std::lexicographical_compare(b, bEnd, a, aEnd));
  }
  const std::vector<std::string> a = words(text), b = words(other);
  return order(a < b, b < a);
}

}  // namespace collapsar
