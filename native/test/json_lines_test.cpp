// scanJsonLines: places and texts of fields as they were written, and nothing touched outside of the two pieces of
// memory, whatever bytes come (they end where their memory ends, for the sanitizer).
#include "engine/logs/json_lines.h"

#include <algorithm>
#include <memory>
#include <string>

#include "check.h"
#include "random_numbers.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

const std::vector<std::string> kNames = {"prompt", "score", "output", ""};

struct Scan {
  std::vector<std::int32_t> ints;
  std::string texts;

  std::size_t lines() const { return ints.size() / (kLineInts + kFieldInts * kNames.size()); }
  const std::int32_t* line(std::size_t i) const { return ints.data() + i * (kLineInts + kFieldInts * kNames.size()); }
  const std::int32_t* field(std::size_t i, std::size_t name) const { return line(i) + kLineInts + kFieldInts * name; }
};

Scan scanned(const std::string& bytes) {
  const std::unique_ptr<std::uint8_t[]> from(new std::uint8_t[bytes.size()]), texts(new std::uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), from.get());
  Scan scan;
  scanJsonLines(from.get(), static_cast<std::int64_t>(bytes.size()), kNames, texts.get(), scan.ints);
  scan.texts.assign(texts.get(), texts.get() + bytes.size());
  return scan;
}

// What was written of a field, or nothing where it has no place.
std::string valueOf(const Scan& scan, const std::string& bytes, std::size_t line, std::size_t name) {
  const std::int32_t* const field = scan.field(line, name);
  return field[0] < 0 ? ""
                      : bytes.substr(static_cast<std::size_t>(field[0]), static_cast<std::size_t>(field[1] - field[0]));
}

std::string textOf(const Scan& scan, std::size_t line, std::size_t name) {
  const std::int32_t* const field = scan.field(line, name);
  return field[2] < 0
             ? ""
             : scan.texts.substr(static_cast<std::size_t>(field[2]), static_cast<std::size_t>(field[3] - field[2]));
}

// A character as JSON may write it, and as UTF-8.
struct Character {
  const char* written;
  const char* meant;
};
const Character kCharacters[] = {{"a", "a"},
                                 {" ", " "},
                                 {"{", "{"},
                                 {"]", "]"},
                                 {":", ":"},
                                 {",", ","},
                                 {"\\\"", "\""},
                                 {"\\\\", "\\"},
                                 {"\\/", "/"},
                                 {"\\n", "\n"},
                                 {"\\t", "\t"},
                                 {"\\r", "\r"},
                                 {"\\b", "\b"},
                                 {"\\f", "\f"},
                                 {"\\u0041", "A"},
                                 {"\\u00e9", "\xc3\xa9"},
                                 {"\\u4f60", "\xe4\xbd\xa0"},
                                 {"\\uD83D\\uDE00", "\xf0\x9f\x98\x80"},
                                 {"\xc3\xa9", "\xc3\xa9"},
                                 {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
                                 {"seven b", "seven b"},
                                 {"more than eight bytes", "more than eight bytes"}};

struct Written {
  std::string json, meant;
};

Written stringOf(Numbers& numbers, std::int64_t most) {
  Written written{"\"", ""};
  for (std::int64_t left = numbers.below(most + 1); left > 0; left--) {
    const Character& character = kCharacters[numbers.below(std::size(kCharacters))];
    written.json += character.written;
    written.meant += character.meant;
  }
  written.json += '"';
  return written;
}

std::string spaces(Numbers& numbers) { return std::string(numbers.below(4) == 0 ? 1 + numbers.below(3) : 0, ' '); }

std::string valueOf(Numbers& numbers, int depth) {
  switch (numbers.below(depth > 0 ? 7 : 5)) {
    case 0:
      return "true";
    case 1:
      return "null";
    case 2:
      return "-12.5e-3";
    case 3:
      return "NaN";
    case 4:
      return stringOf(numbers, 5).json;
    case 5: {
      std::string list = "[";
      for (std::int64_t left = numbers.below(4); left > 0; left--) {
        list += spaces(numbers) + valueOf(numbers, depth - 1) + (left > 1 ? "," : "");
      }
      return list + spaces(numbers) + "]";
    }
    default: {
      std::string object = "{";
      for (std::int64_t left = numbers.below(4); left > 0; left--) {
        object +=
            stringOf(numbers, 3).json + spaces(numbers) + ":" + valueOf(numbers, depth - 1) + (left > 1 ? "," : "");
      }
      return object + "}";
    }
  }
}

}  // namespace

TEST_CASE("fields of random lines stand where they were written, and long texts are what was meant") {
  Numbers numbers(3);
  for (int draw = 0; draw < (kSanitized ? 300 : 3000); draw++) {
    struct Line {
      std::vector<Written> of;
      std::size_t begin, end;
    };
    std::vector<Line> lines;
    std::string bytes;
    for (std::int64_t left = numbers.below(5); left > 0; left--) {
      Line line{std::vector<Written>(kNames.size()), bytes.size(), 0};
      bytes += spaces(numbers) + "{" + spaces(numbers);
      const std::int64_t fields = numbers.below(7);
      for (std::int64_t i = 0; i < fields; i++) {
        // One in three is none of those wanted, or comes a second time, and the last counts.
        const auto name = static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(kNames.size()) * 3 / 2));
        Written value = numbers.below(2) == 0 ? stringOf(numbers, 60) : Written{valueOf(numbers, 3), ""};
        bytes += (name < kNames.size() ? "\"" + kNames[name] + "\"" : std::string("\"other\"")) + spaces(numbers) +
                 ":" + spaces(numbers) + value.json + spaces(numbers) + (i + 1 < fields ? "," + spaces(numbers) : "");
        if (name < kNames.size()) line.of[name] = std::move(value);
      }
      bytes += "}" + spaces(numbers);
      line.end = bytes.size();
      if (left > 1 || numbers.below(2) == 0) bytes += '\n';
      lines.push_back(std::move(line));
    }
    const Scan scan = scanned(bytes);
    CHECK_EQUAL(scan.lines(), lines.size());
    for (std::size_t i = 0; i < lines.size(); i++) {
      CHECK_EQUAL(static_cast<std::size_t>(scan.line(i)[0]), lines[i].begin);
      CHECK_EQUAL(static_cast<std::size_t>(scan.line(i)[1]), lines[i].end);
      CHECK_EQUAL(scan.line(i)[2], 1, bytes);
      for (std::size_t name = 0; name < kNames.size(); name++) {
        const Written& written = lines[i].of[name];
        CHECK(valueOf(scan, bytes, i, name) == written.json);
        const bool isLong = written.json.size() >= static_cast<std::size_t>(kLongText) && written.json[0] == '"';
        CHECK_EQUAL(scan.field(i, name)[2] >= 0, isLong);
        if (isLong) CHECK(textOf(scan, i, name) == written.meant);
      }
    }
  }
}

TEST_CASE("a line that is in any way unusual is only marked") {
  const std::string longText(200, 'x');
  for (const std::string line : {"",
                                 " ",
                                 "x",
                                 "[]",
                                 "{",
                                 "}",
                                 "{]",
                                 "{\"prompt\"",
                                 "{\"prompt\":",
                                 "{\"prompt\":1",
                                 "{\"prompt\":1,",
                                 "{\"prompt\":1,}",
                                 "{\"prompt\" 1}",
                                 "{prompt:1}",
                                 "{\"prompt\":}",
                                 "{\"prompt\":1}}",
                                 "{\"prompt\":1} x",
                                 "{\"pro\\u006dpt\":1}",
                                 "{\"prompt\":\"a}",
                                 "{\"prompt\":\"a\\\"}",
                                 "{\"prompt\":[1}",
                                 "{\"prompt\":{\"a\":\"}\"}",
                                 "{\"prompt\":\"\\\\\\\"}",
                                 "\xef\xbb\xbf{\"prompt\":1}"}) {
    const Scan scan = scanned(line + "\n{\"score\":1}");
    CHECK_EQUAL(scan.lines(), std::size_t{2});
    CHECK_EQUAL(scan.line(0)[2], 0, line);
    CHECK_EQUAL(scan.line(1)[2], 1, line);
  }
  // A text that has no UTF-8, or that JSON does not have, has a place and no text.
  for (const std::string odd : {"\\x", "\\u12g4", "\\ud800", "\\ud800\\u0041", "\\udc00", "\\u12", "\x01"}) {
    const std::string line = "{\"output\":\"" + longText + odd + "\"}";
    const Scan scan = scanned(line);
    CHECK_EQUAL(scan.line(0)[2], 1, odd);
    CHECK(valueOf(scan, line, 0, 2).size() == line.size() - 11);
    CHECK_EQUAL(scan.field(0, 2)[2], -1, odd);
  }
}

TEST_CASE("damaged lines, and bytes at random, lead nowhere outside of the memory") {
  const std::string whole = "{\"prompt\": \"" + std::string(150, 'p') +
                            "\\n\\u00e9\\\\\", \"score\": [1, {\"a\": \"]\"}], \"output\": \"" + std::string(140, 'o') +
                            "\\uD83D\\uDE00\"}\n";
  const std::string kinds = "{}[]\",:\\u0d8 \n\t\x01\xff\xc3";
  Numbers numbers(5);
  for (int draw = 0; draw < (kSanitized ? 3000 : 30000); draw++) {
    std::string bytes = whole + whole;
    if (draw % 3 == 0) bytes.resize(static_cast<std::size_t>(numbers.below(60)));
    for (std::int64_t left = draw % 3 == 0 ? 60 : numbers.below(6); left > 0 && !bytes.empty(); left--) {
      const char drawn = kinds[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(kinds.size())))];
      bytes[static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(bytes.size())))] = drawn;
    }
    if (draw % 3 == 1)
      bytes.resize(static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(bytes.size()) + 1)));
    const Scan scan = scanned(bytes);
    std::int32_t next = 0, used = 0;
    for (std::size_t i = 0; i < scan.lines(); i++) {
      const std::int32_t begin = scan.line(i)[0], end = scan.line(i)[1];
      CHECK_EQUAL(begin, next);
      CHECK(begin <= end && end <= static_cast<std::int32_t>(bytes.size()));
      next = end + 1;
      for (std::size_t name = 0; name < kNames.size(); name++) {
        const std::int32_t* const field = scan.field(i, name);
        // Of a line that was not read to its end, the last value may reach there.
        if (field[0] >= 0) CHECK(begin < field[0] && field[0] < field[1] && field[1] <= end - scan.line(i)[2]);
        if (field[2] >= 0) CHECK(field[2] <= field[3] && field[3] - field[2] <= field[1] - field[0] - 2);
        used = std::max(used, field[3]);
      }
    }
    CHECK(next == static_cast<std::int32_t>(bytes.size()) || next == static_cast<std::int32_t>(bytes.size()) + 1);
    CHECK(used <= static_cast<std::int32_t>(bytes.size()));
  }
}

int main() { return collapsar::test::runCases(); }
