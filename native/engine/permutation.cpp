// Permutations are cut into tiles; what a tile yields is a count, so that the order of tiles cannot matter.
#include "permutation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "random.h"
#include "vector_width.h"

namespace collapsar {

namespace {

// Relative to the sum over rows of the largest |score|: above the rounding of the scores themselves and of sums of up
// to 2^31 rows in practice, far below anything that a reader could tell apart.
constexpr double kTie = 0x1p-40;

constexpr std::int64_t kMinTilePermutations = 64;
constexpr std::int64_t kMaxTilePermutations = 512;  // their figures stay in a first-level cache
constexpr std::int64_t kTileEntries = 1 << 18;      // rows times permutations in one tile, where rows allow
constexpr std::int64_t kRowsAtOnce = 4;
constexpr int kSums = 3;  // S, S per token, S less the leave-one-out marginal

// What a row adds to the figures of a labelling, up to what all labellings share: S, S per token, S less the
// leave-one-out marginal; and its level, as one of four counts that share a double, which adding keeps exact.
typedef double Doubles4 __attribute__((vector_size(32)));
struct alignas(32) Contribution {
  Doubles4 part;
};
constexpr std::int64_t kLevelStep = 1 << 13;
constexpr std::int64_t kCountedRows = kLevelStep - 1;  // so many rows fit into a count
constexpr std::int64_t kCheckedRows = 2048;            // between looks at `cancelled`; fewer than kCountedRows
constexpr double kLevelCodes[kHitFigures + 1] = {1.0, 0x1p13, 0x1p26, 0x1p39, 0.0};

struct Levels {
  std::int64_t count[kHitFigures] = {};

  // Moves the counts out of the double before one of them can be full.
  void take(Contribution& from) {
    auto counts = static_cast<std::int64_t>(from.part[kSums]);
    for (std::int64_t& level : count) {
      level += counts % kLevelStep;
      counts /= kLevelStep;
    }
    from.part[kSums] = 0;
  }
};

// Adds what row r adds under one label.
void addUnder(const InferenceInput& input, const RowSums& tables, std::int64_t r, std::int32_t label,
              Contribution& figures) {
  const std::int64_t at = r * input.columns + label;
  const auto length = static_cast<double>(input.labels.lengths[r] > 1 ? input.labels.lengths[r] : 1);
  figures.part += Doubles4{input.scores[at], input.scores[at] / length, tables.looValues[static_cast<std::size_t>(at)],
                           kLevelCodes[tables.levels[static_cast<std::size_t>(at)]]};
}

// What row r adds under each label. scratch: [columns]
inline __attribute__((always_inline)) void contribute(const InferenceInput& input, const RowSums& tables,
                                                      std::int64_t r, double* scratch, Contribution* row) {
  const std::int64_t columns = input.columns;
  const double* const scores = input.scores + r * columns;
  const double* const loo = tables.looValues.data() + r * columns;
  const std::uint8_t* const levels = tables.levels.data() + r * columns;
  const auto length = static_cast<double>(input.labels.lengths[r] > 1 ? input.labels.lengths[r] : 1);
  // Apart, because divisions go four at a time here, and one at a time below.
  for (std::int64_t label = 0; label < columns; label++) scratch[label] = scores[label] / length;
  for (std::int64_t label = 0; label < columns; label++) {
    row[label].part = Doubles4{scores[label], scratch[label], loo[label], kLevelCodes[levels[label]]};
  }
}

// Rows [begin, end), the last first, to the figures of `size` labellings. sources: of row 0; see shuffle(). row:
// [kRowsAtOnce, columns]. Rows are taken by fours, each figure being read and written once for the four; the order of
// additions stays that of single rows.
inline __attribute__((always_inline)) void addRows(const InferenceInput& input, const RowSums& tables,
                                                   std::int64_t begin, std::int64_t end, const std::int32_t* sources,
                                                   std::int64_t size, double* scratch, Contribution* row,
                                                   Contribution* figures) {
  const std::int32_t* const own = input.labels.own;
  const std::int64_t columns = input.columns;
  std::int64_t r = end - 1;
  for (; r - (kRowsAtOnce - 1) >= begin; r -= kRowsAtOnce) {
    for (std::int64_t k = 0; k < kRowsAtOnce; k++) contribute(input, tables, r - k, scratch, row + k * columns);
    const std::int32_t *const from0 = sources + r * size, *const from1 = from0 - size, *const from2 = from1 - size,
                              *const from3 = from2 - size;
    const Contribution *const row0 = row, *const row1 = row0 + columns, *const row2 = row1 + columns,
                              *const row3 = row2 + columns;
    for (std::int64_t i = 0; i < size; i++) {
      Doubles4 figure = figures[i].part;
      figure += row0[own[from0[i]]].part;
      figure += row1[own[from1[i]]].part;
      figure += row2[own[from2[i]]].part;
      figure += row3[own[from3[i]]].part;
      figures[i].part = figure;
    }
  }
  for (; r >= begin; r--) {
    contribute(input, tables, r, scratch, row);
    const std::int32_t* const from = sources + r * size;
    for (std::int64_t i = 0; i < size; i++) figures[i].part += row[own[from[i]]].part;
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
COLLAPSAR_AVX2 void addRowsAvx2(const InferenceInput& input, const RowSums& tables, std::int64_t begin,
                                std::int64_t end, const std::int32_t* sources, std::int64_t size, double* scratch,
                                Contribution* row, Contribution* figures) {
  addRows(input, tables, begin, end, sources, size, scratch, row, figures);
}
#endif

void addRowsWide(const InferenceInput& input, const RowSums& tables, std::int64_t begin, std::int64_t end,
                 const std::int32_t* sources, std::int64_t size, double* scratch, Contribution* row,
                 Contribution* figures) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (vectorBytes() >= 32) return addRowsAvx2(input, tables, begin, end, sources, size, scratch, row, figures);
#endif
  addRows(input, tables, begin, end, sources, size, scratch, row, figures);
}

// Where every row's label comes from, for permutations [first, first + count): entry [r * count + i].
void shuffle(std::int64_t rows, std::uint64_t seed, std::int64_t first, std::int64_t count, std::int32_t* scratch,
             std::int32_t* sources) {
  for (std::int64_t i = 0; i < count; i++) {
    for (std::int64_t r = 0; r < rows; r++) scratch[r] = static_cast<std::int32_t>(r);
    CounterRandom random(seed, static_cast<std::uint64_t>(first + i));
    for (std::int64_t r = rows - 1; r >= 0; r--) {
      std::swap(scratch[r], scratch[random.below(static_cast<std::uint32_t>(r + 1))]);
      sources[r * count + i] = scratch[r];
    }
  }
}

// The permutations of one number of rows and one seed, tile after tile. They depend on nothing else, and the steps of a
// run have the same rows as a rule: drawing them took longer than all that is done with them.
struct Shuffles {
  std::int64_t rows, permutations, tilePermutations;
  std::uint64_t seed;
  std::vector<std::int32_t> sources;

  bool are(const Shuffles& other) const {
    return rows == other.rows && permutations == other.permutations && tilePermutations == other.tilePermutations &&
           seed == other.seed;
  }
};

// The last ones used, within a few megabytes.
class ShuffleCache {
 public:
  static constexpr std::int64_t kMostEntries = 1 << 20;

  std::shared_ptr<const Shuffles> find(const Shuffles& wanted) {
    const std::lock_guard lock(mutex_);
    for (const auto& known : known_) {
      if (known->are(wanted)) return known;
    }
    return nullptr;
  }

  void keep(std::shared_ptr<const Shuffles> shuffles) {
    const std::lock_guard lock(mutex_);
    known_.push_front(std::move(shuffles));
    std::int64_t entries = 0;
    for (std::size_t i = 0; i < known_.size(); i++) {
      entries += static_cast<std::int64_t>(known_[i]->sources.size());
      if (entries > kMostEntries && i > 0) known_.resize(i);
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<const Shuffles>> known_;
};

ShuffleCache& shuffleCache() {
  static ShuffleCache* const cache = new ShuffleCache;  // never destroyed: threads may outlive static objects
  return *cache;
}

// One worker's.
struct Scratch {
  std::vector<std::int32_t> order, sources;
  std::vector<double> perToken;
  std::vector<Contribution> row, figures;
  std::vector<Levels> levels;
};

}  // namespace

Outcome permutationPValues(const InferenceInput& input, const RowSums& sums, double pValues[kFigures], ThreadPool& pool,
                           JobControl& control) {
  const std::int64_t rows = input.rows, permutations = input.permutations;
  std::fill_n(pValues, static_cast<int>(kFigures), std::numeric_limits<double>::quiet_NaN());
  if (permutations < 1 || rows < 1) return Outcome::Done;

  // As few as occupy all threads: every tile computes once more what rows add.
  const std::int64_t each = (permutations + pool.threads() - 1) / pool.threads();
  const std::int64_t most = std::clamp(each, kMinTilePermutations, kMaxTilePermutations);
  const std::int64_t tilePermutations = std::clamp<std::int64_t>(kTileEntries / rows, 1, most);
  const std::int64_t tiles = (permutations + tilePermutations - 1) / tilePermutations;
  const std::int32_t* const own = input.labels.own;
  std::vector<Scratch> scratch(static_cast<std::size_t>(pool.threads()));
  const Shuffles wanted{rows, permutations, tilePermutations, input.seed, {}};
  std::shared_ptr<const Shuffles> known = shuffleCache().find(wanted);
  std::shared_ptr<Shuffles> drawn;
  if (known == nullptr && permutations <= ShuffleCache::kMostEntries / rows) {
    drawn = std::make_shared<Shuffles>(wanted);
    drawn->sources.resize(static_cast<std::size_t>(rows * permutations));
  }
  for (Scratch& own : scratch) {
    own.perToken.resize(static_cast<std::size_t>(input.columns));
    own.row.resize(static_cast<std::size_t>(kRowsAtOnce * input.columns));
    own.figures.resize(static_cast<std::size_t>(tilePermutations));
    own.levels.resize(static_cast<std::size_t>(tilePermutations));
    if (known != nullptr) continue;
    own.order.resize(static_cast<std::size_t>(rows));
    if (drawn == nullptr) own.sources.resize(static_cast<std::size_t>(rows * tilePermutations));
  }

  // The last row first, as the shuffles do.
  Contribution observed = {};
  Levels observedLevels;
  for (std::int64_t r = rows - 1; r >= 0; r--) {
    addUnder(input, sums, r, own[r], observed);
    if (r % kCountedRows == 0) observedLevels.take(observed);
  }
  const double least[kSums] = {observed.part[0] - kTie * sums.scoreScale,
                               observed.part[1] - kTie * sums.scoreScaleToken,
                               observed.part[2] - kTie * sums.scoreScale};
  std::int64_t observedHits[kHitFigures], hits = 0;
  for (int hit = 0; hit < kHitFigures; hit++) observedHits[hit] = hits += observedLevels.count[hit];

  std::atomic<std::int64_t> reached[kSums + kHitFigures] = {};
  const Outcome outcome = pool.run(tiles, control, [&](std::int64_t tile, int worker) {
    Scratch& mine = scratch[static_cast<std::size_t>(worker)];
    const std::int64_t first = tile * tilePermutations, size = std::min(permutations - first, tilePermutations);
    const std::int32_t* sources;
    if (known != nullptr) {
      sources = known->sources.data() + first * rows;
    } else {
      std::int32_t* const target = drawn != nullptr ? drawn->sources.data() + first * rows : mine.sources.data();
      shuffle(rows, input.seed, first, size, mine.order.data(), target);
      sources = target;
    }
    std::fill_n(mine.figures.begin(), size, Contribution{});
    std::fill_n(mine.levels.begin(), size, Levels{});
    for (std::int64_t end = rows; end > 0;) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      const std::int64_t begin = std::max<std::int64_t>(0, end - kCheckedRows);
      addRowsWide(input, sums, begin, end, sources, size, mine.perToken.data(), mine.row.data(), mine.figures.data());
      for (std::int64_t i = 0; i < size; i++) mine.levels[i].take(mine.figures[i]);
      end = begin;
    }
    std::int64_t count[kSums + kHitFigures] = {};
    for (std::int64_t i = 0; i < size; i++) {
      // Infinities of both signs make NaN: counted as reached, which errs against the figure.
      for (int k = 0; k < kSums; k++) count[k] += !(mine.figures[i].part[k] < least[k]);
      std::int64_t permutedHits = 0;
      for (int hit = 0; hit < kHitFigures; hit++) {
        permutedHits += mine.levels[i].count[hit];
        count[kSums + hit] += permutedHits >= observedHits[hit];
      }
    }
    for (int i = 0; i < kSums + kHitFigures; i++) reached[i].fetch_add(count[i], std::memory_order_relaxed);
    control.doneUnits.fetch_add(size * rows, std::memory_order_relaxed);
  });
  if (outcome == Outcome::Cancelled || control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  if (drawn != nullptr) shuffleCache().keep(std::move(drawn));

  constexpr int kSumOf[kMiFigures] = {0, 2, 1, 1};
  const auto exact = [&](int i) {
    return static_cast<double>(1 + reached[i].load()) / static_cast<double>(permutations + 1);
  };
  for (int f = 0; f < kMiFigures; f++) pValues[f] = exact(kSumOf[f]);
  for (int hit = 0; hit < kHitFigures; hit++) pValues[kRetrieval1 + hit] = exact(kSums + hit);
  return Outcome::Done;
}

}  // namespace collapsar
