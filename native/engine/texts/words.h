// Cuts text into words by the rules of docs/reference/text-figures.md.
#pragma once

#include <cstdint>

namespace collapsar {

namespace words {

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
inline constexpr std::uint8_t kReplacement[3] = {0xef, 0xbf, 0xbd};  // U+FFFD

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
