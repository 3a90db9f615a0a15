// Walks the rows of a score matrix block by block through the kernels, and writes what comes out at the end of each
// row.
//
// Rows that lie side by side (rowStride smaller than columnStride) go in groups, so that memory is read in order. The
// block grid counts from a row's first column, so that tiles and threads cannot change a bit.
#include "score_stats.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "columns_by_signature.h"
#include "engine/simd/kernel_table.h"
#include "half.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileElements = 1 << 17;
constexpr std::int64_t kGroupRows = kBatchRows;
constexpr std::int64_t kPackedStride = kBlockColumns + 32;  // not a power of two: the rows would share their cache sets
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  RowWalker(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, Kernels<C> typed)
      : scores_(scores),
        rows_(rows),
        out_(out),
        data_(static_cast<const T*>(scores.data)),
        kernels_(kernels()),
        typed_(typed),
        equivalents_(rows.signature, scores.columns) {
    logColumns_ = kernels_.log(static_cast<double>(scores.columns));
    logOthers_ = logOf(scores.columns - 1);
    if (rows.signature == nullptr) return;
    logOthersOf_.resize(static_cast<std::size_t>(scores.columns));
    labels_.reserve(static_cast<std::size_t>(scores.columns));
    for (std::int64_t c = 0; c < scores.columns; c++) {
      const auto column = static_cast<std::int32_t>(c);
      logOthersOf_[static_cast<std::size_t>(c)] = logOf(scores.columns - equivalents_.size(column));
      labels_.push_back(static_cast<C>(rows.signature[c]));
    }
  }

  void walk(std::int64_t firstRow, std::int64_t endRow, Workspace<T, C>& work) const {
    const bool narrow = scores_.columns <= kNarrowColumns;
    for (std::int64_t row = firstRow; row < endRow; row += kGroupRows) {
      const std::int64_t count = std::min(kGroupRows, endRow - row);
      narrow ? walkNarrow(row, count, work) : walkWide(row, count, work);
    }
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
    for (std::int64_t i = 0; i < count; i++) begin(firstRow + i, i, work);
    // The next group's own scores lie far apart: each would be waited for.
    for (std::int64_t next = firstRow + count; next < std::min(firstRow + count + kGroupRows, scores_.rows); next++) {
      __builtin_prefetch(element(next, rows_.own[next]));
    }
    if (magnitude(scores_.rowStride) < magnitude(scores_.columnStride)) {
      addRows(firstRow, 0, count, work);
    } else {
      for (std::int64_t i = 0; i < count; i++) addRows(firstRow + i, i, 1, work);
    }
    BatchPlaces& places = work.narrow.places;
    for (std::int64_t i = 0; i < count; i++) {
      const RowState<C>& state = work.rows[i];
      putSums(work.narrow.others, i, state.others);
      putSums(work.narrow.same, i, state.same);
      work.narrow.length[i] = state.length;
      places.own[i] = state.own;
      places.above[i] = static_cast<std::int32_t>(state.above);
      places.equal[i] = static_cast<std::int32_t>(state.equal);
      for (int k = 0; k < state.top.size; k++) places.topColumn[k][i] = state.top.column[k];
    }
    finish(firstRow, count, work);
  }

  static void putSums(BatchSums& to, std::int64_t i, const GroupSums& from) {
    to.reference[i] = from.reference;
    to.s[i] = from.s + from.sLow;
    to.t[i] = from.invalid ? kNaN : from.t;
    to.sToken[i] = from.sToken + from.sTokenLow;
  }

  // Takes rows that are read together, block by block, into their slots.
  void addRows(std::int64_t firstRow, std::int64_t firstSlot, std::int64_t count, Workspace<T, C>& work) const {
    for (std::int64_t column = 0; column < scores_.columns; column += kBlockColumns) {
      const std::int64_t columns = std::min<std::int64_t>(kBlockColumns, scores_.columns - column);
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

  void begin(std::int64_t row, std::int64_t slot, Workspace<T, C>& work) const {
    RowState<C>& state = work.rows[slot];
    state.own = static_cast<C>(valueOf(*element(row, rows_.own[row])));
    state.length = lengthOf(row);
    state.top.size = std::max(out_.topK, 1);
    state.top.filled = 0;
    state.above = state.equal = 0;
    state.others = state.same = {-kInfinity, 0, 0, 0, 0, 0, false};
    work.same[slot] = equivalents_.begin(rows_.own + row);
    work.sameEnd[slot] = work.same[slot] + equivalents_.size(rows_.own[row]);
  }

  void finish(std::int64_t firstRow, std::int64_t count, Workspace<T, C>& work) const {
    BatchPlaces& places = work.narrow.places;
    const BatchSums &others = work.narrow.others, &same = work.narrow.same;
    double logOthers[kGroupRows];
    std::fill_n(logOthers, kGroupRows, logOthers_);
    for (std::int64_t i = 0; rows_.signature != nullptr && i < count; i++) {
      logOthers[i] = logOthersOf_[static_cast<std::size_t>(rows_.own[firstRow + i])];
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
      if (others.t[i] != others.t[i] || same.t[i] != same.t[i]) finishInvalid(firstRow + i, i, places, fields);
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

  // A row with NaN or +inf: a second look, element by element.
  void finishInvalid(std::int64_t row, std::int64_t slot, BatchPlaces& places, const BatchFields& sums) const {
    bool nanOthers = false, infinityOthers = false, nanSame = false;
    const std::int32_t* same = equivalents_.begin(rows_.own + row);
    const std::int32_t* sameEnd = same + equivalents_.size(rows_.own[row]);
    TopList<C> top{};
    top.size = std::max(out_.topK, 1);
    top.filled = 0;
    for (std::int64_t column = 0; column < scores_.columns; column++) {
      const C x = static_cast<C>(valueOf(*element(row, column)));
      const bool isSame = same < sameEnd && *same == column;
      same += isSame;
      (isSame ? nanSame : nanOthers) |= x != x;
      infinityOthers |= !isSame && x == static_cast<C>(kInfinity);
      insertNanFirst(top, x, static_cast<std::int32_t>(column));
    }
    for (int k = 0; k < top.size; k++) places.topColumn[k][slot] = top.column[k];
    const double marginal = nanOthers || nanSame ? kNaN : kInfinity;
    sums.marginalSeq[slot] = sums.marginalToken[slot] = marginal;
    sums.posteriorEntropy[slot] = kNaN;
    if (nanOthers || infinityOthers) {
      sums.looMarginalSeq[slot] = sums.looMarginalToken[slot] = nanOthers ? kNaN : kInfinity;
    }
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
  std::vector<double> logOthersOf_;  // of each column that may be own
  double logColumns_, logOthers_;
};

template <class T, class C>
Outcome walkRows(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, ThreadPool& pool,
                 JobControl& control, Kernels<C> typed) {
  control.totalUnits.store(scores.rows * scores.columns, std::memory_order_relaxed);
  if (scores.columns == 0) return Outcome::Done;

  const RowWalker<T, C> walker(scores, rows, out, typed);
  std::vector<std::unique_ptr<Workspace<T, C>>> work;
  for (int worker = 0; worker < pool.threads(); worker++) {
    work.emplace_back(std::make_unique_for_overwrite<Workspace<T, C>>());
  }
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
