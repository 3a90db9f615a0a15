// Walks the rows of a score matrix block by block through the kernels, and writes what comes out at the end of each
// row.
//
// Rows that lie side by side (rowStride smaller than columnStride) go in groups, so that memory is read in order. The
// block grid counts from a row's first column, so that tiles and threads cannot change a bit. Rows of very many columns
// are cut into leaves, each walked as a row of its own; threads share them, and they are merged in their order.
#include "score_stats.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "columns_by_signature.h"
#include "compute_in_order.h"
#include "deterministic_math.h"
#include "engine/simd/kernel_table.h"
#include "half.h"
#include "special_values.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileElements = 1 << 17;
constexpr std::int64_t kGroupRows = kBatchRows;
constexpr std::int64_t kPackedStride = kBlockColumns + 32;  // not a power of two: the rows would share their cache sets
constexpr std::int64_t kLeafColumns = 1 << 18;
constexpr std::int64_t kLeavesKept = 4096;  // at a time, of long rows: about a megabyte

// The kernels for scores that are computed in C.
template <class C>
struct Kernels;
template <>
struct Kernels<double> {
  decltype(KernelTable::addColumns64) addColumns;
  decltype(KernelTable::addNarrowRows64) addNarrowRows;
};
template <>
struct Kernels<float> {
  std::remove_extent_t<decltype(KernelTable::addColumns32)> addColumns;
  std::remove_extent_t<decltype(KernelTable::addNarrowRows32)> addNarrowRows;
};

// Where the statistics of a batch go that cannot be written at once to where they belong: a batch of fewer rows, and
// fields that nobody wants.
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

void raiseReference(GroupSums& group, double reference, double length) {
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
    if (group.reference < other.reference) raiseReference(group, other.reference, length);
    if (other.reference < group.reference) raiseReference(other, group.reference, length);
    addExactly(group.s, group.sLow, other.s);
    addExactly(group.sToken, group.sTokenLow, other.sToken);
    group.sLow += other.sLow;
    group.sTokenLow += other.sTokenLow;
    group.t += other.t;
  }
  group.invalid = invalid;
}

// What one thread needs: under half a megabyte.
template <class T, class C>
struct Workspace {
  alignas(64) BlockScratch<C> block;
  alignas(64) NarrowScratch<C> turned;
  alignas(64) NarrowRows<C> narrow;
  T packed[kGroupRows * kPackedStride];  // of matrices whose columns do not lie side by side
  RowState<C> rows[kGroupRows];
  const std::int32_t* same[kGroupRows];  // what is left of the row's equivalent columns
  const std::int32_t* sameEnd[kGroupRows];
};

template <class T, class C>
class RowWalker {
 public:
  RowWalker(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, Kernels<C> typed,
            const JobControl& control)
      : scores_(scores),
        rows_(rows),
        out_(out),
        data_(static_cast<const T*>(scores.data)),
        kernels_(kernels()),
        typed_(typed),
        equivalents_(rows.signature, scores.columns, &control.cancelled) {
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

  void walk(std::int64_t firstRow, std::int64_t endRow, Workspace<T, C>& work) const {
    const bool narrow = isNarrow();
    for (std::int64_t row = firstRow; row < endRow; row += kGroupRows) {
      const std::int64_t count = std::min(kGroupRows, endRow - row);
      narrow ? walkNarrow(row, count, work) : walkWide(row, count, work);
    }
  }

  // One leaf of rows [firstRow, firstRow + count), count <= groupRows().
  void walkLeaf(std::int64_t firstRow, std::int64_t count, std::int64_t leaf, Workspace<T, C>& work,
                Leaf<C>* out) const {
    const std::int64_t begin = leaf * kLeafColumns, end = std::min(begin + kLeafColumns, scores_.columns);
    for (std::int64_t i = 0; i < count; i++) this->begin(firstRow + i, i, begin, work);
    addRows(firstRow, 0, count, begin, end, work);
    for (std::int64_t i = 0; i < count; i++) {
      out[i] = {work.rows[i], {}};
      RowState<C>& state = out[i].state;
      state.top.filled = static_cast<int>(std::min<std::int64_t>(state.top.filled, end - begin));
      if (state.others.invalid || state.same.invalid) out[i].marks = lookAgain(firstRow + i, begin, end, state.top);
    }
  }

  // Takes in the next leaf of a row.
  void merge(Leaf<C>& row, const Leaf<C>& next) const {
    const TopList<C>& top = next.state.top;
    for (int k = 0; k < top.filled; k++) insertNanFirst(row.state.top, top.value[k], top.column[k]);
    row.state.above += next.state.above;
    row.state.equal += next.state.equal;
    mergeSums(row.state.others, next.state.others, row.state.length);
    mergeSums(row.state.same, next.state.same, row.state.length);
    row.marks.merge(next.marks);
  }

  // Writes what came out of a row's leaves.
  void finishLeaves(std::int64_t row, const Leaf<C>& merged, Workspace<T, C>& work) const {
    put(0, merged.state, work);
    finish(row, 1, work, &merged.marks);
  }

 private:
  static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  double logOf(std::int64_t columns) const { return columns > 0 ? kernels_.log(static_cast<double>(columns)) : 0.0; }

  const T* element(std::int64_t row, std::int64_t column) const {
    return data_ + row * scores_.rowStride + column * scores_.columnStride;
  }

  double lengthOf(std::int64_t row) const { return static_cast<double>(std::max<std::int64_t>(rows_.lengths[row], 1)); }

  void walkNarrow(std::int64_t firstRow, std::int64_t count, Workspace<T, C>& work) const {
    NarrowRows<C>& narrow = work.narrow;
    for (std::int64_t i = 0; i < count; i++) narrow.length[i] = lengthOf(firstRow + i);
    for (std::int64_t i = count; i < kGroupRows; i++) narrow.length[i] = 1;
    typed_.addNarrowRows(element(firstRow, 0), scores_.rowStride, scores_.columnStride, static_cast<int>(count),
                         static_cast<int>(scores_.columns), rows_.own + firstRow,
                         rows_.signature != nullptr ? labels_.data() : nullptr, out_.topK, &narrow, &work.turned);
    finish(firstRow, count, work);
  }

  void walkWide(std::int64_t firstRow, std::int64_t count, Workspace<T, C>& work) const {
    for (std::int64_t i = 0; i < count; i++) begin(firstRow + i, i, 0, work);
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

  static void put(std::int64_t slot, const RowState<C>& state, Workspace<T, C>& work) {
    BatchPlaces& places = work.narrow.places;
    putSums(work.narrow.others, slot, state.others);
    putSums(work.narrow.same, slot, state.same);
    work.narrow.length[slot] = state.length;
    places.own[slot] = state.own;
    places.above[slot] = static_cast<std::int32_t>(state.above);
    places.equal[slot] = static_cast<std::int32_t>(state.equal);
    for (int k = 0; k < state.top.size; k++) places.topColumn[k][slot] = state.top.column[k];
  }

  static void putSums(BatchSums& to, std::int64_t i, const GroupSums& from) {
    to.reference[i] = from.reference;
    to.s[i] = from.s + from.sLow;
    to.t[i] = from.invalid ? kNaN : from.t;
    to.sToken[i] = from.sToken + from.sTokenLow;
  }

  // Takes columns [firstColumn, end) of rows that are read together, block by block, into their slots.
  void addRows(std::int64_t firstRow, std::int64_t firstSlot, std::int64_t count, std::int64_t firstColumn,
               std::int64_t end, Workspace<T, C>& work) const {
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
  void begin(std::int64_t row, std::int64_t slot, std::int64_t column, Workspace<T, C>& work) const {
    RowState<C>& state = work.rows[slot];
    state.own = static_cast<C>(valueOf(*element(row, rows_.own[row])));
    state.length = lengthOf(row);
    state.top.size = std::max(out_.topK, 1);
    state.top.filled = 0;
    state.above = state.equal = 0;
    state.others = state.same = {-kInfinity, 0, 0, 0, 0, 0, false};
    const std::int32_t* const same = equivalents_.begin(rows_.own + row);
    work.sameEnd[slot] = same + equivalents_.size(rows_.own[row]);
    work.same[slot] = column == 0 ? same : std::lower_bound(same, work.sameEnd[slot], column);
  }

  // marks: of a single row whose best columns are right already; null where rows with NaN or +inf must be looked at.
  void finish(std::int64_t firstRow, std::int64_t count, Workspace<T, C>& work, const Marks* marks = nullptr) const {
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
      finishInvalid(i, marks != nullptr ? *marks : lookAgain(firstRow + i, i, places), fields);
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

    put(out_.argmax, firstRow, count, places.topColumn[0]);
    put(out_.rankAbove, firstRow, count, places.above);
    put(out_.rankEqual, firstRow, count, places.equal);
    if (out_.topColumns == nullptr) return;
    std::int32_t* const top = out_.topColumns + firstRow * out_.topK;
    if (whole && out_.topK == kTopListSize) {
      kernels_.turnTopColumns(places.topColumn, top);
      return;
    }
    for (std::int64_t i = 0; i < count; i++) {
      for (int k = 0; k < out_.topK; k++) top[i * out_.topK + k] = places.topColumn[k][i];
    }
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

  Marks lookAgain(std::int64_t row, std::int64_t slot, BatchPlaces& places) const {
    TopList<C> top{};
    top.size = std::max(out_.topK, 1);
    const Marks marks = lookAgain(row, 0, scores_.columns, top);
    for (int k = 0; k < top.size; k++) places.topColumn[k][slot] = top.column[k];
    return marks;
  }

  // A second look at columns [begin, end), element by element; `top` receives the best of them, NaN first.
  Marks lookAgain(std::int64_t row, std::int64_t begin, std::int64_t end, TopList<C>& top) const {
    Marks marks;
    const std::int32_t* same = equivalents_.begin(rows_.own + row);
    const std::int32_t* sameEnd = same + equivalents_.size(rows_.own[row]);
    same = std::lower_bound(same, sameEnd, begin);
    top.filled = 0;
    for (std::int64_t column = begin; column < end; column++) {
      const C x = static_cast<C>(valueOf(*element(row, column)));
      const bool isSame = same < sameEnd && *same == column;
      same += isSame;
      (isSame ? marks.nanSame : marks.nanOthers) |= x != x;
      marks.infinityOthers |= !isSame && x == static_cast<C>(kInfinity);
      insertNanFirst(top, x, static_cast<std::int32_t>(column));
    }
    return marks;
  }

  static void insertNanFirst(TopList<C>& top, C x, std::int32_t column) {
    const auto higher = [](C a, C b) { return b == b && (a != a || a > b); };
    if (top.filled == top.size && !higher(x, top.value[top.size - 1])) return;
    int place = top.filled < top.size ? top.filled++ : top.size - 1;
    for (; place > 0 && higher(x, top.value[place - 1]); place--) {
      top.value[place] = top.value[place - 1];
      top.column[place] = top.column[place - 1];
    }
    top.value[place] = x;
    top.column[place] = column;
  }

  const ScoreMatrix& scores_;
  const ScoreRows& rows_;
  const RowStats& out_;
  const T* data_;
  const KernelTable& kernels_;
  Kernels<C> typed_;
  ColumnsBySignature equivalents_;   // with what follows, under 32 bytes a column for all threads together
  std::vector<C> labels_;            // the signature in the type computed in
  std::vector<double> logOthersOf_;  // of each column that may be own, or empty
  double logColumns_, logOthers_;
};

// Rows of more than a leaf.
template <class T, class C>
Outcome walkLeaves(const ScoreMatrix& scores, const RowWalker<T, C>& walker,
                   const std::vector<std::unique_ptr<Workspace<T, C>>>& work, ThreadPool& pool, JobControl& control) {
  const std::int64_t together = walker.groupRows(), leaves = (scores.columns + kLeafColumns - 1) / kLeafColumns;
  const std::int64_t pieces = (scores.rows + together - 1) / together * leaves;
  const std::int64_t places = std::min(kLeavesKept / together, pieces);
  std::vector<Leaf<C>> kept(static_cast<std::size_t>(places * together)), merged(static_cast<std::size_t>(together));
  const auto rowOf = [&](std::int64_t piece) { return piece / leaves * together; };
  const auto rowsOf = [&](std::int64_t piece) { return std::min(together, scores.rows - rowOf(piece)); };
  return computeInOrder(
      pieces, places, pool, control,
      [&](std::int64_t piece, std::int64_t place, int worker) {
        const std::int64_t leaf = piece % leaves, rows = rowsOf(piece);
        walker.walkLeaf(rowOf(piece), rows, leaf, *work[static_cast<std::size_t>(worker)],
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

template <class T, class C>
Outcome walkRows(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, ThreadPool& pool,
                 JobControl& control, Kernels<C> typed) {
  control.totalUnits.store(scores.rows * scores.columns, std::memory_order_relaxed);
  if (scores.columns == 0) return Outcome::Done;

  const RowWalker<T, C> walker(scores, rows, out, typed, control);
  if (control.cancelled.load(std::memory_order_relaxed)) return Outcome::Cancelled;
  std::vector<std::unique_ptr<Workspace<T, C>>> work;
  for (int worker = 0; worker < pool.threads(); worker++) {
    work.emplace_back(std::make_unique_for_overwrite<Workspace<T, C>>());
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
  const KernelTable& table = kernels();
  const auto type = static_cast<std::size_t>(scores.dtype);
  const Kernels<double> wide{table.addColumns64, table.addNarrowRows64};
  const Kernels<float> narrow{table.addColumns32[type], table.addNarrowRows32[type]};
  switch (scores.dtype) {
    case DType::Float64:
      return walkRows<double, double>(scores, rows, out, pool, control, wide);
    case DType::Float32:
      return walkRows<float, float>(scores, rows, out, pool, control, narrow);
    case DType::Float16:
      return walkRows<Float16Bits, float>(scores, rows, out, pool, control, narrow);
    case DType::BFloat16:
      break;
  }
  return walkRows<BFloat16Bits, float>(scores, rows, out, pool, control, narrow);
}

}  // namespace collapsar
