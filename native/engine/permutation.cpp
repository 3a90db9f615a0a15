// Permutations are cut into tiles; what a tile yields is a count, so that the order of tiles cannot matter.
#include "permutation.h"

#include <algorithm>
#include <limits>

#include "random.h"

namespace collapsar {

namespace {

// Relative to the sum over rows of the largest |score|: above the rounding of the scores themselves and of sums of up
// to 2^31 rows in practice, far below anything that a reader could tell apart.
constexpr double kTie = 0x1p-40;

constexpr std::int64_t kTileRows = 1 << 14;  // rows times permutations in one tile: some tenths of a millisecond
constexpr int kSums = 3;                     // S, S per token, S less the leave-one-out marginal

// A figure of one labelling, up to what all labellings share.
struct Labelling {
  double sums[kSums] = {};
  std::int64_t levels[kHitFigures + 1] = {};

  void add(const InferenceInput& input, const RowSums& tables, std::int64_t r, std::int32_t label) {
    const std::int64_t at = r * input.columns + label;
    const double score = input.scores[at];
    const std::int64_t length = input.labels.lengths[r];
    sums[0] += score;
    sums[1] += length > 1 ? score / static_cast<double>(length) : score;
    sums[2] += tables.looValues[at];
    levels[tables.levels[at]]++;
  }
};

}  // namespace

Outcome permutationPValues(const InferenceInput& input, const RowSums& sums, double pValues[kFigures], ThreadPool& pool,
                           JobControl& control) {
  const std::int64_t rows = input.rows, permutations = input.permutations;
  std::fill_n(pValues, static_cast<int>(kFigures), std::numeric_limits<double>::quiet_NaN());
  if (permutations < 1 || rows < 1) return Outcome::Done;

  // The last row first, as the shuffles do.
  Labelling observed;
  for (std::int64_t r = rows - 1; r >= 0; r--) observed.add(input, sums, r, input.labels.own[r]);
  const double least[kSums] = {observed.sums[0] - kTie * sums.scoreScale,
                               observed.sums[1] - kTie * sums.scoreScaleToken,
                               observed.sums[2] - kTie * sums.scoreScale};
  std::int64_t observedHits[kHitFigures], hits = 0;
  for (int hit = 0; hit < kHitFigures; hit++) observedHits[hit] = hits += observed.levels[hit];

  const std::int64_t tilePermutations = std::max<std::int64_t>(1, kTileRows / rows);
  const std::int64_t tiles = (permutations + tilePermutations - 1) / tilePermutations;
  std::vector<std::vector<std::int32_t>> scratch(static_cast<std::size_t>(pool.threads()),
                                                 std::vector<std::int32_t>(static_cast<std::size_t>(rows)));
  std::atomic<std::int64_t> reached[kSums + kHitFigures] = {};

  const Outcome outcome = pool.run(tiles, control, [&](std::int64_t tile, int worker) {
    std::vector<std::int32_t>& labels = scratch[worker];
    std::int64_t count[kSums + kHitFigures] = {};
    const std::int64_t end = std::min(permutations, (tile + 1) * tilePermutations);
    for (std::int64_t b = tile * tilePermutations; b < end; b++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      std::copy_n(input.labels.own, rows, labels.begin());
      CounterRandom random(input.seed, static_cast<std::uint64_t>(b));
      Labelling permuted;
      for (std::int64_t r = rows - 1; r >= 0; r--) {
        std::swap(labels[r], labels[random.below(static_cast<std::uint32_t>(r + 1))]);
        permuted.add(input, sums, r, labels[r]);
      }
      // Infinities of both signs make NaN: counted as reached, which errs against the figure.
      for (int i = 0; i < kSums; i++) count[i] += !(permuted.sums[i] < least[i]);
      std::int64_t permutedHits = 0;
      for (int hit = 0; hit < kHitFigures; hit++) {
        permutedHits += permuted.levels[hit];
        count[kSums + hit] += permutedHits >= observedHits[hit];
      }
    }
    for (int i = 0; i < kSums + kHitFigures; i++) reached[i].fetch_add(count[i], std::memory_order_relaxed);
    control.doneUnits.fetch_add((end - tile * tilePermutations) * rows, std::memory_order_relaxed);
  });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;

  constexpr int kSumOf[kMiFigures] = {0, 2, 1, 1};
  const auto exact = [&](int i) {
    return static_cast<double>(1 + reached[i].load()) / static_cast<double>(permutations + 1);
  };
  for (int f = 0; f < kMiFigures; f++) pValues[f] = exact(kSumOf[f]);
  for (int hit = 0; hit < kHitFigures; hit++) pValues[kRetrieval1 + hit] = exact(kSums + hit);
  return Outcome::Done;
}

}  // namespace collapsar
