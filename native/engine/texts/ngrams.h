// Tokens -> 64-bit hashes of their n-grams: what a row is counted by.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace collapsar {

// Two n-grams that share a hash are counted as one. Of n different n-grams in a step some two do with a probability of
// n^2 / 2^65: 2.4e-7 for three million. Such a pair changes two of a row's thousands of counts, and nothing in them
// knows the row's label, so that the bound stays one (docs/reference/text-figures.md).
struct NgramHash {
  std::uint64_t kept = ~std::uint64_t{0};  // tests take fewer bits, the highest ones, to see collisions

  static constexpr std::uint64_t folded(std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  static constexpr std::uint64_t pair(std::uint64_t left, std::uint64_t right) {
    return folded(left ^ 0xa0761d6478bd642fu, right ^ 0xe7037ed1a0b428dbu);
  }
  std::uint64_t four(std::uint64_t firstPair, std::uint64_t secondPair) const {
    return folded(firstPair ^ 0x8ebc6af09c88c6e3u, secondPair ^ 0x589965cc75374cc3u) & kept;
  }

  // Stand before the first token and after the last.
  static constexpr std::uint64_t kBegin = 0x4b33a62ed433d4a3u, kEnd = 0x4d5a2da51de1aa47u;

  static std::int64_t pairCount(std::int64_t tokens) { return tokens > 0 ? tokens + 1 : 0; }
  static std::int64_t featureCount(std::int64_t tokens) { return tokens + pairCount(tokens); }
  static std::int64_t fourCount(std::int64_t tokens) { return tokens > 3 ? tokens - 3 : 0; }

  // out: [pairCount(count)]: pairs of neighbours, with both marks.
  void pairs(const std::uint64_t* tokens, std::int64_t count, std::uint64_t* out) const {
    if (count == 0) return;
    std::uint64_t before = kBegin;
    for (std::int64_t i = 0; i < count; i++) {
      out[i] = pair(before, tokens[i]) & kept;
      before = tokens[i];
    }
    out[count] = pair(before, kEnd) & kept;
  }

  // out: [featureCount(count)]: each token with the pair before it, then the pair behind the last one.
  void features(const std::uint64_t* tokens, std::int64_t count, std::uint64_t* out) const {
    if (count == 0) return;
    std::uint64_t before = kBegin;
    for (std::int64_t i = 0; i < count; i++) {
      out[2 * i] = tokens[i] & kept;
      out[2 * i + 1] = pair(before, tokens[i]) & kept;
      before = tokens[i];
    }
    out[2 * count] = pair(before, kEnd) & kept;
  }

  // out: [fourCount(count)]
  void fours(const std::uint64_t* tokens, std::int64_t count, std::uint64_t* out) const {
    for (std::int64_t i = 0; i + 4 <= count; i++) {
      out[i] = four(pair(tokens[i], tokens[i + 1]), pair(tokens[i + 2], tokens[i + 3]));
    }
  }
};

// Counts a text's tokens.
class TokenCounter {
 public:
  // Throws std::bad_alloc.
  explicit TokenCounter(std::int64_t mostTokens) : table_(tableSize(mostTokens)) {}

  // Writes the hash and the number of each token, in the order in which they first come; returns how many these are.
  std::int64_t count(const NgramHash& hash, const std::uint64_t* tokens, std::int64_t tokenCount, std::uint64_t* hashes,
                     std::uint32_t* counts) {
    const std::uint64_t size = tableSize(tokenCount);
    const int shift = 64 - std::countr_zero(size);
    std::uint32_t* const table = table_.data();
    std::fill_n(table, size, UINT32_MAX);
    std::uint32_t found = 0;
    for (std::int64_t i = 0; i < tokenCount; i++) {
      const std::uint64_t token = tokens[i] & hash.kept;
      hashes[found] = token;
      counts[found] = 0;
      // In place of an empty slot's number comes that of the next token, so that new and known take one way.
      std::uint64_t slot = token >> shift;
      while (hashes[std::min(table[slot], found)] != token) slot = (slot + 1) & (size - 1);
      const std::uint32_t number = std::min(table[slot], found);
      table[slot] = number;
      counts[number]++;
      found += number == found;
    }
    return found;
  }

 private:
  // As many slots as leave a third of them empty, and more as a rule: tokens repeat.
  static std::uint64_t tableSize(std::int64_t tokens) {
    return std::bit_ceil(static_cast<std::uint64_t>(tokens + tokens / 2 + 2));
  }

  std::vector<std::uint32_t> table_;
};

}  // namespace collapsar
