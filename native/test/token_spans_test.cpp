// Spans of tokens against a plain set of tokens: what is added is there, what is taken out is not, and spans stay few.
#include "engine/tokens/spans.h"

#include "check.h"
#include "random_numbers.h"

using namespace collapsar;
using collapsar::test::Numbers;

TEST_CASE("pieces come where nothing is, and go again") {
  constexpr std::int64_t kLength = 24;
  Numbers numbers(5);
  for (int run = 0; run < 3000; run++) {
    TokenSpans spans;
    std::vector<bool> tokens(kLength + 1);  // the last is never there
    for (int piece = 0; piece < 40; piece++) {
      const std::int64_t from = numbers.below(kLength);
      const std::int64_t to = std::min(kLength, from + 1 + numbers.below(6));
      std::int64_t there = 0, first = -1;
      for (std::int64_t t = from; t < to; t++) {
        if (!tokens[static_cast<std::size_t>(t)]) continue;
        if (there++ == 0) first = t;
      }
      CHECK_EQUAL(spans.firstCommon({from, to}), first);
      if (there == 0) spans.add({from, to});
      if (there == to - from) spans.remove({from, to});
      if (there == 0 || there == to - from) {
        for (std::int64_t t = from; t < to; t++) tokens[static_cast<std::size_t>(t)] = there == 0;
      }
      std::int64_t begin = 0, gap = 0;
      while (begin < kLength && !tokens[static_cast<std::size_t>(begin)]) begin++;
      while (gap < kLength && tokens[static_cast<std::size_t>(gap)]) gap++;
      std::int64_t end = gap;
      while (end < kLength && !tokens[static_cast<std::size_t>(end)]) end++;
      CHECK_EQUAL(spans.empty(), begin == kLength);
      if (!spans.empty()) CHECK_EQUAL(spans.first(), begin);
      CHECK_EQUAL(spans.firstGap(kLength).from, gap);
      CHECK_EQUAL(spans.firstGap(kLength).to, end);
    }
  }
}

TEST_CASE("neighbours are one span") {
  TokenSpans spans;
  spans.add({8, 12});
  spans.add({0, 4});
  spans.add({4, 8});
  CHECK_EQUAL(spans.firstGap(20).from, 12);
  spans.remove({4, 8});
  CHECK_EQUAL(spans.firstGap(20).from, 4);
  CHECK_EQUAL(spans.firstGap(20).to, 8);
  CHECK_EQUAL(spans.firstCommon({4, 20}), 8);
}

int main() { return collapsar::test::runCases(); }
