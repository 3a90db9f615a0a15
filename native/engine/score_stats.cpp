// Walks the rows of a score matrix block by block through the kernels, in the order of memory (in groups, where rows
// lie side by side). The block grid counts from a row's first column, so that tiles and threads cannot change a bit.
// Very long rows are cut into leaves that threads share and that are merged in order.
#include "score_stats.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "best_columns.h"
#include "columns_by_signature.h"
#include "compute_in_order.h"
#include "deterministic_math.h"
#include "engine/simd/kernel_table.h"
#include "special_values.h"
#include "with_type.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileElements = 1 << 17;
constexpr std::int64_t kGroupRows = kBatchRows;
constexpr std::int64_t kPackedStride = kBlockColumns + 32;  // not a power of two: the rows would share their cache sets
constexpr std::int64_t kLeafColumns = 1 << 18;
constexpr std::int64_t kLeavesKept = 4096;  // at a time, of long rows: about a megabyte

// The kernels for scores of type T.
template <class T>
struct Kernels {
  using C = ComputeOf<T>;
  using AddColumns = void (*)(const void*, std::int64_t, std::int64_t, const std::int32_t*, std::int64_t, RowState<C>*,
                              BlockScratch<C>*);
  using AddNarrowRows = void (*)(const void*, std::int64_t, std::int64_t, int, int, const std::int32_t*, const C*,
                                 NarrowRows<C>*, NarrowScratch<C>*);
  AddColumns addColumns;
  AddNarrowRows addNarrowRows;

  Kernels(const KernelTable& table, DType dtype) {
    if constexpr (std::is_same_v<C, double>) {
      addColumns = table.addColumns64;
      addNarrowRows = table.addNarrowRows64;
    } else {
      addColumns = table.addColumns32[static_cast<std::size_t>(dtype)];
      addNarrowRows = table.addNarrowRows32[static_cast<std::size_t>(dtype)];
    }
  }
};

// Where statistics go that cannot be written in place: a batch of fewer rows, and fields that nobody wants.
struct SpareFields {
  double field[7][kBatchRows];
};

static_assert(kLeafColumns % kBlockColumns == 0 && kLeafColumns > kNarrowColumns);

// Which groups of columns of a row have a NaN or +inf.
struct Marks {
  bool nanOthers = false, infinityOthers = false, nanSame = false;

  void merge(Marks other) {
    nanOthers |= other.nanOthers;
    infinityOthers |= other.infinityOthers;
    nanSame |= other.nanSame;
  }
};

// What comes out of one leaf of a row, or of those that were merged.
template <class C>
struct Leaf {
  RowState<C> state;
  Marks marks;
};

// Of the columns equivalent to a row's own the first in the order of scores.
template <class C>
struct BestSame {
  C score;
  std::int32_t column;
};

void rescaleTo(GroupSums& group, double reference, double length) {
  const double fall = group.reference - reference;
  const double scale = deterministicExp(fall), scaleToken = deterministicExp(fall / length);
  group.t = scale * __builtin_fma(group.s, fall > -708.0 ? fall : -708.0, group.t);
  group.s *= scale;
  group.sLow *= scale;
  group.sToken *= scaleToken;
  group.sTokenLow *= scaleToken;
  group.reference = reference;
}

void mergeSums(GroupSums& group, GroupSums other, double length) {
  const bool invalid = group.invalid || other.invalid;
  if (group.reference == -kInfinity) {
    group = other;
  } else if (other.reference != -kInfinity) {
    if (group.reference < other.reference) rescaleTo(group, other.reference, length);
    if (other.reference < group.reference) rescaleTo(other, group.reference, length);
    addExactly(group.s, group.sLow, other.s);
    addExactly(group.sToken, group.sTokenLow, other.sToken);
    group.sLow += other.sLow;
    group.sTokenLow += other.sTokenLow;
    group.t += other.t;
  }
  group.invalid = invalid;
}

// What one thread needs: under half a megabyte.
template <class T>
struct Workspace {
  using C = ComputeOf<T>;
  alignas(64) BlockScratch<C> block;
  alignas(64) NarrowScratch<C> turned;
  alignas(64) NarrowRows<C> narrow;
  T packed[kGroupRows * kPackedStride];  // of matrices whose columns do not lie side by side
  RowState<C> rows[kGroupRows];
  const std::int32_t* same[kGroupRows];  // what is left of the row's equivalent columns
  const std::int32_t* sameEnd[kGroupRows];
};

template <class T>
class RowWalker {
  using C = ComputeOf<T>;

 public:
  RowWalker(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, const JobControl& control)
      : scores_(scores),
        rows_(rows),
        out_(out),
        data_(static_cast<const T*>(scores.data)),
        kernels_(kernels()),
        typed_(kernels_, scores.dtype),
        equivalents_(rows.signature, scores.columns, &control.cancelled),
        cancelled_(control.cancelled) {
    logColumns_ = kernels_.log(static_cast<double>(scores.columns));
    logOthers_ = logOf(scores.columns - 1);
    if (rows.signature == nullptr) return;
    if (isNarrow()) labels_.assign(rows.signature, rows.signature + scores.columns);
    // A logarithm a column or one a row: whichever are fewer.
    for (std::int64_t c = 0; scores.columns <= scores.rows && c < scores.columns; c++) {
      logOthersOf_.push_back(logOf(scores.columns - equivalents_.size(static_cast<std::int32_t>(c))));
    }
  }

  bool isNarrow() const { return scores_.columns <= kNarrowColumns; }

  // Rows whose elements alternate in memory are read together.
  std::int64_t groupRows() const {
    return magnitude(scores_.rowStride) < magnitude(scores_.columnStride) ? kGroupRows : 1;
  }

  void walk(std::int64_t firstRow, std::int64_t endRow, Workspace<T>& work) const {
    const bool narrow = isNarrow();
    for (std::int64_t row = firstRow; row < endRow; row += kGroupRows) {
      const std::int64_t count = std::min(kGroupRows, endRow - row);
      narrow ? walkNarrow(row, count, work) : walkWide(row, count, work);
    }
  }

  // One leaf of rows [firstRow, firstRow + count), count <= groupRows(), of which `best` is bestSame().
  void walkLeaf(std::int64_t firstRow, std::int64_t count, std::int64_t leaf, const BestSame<C>* best,
                Workspace<T>& work, Leaf<C>* out) const {
    const std::int64_t begin = leaf * kLeafColumns, end = std::min(begin + kLeafColumns, scores_.columns);
    for (std::int64_t i = 0; i < count; i++) this->begin(firstRow + i, i, begin, best[i], work);
    addRows(firstRow, 0, count, begin, end, work);
    for (std::int64_t i = 0; i < count; i++) {
      out[i] = {work.rows[i], {}};
      RowState<C>& state = out[i].state;
      if (!state.others.invalid && !state.same.invalid) continue;
      const SecondLook look = lookAgain(firstRow + i, begin, end, {state.best, state.bestColumn});
      out[i].marks = look.marks;
      state.largest = look.largest;
      state.argmax = look.argmax;
      state.before = look.before;
    }
  }

  // Takes in the next leaf of a row.
  void merge(Leaf<C>& row, const Leaf<C>& next) const {
    if (isHigher(next.state.largest, row.state.largest)) {
      row.state.largest = next.state.largest;
      row.state.argmax = next.state.argmax;
    }
    row.state.before += next.state.before;
    row.state.above += next.state.above;
    row.state.equal += next.state.equal;
    mergeSums(row.state.others, next.state.others, row.state.length);
    mergeSums(row.state.same, next.state.same, row.state.length);
    row.marks.merge(next.marks);
  }

  // Writes what came out of a row's leaves.
  void finishLeaves(std::int64_t row, const Leaf<C>& merged, Workspace<T>& work) const {
    put(0, merged.state, work);
    finish(row, 1, work, &merged.marks);
  }

  // Ends early where cancelled.
  BestSame<C> bestSame(std::int64_t row) const {
    const std::int32_t* const same = equivalents_.begin(rows_.own + row);
    BestSame<C> best{scoreAt(row, *same), *same};
    for (std::int64_t i = 1; i < equivalents_.size(rows_.own[row]); i++) {
      if (i % kLeafColumns == 0 && cancelled_.load(std::memory_order_relaxed)) break;
      const C score = scoreAt(row, same[i]);
      if (isHigher(score, best.score)) best = {score, same[i]};
    }
    return best;
  }

 private:
  static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  double logOf(std::int64_t columns) const { return columns > 0 ? kernels_.log(static_cast<double>(columns)) : 0.0; }

  const T* element(std::int64_t row, std::int64_t column) const {
    return data_ + row * scores_.rowStride + column * scores_.columnStride;
  }

  C scoreAt(std::int64_t row, std::int64_t column) const { return static_cast<C>(valueOf(*element(row, column))); }

  double lengthOf(std::int64_t row) const { return static_cast<double>(std::max<std::int64_t>(rows_.lengths[row], 1)); }

  void walkNarrow(std::int64_t firstRow, std::int64_t count, Workspace<T>& work) const {
    NarrowRows<C>& narrow = work.narrow;
    for (std::int64_t i = 0; i < count; i++) narrow.length[i] = lengthOf(firstRow + i);
    for (std::int64_t i = count; i < kGroupRows; i++) narrow.length[i] = 1;
    typed_.addNarrowRows(element(firstRow, 0), scores_.rowStride, scores_.columnStride, static_cast<int>(count),
                         static_cast<int>(scores_.columns), rows_.own + firstRow,
                         rows_.signature != nullptr ? labels_.data() : nullptr, &narrow, &work.turned);
    finish(firstRow, count, work);
  }

  void walkWide(std::int64_t firstRow, std::int64_t count, Workspace<T>& work) const {
    for (std::int64_t i = 0; i < count; i++) begin(firstRow + i, i, 0, bestSame(firstRow + i), work);
    // The next group's own scores lie far apart: each would be waited for.
    for (std::int64_t next = firstRow + count; next < std::min(firstRow + count + kGroupRows, scores_.rows); next++) {
      __builtin_prefetch(element(next, rows_.own[next]));
    }
    if (groupRows() > 1) {
      addRows(firstRow, 0, count, 0, scores_.columns, work);
    } else {
      for (std::int64_t i = 0; i < count; i++) addRows(firstRow + i, i, 1, 0, scores_.columns, work);
    }
    for (std::int64_t i = 0; i < count; i++) put(i, work.rows[i], work);
    finish(firstRow, count, work);
  }

  static void put(std::int64_t slot, const RowState<C>& state, Workspace<T>& work) {
    BatchPlaces& places = work.narrow.places;
    putSums(work.narrow.others, slot, state.others);
    putSums(work.narrow.same, slot, state.same);
    work.narrow.length[slot] = state.length;
    places.own[slot] = state.own;
    places.argmax[slot] = state.argmax;
    places.above[slot] = static_cast<std::int32_t>(state.above);
    places.equal[slot] = static_cast<std::int32_t>(state.equal);
    places.before[slot] = static_cast<std::int32_t>(state.before);
  }

  static void putSums(BatchSums& to, std::int64_t i, const GroupSums& from) {
    to.reference[i] = from.reference;
    to.s[i] = from.s + from.sLow;
    to.t[i] = from.invalid ? kNaN : from.t;
    to.sToken[i] = from.sToken + from.sTokenLow;
  }

  // Takes columns [firstColumn, end) of rows that are read together, block by block, into their slots.
  void addRows(std::int64_t firstRow, std::int64_t firstSlot, std::int64_t count, std::int64_t firstColumn,
               std::int64_t end, Workspace<T>& work) const {
    for (std::int64_t column = firstColumn; column < end; column += kBlockColumns) {
      const std::int64_t columns = std::min<std::int64_t>(kBlockColumns, end - column);
      const bool packed = scores_.columnStride != 1;
      if (packed) {
        for (std::int64_t c = 0; c < columns; c++) {
          const T* source = element(firstRow, column + c);
          for (std::int64_t i = 0; i < count; i++) work.packed[i * kPackedStride + c] = source[i * scores_.rowStride];
        }
      }
      for (std::int64_t i = 0; i < count; i++) {
        const std::int32_t*& same = work.same[firstSlot + i];
        const std::int32_t* sameHere = same;
        while (same < work.sameEnd[firstSlot + i] && *same < column + columns) same++;
        const T* source = packed ? work.packed + i * kPackedStride : element(firstRow + i, column);
        typed_.addColumns(source, columns, column, sameHere, same - sameHere, &work.rows[firstSlot + i], &work.block);
      }
    }
  }

  // Before the columns of `row` from `column` on.
  void begin(std::int64_t row, std::int64_t slot, std::int64_t column, const BestSame<C>& best,
             Workspace<T>& work) const {
    RowState<C>& state = work.rows[slot];
    state.own = scoreAt(row, rows_.own[row]);
    state.best = best.score;
    state.bestColumn = best.column;
    state.length = lengthOf(row);
    state.largest = static_cast<C>(-kInfinity);
    state.argmax = static_cast<std::int32_t>(column);
    state.above = state.equal = state.before = 0;
    state.others = state.same = {-kInfinity, 0, 0, 0, 0, 0, false};
    const std::int32_t* const same = equivalents_.begin(rows_.own + row);
    work.sameEnd[slot] = same + equivalents_.size(rows_.own[row]);
    work.same[slot] = column == 0 ? same : std::lower_bound(same, work.sameEnd[slot], column);
  }

  // marks: of a single row whose places are right already; null where rows with NaN or +inf must be looked at.
  void finish(std::int64_t firstRow, std::int64_t count, Workspace<T>& work, const Marks* marks = nullptr) const {
    BatchPlaces& places = work.narrow.places;
    const BatchSums &others = work.narrow.others, &same = work.narrow.same;
    double logOthers[kGroupRows];
    std::fill_n(logOthers, kGroupRows, logOthers_);
    for (std::int64_t i = 0; rows_.signature != nullptr && i < count; i++) {
      const std::int32_t own = rows_.own[firstRow + i];
      logOthers[i] = logOthersOf_.empty() ? logOf(scores_.columns - equivalents_.size(own))
                                          : logOthersOf_[static_cast<std::size_t>(own)];
    }

    double* const wanted[7] = {out_.matchedSeq,     out_.matchedToken,     out_.marginalSeq,     out_.marginalToken,
                               out_.looMarginalSeq, out_.looMarginalToken, out_.posteriorEntropy};
    SpareFields spare;
    double* to[7];
    const bool whole = count == kGroupRows;
    for (int f = 0; f < 7; f++) to[f] = whole && wanted[f] != nullptr ? wanted[f] + firstRow : spare.field[f];
    const BatchFields fields = {to[0], to[1], to[2], to[3], to[4], to[5], to[6]};
    kernels_.finishRows(&others, &same, places.own, work.narrow.length, logColumns_, logOthers, static_cast<int>(count),
                        &fields);

    bool valid = true;
    for (std::int64_t i = 0; i < count; i++) valid &= others.t[i] == others.t[i] && same.t[i] == same.t[i];
    for (std::int64_t i = 0; !valid && i < count; i++) {
      if (others.t[i] == others.t[i] && same.t[i] == same.t[i]) continue;
      if (marks == nullptr) {
        const SecondLook look = lookAgain(firstRow + i, 0, scores_.columns, bestSame(firstRow + i));
        places.argmax[i] = look.argmax;
        places.before[i] = look.before;
        finishInvalid(i, look.marks, fields);
      } else {
        finishInvalid(i, *marks, fields);
      }
    }
    if (rows_.signature != nullptr || scores_.columns == 1) {
      for (std::int64_t i = 0; i < count; i++) {
        if (equivalents_.size(rows_.own[firstRow + i]) < scores_.columns) continue;
        fields.looMarginalSeq[i] = fields.looMarginalToken[i] = kNaN;
      }
    }
    for (int f = 0; !whole && f < 7; f++) {
      if (wanted[f] != nullptr) std::copy_n(to[f], count, wanted[f] + firstRow);
    }

    put(out_.argmax, firstRow, count, places.argmax);
    put(out_.rankAbove, firstRow, count, places.above);
    put(out_.rankEqual, firstRow, count, places.equal);
    put(out_.hitRank, firstRow, count, places.before);
  }

  static void put(std::int32_t* field, std::int64_t firstRow, std::int64_t count, const std::int32_t* values) {
    if (field == nullptr) return;
    if (count == kGroupRows) {  // a constant, which the compiler needs no call for
      std::copy_n(values, kGroupRows, field + firstRow);
    } else {
      std::copy_n(values, count, field + firstRow);
    }
  }

  // A row with NaN or +inf.
  static void finishInvalid(std::int64_t slot, Marks marks, const BatchFields& sums) {
    const double marginal = marks.nanOthers || marks.nanSame ? kNaN : kInfinity;
    sums.marginalSeq[slot] = sums.marginalToken[slot] = marginal;
    sums.posteriorEntropy[slot] = kNaN;
    if (marks.nanOthers || marks.infinityOthers) {
      sums.looMarginalSeq[slot] = sums.looMarginalToken[slot] = marks.nanOthers ? kNaN : kInfinity;
    }
  }

  struct SecondLook {
    Marks marks;
    C largest;
    std::int32_t argmax, before;
  };

  // At columns [begin, end) of a row with NaN or +inf, element by element. NaN goes before all others.
  SecondLook lookAgain(std::int64_t row, std::int64_t begin, std::int64_t end, BestSame<C> best) const {
    SecondLook look{{}, scoreAt(row, begin), static_cast<std::int32_t>(begin), 0};
    const std::int32_t* same = equivalents_.begin(rows_.own + row);
    const std::int32_t* sameEnd = same + equivalents_.size(rows_.own[row]);
    same = std::lower_bound(same, sameEnd, begin);
    for (std::int64_t column = begin; column < end; column++) {
      const C x = scoreAt(row, column);
      const bool isSame = same < sameEnd && *same == column;
      same += isSame;
      (isSame ? look.marks.nanSame : look.marks.nanOthers) |= x != x;
      look.marks.infinityOthers |= !isSame && x == static_cast<C>(kInfinity);
      look.before += isHigher(x, best.score) || (column < best.column && !isHigher(best.score, x));
      if (!isHigher(x, look.largest)) continue;
      look.largest = x;
      look.argmax = static_cast<std::int32_t>(column);
    }
    return look;
  }

  const ScoreMatrix& scores_;
  const ScoreRows& rows_;
  const RowStats& out_;
  const T* data_;
  const KernelTable& kernels_;
  Kernels<T> typed_;
  ColumnsBySignature equivalents_;  // with what follows, under 32 bytes a column for all threads together
  const std::atomic<bool>& cancelled_;
  std::vector<C> labels_;            // the signature in the type computed in
  std::vector<double> logOthersOf_;  // of each column that may be own, or empty
  double logColumns_, logOthers_;
};

// Rows of more than a leaf.
template <class T>
Outcome walkLeaves(const ScoreMatrix& scores, const RowWalker<T>& walker,
                   const std::vector<std::unique_ptr<Workspace<T>>>& work, ThreadPool& pool, JobControl& control) {
  using C = ComputeOf<T>;
  const std::int64_t together = walker.groupRows(), leaves = (scores.columns + kLeafColumns - 1) / kLeafColumns;
  const std::int64_t pieces = (scores.rows + together - 1) / together * leaves;
  const std::int64_t places = std::min(kLeavesKept / together, pieces);
  std::vector<Leaf<C>> kept(static_cast<std::size_t>(places * together)), merged(static_cast<std::size_t>(together));
  std::vector<BestSame<C>> best(static_cast<std::size_t>(scores.rows));
  const Outcome looked = pool.run(
      scores.rows, control, [&](std::int64_t row, int) { best[static_cast<std::size_t>(row)] = walker.bestSame(row); });
  if (looked == Outcome::Cancelled) return looked;
  const auto rowOf = [&](std::int64_t piece) { return piece / leaves * together; };
  const auto rowsOf = [&](std::int64_t piece) { return std::min(together, scores.rows - rowOf(piece)); };
  return computeInOrder(
      pieces, places, pool, control,
      [&](std::int64_t piece, std::int64_t place, int worker) {
        const std::int64_t leaf = piece % leaves, rows = rowsOf(piece);
        walker.walkLeaf(rowOf(piece), rows, leaf, best.data() + rowOf(piece), *work[static_cast<std::size_t>(worker)],
                        kept.data() + place * together);
        const std::int64_t columns = std::min(kLeafColumns, scores.columns - leaf * kLeafColumns);
        control.doneUnits.fetch_add(rows * columns, std::memory_order_relaxed);
      },
      [&](std::int64_t piece, std::int64_t place) {
        const std::int64_t leaf = piece % leaves;
        for (std::int64_t i = 0; i < rowsOf(piece); i++) {
          const Leaf<C>& next = kept[static_cast<std::size_t>(place * together + i)];
          Leaf<C>& row = merged[static_cast<std::size_t>(i)];
          if (leaf == 0) {
            row = next;
          } else {
            walker.merge(row, next);
          }
          if (leaf == leaves - 1) walker.finishLeaves(rowOf(piece) + i, row, *work[0]);
        }
      });
}

template <class T>
Outcome walkRows(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, ThreadPool& pool,
                 JobControl& control) {
  control.totalUnits.store(scores.rows * scores.columns, std::memory_order_relaxed);
  if (scores.columns == 0) return Outcome::Done;

  const RowWalker<T> walker(scores, rows, out, control);
  if (control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  std::vector<std::unique_ptr<Workspace<T>>> work;
  for (int worker = 0; worker < pool.threads(); worker++) {
    work.emplace_back(std::make_unique_for_overwrite<Workspace<T>>());
  }
  if (scores.columns > kLeafColumns) return walkLeaves(scores, walker, work, pool, control);
  // Whole groups of rows, so that only the last tile has a part of one.
  const std::int64_t groups = std::max<std::int64_t>(1, kTileElements / (scores.columns * kGroupRows));
  const std::int64_t wanted = groups * kGroupRows;
  const std::int64_t rowsPerTile =
      wanted * scores.columns > 4 * kTileElements ? std::max<std::int64_t>(1, kTileElements / scores.columns) : wanted;
  const std::int64_t tiles = (scores.rows + rowsPerTile - 1) / rowsPerTile;
  return pool.run(tiles, control, [&](std::int64_t tile, int worker) {
    const std::int64_t begin = tile * rowsPerTile, end = std::min(begin + rowsPerTile, scores.rows);
    walker.walk(begin, end, *work[static_cast<std::size_t>(worker)]);
    control.doneUnits.fetch_add((end - begin) * scores.columns, std::memory_order_relaxed);
  });
}

}  // namespace

Outcome scoreStats(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, ThreadPool& pool,
                   JobControl& control) {
  const Outcome outcome =
      withType(scores.dtype, [&](auto type) { return walkRows<decltype(type)>(scores, rows, out, pool, control); });
  const bool best = out.topColumns != nullptr && out.topK > 0 && scores.columns > 0;
  if (outcome == Outcome::Cancelled || !best) return outcome;
  return nameBestColumns(scores, out.topK, out.topColumns, pool, control);
}

}  // namespace collapsar
