// unpackSnappy: what a plain packer makes comes back, at every length and distance, and nothing is touched outside of
// the two pieces of memory, whatever bytes come (they end where their memory ends: the sanitizer sees a step further).
#include "engine/logs/snappy.h"

#include <algorithm>
#include <memory>
#include <string>

#include "check.h"
#include "random_numbers.h"

using namespace collapsar;

namespace {

using Bytes = std::vector<std::uint8_t>;

void putInteger(Bytes& out, std::int64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

void putLength(Bytes& out, std::int64_t value) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 128));
  out.push_back(static_cast<std::uint8_t>(value));
}

void putLiteral(Bytes& out, const Bytes& literal, int lengthBytes) {
  const auto count = static_cast<std::int64_t>(literal.size());
  if (lengthBytes == 0) {
    out.push_back(static_cast<std::uint8_t>((count - 1) << 2));
  } else {
    out.push_back(static_cast<std::uint8_t>((59 + lengthBytes) << 2));
    putInteger(out, count - 1, lengthBytes);
  }
  out.insert(out.end(), literal.begin(), literal.end());
}

void putCopy(Bytes& out, std::int64_t offset, std::int64_t count, int offsetBytes) {
  if (offsetBytes == 1) {
    out.push_back(static_cast<std::uint8_t>(1 | (count - 4) << 2 | (offset >> 8) << 5));
    out.push_back(static_cast<std::uint8_t>(offset));
  } else {
    out.push_back(static_cast<std::uint8_t>((offsetBytes == 2 ? 2 : 3) | (count - 1) << 2));
    putInteger(out, offset, offsetBytes);
  }
}

// Of memory that ends where the bytes do.
bool unpack(const Bytes& packed, Bytes& out) {
  const std::unique_ptr<std::uint8_t[]> from(new std::uint8_t[packed.size()]), to(new std::uint8_t[out.size()]);
  std::copy(packed.begin(), packed.end(), from.get());
  const bool isWhole = unpackSnappy(from.get(), static_cast<std::int64_t>(packed.size()), to.get(),
                                    static_cast<std::int64_t>(out.size()));
  if (isWhole) std::copy(to.get(), to.get() + out.size(), out.begin());
  return isWhole;
}

// Pieces of any kind, and what they unpack to.
struct Sample {
  Bytes packed, plain;
};

Sample sampleOf(test::Numbers& numbers, int pieces) {
  Bytes body, plain;
  for (int piece = 0; piece < pieces; piece++) {
    if (plain.empty() || numbers.below(3) == 0) {
      Bytes literal(static_cast<std::size_t>(1 + numbers.below(numbers.below(8) == 0 ? 300 : 60)));
      for (auto& byte : literal) byte = static_cast<std::uint8_t>(numbers.below(256));
      const int least = literal.size() > 256 ? 2 : literal.size() > 60 ? 1 : 0;
      putLiteral(body, literal, least + static_cast<int>(numbers.below(5 - least)));
      plain.insert(plain.end(), literal.begin(), literal.end());
    } else {
      const auto there = static_cast<std::int64_t>(plain.size());
      const std::int64_t offset = 1 + numbers.below(std::min<std::int64_t>(there, numbers.below(2) == 0 ? 20 : 2000));
      std::int64_t count = 1 + numbers.below(64);
      const bool isNear = count >= 4 && count < 12 && offset < 2048;
      putCopy(body, offset, count, isNear && numbers.below(2) == 0 ? 1 : numbers.below(2) == 0 ? 2 : 4);
      for (; count > 0; count--) plain.push_back(plain[plain.size() - static_cast<std::size_t>(offset)]);
    }
  }
  Bytes packed;
  putLength(packed, static_cast<std::int64_t>(plain.size()));
  packed.insert(packed.end(), body.begin(), body.end());
  return {packed, plain};
}

}  // namespace

TEST_CASE("what was packed comes back") {
  test::Numbers numbers(1);
  for (int run = 0; run < 2000; run++) {
    const Sample sample = sampleOf(numbers, static_cast<int>(numbers.below(40)));
    Bytes out(sample.plain.size());
    CHECK(unpack(sample.packed, out));
    CHECK(out == sample.plain);
    // Another length than the bytes say.
    Bytes shorter(out.size() - (out.empty() ? 0 : 1)), longer(out.size() + 1);
    CHECK(out.empty() || !unpack(sample.packed, shorter));
    CHECK(!unpack(sample.packed, longer));
  }
}

TEST_CASE("bytes that are cut or damaged are refused, or unpack to as many") {
  test::Numbers numbers(2);
  for (int run = 0; run < 2000; run++) {
    Sample sample = sampleOf(numbers, static_cast<int>(1 + numbers.below(20)));
    Bytes out(sample.plain.size());
    Bytes cut = sample.packed;
    cut.resize(static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(cut.size()))));
    CHECK(!unpack(cut, out));
    for (int change = 0; change < 3; change++) {
      const auto at = static_cast<std::size_t>(numbers.below(static_cast<std::int64_t>(sample.packed.size())));
      sample.packed[at] = static_cast<std::uint8_t>(numbers.below(256));
    }
    unpack(sample.packed, out);
  }
}

TEST_CASE("copies from before the beginning, of no distance, and too much at the end are refused") {
  const auto refused = [](const Bytes& packed, std::size_t length) {
    Bytes out(length);
    return !unpack(packed, out);
  };
  CHECK(refused({}, 0));
  CHECK(!refused({0}, 0));
  CHECK(refused({4}, 4));
  CHECK(!refused({4, 0, 'a', 2 << 2 | 2, 1, 0}, 4));
  CHECK(refused({4, 0, 'a', 2 << 2 | 2, 2, 0}, 4));
  CHECK(refused({4, 0, 'a', 2 << 2 | 2, 0, 0}, 4));
  CHECK(refused({4, 0, 'a', 3 << 2 | 2, 1, 0}, 4));
  CHECK(refused({4, 0, 'a', 2 << 2 | 2, 1}, 4));
  CHECK(refused({0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 0));
  // A literal that says 2^32 bytes.
  CHECK(refused({1, 63 << 2, 0xff, 0xff, 0xff, 0xff, 'a'}, 1));
}

int main() { return collapsar::test::runCases(); }
