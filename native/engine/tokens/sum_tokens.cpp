// Cuts [P,R] segments of tokens into tiles in the order of memory and adds each segment with the kernels.
//
// Token t of a leaf of 4096 goes to float64 lane t mod 32, lanes are folded by halves, and leaves are added in order:
// the bits depend on the tokens alone. So threads can share the leaves of long rows.
#include "sum_tokens.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/compute_in_order.h"
#include "engine/simd/kernel_table.h"
#include "values.h"

namespace collapsar {

namespace {

constexpr std::int64_t kTileTokens = 1 << 18;
// Sums of so many neighbouring prompts share a cache line of the result: in one tile, the line is fetched once.
constexpr std::int64_t kLinePrompts = 8;
// Lines of the result are asked for so many rows before they are written: 8% less time at 16 tokens a row.
constexpr std::int64_t kResultsAhead = 32;
constexpr std::int64_t kSegmentCost = 16;     // what a segment costs besides its tokens, in tokens
constexpr std::int64_t kBatchSegments = 512;  // handed to the kernel at once
constexpr std::int64_t kGroupSegments = 16;   // packed side by side where tokens are far apart but segments near
constexpr std::int64_t kGroupTokens = 512;    // ... so many at a time; divides the leaf
constexpr std::int64_t kGroupStride = kGroupTokens + 32;  // not a power of two: the strips would share their cache sets

constexpr std::int64_t kLongRow = kTileTokens;                    // rows of more tokens are cut into pieces
constexpr std::int64_t kPieceLeaves = kTileTokens / kLeafTokens;  // of one row, or of all rows of a group together
constexpr std::int64_t kPieces = 1024;                            // whose leaves' sums are kept at a time: 512 KiB

std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

std::int64_t validLength(const TokenScores& scores, std::int64_t row) {
  return std::max<std::int64_t>(scores.lengths[row], 0);
}

struct Range {
  std::int64_t begin, end;
};

struct Tile {
  Range prompts, rows;
};

std::int64_t leavesOf(std::int64_t tokens) { return (tokens + kLeafTokens - 1) / kLeafTokens; }

bool isLong(const TokenScores& scores, std::int64_t row) { return validLength(scores, row) > kLongRow; }

// Rows in runs of about `budget` of cost, where a row costs its tokens `times` over. Without long rows.
std::vector<Range> rowRuns(const TokenScores& scores, std::int64_t times, std::int64_t budget) {
  std::vector<Range> runs;
  std::int64_t begin = 0, cost = 0;
  for (std::int64_t row = 0; row < scores.rows; row++) {
    const bool skipped = isLong(scores, row);
    if (!skipped) cost += (validLength(scores, row) + kSegmentCost) * times;
    if (skipped || cost >= budget) {
      const std::int64_t end = skipped ? row : row + 1;
      if (begin < end) runs.push_back({begin, end});
      begin = row + 1;
      cost = 0;
    }
  }
  if (begin < scores.rows) runs.push_back({begin, scores.rows});
  return runs;
}

// Runs of `size` each, the last one shorter.
template <class Take>
void forEachRun(Range whole, std::int64_t size, Take take) {
  for (std::int64_t begin = whole.begin; begin < whole.end; begin += size) {
    take(Range{begin, std::min(begin + size, whole.end)});
  }
}

// Sums the segments of one job. T: an element's bits.
template <class T>
class TokenSummer {
 public:
  TokenSummer(const TokenScores& scores, const TokenSums& out, int workers)
      : scores_(scores),
        out_(out),
        data_(static_cast<const T*>(scores.data)),
        kernels_(kernels()),
        dtype_(static_cast<int>(scores.dtype)),
        rowsInside_(scores.rowOffsets != nullptr || magnitude(scores.rowStride) <= magnitude(scores.promptStride)),
        grouped_(scores.tokenStride != 1 && magnitude(innerStride()) < magnitude(scores.tokenStride)),
        firstSuspicious_(std::numeric_limits<std::int64_t>::max()) {
    findLongRows();
    if (scores.tokenStride != 1) {
      const std::size_t size = grouped_ ? kGroupSegments * kGroupStride : kLeafTokens;
      for (int worker = 0; worker < workers; worker++) scratch_.push_back(std::make_unique<T[]>(size));
    }
  }

  // Consecutive tiles are consecutive in memory, as far as whole segments allow.
  std::vector<Tile> tiles() const {
    std::vector<Tile> tiles;
    if (scores_.prompts == 0 || scores_.rows == 0) return tiles;
    const Range allPrompts{0, scores_.prompts};
    if (rowsInside_) {
      const std::int64_t atLeast = grouped_ ? 1 : kLinePrompts;
      const std::vector<Range> rows = rowRuns(scores_, 1, kTileTokens / atLeast);
      const std::int64_t together = rows.size() > 1 ? 1 : kTileTokens / std::max<std::int64_t>(1, totalCost());
      forEachRun(allPrompts, std::max(atLeast, together), [&](Range prompts) {
        for (const Range run : rows) tiles.push_back({prompts, run});
      });
    } else {
      for (const Range run : rowRuns(scores_, scores_.prompts, kTileTokens)) {
        const std::int64_t longest = longestOf(run);
        const std::int64_t prompts = std::max<std::int64_t>(kGroupSegments, kTileTokens / (longest + kSegmentCost));
        forEachRun(allPrompts, prompts, [&](Range promptRun) { tiles.push_back({promptRun, run}); });
      }
    }
    return tiles;
  }

  void sum(const Tile& tile, int worker, JobControl& control) {
    T* scratch = scratch_.empty() ? nullptr : scratch_[static_cast<std::size_t>(worker)].get();
    if (grouped_) {
      sumGroups(tile, scratch);
    } else if (rowsInside_) {
      forEachRun(tile.prompts, kLinePrompts, [&](Range prompts) {
        forEachRun(tile.rows, kBatchSegments, [&](Range rows) { sumLines(prompts, rows, scratch); });
      });
    } else {
      for (std::int64_t row = tile.rows.begin; row < tile.rows.end; row++) {
        forEachRun(tile.prompts, kBatchSegments, [&](Range prompts) { sumRow(row, prompts, scratch); });
      }
    }
    std::int64_t tokens = 0;
    for (std::int64_t row = tile.rows.begin; row < tile.rows.end; row++) tokens += validLength(scores_, row);
    control.doneUnits.fetch_add(tokens * (tile.prompts.end - tile.prompts.begin), std::memory_order_relaxed);
  }

  // Long rows, whose leaves' sums are added in order when all of a window's pieces are there.
  Outcome sumLongRows(ThreadPool& pool, JobControl& control) {
    if (longRuns_.empty()) return Outcome::Done;
    const std::int64_t units = (scores_.prompts + unitPrompts() - 1) / unitPrompts(), pieces = units * piecesOfUnit_;
    std::vector<double> leafSums(static_cast<std::size_t>(std::min(kPieces, pieces) * kPieceLeaves));
    const auto sumsAt = [&](std::int64_t place) { return leafSums.data() + place * kPieceLeaves; };
    return computeInOrder(
        pieces, kPieces, pool, control,
        [&](std::int64_t piece, std::int64_t place, int worker) {
          T* const scratch = scratch_.empty() ? nullptr : scratch_[static_cast<std::size_t>(worker)].get();
          control.doneUnits.fetch_add(sumPiece(pieceAt(piece), scratch, sumsAt(place)), std::memory_order_relaxed);
        },
        [&](std::int64_t piece, std::int64_t place) { addPiece(pieceAt(piece), sumsAt(place)); });
  }

  // A leaf at a time, so that it ends soon when it is cancelled.
  InvalidToken firstInvalid(const JobControl& control) const {
    std::int64_t segment = firstSuspicious_.load(std::memory_order_relaxed);
    if (segment == std::numeric_limits<std::int64_t>::max()) return {};
    // All but always the first one looked at; the others only if its sum had merely overflowed.
    for (; segment < scores_.prompts * scores_.rows; segment++) {
      const std::int64_t prompt = segment / scores_.rows, row = segment % scores_.rows;
      if (!suspicious(*sumAt({prompt, row}))) continue;
      const std::int64_t start = segmentStart(scores_, prompt, row), length = scores_.lengths[row];
      for (std::int64_t begin = 0; begin < length; begin += kLeafTokens) {
        if (control.cancelled.load(std::memory_order_relaxed)) return {};
        const std::int64_t end = std::min<std::int64_t>(begin + kLeafTokens, length);
        for (std::int64_t token = begin; token < end; token++) {
          if (suspicious(tokenAt(scores_.dtype, scores_.data, start + token * scores_.tokenStride)))
            return {prompt, row, token};
        }
      }
    }
    return {};
  }

 private:
  struct Segment {
    std::int64_t prompt, row;
  };

  // A long row, or neighbours among them that are read together.
  struct LongRun {
    Range rows;
    std::int64_t leaves;      // of the longest
    std::int64_t firstPiece;  // of its pieces, within those of one unit of prompts
  };

  // Leaves [begin, end) of some segments. The sum of leaf l of segment s stands at s * (end - begin) + l - begin.
  struct Piece {
    Tile tile;
    std::int64_t begin, end;

    std::int64_t segments() const {
      return std::max(tile.prompts.end - tile.prompts.begin, tile.rows.end - tile.rows.begin);
    }
    Segment segment(std::int64_t i) const {
      const bool alongPrompts = tile.prompts.end - tile.prompts.begin > 1;
      return {tile.prompts.begin + (alongPrompts ? i : 0), tile.rows.begin + (alongPrompts ? 0 : i)};
    }
  };

  // Segments are read together along one axis at most.
  std::int64_t unitPrompts() const { return grouped_ && !rowsInside_ ? kGroupSegments : 1; }
  std::int64_t pieceLeaves() const { return grouped_ ? kPieceLeaves / kGroupSegments : kPieceLeaves; }

  void findLongRows() {
    const std::int64_t together = grouped_ && rowsInside_ ? kGroupSegments : 1;
    for (std::int64_t row = 0; row < scores_.rows; row++) {
      if (!isLong(scores_, row)) continue;
      std::int64_t end = row + 1;
      while (end < scores_.rows && end < row + together && isLong(scores_, end)) end++;
      const std::int64_t leaves = leavesOf(longestOf({row, end}));
      longRuns_.push_back({{row, end}, leaves, piecesOfUnit_});
      piecesOfUnit_ += (leaves + pieceLeaves() - 1) / pieceLeaves();
      row = end - 1;
    }
  }

  Piece pieceAt(std::int64_t piece) const {
    const std::int64_t unit = piece / piecesOfUnit_, inUnit = piece % piecesOfUnit_;
    const LongRun& run =
        *std::prev(std::upper_bound(longRuns_.begin(), longRuns_.end(), inUnit,
                                    [](std::int64_t value, const LongRun& other) { return value < other.firstPiece; }));
    const std::int64_t firstPrompt = unit * unitPrompts(), begin = (inUnit - run.firstPiece) * pieceLeaves();
    return {{{firstPrompt, std::min(firstPrompt + unitPrompts(), scores_.prompts)}, run.rows},
            begin,
            std::min(begin + pieceLeaves(), run.leaves)};
  }

  // Returns how many tokens it has.
  std::int64_t sumPiece(const Piece& piece, T* scratch, double* leafSums) const {
    const Range tokens{piece.begin * kLeafTokens, piece.end * kLeafTokens};
    const std::int64_t leaves = piece.end - piece.begin;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < piece.segments(); i++) {
      count +=
          std::max<std::int64_t>(0, std::min(tokens.end, validLength(scores_, piece.segment(i).row)) - tokens.begin);
    }
    if (grouped_) {
      sumGroup(
          piece.segments(), tokens, scratch, [&](std::int64_t i) { return piece.segment(i); },
          [&](std::int64_t i, std::int64_t leaf, double sum) { leafSums[i * leaves + leaf - piece.begin] = sum; });
      return count;
    }
    const Segment at = piece.segment(0);
    const std::int64_t start = segmentStart(scores_, at.prompt, at.row), length = validLength(scores_, at.row);
    std::int64_t starts[kPieceLeaves], lengths[kPieceLeaves];
    for (std::int64_t i = 0; i < leaves; i++) {
      const std::int64_t first = tokens.begin + i * kLeafTokens;
      starts[i] = start + first * scores_.tokenStride;
      lengths[i] = std::min<std::int64_t>(kLeafTokens, length - first);
    }
    sumBatch(starts, lengths, leaves, scratch, leafSums);
    return count;
  }

  // The sum so far stands where the whole will.
  void addPiece(const Piece& piece, const double* leafSums) {
    const std::int64_t leaves = piece.end - piece.begin;
    for (std::int64_t i = 0; i < piece.segments(); i++) {
      const Segment at = piece.segment(i);
      const std::int64_t end = leavesOf(validLength(scores_, at.row));
      if (piece.begin >= end) continue;
      const double* const sums = leafSums + i * leaves;
      const double before = piece.begin == 0 ? 0.0 : *sumAt(at);
      const double sum = std::accumulate(sums, sums + std::min(leaves, end - piece.begin), before);
      if (piece.end >= end) {
        put(at, sum);
      } else {
        *sumAt(at) = sum;
      }
    }
  }

  // Between neighbours of the inner loop; packed rows have none.
  std::int64_t innerStride() const {
    if (!rowsInside_) return scores_.promptStride;
    return scores_.rowOffsets != nullptr ? std::numeric_limits<std::int64_t>::max() : scores_.rowStride;
  }

  std::int64_t totalCost() const {
    std::int64_t cost = 0;
    for (std::int64_t row = 0; row < scores_.rows; row++) cost += validLength(scores_, row) + kSegmentCost;
    return cost;
  }

  std::int64_t longestOf(Range rows) const {
    std::int64_t longest = 0;
    for (std::int64_t row = rows.begin; row < rows.end; row++) longest = std::max(longest, validLength(scores_, row));
    return longest;
  }

  double* sumAt(Segment at) const {
    return out_.sums + at.row * out_.columns + (out_.columnOf != nullptr ? out_.columnOf[at.prompt] : at.prompt);
  }

  void put(Segment at, double sum) {
    *sumAt(at) = canonical(sum);
    if (!suspicious(sum)) return;
    const std::int64_t segment = at.prompt * scores_.rows + at.row;
    std::int64_t first = firstSuspicious_.load(std::memory_order_relaxed);
    while (segment < first && !firstSuspicious_.compare_exchange_weak(first, segment, std::memory_order_relaxed)) {
    }
  }

  void sumGroups(const Tile& tile, T* scratch) {
    if (rowsInside_) {
      for (std::int64_t prompt = tile.prompts.begin; prompt < tile.prompts.end; prompt++) {
        forEachRun(tile.rows, kGroupSegments, [&](Range rows) {
          sumWholeGroup(rows, scratch, [&](std::int64_t row) { return Segment{prompt, row}; });
        });
      }
    } else {
      for (std::int64_t row = tile.rows.begin; row < tile.rows.end; row++) {
        forEachRun(tile.prompts, kGroupSegments, [&](Range prompts) {
          sumWholeGroup(prompts, scratch, [&](std::int64_t prompt) { return Segment{prompt, row}; });
        });
      }
    }
  }

  void sumBatch(const std::int64_t* starts, const std::int64_t* lengths, std::int64_t size, T* scratch,
                double* sums) const {
    if (scores_.tokenStride == 1) {
      kernels_.sumSegments[dtype_](data_, starts, lengths, size, sums);
    } else {
      for (std::int64_t i = 0; i < size; i++) sums[i] = sumSpread(data_ + starts[i], lengths[i], scratch);
    }
  }

  // Rows of up to kLinePrompts prompts: a line of the result is written once, when all its sums are there.
  void sumLines(Range prompts, Range rows, T* scratch) {
    std::int64_t starts[kBatchSegments] = {}, lengths[kBatchSegments] = {};
    double sums[kLinePrompts][kBatchSegments];
    const std::int64_t size = rows.end - rows.begin;
    for (std::int64_t i = 0; i < size; i++) lengths[i] = validLength(scores_, rows.begin + i);
    for (std::int64_t prompt = prompts.begin; prompt < prompts.end; prompt++) {
      for (std::int64_t i = 0; i < size; i++) starts[i] = segmentStart(scores_, prompt, rows.begin + i);
      sumBatch(starts, lengths, size, scratch, sums[prompt - prompts.begin]);
    }
    bool clean = true;
    for (std::int64_t i = 0; i < size; i++) {
      __builtin_prefetch(sumAt({prompts.begin, std::min(rows.begin + i + kResultsAhead, rows.end - 1)}), 1);
      for (std::int64_t prompt = prompts.begin; prompt < prompts.end; prompt++) {
        const double sum = sums[prompt - prompts.begin][i];
        clean &= !suspicious(sum);
        *sumAt({prompt, rows.begin + i}) = sum;
      }
    }
    if (clean) return;
    for (std::int64_t prompt = prompts.begin; prompt < prompts.end; prompt++) {
      for (std::int64_t i = 0; i < size; i++) put({prompt, rows.begin + i}, sums[prompt - prompts.begin][i]);
    }
  }

  void sumRow(std::int64_t row, Range prompts, T* scratch) {
    std::int64_t starts[kBatchSegments] = {}, lengths[kBatchSegments] = {};
    double sums[kBatchSegments];
    const std::int64_t size = prompts.end - prompts.begin, length = validLength(scores_, row);
    for (std::int64_t i = 0; i < size; i++) {
      starts[i] = segmentStart(scores_, prompts.begin + i, row);
      lengths[i] = length;
    }
    sumBatch(starts, lengths, size, scratch, sums);
    for (std::int64_t i = 0; i < size; i++) put({prompts.begin + i, row}, sums[i]);
  }

  // Tokens far apart: a leaf at a time is packed.
  double sumSpread(const T* tokens, std::int64_t length, T* scratch) const {
    double sum = 0.0;
    for (std::int64_t begin = 0; begin < length; begin += kLeafTokens) {
      const std::int64_t leaf = std::min<std::int64_t>(length - begin, kLeafTokens);
      for (std::int64_t t = 0; t < leaf; t++) scratch[t] = tokens[(begin + t) * scores_.tokenStride];
      const std::int64_t start = 0;
      double leafSum;
      kernels_.sumSegments[dtype_](scratch, &start, &leaf, 1, &leafSum);
      sum += leafSum;
    }
    return sum;
  }

  template <class SegmentAt>
  void sumWholeGroup(Range run, T* scratch, SegmentAt segmentAt) {
    const std::int64_t size = run.end - run.begin;
    double sums[kGroupSegments] = {};
    sumGroup(
        size, {0, std::numeric_limits<std::int64_t>::max()}, scratch,
        [&](std::int64_t i) { return segmentAt(run.begin + i); },
        [&](std::int64_t i, std::int64_t, double sum) { sums[i] += sum; });
    for (std::int64_t i = 0; i < size; i++) put(segmentAt(run.begin + i), sums[i]);
  }

  // Tokens, from a leaf's first one on, of `size` neighbouring segments whose tokens alternate in memory: read across
  // them, packed into one strip each. addLeaf(i, leaf, sum) in the order of each segment's leaves.
  template <class SegmentAt, class AddLeaf>
  void sumGroup(std::int64_t size, Range tokensOf, T* scratch, SegmentAt segmentAt, AddLeaf addLeaf) const {
    std::int64_t starts[kGroupSegments], lengths[kGroupSegments], longest = 0;
    double lanes[kGroupSegments][kTokenLanes];
    for (std::int64_t i = 0; i < size; i++) {
      const Segment at = segmentAt(i);
      starts[i] = segmentStart(scores_, at.prompt, at.row);
      lengths[i] = std::min(validLength(scores_, at.row), tokensOf.end);
      longest = std::max(longest, lengths[i]);
    }
    for (std::int64_t begin = tokensOf.begin; begin < longest; begin += kGroupTokens) {
      const std::int64_t end = std::min(begin + kGroupTokens, longest);
      for (std::int64_t t = begin; t < end; t++) {
        for (std::int64_t i = 0; i < size; i++) {
          if (t < lengths[i]) scratch[i * kGroupStride + (t - begin)] = data_[starts[i] + t * scores_.tokenStride];
        }
      }
      for (std::int64_t i = 0; i < size; i++) {
        const std::int64_t tokens = std::min(end, lengths[i]) - begin;
        if (tokens <= 0) continue;
        if (begin % kLeafTokens == 0) std::fill_n(lanes[i], kTokenLanes, 0.0);
        kernels_.addTokens[dtype_](scratch + i * kGroupStride, tokens, lanes[i]);
        const bool leafEnds = (begin + tokens) % kLeafTokens == 0 || begin + tokens == lengths[i];
        if (leafEnds) addLeaf(i, begin / kLeafTokens, kernels_.foldTokens(lanes[i]));
      }
    }
  }

  const TokenScores& scores_;
  const TokenSums& out_;
  const T* data_;
  const KernelTable& kernels_;
  int dtype_;
  bool rowsInside_;  // the inner loop runs over rows, else over prompts: the nearer neighbours
  bool grouped_;
  std::atomic<std::int64_t> firstSuspicious_;  // lowest prompt*rows+row with a suspicious sum
  std::vector<std::unique_ptr<T[]>> scratch_;  // of each worker
  std::vector<LongRun> longRuns_;
  std::int64_t piecesOfUnit_ = 0;  // of all long runs, under as many prompts as are read together
};

template <class T>
Outcome sumAs(const TokenScores& scores, const TokenSums& out, ThreadPool& pool, JobControl& control,
              InvalidToken* firstInvalid) {
  std::int64_t tokens = 0;
  for (std::int64_t row = 0; row < scores.rows; row++) tokens += validLength(scores, row);
  control.totalUnits.store(tokens * scores.prompts, std::memory_order_relaxed);

  TokenSummer<T> summer(scores, out, pool.threads());
  const std::vector<Tile> tiles = summer.tiles();
  const auto count = static_cast<std::int64_t>(tiles.size());
  Outcome outcome = pool.run(count, control, [&](std::int64_t tile, int worker) {
    summer.sum(tiles[static_cast<std::size_t>(tile)], worker, control);
  });
  if (outcome == Outcome::Done) outcome = summer.sumLongRows(pool, control);
  if (outcome == Outcome::Cancelled || firstInvalid == nullptr) return outcome;
  *firstInvalid = summer.firstInvalid(control);
  return control.cancelled.load(std::memory_order_relaxed) ? Outcome::Cancelled : Outcome::Done;
}

}  // namespace

Outcome sumTokens(const TokenScores& scores, const TokenSums& out, ThreadPool& pool, JobControl& control,
                  InvalidToken* firstInvalid) {
  return withStorage(scores.dtype,
                     [&](auto type) { return sumAs<decltype(type)>(scores, out, pool, control, firstInvalid); });
}

}  // namespace collapsar
