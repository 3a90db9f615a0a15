// touchLines: one byte of each line that a valid token lies in, whatever the layout and the alignment.
#include "engine/roofline/touch_lines.h"

#include <vector>

#include "check.h"

using namespace collapsar;

namespace {

// By looking at every byte of every valid token.
std::uint64_t expectedSum(const unsigned char* data, const TokenScores& s) {
  const auto bytes = static_cast<std::int64_t>(sizeOf(s.dtype));
  std::uint64_t sum = 0;
  for (std::int64_t prompt = 0; prompt < s.prompts; prompt++) {
    for (std::int64_t row = 0; row < s.rows; row++) {
      const std::int64_t inPrompt = s.rowOffsets != nullptr ? s.rowOffsets[row] : row * s.rowStride;
      const unsigned char* at = data + (prompt * s.promptStride + inPrompt) * bytes;
      std::uintptr_t last = 0;
      for (std::int64_t i = 0; i < s.lengths[row] * bytes; i++) {
        const std::uintptr_t line = reinterpret_cast<std::uintptr_t>(at + i) / 64;
        if (i == 0 || line != last) sum += at[i];
        last = line;
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("every line of a valid token, and no other") {
  std::vector<unsigned char> memory(1u << 20);
  std::uint32_t state = 7;
  for (unsigned char& byte : memory) byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const std::int64_t offset : {0, 2, 40}) {
      for (const std::int64_t tokens : {1, 15, 64, 300}) {
        const std::int64_t rows = tokens > 100 ? 40 : 2500, prompts = 2;
        std::vector<std::int64_t> lengths, offsets;
        std::int64_t packed = 0;
        for (std::int64_t r = 0; r < rows; r++) {
          lengths.push_back(static_cast<std::int64_t>(memory[static_cast<std::size_t>(r)]) % (tokens + 1));
          offsets.push_back(packed);
          packed += lengths.back();
        }
        for (const bool isPacked : {false, true}) {
          const std::int64_t promptStride = isPacked ? packed : rows * tokens;
          const TokenScores scores{memory.data() + offset,
                                   DType::BFloat16,
                                   prompts,
                                   rows,
                                   promptStride,
                                   isPacked ? 0 : tokens,
                                   1,
                                   lengths.data(),
                                   isPacked ? offsets.data() : nullptr};
          JobControl control;
          std::uint64_t sum = 1;
          CHECK(touchLines(scores, pool, control, &sum) == Outcome::Done);
          CHECK_EQUAL(sum, expectedSum(memory.data() + offset, scores));
        }
      }
    }
  }
}

int main() { return collapsar::test::runCases(); }
