// Cuts each text into tokens and hashes these.
#include "texts.h"

#include <algorithm>
#include <charconv>

#include "words.h"

namespace collapsar {

namespace {

// Decimal digits, the way a key takes them.
struct Digits {
  explicit Digits(std::int64_t id) { end = std::to_chars(text, text + sizeof text, id).ptr; }
  char text[24];
  char* end;
};

std::uint8_t lowerOf(std::uint8_t byte) { return words::kTables.lower[byte]; }

}  // namespace

TokenHashes::TokenHashes(const Texts& texts)
    : texts_(texts),
      hashes_(static_cast<std::size_t>(texts.size())),
      counts_(static_cast<std::size_t>(texts.count)),
      keys_(static_cast<std::size_t>(texts.count)) {}

Outcome TokenHashes::compute(ThreadPool& pool, JobControl& control) {
  return pool.run(texts_.count, control, [&](std::int64_t text, int) {
    if (texts_.bytes == nullptr) {
      computeIds(text, control);
    } else {
      computeWords(text, control);
    }
    control.doneUnits.fetch_add(texts_.offsets[text + 1] - texts_.offsets[text], std::memory_order_relaxed);
  });
}

void TokenHashes::computeIds(std::int64_t text, const JobControl& control) {
  const std::int64_t first = texts_.offsets[text], count = texts_.offsets[text + 1] - first;
  std::uint64_t* const hashes = hashes_.get() + (first - texts_.offsets[0]);
  std::uint64_t key = kFnvStart;
  for (std::int64_t i = 0; i < count; i++) {
    if (control.cancelled.load(std::memory_order_relaxed)) return;
    const std::int64_t id = texts_.ids[first + i];
    if (i > 0) key = fnvOf(key, '\n');
    const Digits digits(id);
    for (const char* digit = digits.text; digit < digits.end; digit++) {
      key = fnvOf(key, static_cast<std::uint8_t>(*digit));
    }
    hashes[i] = mixed(static_cast<std::uint64_t>(id) + 0x9e3779b97f4a7c15u);
  }
  counts_[static_cast<std::size_t>(text)] = count;
  keys_[static_cast<std::size_t>(text)] = key;
}

void TokenHashes::computeWords(std::int64_t text, const JobControl& control) {
  std::uint64_t* const hashes = hashes_.get() + (texts_.offsets[text] - texts_.offsets[0]);
  std::uint64_t key = kFnvStart;
  std::int64_t count = 0;
  WordReader reader(texts_.bytes + texts_.offsets[text], texts_.bytes + texts_.offsets[text + 1]);
  for (const std::uint8_t *at, *end; reader.next(at, end); count++) {
    if (control.cancelled.load(std::memory_order_relaxed)) return;
    if (count > 0) key = fnvOf(key, '\n');
    std::uint64_t word = kFnvStart;
    for (; at < end; at++) {
      key = fnvOf(key, lowerOf(*at));
      word = fnvOf(word, lowerOf(*at));
    }
    hashes[count] = mixed(word);
  }
  counts_[static_cast<std::size_t>(text)] = count;
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
    for (char& c : word) c = static_cast<char>(lowerOf(static_cast<std::uint8_t>(c)));
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
