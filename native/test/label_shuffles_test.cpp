// LabelShuffles: the labels that one shuffle after the other gives, however they are cut into tiles and wherever they
// are kept.
#include "engine/inference/label_shuffles.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "allocations_elsewhere.h"
#include "check.h"
#include "engine/inference/random.h"
#include "random_numbers.h"

using namespace collapsar;
using namespace collapsar::test;

namespace {

std::vector<std::int32_t> labelsOf(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<std::int32_t> own(static_cast<std::size_t>(rows));
  for (std::int32_t& label : own) label = static_cast<std::int32_t>(numbers.below(columns));
  return own;
}

std::vector<std::int32_t> shuffled(std::vector<std::int32_t> labels, std::uint64_t seed, std::int64_t permutation) {
  CounterRandom random(seed, static_cast<std::uint64_t>(permutation));
  for (std::size_t i = labels.size(); i-- > 0;)
    std::swap(labels[i], labels[random.below(static_cast<std::uint32_t>(i + 1))]);
  return labels;
}

// Every tile of `size` permutations, by the workers in turns.
void checkTiles(const ShuffledLabels& labels, std::int64_t size) {
  const std::vector<std::int32_t> own(labels.own, labels.own + labels.rows);
  JobControl control;
  LabelShuffles shuffles(labels, std::min(size, labels.permutations), 2);
  std::int64_t used = 0;
  for (std::int64_t first = 0, worker = 0; first < labels.permutations; first += size, worker = 1 - worker) {
    const std::int64_t here = std::min(size, labels.permutations - first);
    shuffles.withTile(first, here, static_cast<int>(worker), control, [&](const auto& tile) {
      CHECK_EQUAL(tile.size, here);
      for (std::int64_t i = 0; i < here; i++, used++) {
        const std::vector<std::int32_t> expected = shuffled(own, labels.seed, first + i);
        std::int64_t wrong = 0;
        for (std::int64_t r = 0; r < labels.rows; r++) {
          wrong += tile.label(i, r) != expected[static_cast<std::size_t>(r)];
        }
        CHECK_EQUAL(wrong, 0, "permutation ", first + i, " of ", labels.rows, " rows");
      }
    });
  }
  CHECK_EQUAL(used, labels.permutations);
  shuffles.keep();
}

}  // namespace

TEST_CASE("labels are those of one shuffle after the other") {
  struct Case {
    std::int64_t rows, columns, permutations, size;
  };
  const std::vector<Case> cases = {
      {1, 1, 3, 1},
      {33, 5, 40, 7},
      {512, 64, 100, 64},
      {4096, 300, 600, 100},     // too many to be kept
      {65536, 65536, 5, 2},      // the most rows and labels that 16 bits number
      {65537, 9, 3, 2},          // rows beyond them
      {40, 70000, 9, 4},         // labels beyond them, few enough rows to be kept
      {2100, 70000, 1000, 500},  // and too many
  };
  for (const Case& c : cases) {
    const std::vector<std::int32_t> own = labelsOf(c.rows, c.columns, 5);
    const ShuffledLabels labels{own.data(), c.rows, c.columns, c.permutations, 0xfedcba9876543210u};
    checkTiles(labels, c.size);
    checkTiles(labels, c.size);  // what was drawn for the first may serve
    checkTiles(labels, c.permutations);
    const std::vector<std::int32_t> others = labelsOf(c.rows, c.columns, 6);
    checkTiles({others.data(), c.rows, c.columns, c.permutations, labels.seed}, c.size);
    checkTiles({own.data(), c.rows, c.columns, c.permutations, labels.seed + 1}, c.size);
  }
}

TEST_CASE("what a cancelled job has drawn serves nobody") {
  const std::vector<std::int32_t> own = labelsOf(100, 10, 7);
  const ShuffledLabels labels{own.data(), 100, 10, 20, 99};
  {
    LabelShuffles shuffles(labels, 10, 1);
    JobControl control;
    std::int64_t tiles = 0;
    shuffles.withTile(0, 10, 0, control, [&](const auto&) { tiles++; });
    control.cancelled = true;
    shuffles.withTile(10, 10, 0, control, [&](const auto&) { tiles++; });
    CHECK_EQUAL(tiles, 1);
  }
  checkTiles(labels, 10);
}

TEST_CASE("threads that draw ask for no memory") {
  struct Case {
    std::int64_t rows, columns, permutations;
  };
  // Kept for the next step, then too many of them, and of more labels than 16 bits number.
  for (const Case& c : {Case{100, 10, 20}, Case{65600, 10, 20}, Case{65600, 70000, 20}}) {
    const std::vector<std::int32_t> own = labelsOf(c.rows, c.columns, 8);
    const ShuffledLabels labels{own.data(), c.rows, c.columns, c.permutations, 98};
    const OwnThread allowed;
    LabelShuffles shuffles(labels, c.permutations, 1);
    std::int64_t used = 0;
    std::thread([&] {
      const JobControl control;
      shuffles.withTile(0, c.permutations, 0, control, [&](const auto& tile) { used = tile.size; });
    }).join();
    CHECK_EQUAL(used, c.permutations);
    CHECK_EQUAL(allocationsElsewhere.load(), 0, c.rows, " rows, ", c.columns, " labels");
  }
}

// What is left of the permutation that is being drawn may take seconds.
TEST_CASE("a permutation of many rows is given up where its job is cancelled") {
  const std::int64_t rows = 1 << 25;
  const std::vector<std::int32_t> own(static_cast<std::size_t>(rows), 0);
  LabelShuffles shuffles({own.data(), rows, 1, 1, 1}, 1, 1);
  JobControl control;
  bool used = false;
  std::thread drawing([&] { shuffles.withTile(0, 1, 0, control, [&](const auto&) { used = true; }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  control.cancelled = true;
  drawing.join();
  CHECK(!used);
}

int main() { return collapsar::test::runCases(); }
