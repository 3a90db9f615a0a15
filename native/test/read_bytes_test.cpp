// readBytes: every byte once, for any size, alignment, prefetch distance and number of threads.
#include "engine/roofline/read_bytes.h"

#include <cstring>
#include <vector>

#include "check.h"

using namespace collapsar;

namespace {

std::uint64_t expectedSum(const unsigned char* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + at, 8);
    sum += word;
  }
  for (; at < bytes; ++at) sum += data[at];
  return sum;
}

}  // namespace

TEST_CASE("the sum over every byte") {
  std::vector<unsigned char> memory((3u << 20) + 400);
  std::uint32_t state = 1;
  for (unsigned char& byte : memory) byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);
  const std::size_t tile = 1u << 17;
  const std::size_t sizes[] = {0, 1, 7, 8, 255, 256, 257, 4096, tile - 1, tile, tile + 9, 24 * tile + 13};
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const std::size_t offset : {0, 1, 64}) {
      for (const std::size_t bytes : sizes) {
        for (const std::int64_t ahead : {0, 1024}) {
          JobControl control;
          std::uint64_t sum = 1;
          CHECK(readBytes(memory.data() + offset, bytes, {ahead}, pool, control, &sum) == Outcome::Done);
          CHECK_EQUAL(sum, expectedSum(memory.data() + offset, bytes));
          CHECK_EQUAL(control.doneUnits.load(), static_cast<std::int64_t>(bytes));
        }
      }
    }
  }
}

TEST_CASE("a cancelled read stops") {
  ThreadPool pool(2);
  std::vector<unsigned char> memory(8u << 20);
  JobControl control;
  control.cancelled = true;
  std::uint64_t sum = 0;
  CHECK(readBytes(memory.data(), memory.size(), {0}, pool, control, &sum) == Outcome::Cancelled);
}

int main() { return collapsar::test::runCases(); }
