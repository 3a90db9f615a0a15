// A line is read from its first brace to its last; what is not as nearly every line is ends the reading of it.
#include "json_lines.h"

#include <bit>
#include <cstring>

namespace collapsar {
namespace {

using Byte = std::uint8_t;

bool isJsonSpace(Byte byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }

const Byte* skipJsonSpace(const Byte* at, const Byte* end) {
  while (at < end && isJsonSpace(*at)) at++;
  return at;
}

// Bytes of numbers, true, false, null and of what Python writes beside them.
bool isWordByte(Byte byte) {
  const Byte letter = byte | 0x20;
  return (byte >= '0' && byte <= '9') || (letter >= 'a' && letter <= 'z') || byte == '+' || byte == '-' || byte == '.';
}

// Behind the quote that closes the string whose first quote stands at `at`; null where none does.
const Byte* jsonStringEnd(const Byte* at, const Byte* end) {
  for (const Byte* from = at + 1; from < end;) {
    const auto* const quote = static_cast<const Byte*>(std::memchr(from, '"', static_cast<std::size_t>(end - from)));
    if (quote == nullptr) return nullptr;
    const Byte* before = quote;
    while (before > at + 1 && before[-1] == '\\') before--;
    if ((quote - before) % 2 == 0) return quote + 1;
    from = quote + 1;
  }
  return nullptr;
}

// Lists and objects within one another whose kinds are kept: a bit each.
constexpr int kMostDepth = 64;

// Behind the value that begins at `at`; null where it has no end, or is none, or is nested deeper than that. Of lists
// and objects only strings are looked at, and brackets: each closes one of its kind.
const Byte* jsonValueEnd(const Byte* at, const Byte* end) {
  if (at == end) return nullptr;
  if (*at == '"') return jsonStringEnd(at, end);
  if (*at == '{' || *at == '[') {
    std::uint64_t objects = 0;
    int depth = 0;
    while (at < end) {
      const Byte byte = *at;
      switch (byte) {
        case '"':
          at = jsonStringEnd(at, end);
          if (at == nullptr) return nullptr;
          continue;
        case '{':
        case '[':
          if (depth++ == kMostDepth) return nullptr;
          objects = objects << 1 | static_cast<std::uint64_t>(byte == '{');
          break;
        case '}':
        case ']':
          if ((objects & 1) != static_cast<std::uint64_t>(byte == '}')) return nullptr;
          if (--depth == 0) return at + 1;
          objects >>= 1;
          break;
        default:
          break;
      }
      at++;
    }
    return nullptr;
  }
  const Byte* const begin = at;
  while (at < end && isWordByte(*at)) at++;
  return at == begin ? nullptr : at;
}

// Value of four hexadecimal digits; −1 where they are none.
std::int32_t hexOf(const Byte* digits) {
  std::int32_t value = 0;
  for (int i = 0; i < 4; i++) {
    const Byte digit = digits[i], letter = digit | 0x20;
    if (digit >= '0' && digit <= '9') {
      value = value * 16 + (digit - '0');
    } else if (letter >= 'a' && letter <= 'f') {
      value = value * 16 + (letter - 'a' + 10);
    } else {
      return -1;
    }
  }
  return value;
}

Byte* writeUtf8(std::int32_t point, Byte* out) {
  if (point < 0x80) {
    *out++ = static_cast<Byte>(point);
    return out;
  }
  const auto tail = [&](int shift) { *out++ = static_cast<Byte>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x800) {
    *out++ = static_cast<Byte>(0xc0 | (point >> 6));
  } else if (point < 0x10000) {
    *out++ = static_cast<Byte>(0xe0 | (point >> 12));
    tail(6);
  } else {
    *out++ = static_cast<Byte>(0xf0 | (point >> 18));
    tail(12);
    tail(6);
  }
  tail(0);
  return out;
}

// Of eight bytes, the high bit of each that cannot stand for itself in a string: the lowest one that is set is right.
std::uint64_t oddBytes(std::uint64_t eight) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
  const auto less = [&](std::uint64_t bytes, std::uint64_t limit) { return (bytes - kOnes * limit) & ~bytes; };
  return (less(eight, 0x20) | less(eight ^ (kOnes * '\\'), 1) | less(eight ^ (kOnes * '"'), 1)) & kHigh;
}

// The text of the string whose inside is [at, end): where it ends behind `out`, never further than the string is long;
// null for what JSON does not have, and for half a surrogate pair, which UTF-8 does not have.
Byte* unescapeJson(const Byte* at, const Byte* end, Byte* out) {
  while (at < end) {
    if (end - at >= 8) {
      std::uint64_t eight;
      std::memcpy(&eight, at, 8);
      std::memcpy(out, at, 8);
      const std::uint64_t odd = oddBytes(eight);
      const int plain = odd == 0 ? 8 : std::countr_zero(odd) / 8;
      at += plain;
      out += plain;
      if (plain == 8) continue;
    }
    const Byte byte = *at++;
    if (byte < 0x20 || byte == '"') return nullptr;
    if (byte != '\\') {
      *out++ = byte;
      continue;
    }
    if (at == end) return nullptr;
    switch (*at++) {
      case 'n':
        *out++ = '\n';
        break;
      case '"':
        *out++ = '"';
        break;
      case '\\':
        *out++ = '\\';
        break;
      case '/':
        *out++ = '/';
        break;
      case 't':
        *out++ = '\t';
        break;
      case 'r':
        *out++ = '\r';
        break;
      case 'b':
        *out++ = '\b';
        break;
      case 'f':
        *out++ = '\f';
        break;
      case 'u': {
        if (end - at < 4) return nullptr;
        std::int32_t point = hexOf(at);
        at += 4;
        if (point < 0) return nullptr;
        if (point >= 0xd800 && point < 0xe000) {
          if (point >= 0xdc00 || end - at < 6 || at[0] != '\\' || at[1] != 'u') return nullptr;
          const std::int32_t low = hexOf(at + 2);
          if (low < 0xdc00 || low >= 0xe000) return nullptr;
          at += 6;
          point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
        out = writeUtf8(point, out);
        break;
      }
      default:
        return nullptr;
    }
  }
  return out;
}

struct LineScanner {
  const Byte* bytes;
  const std::vector<std::string>& names;
  Byte* texts;
  std::int64_t used = 0;

  std::int32_t place(const Byte* at) const { return static_cast<std::int32_t>(at - bytes); }

  int indexOf(const Byte* begin, const Byte* end) const {
    const auto length = static_cast<std::size_t>(end - begin);
    for (std::size_t i = 0; i < names.size(); i++) {
      if (names[i].size() == length && std::memcmp(names[i].data(), begin, length) == 0) return static_cast<int>(i);
    }
    return -1;
  }

  // fields: kFieldInts of each name, all −1.
  bool scan(const Byte* at, const Byte* end, std::int32_t* fields) {
    at = skipJsonSpace(at, end);
    if (at == end || *at != '{') return false;
    at = skipJsonSpace(at + 1, end);
    if (at < end && *at == '}') return skipJsonSpace(at + 1, end) == end;
    for (;;) {
      if (at == end || *at != '"') return false;
      const Byte* const keyEnd = jsonStringEnd(at, end);
      if (keyEnd == nullptr) return false;
      const auto keyLength = static_cast<std::size_t>(keyEnd - at) - 2;
      if (std::memchr(at + 1, '\\', keyLength) != nullptr) return false;
      const int index = indexOf(at + 1, keyEnd - 1);
      at = skipJsonSpace(keyEnd, end);
      if (at == end || *at != ':') return false;
      const Byte* const begin = skipJsonSpace(at + 1, end);
      at = jsonValueEnd(begin, end);
      if (at == nullptr) return false;
      // As everywhere, the last of two equal keys counts.
      if (index >= 0) takeField(begin, at, fields + kFieldInts * index);
      at = skipJsonSpace(at, end);
      if (at < end && *at == '}') return skipJsonSpace(at + 1, end) == end;
      if (at == end || *at != ',') return false;
      at = skipJsonSpace(at + 1, end);
    }
  }

  void takeField(const Byte* begin, const Byte* end, std::int32_t* field) {
    field[0] = place(begin);
    field[1] = place(end);
    field[2] = field[3] = -1;
    if (*begin != '"' || end - begin < kLongText) return;
    const Byte* const textEnd = unescapeJson(begin + 1, end - 1, texts + used);
    if (textEnd == nullptr) return;
    field[2] = static_cast<std::int32_t>(used);
    used = textEnd - texts;
    field[3] = static_cast<std::int32_t>(used);
  }
};

}  // namespace

void scanJsonLines(const std::uint8_t* bytes, std::int64_t length, const std::vector<std::string>& names,
                   std::uint8_t* texts, std::vector<std::int32_t>& out) {
  LineScanner scanner{bytes, names, texts};
  const std::uint8_t* const end = bytes + length;
  const std::size_t ints = kLineInts + kFieldInts * names.size();
  for (const std::uint8_t* at = bytes; at < end;) {
    const auto* const found =
        static_cast<const std::uint8_t*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    const std::uint8_t* const lineEnd = found == nullptr ? end : found;
    const std::size_t line = out.size();
    out.resize(line + ints, -1);
    const bool isRead = scanner.scan(at, lineEnd, out.data() + line + kLineInts);
    out[line] = scanner.place(at);
    out[line + 1] = scanner.place(lineEnd);
    out[line + 2] = isRead ? 1 : 0;
    at = lineEnd + 1;
  }
}

}  // namespace collapsar
