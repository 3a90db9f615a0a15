// Walks rows of logits leaf by leaf through the kernels, and merges the leaves of a row in their order. The leaves
// count from a row's first column, so it changes no bit whether one thread takes a whole row or several share it.
#include "logit_stats.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "compute_in_order.h"
#include "deterministic_math.h"
#include "engine/simd/logit_kernel_table.h"
#include "sequence_means.h"
#include "special_values.h"
#include "with_type.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileElements = 1 << 17;
constexpr std::int64_t kGroupRows = 16;
constexpr std::int64_t kPackedColumns = 4096;  // of a group of rows at once: they fit the second-level cache
constexpr std::int64_t kPackedStride = kPackedColumns + 32;  // no power of two: rows would share their cache sets
// With so few rows a thread, rows are shared: the last ones would else leave threads idle.
constexpr std::int64_t kRowsPerThread = 8;
constexpr std::int64_t kLeavesKept = 8192;  // at a time, of shared rows: under a megabyte

static_assert(kPackedColumns % kLogitRun == 0 && kLogitLeafColumns % kPackedColumns == 0);

// The kernels of one dtype.
template <class C>
struct LogitKernels {
  void (*beginRow)(const void* source, std::int64_t columns, LogitRow<C>* row);
  void (*addColumns)(const void* source, std::int64_t count, std::int64_t firstColumn, LogitRow<C>* row);
  void (*finishLeaf)(LogitRow<C>* row);
};

std::int64_t leavesOf(std::int64_t columns) { return (columns + kLogitLeafColumns - 1) / kLogitLeafColumns; }

// Σ e^((x-reference)/T) and Σ e^((x-reference)/T) (x-reference) of leaves that were merged; Low as in LogitLeaf.
struct MergedSums {
  double reference = -kInfinity;
  double s = 0, t = 0, sLow = 0, tLow = 0;

  void merge(MergedSums other, double temperature) {
    if (other.reference == -kInfinity) return;
    if (reference == -kInfinity) {
      *this = other;
      return;
    }
    if (reference < other.reference) rescaleTo(other.reference, temperature);
    if (other.reference < reference) other.rescaleTo(reference, temperature);
    addExactly(s, sLow, other.s);
    addExactly(t, tLow, other.t);
    sLow += other.sLow;
    tLow += other.tLow;
  }

 private:
  void rescaleTo(double higher, double temperature) {
    const double fall = reference - higher, lowest = -708.0 * temperature;
    const double scale = deterministicExp(fall / temperature), bounded = fall > lowest ? fall : lowest;
    t = scale * __builtin_fma(s, bounded, t);
    tLow = scale * __builtin_fma(sLow, bounded, tLow);
    s *= scale;
    sLow *= scale;
    reference = higher;
  }
};

template <class C>
MergedSums sumsOf(const LogitLeaf<C>& leaf) {
  return {leaf.reference.value, leaf.s, leaf.t, leaf.sLow, leaf.tLow};
}

// What comes out of a row, or out of one leaf of it.
template <class C>
struct LeafResult {
  MergedSums sums;
  C best;
  std::int64_t argmax, above, equal;
  bool invalid;
  // Where it is invalid, by a second look: the first NaN, the first +inf; -1 if there is none.
  std::int64_t firstNan, firstInfinity;

  void merge(const LeafResult& next, double temperature) {
    sums.merge(next.sums, temperature);
    if (next.best > best) {
      best = next.best;
      argmax = next.argmax;
    }
    above += next.above;
    equal += next.equal;
    invalid |= next.invalid;
    if (firstNan < 0) firstNan = next.firstNan;
    if (firstInfinity < 0) firstInfinity = next.firstInfinity;
  }
};

// What one thread needs beside its stack: under 600 KB.
template <class T>
struct Packed {
  T columns[kGroupRows * kPackedStride];
};

template <class T, class C>
class LogitWalker {
 public:
  LogitWalker(const LogitMatrix& logits, const LogitRows& rows, const LogitStats& out, const LogitKernels<C>& kernels)
      : logits_(logits),
        rows_(rows),
        out_(out),
        data_(static_cast<const T*>(logits.data)),
        kernels_(kernels),
        ranked_(rows.targets != nullptr && (out.rankAbove != nullptr || out.rankEqual != nullptr)) {}

  // Rows whose elements alternate in memory are read together.
  std::int64_t groupRows() const {
    return magnitude(logits_.rowStride) < magnitude(logits_.columnStride) ? kGroupRows : 1;
  }
  double temperature() const { return rows_.temperature; }
  bool packs() const { return logits_.columnStride != 1; }
  bool reads(std::int64_t row) const { return rows_.mask == nullptr || rows_.mask[row] != 0; }

  // Rows [firstRow, firstRow + count), count <= groupRows(). False if cancelled on the way.
  bool walkRows(std::int64_t firstRow, std::int64_t count, Packed<T>* packed, JobControl& control) const {
    LogitRow<C> states[kGroupRows];
    MergedSums sums[kGroupRows];
    begin(firstRow, count, 0, states, packed);
    std::int64_t done = 0;
    for (std::int64_t leaf = 0; leaf < leavesOf(logits_.columns); leaf++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return false;
      walkLeaf(firstRow, count, leaf, states, packed);
      for (std::int64_t i = 0; i < count; i++) sums[i].merge(sumsOf(states[i].leaf), rows_.temperature);
      done += count * leafColumns(leaf);
      if (done >= kTileElements) report(control, done);
    }
    report(control, done);
    for (std::int64_t i = 0; i < count; i++) {
      LeafResult<C> row = walked(states[i], sums[i]);
      if (row.invalid && reads(firstRow + i)) {
        beginLook(row);
        for (std::int64_t leaf = 0; leaf < leavesOf(logits_.columns); leaf++) {
          if (control.cancelled.load(std::memory_order_relaxed)) return false;
          lookAgain(firstRow + i, leaf, row);
        }
      }
      finish(firstRow + i, row);
    }
    return true;
  }

  // One leaf alone of rows that threads share.
  void walkLeafAlone(std::int64_t firstRow, std::int64_t count, std::int64_t leaf, Packed<T>* packed,
                     LeafResult<C>* out) const {
    LogitRow<C> states[kGroupRows];
    begin(firstRow, count, leaf, states, packed);
    walkLeaf(firstRow, count, leaf, states, packed);
    for (std::int64_t i = 0; i < count; i++) {
      out[i] = walked(states[i], sumsOf(states[i].leaf));
      if (!out[i].invalid || !reads(firstRow + i)) continue;
      beginLook(out[i]);
      lookAgain(firstRow + i, leaf, out[i]);
    }
  }

  // A row whose leaves have been merged in their order.
  void finish(std::int64_t row, const LeafResult<C>& done) const {
    if (!reads(row)) return finishMasked(row);
    if (done.invalid) return finishInvalid(row, done);
    const MergedSums& sums = done.sums;
    const double temperature = rows_.temperature;
    double logsumexp = -kInfinity, entropy = kNaN, targetLogprob = kNaN;
    if (sums.reference != -kInfinity) {
      const double s = sums.s + sums.sLow, t = sums.t + sums.tLow;
      const double logS = deterministicLog(s);
      logsumexp = sums.reference / temperature + logS;
      // Below 2^-100 stands only what the depth of the exponentials left of -inf; below 0, rounding.
      entropy = logS - t / (s * temperature);
      if (!(entropy > 0x1p-100)) entropy = 0.0;
      if (rows_.targets != nullptr) {
        // Not by way of the log-sum-exp, whose own rounding grows with the logits.
        targetLogprob = (static_cast<double>(targetOf(row)) - sums.reference) / temperature - logS;
        if (targetLogprob > 0.0) targetLogprob = 0.0;
      }
    }
    put(row, logsumexp, entropy, targetLogprob, std::max<std::int64_t>(done.argmax, 0), done.above, done.equal);
  }

  std::int64_t leafColumns(std::int64_t leaf) const {
    return std::min<std::int64_t>(kLogitLeafColumns, logits_.columns - leaf * kLogitLeafColumns);
  }

  void finishMasked(std::int64_t row) const { put(row, kNaN, kNaN, kNaN, -1, -1, -1); }

  void finishEmpty(std::int64_t row) const { put(row, -kInfinity, kNaN, kNaN, -1, -1, -1); }

 private:
  // Not leaf by leaf: it makes the processor wait.
  static void report(JobControl& control, std::int64_t& done) {
    control.doneUnits.fetch_add(done, std::memory_order_relaxed);
    done = 0;
  }

  static std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

  const T* element(std::int64_t row, std::int64_t column) const {
    return data_ + row * logits_.rowStride + column * logits_.columnStride;
  }

  C targetOf(std::int64_t row) const {
    return rows_.targets == nullptr ? C{0} : static_cast<C>(valueOf(*element(row, rows_.targets[row])));
  }

  // Before `leaf` is walked. What is packed of a row's first columns stays for the first leaf.
  void begin(std::int64_t firstRow, std::int64_t count, std::int64_t leaf, LogitRow<C>* states,
             Packed<T>* packed) const {
    const std::int64_t columns = std::min<std::int64_t>(kLogitRun, logits_.columns);
    if (packs()) pack(firstRow, count, 0, leaf == 0 ? std::min(kPackedColumns, logits_.columns) : columns, *packed);
    for (std::int64_t i = 0; i < count; i++) {
      LogitRow<C>& state = states[i];
      const bool read = reads(firstRow + i);
      state.temperature = rows_.temperature;
      state.start = {-kInfinity, 0, 0, 0};
      state.target = ranked_ && read ? targetOf(firstRow + i) : static_cast<C>(kInfinity);
      state.located = out_.argmax != nullptr;
      state.invalid = false;
      state.best = static_cast<C>(-kInfinity);
      state.argmax = -1;
      state.above = state.equal = 0;
      if (read) kernels_.beginRow(columnsOf(firstRow, i, 0, packed), columns, &state);
    }
  }

  // Row firstRow + i from `column` on, side by side.
  const T* columnsOf(std::int64_t firstRow, std::int64_t i, std::int64_t column, const Packed<T>* packed) const {
    return packs() ? packed->columns + i * kPackedStride : element(firstRow + i, column);
  }

  // The lanes are left as they are: nothing is in them until they are filled.
  static void beginLeaf(LogitRow<C>& state) {
    LogitLeaf<C>& leaf = state.leaf;
    leaf.reference = state.start;
    leaf.s = leaf.t = leaf.sLow = leaf.tLow = 0;
    leaf.largest = static_cast<C>(-kInfinity);
    leaf.lanes.filled = false;
  }

  static LeafResult<C> walked(const LogitRow<C>& state, const MergedSums& sums) {
    return {sums, state.best, state.argmax, state.above, state.equal, state.invalid, -1, -1};
  }

  void walkLeaf(std::int64_t firstRow, std::int64_t count, std::int64_t leaf, LogitRow<C>* states,
                Packed<T>* packed) const {
    for (std::int64_t i = 0; i < count; i++) beginLeaf(states[i]);
    const std::int64_t end = leaf * kLogitLeafColumns + leafColumns(leaf);
    const std::int64_t step = packs() ? kPackedColumns : kLogitLeafColumns;
    for (std::int64_t column = leaf * kLogitLeafColumns; column < end; column += step) {
      const std::int64_t columns = std::min<std::int64_t>(step, end - column);
      if (packs() && column > 0) pack(firstRow, count, column, columns, *packed);
      for (std::int64_t i = 0; i < count; i++) {
        if (states[i].invalid || !reads(firstRow + i)) continue;
        kernels_.addColumns(columnsOf(firstRow, i, column, packed), columns, column, &states[i]);
      }
    }
    for (std::int64_t i = 0; i < count; i++) {
      if (!states[i].invalid && reads(firstRow + i)) kernels_.finishLeaf(&states[i]);
    }
  }

  void pack(std::int64_t firstRow, std::int64_t count, std::int64_t column, std::int64_t columns,
            Packed<T>& packed) const {
    bool read[kGroupRows];
    for (std::int64_t i = 0; i < count; i++) read[i] = reads(firstRow + i);
    for (std::int64_t c = 0; c < columns; c++) {
      const T* source = element(firstRow, column + c);
      for (std::int64_t i = 0; i < count; i++) {
        if (read[i]) packed.columns[i * kPackedStride + c] = source[i * logits_.rowStride];
      }
    }
  }

  // A row with NaN or +inf, or a leaf of one: a second look, element by element.
  static void beginLook(LeafResult<C>& at) {
    at.above = at.equal = 0;
    at.firstNan = at.firstInfinity = -1;
  }
  void lookAgain(std::int64_t row, std::int64_t leaf, LeafResult<C>& at) const {
    const C target = targetOf(row);
    const std::int64_t begin = leaf * kLogitLeafColumns, end = begin + leafColumns(leaf);
    for (std::int64_t column = begin; column < end; column++) {
      const C x = static_cast<C>(valueOf(*element(row, column)));
      if (at.firstNan < 0 && x != x) at.firstNan = column;
      if (at.firstInfinity < 0 && x == static_cast<C>(kInfinity)) at.firstInfinity = column;
      at.above += x > target;
      at.equal += x == target;
    }
  }

  void finishInvalid(std::int64_t row, const LeafResult<C>& done) const {
    if (done.firstNan >= 0) {
      put(row, kNaN, kNaN, kNaN, done.firstNan, done.above, done.equal);
    } else {
      put(row, kInfinity, kNaN, kNaN, done.firstInfinity, done.above, done.equal);
    }
  }

  static void putOne(double* field, std::int64_t row, double value) {
    if (field != nullptr) field[row] = value;
  }
  static void putOne(std::int32_t* field, std::int64_t row, std::int64_t value) {
    if (field != nullptr) field[row] = static_cast<std::int32_t>(value);
  }
  void put(std::int64_t row, double logsumexp, double entropy, double targetLogprob, std::int64_t argmax,
           std::int64_t above, std::int64_t equal) const {
    putOne(out_.logsumexp, row, logsumexp);
    putOne(out_.entropy, row, entropy);
    putOne(out_.targetLogprob, row, targetLogprob);
    putOne(out_.argmax, row, argmax);
    putOne(out_.rankAbove, row, above);
    putOne(out_.rankEqual, row, equal);
  }

  const LogitMatrix& logits_;
  const LogitRows& rows_;
  const LogitStats& out_;
  const T* data_;
  const LogitKernels<C> kernels_;
  bool ranked_;
};

// Many rows: each goes to one thread. False if cancelled on the way.
template <class Walker, class T>
bool walkByRows(const LogitMatrix& logits, const Walker& walker, std::vector<std::unique_ptr<Packed<T>>>& packed,
                ThreadPool& pool, JobControl& control) {
  const std::int64_t group = walker.groupRows();
  const std::int64_t rowsPerTile = std::max<std::int64_t>(1, kTileElements / (logits.columns * group)) * group;
  const std::int64_t tiles = (logits.rows + rowsPerTile - 1) / rowsPerTile;
  std::atomic<bool> stopped{false};
  const Outcome outcome = pool.run(tiles, control, [&](std::int64_t tile, int worker) {
    const std::int64_t end = std::min((tile + 1) * rowsPerTile, logits.rows);
    Packed<T>* const place = packed[static_cast<std::size_t>(worker)].get();
    for (std::int64_t row = tile * rowsPerTile; row < end; row += group) {
      if (group == 1 && !walker.reads(row)) {
        walker.finishMasked(row);
        control.doneUnits.fetch_add(logits.columns, std::memory_order_relaxed);
      } else if (!walker.walkRows(row, std::min(group, end - row), place, control)) {
        stopped.store(true, std::memory_order_relaxed);
        return;
      }
    }
  });
  return outcome == Outcome::Done && !stopped.load(std::memory_order_relaxed);
}

// Few rows: threads share each, leaf by leaf.
template <class C, class Walker, class T>
bool walkByLeaves(const LogitMatrix& logits, const Walker& walker, std::vector<std::unique_ptr<Packed<T>>>& packed,
                  ThreadPool& pool, JobControl& control) {
  const std::int64_t together = walker.groupRows(), leaves = leavesOf(logits.columns);
  const std::int64_t pieces = (logits.rows + together - 1) / together * leaves;
  const std::int64_t places = std::min(kLeavesKept / together, pieces);
  std::vector<LeafResult<C>> kept(static_cast<std::size_t>(places * together)),
      merged(static_cast<std::size_t>(together));
  const auto rowOf = [&](std::int64_t piece) { return piece / leaves * together; };
  const auto rowsOf = [&](std::int64_t piece) { return std::min(together, logits.rows - rowOf(piece)); };
  const Outcome outcome = computeInOrder(
      pieces, places, pool, control,
      [&](std::int64_t piece, std::int64_t place, int worker) {
        const std::int64_t leaf = piece % leaves, rows = rowsOf(piece);
        if (together > 1 || walker.reads(rowOf(piece))) {
          walker.walkLeafAlone(rowOf(piece), rows, leaf, packed[static_cast<std::size_t>(worker)].get(),
                               kept.data() + place * together);
        }
        control.doneUnits.fetch_add(rows * walker.leafColumns(leaf), std::memory_order_relaxed);
      },
      [&](std::int64_t piece, std::int64_t place) {
        const std::int64_t leaf = piece % leaves;
        for (std::int64_t i = 0; i < rowsOf(piece); i++) {
          const LeafResult<C>& next = kept[static_cast<std::size_t>(place * together + i)];
          LeafResult<C>& row = merged[static_cast<std::size_t>(i)];
          if (leaf == 0) {
            row = next;
          } else {
            row.merge(next, walker.temperature());
          }
          if (leaf == leaves - 1) walker.finish(rowOf(piece) + i, row);
        }
      });
  return outcome == Outcome::Done;
}

template <class T, class C>
Outcome walk(const LogitMatrix& logits, const LogitRows& rows, const LogitStats& out, ThreadPool& pool,
             JobControl& control, const LogitKernels<C>& kernels) {
  const LogitWalker<T, C> walker(logits, rows, out, kernels);
  if (logits.columns == 0) {
    for (std::int64_t row = 0; row < logits.rows; row++) {
      if (walker.reads(row)) {
        walker.finishEmpty(row);
      } else {
        walker.finishMasked(row);
      }
    }
    return Outcome::Done;
  }
  std::vector<std::unique_ptr<Packed<T>>> packed(static_cast<std::size_t>(pool.threads()));
  if (walker.packs()) {
    for (auto& place : packed) place = std::make_unique_for_overwrite<Packed<T>>();
  }
  const bool shared = pool.threads() > 1 && leavesOf(logits.columns) > 1 &&
                      logits.rows < kRowsPerThread * pool.threads() * walker.groupRows();
  const bool done = shared ? walkByLeaves<C>(logits, walker, packed, pool, control)
                           : walkByRows(logits, walker, packed, pool, control);
  return done ? Outcome::Done : Outcome::Cancelled;
}

Outcome walkAs(const LogitMatrix& logits, const LogitRows& rows, const LogitStats& out, ThreadPool& pool,
               JobControl& control) {
  const LogitKernelTable& table = logitKernels();
  const int dtype = static_cast<int>(logits.dtype);
  return withType(logits.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, double>) {
      const LogitKernels<double> kernels{table.beginRow64, table.addColumns64, table.finishLeaf64};
      return walk<T>(logits, rows, out, pool, control, kernels);
    } else {
      const LogitKernels<float> kernels{table.beginRow32[dtype], table.addColumns32[dtype], table.finishLeaf32};
      return walk<T>(logits, rows, out, pool, control, kernels);
    }
  });
}

}  // namespace

Outcome logitStats(const LogitMatrix& logits, const LogitRows& rows, const LogitStats& out,
                   const LogitSequences& sequences, ThreadPool& pool, JobControl& control) {
  control.totalUnits.store(logits.rows * logits.columns, std::memory_order_relaxed);
  if (walkAs(logits, rows, out, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  const auto means = [&](const double* values, double* of) {
    sequenceMeans(sequences.count, sequences.begins, sequences.ends, rows.mask, values, of);
  };
  means(out.entropy, sequences.meanEntropy);
  means(out.targetLogprob, sequences.meanTargetLogprob);
  return Outcome::Done;
}

}  // namespace collapsar
