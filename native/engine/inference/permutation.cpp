// Permutations are cut into tiles; what a tile yields is a count, so that the order of tiles cannot matter.
#include "permutation.h"

#include <algorithm>
#include <vector>

#include "engine/special_values.h"
#include "engine/vector_width.h"
#include "label_shuffles.h"

namespace collapsar {

namespace {

// Relative to the sum over rows of the largest |score|: above the rounding of the scores themselves and of sums of up
// to 2^31 rows in practice, far below anything that a reader could tell apart.
constexpr double kTie = 0x1p-40;

constexpr std::int64_t kMinTilePermutations = 64;
constexpr std::int64_t kMaxTilePermutations = 512;  // their figures stay in a first-level cache
// Rows times permutations in one tile, where rows allow: every tile reads all scores once more.
constexpr std::int64_t kTileEntries = 1 << 21;
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
// Between looks at `cancelled`, a millisecond or two apart: of rows that are laid out (laysOut), and of others, each
// label of which is looked up in tables that no cache may hold.
constexpr std::int64_t kCheckedRows = 2048, kCheckedRowsLookedUp = 256;
static_assert(kCheckedRows <= kCountedRows && kCheckedRowsLookedUp <= kCountedRows, "counts are moved on in time");
constexpr std::int64_t kCheckedScores = 1 << 18;
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

// What one row adds, label by label, from tables.
class Row {
 public:
  Row(const InferenceInput& input, const RowSums& tables, std::int64_t r)
      : scores_(input.scores + r * input.columns),
        loo_(tables.looValues.data() + r * input.columns),
        levels_(tables.levels.data() + r * input.columns),
        length_(static_cast<double>(input.labels.lengths[r] > 1 ? input.labels.lengths[r] : 1)) {}

  // Not returned: how functions return as many doubles depends on the instruction set, of which GCC warns.
  inline __attribute__((always_inline)) void under(std::int64_t label, Doubles4& added) const {
    added = Doubles4{scores_[label], scores_[label] / length_, loo_[label], kLevelCodes[levels_[label]]};
  }

  // Under every label. scratch: [columns]
  inline __attribute__((always_inline)) void underAll(std::int64_t columns, double* scratch, Contribution* row) const {
    // Apart, because divisions go four at a time here, and one at a time below.
    for (std::int64_t label = 0; label < columns; label++) scratch[label] = scores_[label] / length_;
    for (std::int64_t label = 0; label < columns; label++) {
      row[label].part = Doubles4{scores_[label], scratch[label], loo_[label], kLevelCodes[levels_[label]]};
    }
  }

 private:
  const double* scores_;
  const double* loo_;
  const std::uint8_t* levels_;
  double length_;
};

// Where what a row adds comes from.
enum class Source {
  LaidOut,   // tables, gone through once for every label
  LookedUp,  // tables, at the labels of a tile alone
  Computed,  // computed anew at the labels of a tile
};

// What a row adds under every label is laid out beforehand where permutations are as many as labels. With fewer, most
// of it would not be looked up: at 16384 x 1024 with 128 permutations a tile that takes twice as long.
Source sourceOf(const RowSums& tables, std::int64_t permutations, std::int64_t columns) {
  if (!tables.looTerms.empty()) return Source::Computed;
  return permutations >= columns ? Source::LaidOut : Source::LookedUp;
}

// Doubles that kernels write whole vectors of.
std::size_t paddedTo(std::int64_t count) {
  return static_cast<std::size_t>((count + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles);
}

// One worker's. Allocated before threads start: one that throws has nowhere to report it.
struct Scratch {
  std::vector<double> perToken;       // [columns] where rows are laid out
  std::vector<Contribution> row;      // [kRowsAtOnce, columns] likewise, or [kRowsAtOnce, tilePermutations] computed
  std::vector<Contribution> figures;  // [tilePermutations]
  std::vector<Levels> levels;         // [tilePermutations]
  // Where values are computed: [columns] by signature; [tilePermutations]; [columns] where columns share signatures.
  std::vector<std::uint8_t> hitLevels;
  std::vector<double> terms, columnTerms, signatureSums;

  Scratch(Source source, std::int64_t tilePermutations, const InferenceInput& input, const StepColumns& columns)
      : figures(static_cast<std::size_t>(tilePermutations)), levels(static_cast<std::size_t>(tilePermutations)) {
    if (source == Source::LaidOut) {
      perToken.resize(static_cast<std::size_t>(input.columns));
      row.resize(static_cast<std::size_t>(kRowsAtOnce * input.columns));
    } else if (source == Source::Computed) {
      row.resize(static_cast<std::size_t>(kRowsAtOnce * tilePermutations));
      hitLevels.resize(static_cast<std::size_t>(input.columns), kNoHit);
      terms.resize(paddedTo(tilePermutations));
      if (columns.distinct == input.columns) return;
      columnTerms.resize(paddedTo(input.columns));
      signatureSums.resize(static_cast<std::size_t>(input.columns));
    }
  }
};

// All that a tile's rows are added from.
struct Tables {
  const InferenceInput& input;
  const StepColumns& columns;
  const RowSums& sums;
  const KernelTable& table;
};

// What a row adds under each label of a tile: the leave-one-out values as LabelValues computes them, bit for bit.
template <typename Tile>
inline __attribute__((always_inline)) void computeRow(const Tables& from, std::int64_t r, const Tile& tile,
                                                      Scratch& scratch, Contribution* out) {
  const InferenceInput& input = from.input;
  const std::int64_t columns = input.columns;
  const double* const scores = input.scores + r * columns;
  const std::int32_t* const signature = from.columns.signature.data();
  const LooTerms& loo = from.sums.looTerms[static_cast<std::size_t>(r)];
  const auto length = static_cast<double>(input.labels.lengths[r] > 1 ? input.labels.lengths[r] : 1);
  double* const terms = scratch.terms.data();
  if (from.columns.distinct == columns) {
    for (std::int64_t i = 0; i < tile.size; i++) terms[i] = scores[tile.label(i, r)] - loo.top;
    from.table.exponentials(terms, tile.size, terms);
    for (std::int64_t i = 0; i < tile.size; i++) terms[i] = loo.total - terms[i];
  } else {
    double* const all = scratch.columnTerms.data();
    double* const sums = scratch.signatureSums.data();
    for (std::int64_t p = 0; p < columns; p++) all[p] = scores[p] - loo.top;
    from.table.exponentials(all, columns, all);
    for (std::int64_t s = 0; s < columns; s++) sums[s] = 0;
    for (std::int64_t p = 0; p < columns; p++) sums[signature[p]] += all[p];
    for (std::int64_t i = 0; i < tile.size; i++) terms[i] = loo.total - sums[signature[tile.label(i, r)]];
  }
  from.table.logarithms(terms, tile.size, terms);

  const int topCount = static_cast<int>(std::min<std::int64_t>(columns, kTopColumns));
  const std::int32_t* const top = from.sums.topColumns.data() + r * kTopColumns;
  std::uint8_t* const levels = scratch.hitLevels.data();
  setHitLevels(top, topCount, from.columns, levels);
  for (std::int64_t i = 0; i < tile.size; i++) {
    const std::int32_t label = static_cast<std::int32_t>(tile.label(i, r)), mine = signature[label];
    const std::int64_t others = columns - from.columns.sharing[static_cast<std::size_t>(mine)];
    const double logRest = mine == loo.heavy ? loo.heavyLogRest : terms[i], score = scores[label];
    const double excess = score - (loo.top + logRest - from.columns.logOthers[static_cast<std::size_t>(others)]);
    const double value = others < 1 ? kNaN : score == -kInfinity ? -kInfinity : excess;
    out[i].part = Doubles4{score, score / length, value, kLevelCodes[levels[mine]]};
  }
  for (int i = 0; i < topCount; i++) levels[signature[top[i]]] = kNoHit;
}

// Rows [begin, end), the last first, to the figures of a tile's labellings. Rows are taken by fours, each figure being
// read and written once for the four; the order of additions stays that of single rows.
template <Source kSource, typename Tile>
inline __attribute__((always_inline)) void addRows(const Tables& from, std::int64_t begin, std::int64_t end,
                                                   const Tile& tile, Scratch& scratch) {
  const InferenceInput& input = from.input;
  const std::int64_t columns = input.columns;
  Contribution* const figures = scratch.figures.data();
  Contribution* const laidOut = scratch.row.data();
  std::int64_t r = end - 1;
  for (; r - (kRowsAtOnce - 1) >= begin; r -= kRowsAtOnce) {
    const Row rows[kRowsAtOnce] = {
        {input, from.sums, r}, {input, from.sums, r - 1}, {input, from.sums, r - 2}, {input, from.sums, r - 3}};
    for (std::int64_t k = 0; k < kRowsAtOnce; k++) {
      if constexpr (kSource == Source::LaidOut) {
        rows[k].underAll(columns, scratch.perToken.data(), laidOut + k * columns);
      } else if constexpr (kSource == Source::Computed) {
        computeRow(from, r - k, tile, scratch, laidOut + k * tile.size);
      }
    }
    for (std::int64_t i = 0; i < tile.size; i++) {
      Doubles4 figure = figures[i].part;
      for (std::int64_t k = 0; k < kRowsAtOnce; k++) {
        Doubles4 added;
        if constexpr (kSource == Source::LaidOut) {
          added = laidOut[k * columns + tile.label(i, r - k)].part;
        } else if constexpr (kSource == Source::Computed) {
          added = laidOut[k * tile.size + i].part;
        } else {
          rows[k].under(tile.label(i, r - k), added);
        }
        figure += added;
      }
      figures[i].part = figure;
    }
  }
  for (; r >= begin; r--) {
    if constexpr (kSource == Source::Computed) {
      computeRow(from, r, tile, scratch, laidOut);
      for (std::int64_t i = 0; i < tile.size; i++) figures[i].part += laidOut[i].part;
    } else {
      const Row row(input, from.sums, r);
      for (std::int64_t i = 0; i < tile.size; i++) {
        Doubles4 added;
        row.under(tile.label(i, r), added);
        figures[i].part += added;
      }
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
template <Source kSource, typename Tile>
COLLAPSAR_AVX2 void addRowsAvx2(const Tables& from, std::int64_t begin, std::int64_t end, const Tile& tile,
                                Scratch& scratch) {
  addRows<kSource>(from, begin, end, tile, scratch);
}
#endif

template <Source kSource, typename Tile>
void addRowsWide(const Tables& from, std::int64_t begin, std::int64_t end, const Tile& tile, Scratch& scratch) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (vectorBytes() >= 32) return addRowsAvx2<kSource>(from, begin, end, tile, scratch);
#endif
  addRows<kSource>(from, begin, end, tile, scratch);
}

// The figures of a tile's labellings, in scratch.figures and scratch.levels. Stops early where cancelled.
template <typename Tile>
void addTile(const Tables& from, const Tile& tile, Scratch& scratch, const JobControl& control) {
  const std::int64_t columns = from.input.columns;
  const Source source = sourceOf(from.sums, tile.size, columns);
  std::int64_t rowsAtOnce = source == Source::LaidOut ? kCheckedRows : kCheckedRowsLookedUp;
  // Where columns share signatures, every row takes a pass over its columns.
  if (!scratch.columnTerms.empty()) rowsAtOnce = std::clamp<std::int64_t>(kCheckedScores / columns, 1, rowsAtOnce);
  std::fill_n(scratch.figures.begin(), tile.size, Contribution{});
  std::fill_n(scratch.levels.begin(), tile.size, Levels{});
  for (std::int64_t end = from.input.rows; end > 0;) {
    if (control.cancelled.load(std::memory_order_relaxed)) return;
    const std::int64_t begin = std::max<std::int64_t>(0, end - rowsAtOnce);
    switch (source) {
      case Source::LaidOut:
        addRowsWide<Source::LaidOut>(from, begin, end, tile, scratch);
        break;
      case Source::LookedUp:
        addRowsWide<Source::LookedUp>(from, begin, end, tile, scratch);
        break;
      case Source::Computed:
        addRowsWide<Source::Computed>(from, begin, end, tile, scratch);
        break;
    }
    for (std::int64_t i = 0; i < tile.size; i++) scratch.levels[i].take(scratch.figures[i]);
    end = begin;
  }
}

}  // namespace

Outcome permutationPValues(const InferenceInput& input, const StepColumns& columns, const RowSums& sums,
                           double pValues[kFigures], ThreadPool& pool, JobControl& control) {
  const std::int64_t rows = input.rows, permutations = input.permutations;
  std::fill_n(pValues, static_cast<int>(kFigures), kNaN);
  if (permutations < 1 || rows < 1) return Outcome::Done;

  // As few as occupy all threads: every tile computes once more what rows add.
  const std::int64_t each = (permutations + pool.threads() - 1) / pool.threads();
  const std::int64_t most = std::clamp(each, kMinTilePermutations, kMaxTilePermutations);
  const std::int64_t tilePermutations = std::clamp<std::int64_t>(kTileEntries / rows, 1, most);
  const std::int64_t tiles = (permutations + tilePermutations - 1) / tilePermutations;
  const Source source = sourceOf(sums, tilePermutations, input.columns);
  std::vector<Scratch> scratch(static_cast<std::size_t>(pool.threads()),
                               Scratch(source, tilePermutations, input, columns));
  const Tables tables{input, columns, sums, kernels()};
  LabelShuffles shuffles({input.labels.own, rows, input.columns, permutations, input.seed}, tilePermutations,
                         pool.threads());

  // The last row first, as the shuffles do.
  Contribution observed = {};
  Levels observedLevels;
  for (std::int64_t r = rows - 1; r >= 0; r--) {
    const double score = input.scores[r * input.columns + input.labels.own[r]];
    const auto length = static_cast<double>(input.labels.lengths[r] > 1 ? input.labels.lengths[r] : 1);
    int level = kNoHit;
    for (int hit = 0; hit < kHitFigures; hit++) level -= sums.values[kRetrieval1 + hit][r] > 0;
    observed.part += Doubles4{score, score / length, sums.values[kMiSeqLoo][r], kLevelCodes[level]};
    if (r % kCountedRows == 0) observedLevels.take(observed);
  }
  const double least[kSums] = {observed.part[0] - kTie * sums.scoreScale,
                               observed.part[1] - kTie * sums.scoreScaleToken,
                               observed.part[2] - kTie * sums.scoreScale};
  std::int64_t observedHits[kHitFigures], hits = 0;
  for (int hit = 0; hit < kHitFigures; hit++) observedHits[hit] = hits += observedLevels.count[hit];

  std::atomic<std::int64_t> reached[kSums + kHitFigures] = {};
  const Outcome outcome = pool.run(tiles, control, [&](std::int64_t index, int worker) {
    Scratch& mine = scratch[static_cast<std::size_t>(worker)];
    const std::int64_t first = index * tilePermutations, size = std::min(permutations - first, tilePermutations);
    shuffles.withTile(first, size, worker, control, [&](const auto& tile) { addTile(tables, tile, mine, control); });
    if (control.cancelled.load(std::memory_order_relaxed)) return;
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
  shuffles.keep();

  constexpr int kSumOf[kMiFigures] = {0, 2, 1, 1};
  const auto exact = [&](int i) {
    return static_cast<double>(1 + reached[i].load()) / static_cast<double>(permutations + 1);
  };
  for (int f = 0; f < kMiFigures; f++) pValues[f] = exact(kSumOf[f]);
  for (int hit = 0; hit < kHitFigures; hit++) pValues[kRetrieval1 + hit] = exact(kSums + hit);
  return Outcome::Done;
}

}  // namespace collapsar
