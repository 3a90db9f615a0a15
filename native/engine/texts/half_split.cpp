// Adds up counts, one for each tile of permutations, so that the order of tiles does not matter.
#include "half_split.h"

#include <cmath>

#include "engine/inference/label_shuffles.h"
#include "engine/special_values.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTilePermutations = 64;

}  // namespace

Outcome halfSplit(const RowScores& scores, std::int64_t prompts, std::int64_t permutations, std::uint64_t seed,
                  HalfSplit& out, ThreadPool& pool, JobControl& control) {
  const auto tested = static_cast<std::int64_t>(scores.testedOwn.size());
  const double* const excess = scores.testedExcess.data();
  out = {0, kNaN};
  for (std::int64_t row = 0; row < tested; row++) out.statistic += excess[row * prompts + scores.testedOwn[row]];
  if (permutations < 1) return Outcome::Done;

  // A sum that is below the observed one by no more than rounding counts as equal, and so against the figure.
  const double least = out.statistic - 1e-9 * (1 + std::fabs(out.statistic));
  LabelShuffles shuffles({scores.testedOwn.data(), tested, prompts, permutations, seed}, kTilePermutations,
                         pool.threads());
  std::atomic<std::int64_t> reached{0};
  const std::int64_t tiles = (permutations + kTilePermutations - 1) / kTilePermutations;
  const Outcome outcome = pool.run(tiles, control, [&](std::int64_t index, int worker) {
    const std::int64_t first = index * kTilePermutations, size = std::min(kTilePermutations, permutations - first);
    std::int64_t count = 0;
    shuffles.withTile(first, size, worker, control, [&](const auto& tile) {
      for (std::int64_t i = 0; i < tile.size; i++) {
        if (control.cancelled.load(std::memory_order_relaxed)) return;
        double sum = 0;
        for (std::int64_t row = 0; row < tested; row++) sum += excess[row * prompts + tile.label(i, row)];
        count += sum >= least;
      }
    });
    reached.fetch_add(count, std::memory_order_relaxed);
    control.doneUnits.fetch_add(size * tested, std::memory_order_relaxed);
  });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  shuffles.keep();
  out.pValue = static_cast<double>(1 + reached.load()) / static_cast<double>(permutations + 1);
  return Outcome::Done;
}

}  // namespace collapsar
