// 64-bit hashes of n-grams of tokens, by which a row's features are counted.
#pragma once

#include <cstdint>

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

  static std::int64_t featureCount(std::int64_t tokens) { return tokens > 0 ? 2 * tokens + 1 : 0; }
  static std::int64_t fourCount(std::int64_t tokens) { return tokens > 3 ? tokens - 3 : 0; }

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
    if (count < 4) return;
    std::uint64_t first = pair(tokens[0], tokens[1]), second = pair(tokens[1], tokens[2]);
    for (std::int64_t i = 0; i + 4 <= count; i++) {
      const std::uint64_t third = pair(tokens[i + 2], tokens[i + 3]);
      out[i] = four(first, third);
      first = second;
      second = third;
    }
  }
};

}  // namespace collapsar
