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

#include "half.h"
#include "simd/kernel_table.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileElements = 1 << 17;
constexpr std::int64_t kGroupRows = 16;
constexpr std::int64_t kPackedStride = kBlockColumns + 32;  // not a power of two: the rows would share their cache sets
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
double valueOf(double x) { return x; }
double valueOf(float x) { return x; }
double valueOf(Float16 x) { return float16ToFloat(x.bits); }
double valueOf(BFloat16 x) { return bfloat16ToFloat(x.bits); }

using AddColumns64 = decltype(KernelTable::addColumns64);
using AddColumns32 = std::remove_extent_t<decltype(KernelTable::addColumns32)>;

// Which columns are equivalent to which: those of a signature, rising.
class SignatureColumns {
 public:
  SignatureColumns(const std::int32_t* signature, std::int64_t columns) : signature_(signature) {
    if (signature == nullptr) return;
    start_.assign(static_cast<std::size_t>(columns) + 1, 0);
    columns_.resize(static_cast<std::size_t>(columns));
    for (std::int64_t c = 0; c < columns; c++) start_[at(signature[c]) + 1]++;
    for (std::size_t s = 0; s < static_cast<std::size_t>(columns); s++) start_[s + 1] += start_[s];
    std::vector<std::int64_t> next = start_;
    for (std::int64_t c = 0; c < columns; c++) {
      columns_[static_cast<std::size_t>(next[at(signature[c])]++)] = static_cast<std::int32_t>(c);
    }
  }

  // The columns equivalent to *own, which must outlive the result.
  const std::int32_t* begin(const std::int32_t* own) const {
    return signature_ == nullptr ? own : columns_.data() + start_[at(signature_[*own])];
  }
  std::int64_t size(std::int32_t own) const {
    if (signature_ == nullptr) return 1;
    const std::size_t s = at(signature_[own]);
    return start_[s + 1] - start_[s];
  }

 private:
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  const std::int32_t* signature_;
  std::vector<std::int64_t> start_;
  std::vector<std::int32_t> columns_;
};

// What one thread needs: under half a megabyte.
template <class T, class C>
struct Workspace {
  alignas(64) BlockScratch<C> block;
  T packed[kGroupRows * kPackedStride];  // of matrices whose columns do not lie side by side
  RowState<C> rows[kGroupRows];
  const std::int32_t* same[kGroupRows];  // what is left of the row's equivalent columns
  const std::int32_t* sameEnd[kGroupRows];
};

template <class T, class C, class AddColumns>
class RowWalker {
 public:
  RowWalker(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, AddColumns addColumns)
      : scores_(scores),
        rows_(rows),
        out_(out),
        data_(static_cast<const T*>(scores.data)),
        kernels_(kernels()),
        addColumns_(addColumns),
        equivalents_(rows.signature, scores.columns) {
    logColumns_ = kernels_.log(static_cast<double>(scores.columns));
    logOthers_ = scores.columns > 1 ? kernels_.log(static_cast<double>(scores.columns - 1)) : 0.0;
  }

  void walk(std::int64_t firstRow, std::int64_t endRow, Workspace<T, C>& work) const {
    const bool across = magnitude(scores_.rowStride) < magnitude(scores_.columnStride);
    const std::int64_t step = across ? kGroupRows : 1;
    for (std::int64_t row = firstRow; row < endRow; row += step) walkGroup(row, std::min(step, endRow - row), work);
  }

 private:
  static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  const T* element(std::int64_t row, std::int64_t column) const {
    return data_ + row * scores_.rowStride + column * scores_.columnStride;
  }

  void walkGroup(std::int64_t firstRow, std::int64_t count, Workspace<T, C>& work) const {
    for (std::int64_t i = 0; i < count; i++) begin(firstRow + i, i, work);
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
        const std::int32_t*& same = work.same[i];
        const std::int32_t* sameHere = same;
        while (same < work.sameEnd[i] && *same < column + columns) same++;
        const T* source = packed ? work.packed + i * kPackedStride : element(firstRow + i, column);
        addColumns_(source, columns, column, sameHere, same - sameHere, &work.rows[i], &work.block);
      }
    }
    for (std::int64_t i = 0; i < count; i++) finish(firstRow + i, work.rows[i]);
  }

  void begin(std::int64_t row, std::int64_t slot, Workspace<T, C>& work) const {
    RowState<C>& state = work.rows[slot];
    state.own = static_cast<C>(valueOf(*element(row, rows_.own[row])));
    state.length = static_cast<double>(std::max<std::int64_t>(rows_.lengths[row], 1));
    state.top.size = std::max(out_.topK, 1);
    state.top.filled = 0;
    state.above = state.equal = 0;
    state.others = state.same = {-kInfinity, 0, 0, 0, 0, 0, false};
    work.same[slot] = equivalents_.begin(rows_.own + row);
    work.sameEnd[slot] = work.same[slot] + equivalents_.size(rows_.own[row]);
  }

  static void put(double* field, std::int64_t row, double value) {
    if (field != nullptr) field[row] = value == value ? value : kNaN;  // one NaN, whatever the machine makes
  }

  void finish(std::int64_t row, RowState<C>& state) const {
    const std::int64_t others = scores_.columns - equivalents_.size(rows_.own[row]);
    const double logOthers =
        rows_.signature == nullptr || others == 0 ? logOthers_ : kernels_.log(static_cast<double>(others));
    RowLogSums sums;
    kernels_.finishRow(&state.others, &state.same, state.length, logColumns_, logOthers, &sums);
    if (state.others.invalid || state.same.invalid) finishInvalid(row, state, sums);
    if (others == 0) sums.looMarginalSeq = sums.looMarginalToken = kNaN;

    const double own = state.own;
    put(out_.matchedSeq, row, own);
    put(out_.matchedToken, row, own / state.length);
    put(out_.marginalSeq, row, sums.marginalSeq);
    put(out_.marginalToken, row, sums.marginalToken);
    put(out_.looMarginalSeq, row, sums.looMarginalSeq);
    put(out_.looMarginalToken, row, sums.looMarginalToken);
    put(out_.posteriorEntropy, row, sums.posteriorEntropy);
    if (out_.argmax != nullptr) out_.argmax[row] = state.top.column[0];
    if (out_.rankAbove != nullptr) out_.rankAbove[row] = static_cast<std::int32_t>(state.above);
    if (out_.rankEqual != nullptr) out_.rankEqual[row] = static_cast<std::int32_t>(state.equal);
    if (out_.topColumns != nullptr) std::copy_n(state.top.column, out_.topK, out_.topColumns + row * out_.topK);
  }

  // A row with NaN or +inf: a second look, element by element.
  void finishInvalid(std::int64_t row, RowState<C>& state, RowLogSums& sums) const {
    bool nanOthers = false, infinityOthers = false, nanSame = false;
    const std::int32_t* same = equivalents_.begin(rows_.own + row);
    const std::int32_t* sameEnd = same + equivalents_.size(rows_.own[row]);
    TopList<C>& top = state.top;
    top.filled = 0;
    for (std::int64_t column = 0; column < scores_.columns; column++) {
      const C x = static_cast<C>(valueOf(*element(row, column)));
      const bool isSame = same < sameEnd && *same == column;
      same += isSame;
      (isSame ? nanSame : nanOthers) |= x != x;
      infinityOthers |= !isSame && x == static_cast<C>(kInfinity);
      insertNanFirst(top, x, static_cast<std::int32_t>(column));
    }
    const double marginal = nanOthers || nanSame ? kNaN : kInfinity;
    sums.marginalSeq = sums.marginalToken = marginal;
    sums.posteriorEntropy = kNaN;
    if (nanOthers || infinityOthers) {
      sums.looMarginalSeq = sums.looMarginalToken = nanOthers ? kNaN : kInfinity;
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
  AddColumns addColumns_;
  SignatureColumns equivalents_;
  double logColumns_, logOthers_;
};

template <class T, class C, class AddColumns>
Outcome walkRows(const ScoreMatrix& scores, const ScoreRows& rows, const RowStats& out, ThreadPool& pool,
                 JobControl& control, AddColumns addColumns) {
  control.totalUnits.store(scores.rows * scores.columns, std::memory_order_relaxed);
  if (scores.columns == 0) return Outcome::Done;

  const RowWalker<T, C, AddColumns> walker(scores, rows, out, addColumns);
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
  const AddColumns32 narrow = table.addColumns32[static_cast<int>(scores.dtype)];
  switch (scores.dtype) {
    case DType::Float64:
      return walkRows<double, double, AddColumns64>(scores, rows, out, pool, control, table.addColumns64);
    case DType::Float32:
      return walkRows<float, float>(scores, rows, out, pool, control, narrow);
    case DType::Float16:
      return walkRows<Float16, float>(scores, rows, out, pool, control, narrow);
    case DType::BFloat16:
      break;
  }
  return walkRows<BFloat16, float>(scores, rows, out, pool, control, narrow);
}

}  // namespace collapsar
