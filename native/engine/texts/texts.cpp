// Each text by itself: cut into tokens, hashed.
#include "texts.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "ngrams.h"
#include "words.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileBytes = 1 << 16;  // texts of about this many bytes or ids at a time

// FNV takes a byte after the other, and each step waits for the one before: keys of several texts at a time.
constexpr int kLanes = 4;

// Decimal digits, the way a key takes them.
struct Digits {
  explicit Digits(std::int64_t id) { end = std::to_chars(text, text + sizeof text, id).ptr; }
  char text[24];
  char* end;
};

// Writes a number of less than nine digits, and junk up to eight bytes; returns how many are digits. What branches on
// the number of digits is mostly mistaken.
int writeDigits(std::uint64_t number, std::uint8_t* out) {
  std::uint64_t digits = number / 10000 | number % 10000 << 32;
  const std::uint64_t hundreds = (digits * 10486 >> 20) & 0x0000007f0000007fu;
  digits = hundreds | (digits - 100 * hundreds) << 16;
  const std::uint64_t tens = (digits * 103 >> 10) & 0x000f000f000f000fu;
  digits = tens | (digits - 10 * tens) << 8;  // a byte each, the first one lowest
  const int zeros = std::countr_zero(digits | std::uint64_t{1} << 56) / 8;
  digits = (digits + 0x3030303030303030u) >> 8 * zeros;
  for (int i = 0; i < 8; i++) out[i] = static_cast<std::uint8_t>(digits >> 8 * i);
  return 8 - zeros;
}
constexpr std::uint64_t kShortId = 100'000'000;

}  // namespace

TokenHashes::TokenHashes(const Texts& texts)
    : texts_(texts),
      hashes_(static_cast<std::size_t>(texts.size()), texts.bytes == nullptr ? Filling::Whole : Filling::Gaps),
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
    computeTexts(tiles[at], tiles[at + 1], control);
    if (control.cancelled.load(std::memory_order_relaxed)) return;
    control.doneUnits.fetch_add(texts_.offsets[tiles[at + 1]] - texts_.offsets[tiles[at]], std::memory_order_relaxed);
  });
}

// One text of those whose keys are made at a time.
struct TokenHashes::Lane {
  static constexpr int kBytes = 1024;
  static constexpr int kMostDigits = 24;

  std::int64_t text = -1;
  std::uint64_t *first, *out;  // hashes of its tokens
  std::uint64_t key, wordHash;
  const std::int64_t *id, *idsEnd;
  WordReader reader;
  const std::uint8_t *word = nullptr, *wordEnd = nullptr;  // what is left of the last word
  const std::uint8_t* textEnd;
  std::uint8_t bytes[kBytes];  // of the key, those that it has not taken: [begin, end)
  int begin = 0, end = 0;

  int left() const { return end - begin; }

  void start(const Texts& texts, std::int64_t number, std::uint64_t* hashes) {
    text = number;
    first = out = hashes;
    key = kFnvStart;
    if (texts.bytes == nullptr) {
      id = texts.ids + texts.offsets[number];
      idsEnd = texts.ids + texts.offsets[number + 1];
    } else {
      textEnd = texts.bytes + texts.offsets[number + 1];
      reader = WordReader(texts.bytes + texts.offsets[number], textEnd);
    }
  }

  // None are left when the text is at its end.
  void fill(bool words) {
    begin = 0;
    end = words ? fillWords() : fillIds();
  }

  // Both work on copies, which stay in registers: what is written are bytes, and these could be anything's.
  int fillIds() {
    const std::int64_t* at = id;
    std::uint64_t* hashes = out;
    int filled = 0;
    for (; at < idsEnd && filled + kMostDigits < kBytes; at++) {
      bytes[filled] = '\n';
      filled += hashes > first;
      if (const auto number = static_cast<std::uint64_t>(*at); number < kShortId) {
        filled += writeDigits(number, bytes + filled);
      } else {
        char* const digits = reinterpret_cast<char*>(bytes) + filled;
        filled += static_cast<int>(std::to_chars(digits, digits + kMostDigits, *at).ptr - digits);
      }
      *hashes++ = mixed(static_cast<std::uint64_t>(*at) + 0x9e3779b97f4a7c15u);
    }
    id = at;
    out = hashes;
    return filled;
  }

  // Eight bytes of a word at a time: one that does not fit is cut between these.
  int fillWords() {
    WordReader words = reader;
    const std::uint8_t *at = word, *atEnd = wordEnd;
    std::uint64_t* hashes = out;
    std::uint64_t hash = wordHash;
    int filled = 0;
    while (filled + 1 + 8 <= kBytes) {
      if (at == atEnd) {
        if (!words.next(at, atEnd)) {
          at = atEnd;
          break;
        }
        bytes[filled] = '\n';
        filled += hashes > first;
        hash = static_cast<std::uint64_t>(atEnd - at);
      }
      const auto count = static_cast<int>(std::min<std::int64_t>(8, atEnd - at));
      const std::uint64_t lower = words::lowerOf(wordBytes(at, count));
      std::memcpy(bytes + filled, &lower, sizeof lower);
      filled += count;
      at += count;
      hash = NgramHash::pair(hash, lower);
      *hashes = hash;
      hashes += at == atEnd;
    }
    reader = words;
    word = at;
    wordEnd = atEnd;
    out = hashes;
    wordHash = hash;
    return filled;
  }

  // The next `count` bytes of a word, and zeros.
  std::uint64_t wordBytes(const std::uint8_t* at, int count) const {
    if (at == words::kReplacement || textEnd - at >= 8) {
      return words::eightAt(at) & ~std::uint64_t{0} >> (64 - 8 * count);
    }
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, static_cast<std::size_t>(count));
    return eight;
  }
};

// The next bytes of all lanes. Keys are variables of their own: as an array they would become vectors, whose 64-bit
// products are slow.
void TokenHashes::takeBytes(Lane* lanes, int count) {
  static_assert(kLanes == 4);
  const auto bytesOf = [&](int lane) { return lanes[lane].bytes + lanes[lane].begin; };
  const std::uint8_t *const bytes0 = bytesOf(0), *const bytes1 = bytesOf(1);
  const std::uint8_t *const bytes2 = bytesOf(2), *const bytes3 = bytesOf(3);
  std::uint64_t key0 = lanes[0].key, key1 = lanes[1].key, key2 = lanes[2].key, key3 = lanes[3].key;
  for (int i = 0; i < count; i++) {
    key0 = fnvOf(key0, bytes0[i]);
    key1 = fnvOf(key1, bytes1[i]);
    key2 = fnvOf(key2, bytes2[i]);
    key3 = fnvOf(key3, bytes3[i]);
  }
  const std::uint64_t keys[] = {key0, key1, key2, key3};
  for (int lane = 0; lane < kLanes; lane++) {
    lanes[lane].key = keys[lane];
    lanes[lane].begin += count;
  }
}

void TokenHashes::computeTexts(std::int64_t begin, std::int64_t end, const JobControl& control) {
  Lane lanes[kLanes];
  const auto feed = [&](Lane& lane) {
    while (lane.left() == 0) {
      if (lane.text >= 0) {
        lane.fill(texts_.bytes != nullptr);
        if (lane.left() > 0) return true;
        counts_[static_cast<std::size_t>(lane.text)] = lane.out - lane.first;
        keys_[static_cast<std::size_t>(lane.text)] = lane.key;
        lane.text = -1;
      }
      if (begin == end) return false;
      lane.start(texts_, begin, hashes_.get() + (texts_.offsets[begin] - texts_.offsets[0]));
      begin++;
    }
    return true;
  };
  while (!control.cancelled.load(std::memory_order_relaxed)) {
    int fed = 0, most = Lane::kBytes;
    for (Lane& lane : lanes) {
      if (!feed(lane)) continue;
      fed++;
      most = std::min(most, lane.left());
    }
    if (fed == 0) return;
    if (fed == kLanes) {
      takeBytes(lanes, most);
      continue;
    }
    for (Lane& lane : lanes) {
      for (; lane.begin < lane.end; lane.begin++) lane.key = fnvOf(lane.key, lane.bytes[lane.begin]);
    }
  }
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
