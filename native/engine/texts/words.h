// Text -> words, as docs/reference/text-figures.md cuts them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace collapsar {

namespace words {

static_assert(std::endian::native == std::endian::little, "the first of eight bytes is the lowest");

// Eight bytes at a time, each in its eighth of a number.
constexpr std::uint64_t kEach = 0x0101010101010101u, kHigh = 0x80 * kEach;

inline std::uint64_t eightAt(const std::uint8_t* bytes) {
  std::uint64_t eight;
  std::memcpy(&eight, bytes, sizeof eight);
  return eight;
}

// The highest bit of each byte from `first` to `last`; of bytes below 128.
constexpr std::uint64_t between(std::uint64_t bytes, std::uint8_t first, std::uint8_t last) {
  return ((bytes + (0x80u - first) * kEach) ^ (bytes + (0x7fu - last) * kEach)) & kHigh;
}

// The highest bit of each byte that is no a-z, A-Z, 0-9 or _.
constexpr std::uint64_t notAsciiWord(std::uint64_t bytes) {
  const std::uint64_t low = bytes & ~kHigh;
  const std::uint64_t word = between(low | 0x20 * kEach, 'a', 'z') | between(low, '0', '9') | between(low, '_', '_');
  return (~word | bytes) & kHigh;
}

constexpr std::uint64_t lowerOf(std::uint64_t bytes) {
  return bytes | (between(bytes & ~kHigh, 'A', 'Z') & ~bytes) >> 2;
}

enum Kind : std::uint8_t { kGap, kWord, kSymbol };

struct Tables {
  Kind kind[128];
  std::uint8_t lower[256];  // A-Z to a-z, every other byte as it is
};

constexpr Tables makeTables() {
  Tables tables{};
  for (int c = 0; c < 256; c++) {
    const bool upper = c >= 'A' && c <= 'Z';
    tables.lower[c] = static_cast<std::uint8_t>(upper ? c + ('a' - 'A') : c);
    if (c >= 128) continue;
    const bool word = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    tables.kind[c] = word ? kWord : c <= 0x20 || c == 0x7f ? kGap : kSymbol;
  }
  return tables;
}

inline constexpr Tables kTables = makeTables();
inline constexpr std::uint8_t kReplacement[8] = {0xef, 0xbf, 0xbd};  // U+FFFD, and room to read eight bytes

constexpr Kind kindOf(std::uint32_t character) {
  if (character < 128) return kTables.kind[character];
  if (character <= 0xa0) return kGap;
  if ((character >= 0xc0 && character <= 0x1fff) || (character >= 0x2c00 && character <= 0x2e7f)) return kWord;
  const bool gap = (character >= 0x2000 && character <= 0x200b) || character == 0x2028 || character == 0x2029 ||
                   character == 0x202f || character == 0x205f || character == 0x3000 || character == 0xfeff;
  return gap ? kGap : kSymbol;
}

// The well-formed UTF-8 sequence at `at` (The Unicode Standard, table 3-7): its bytes and character; 0 bytes if there
// is none.
struct Sequence {
  int bytes;
  std::uint32_t character;
};

inline Sequence sequenceAt(const std::uint8_t* at, const std::uint8_t* end) {
  const std::uint8_t first = at[0];
  if (first < 0x80) return {1, first};
  const auto left = end - at;
  const auto continues = [&](int i) { return (at[i] & 0xc0) == 0x80; };
  if (first >= 0xc2 && first <= 0xdf && left >= 2 && continues(1)) {
    return {2, static_cast<std::uint32_t>((first & 0x1f) << 6 | (at[1] & 0x3f))};
  }
  if (first >= 0xe0 && first <= 0xef && left >= 3 && continues(1) && continues(2)) {
    const auto character = static_cast<std::uint32_t>((first & 0xf) << 12 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f));
    if (character >= 0x800 && (character < 0xd800 || character > 0xdfff)) return {3, character};
  }
  if (first >= 0xf0 && first <= 0xf4 && left >= 4 && continues(1) && continues(2) && continues(3)) {
    const auto character =
        static_cast<std::uint32_t>((first & 7) << 18 | (at[1] & 0x3f) << 12 | (at[2] & 0x3f) << 6 | (at[3] & 0x3f));
    if (character >= 0x10000 && character <= 0x10ffff) return {4, character};
  }
  return {0, 0xfffd};
}

}  // namespace words

// The words of a text, one after the other: UTF-8, in which A-Z stand as they were written (words::kTables.lower).
class WordReader {
 public:
  WordReader() = default;
  WordReader(const std::uint8_t* begin, const std::uint8_t* end) : at_(begin), end_(end) {}

  // False at the end.
  inline __attribute__((always_inline)) bool next(const std::uint8_t*& begin, const std::uint8_t*& wordEnd) {
    using namespace words;
    while (at_ < end_) {
      const Sequence first = sequenceAt(at_, end_);
      if (first.bytes == 0) {
        at_++;
        begin = kReplacement;
        wordEnd = kReplacement + 3;
        return true;
      }
      begin = at_;
      at_ += first.bytes;
      const Kind kind = kindOf(first.character);
      if (kind == kGap) continue;
      while (kind == kWord && at_ < end_) {
        if (end_ - at_ >= 8) {
          const std::uint64_t gaps = notAsciiWord(eightAt(at_));
          if (gaps == 0) {
            at_ += 8;
            continue;
          }
          at_ += std::countr_zero(gaps) / 8;
          if (*at_ < 0x80) break;
        }
        const Sequence more = sequenceAt(at_, end_);
        if (more.bytes == 0 || kindOf(more.character) != kWord) break;
        at_ += more.bytes;
      }
      wordEnd = at_;
      return true;
    }
    return false;
  }

  // Behind the last word.
  const std::uint8_t* at() const { return at_; }

 private:
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
};

}  // namespace collapsar
