#include "take_block.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "engine/gather_scores.h"
#include "engine/simd/kernel_table.h"
#include "values.h"

namespace collapsar {
namespace {

constexpr std::int64_t kBlockTileTokens = 1 << 16;
constexpr std::int64_t kPartCost = 128;  // what a part costs besides its tokens, in tokens

// Positions of an axis by rising index in the step.
std::vector<std::int32_t> byIndex(const std::vector<std::int32_t>& indices, std::vector<std::int32_t> positions) {
  std::sort(positions.begin(), positions.end(), [&](std::int32_t a, std::int32_t b) {
    return indices[static_cast<std::size_t>(a)] < indices[static_cast<std::size_t>(b)];
  });
  return positions;
}

std::vector<std::int32_t> allPositions(std::size_t count) {
  std::vector<std::int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

// The first NaN or +inf of the step among the block's whole rows: sumTokens goes by the block's order.
Outcome findInvalid(const StepTokens& step, TokenBlock& block, const TokenScores& scores, const TokenSums& sums,
                    ThreadPool& pool, JobControl& control) {
  const std::vector<std::int32_t> rows = byIndex(block.rows, block.whole);
  for (const std::int32_t column : byIndex(block.prompts, allPositions(block.prompts.size()))) {
    for (const std::int32_t at : rows) {
      const std::int32_t target = sums.columnOf != nullptr ? sums.columnOf[column] : column;
      if (!suspicious(sums.sums[at * sums.columns + target])) continue;
      TokenScores one = scores;
      one.data = static_cast<const char*>(scores.data) +
                 segmentStart(scores, column, at) * static_cast<std::int64_t>(sizeOf(scores.dtype));
      one.prompts = one.rows = 1;
      one.lengths = scores.lengths + at;
      one.rowOffsets = nullptr;
      double sum;
      InvalidToken found;
      if (sumTokens(one, {&sum, 1, nullptr}, pool, control, &found) == Outcome::Cancelled) return Outcome::Cancelled;
      // Otherwise the sum has merely overflowed.
      if (found.prompt < 0) continue;
      const std::int64_t prompt = block.prompts[static_cast<std::size_t>(column)];
      block.invalid.emplace(prompt * step.rows() + block.rowAt(at), found.token);
      return Outcome::Done;
    }
  }
  return Outcome::Done;
}

// Neighbouring rows of the step, all of them whole: no cell in between belongs to another block.
bool areNeighbours(const TokenBlock& block) {
  if (block.whole.size() != block.rows.size()) return false;
  for (std::size_t at = 1; at < block.rows.size(); at++) {
    if (block.rows[at] != block.rows[at - 1] + 1) return false;
  }
  return true;
}

Outcome sumWholeRows(const StepTokens& step, TokenBlock& block, const TokenScores& scores, ThreadPool& pool,
                     JobControl& control) {
  if (block.whole.empty() || block.prompts.empty()) return Outcome::Done;
  const auto prompts = static_cast<std::int64_t>(block.prompts.size());
  const bool direct = areNeighbours(block);
  std::vector<double> own;
  if (!direct) own.resize(block.rows.size() * block.prompts.size());
  const TokenSums sums =
      direct ? TokenSums{step.sums() + block.rows[0] * step.prompts(), step.prompts(), block.prompts.data()}
             : TokenSums{own.data(), prompts, nullptr};
  InvalidToken invalid;
  if (sumTokens(scores, sums, pool, control, &invalid) == Outcome::Cancelled) return Outcome::Cancelled;
  if (invalid.prompt >= 0 && findInvalid(step, block, scores, sums, pool, control) == Outcome::Cancelled)
    return Outcome::Cancelled;
  // Cells of claimed pairs: nobody else writes there.
  if (!direct) step.putSums(block, block.whole, own.data());
  return Outcome::Done;
}

// Parts of rows, T: an element's bits.
template <class T>
class PartTaker {
 public:
  PartTaker(const StepTokens& step, TokenBlock& block, const TokenScores& scores, int workers)
      : step_(step), block_(block), scores_(scores), data_(static_cast<const T*>(scores.data)) {
    if (scores.tokenStride == 1) return;
    for (int worker = 0; worker < workers; worker++) scratch_.push_back(std::make_unique<T[]>(kLeafTokens));
  }

  // Before the leaves of one part under one prompt are taken: the places that commit() will need.
  void reserve(std::size_t item) {
    BegunRow& row = *block_.begun[item];
    row.open.reserve(row.open.size() + static_cast<std::size_t>(block_.leavesTo(partOf(item).to)));
  }

  // Leaves [firstLeaf, endLeaf) of one part under one prompt, counted from the block's first, as far as it has them.
  void take(std::size_t item, std::int64_t firstLeaf, std::int64_t endLeaf, int worker, const JobControl& control) {
    const TokenBlock::Part& part = partOf(item);
    const auto column = static_cast<std::int64_t>(item / block_.parts.size());
    const T* const tokens = data_ + segmentStart(scores_, column, part.at);
    const std::int64_t length = step_.length(block_.rowAt(part.at));
    const BegunRow& row = *block_.begun[item];
    LeafUpdate* update = block_.updates.data() + column * block_.partLeaves + part.leaves + firstLeaf;
    const std::int64_t end = block_.firstLeaf() + std::min(endLeaf, block_.leavesTo(part.to));
    for (std::int64_t leaf = block_.firstLeaf() + firstLeaf; leaf < end; leaf++, update++) {
      if (control.cancelled.load(std::memory_order_relaxed)) return;
      const std::int64_t leafBegin = leaf * kLeafTokens;
      const std::int64_t begin = std::max(block_.from, leafBegin);
      const std::int64_t count = std::min(part.to, leafBegin + kLeafTokens) - begin;
      const LeafSum* const open = row.openLeaf(leaf);
      LeafSum sum = open != nullptr ? *open : LeafSum(std::min<std::int64_t>(kLeafTokens, length - leafBegin));
      const std::int64_t tokensBefore = sum.waitingTokens(), bytesBefore = sum.waitingBytes();
      sum.add(scores_.dtype, side(tokens, begin - block_.from, count, worker), begin - leafBegin, count);
      update->waitingTokens = sum.waitingTokens() - tokensBefore;
      update->waitingBytes = sum.waitingBytes() - bytesBefore;
      if (sum.complete()) {
        update->sum = sum.sum();
        update->firstInvalid = sum.firstInvalid() < 0 ? -1 : leafBegin + sum.firstInvalid();
      } else {
        update->open = std::make_unique<LeafSum>(std::move(sum));
      }
    }
  }

 private:
  const TokenBlock::Part& partOf(std::size_t item) const { return block_.parts[item % block_.parts.size()]; }

  // The tokens side by side.
  const T* side(const T* tokens, std::int64_t from, std::int64_t count, int worker) {
    if (scores_.tokenStride == 1) return tokens + from;
    T* const scratch = scratch_[static_cast<std::size_t>(worker)].get();
    for (std::int64_t at = 0; at < count; at++) scratch[at] = tokens[(from + at) * scores_.tokenStride];
    return scratch;
  }

  const StepTokens& step_;
  TokenBlock& block_;
  const TokenScores& scores_;
  const T* data_;
  std::vector<std::unique_ptr<T[]>> scratch_;  // of each worker
};

// Sets aside the memory that commit() needs: leaves before which one is not complete, and invalid tokens.
void noteLeaves(const StepTokens& step, TokenBlock& block) {
  const LeafUpdate* update = block.updates.data();
  for (std::size_t item = 0; item < block.begun.size(); item++) {
    const TokenBlock::Part& part = block.parts[item % block.parts.size()];
    const std::int64_t pair = block.prompts[item / block.parts.size()] * step.rows() + block.rowAt(part.at);
    std::int64_t next = block.begun[item]->summed;
    for (std::int64_t leaf = block.firstLeaf(); leaf * kLeafTokens < part.to; leaf++, update++) {
      if (update->open != nullptr) continue;
      if (update->firstInvalid >= 0) block.invalid.emplace(pair, update->firstInvalid);
      if (leaf == next) {
        next++;
      } else {
        block.later.emplace(std::pair(pair, leaf), update->sum);
      }
    }
  }
}

template <class T>
Outcome takeParts(const StepTokens& step, TokenBlock& block, const TokenScores& scores, ThreadPool& pool,
                  JobControl& control) {
  const auto items = static_cast<std::int64_t>(block.begun.size());
  if (items == 0) return Outcome::Done;
  std::int64_t longest = 0;
  for (const TokenBlock::Part& part : block.parts) longest = std::max(longest, part.to - block.from);
  const std::int64_t together = std::max<std::int64_t>(1, kBlockTileTokens / (longest + kPartCost));
  // Threads share long parts, leaf by leaf.
  const std::int64_t leaves = block.leavesTo(block.from + longest);
  const std::int64_t pieceLeaves = std::min(leaves, kBlockTileTokens / kLeafTokens);
  const std::int64_t piecesOfPart = together > 1 ? 1 : (leaves + pieceLeaves - 1) / pieceLeaves;

  block.updates.resize(block.prompts.size() * static_cast<std::size_t>(block.partLeaves));
  PartTaker<T> taker(step, block, scores, pool.threads());
  // Here, not where the claim is given back: whoever has to do that may be short of memory, too.
  const auto drop = [&] { block.updates = std::vector<LeafUpdate>(); };
  try {
    for (std::int64_t item = 0; piecesOfPart > 1 && item < items; item++) taker.reserve(static_cast<std::size_t>(item));
    pool.run((items + together - 1) / together * piecesOfPart, control, [&](std::int64_t tile, int worker) {
      const std::int64_t first = tile / piecesOfPart * together, firstLeaf = tile % piecesOfPart * pieceLeaves;
      const std::int64_t endLeaf = piecesOfPart > 1 ? firstLeaf + pieceLeaves : leaves;
      for (std::int64_t item = first; item < std::min(items, first + together); item++) {
        if (piecesOfPart == 1) taker.reserve(static_cast<std::size_t>(item));
        taker.take(static_cast<std::size_t>(item), firstLeaf, endLeaf, worker, control);
      }
    });
  } catch (const std::bad_alloc&) {
    drop();
    throw;
  }
  if (control.cancelled.load(std::memory_order_relaxed)) {
    drop();
    return Outcome::Cancelled;
  }
  noteLeaves(step, block);
  return Outcome::Done;
}

}  // namespace

Outcome takeSums(const StepTokens& step, TokenBlock& block, const ScoreMatrix& sums, ThreadPool& pool,
                 JobControl& control) {
  block.sums.resize(block.rows.size() * block.prompts.size());
  if (gatherScores(sums, nullptr, sums.rows, nullptr, sums.columns, block.sums.data(), pool, control) ==
      Outcome::Cancelled)
    return Outcome::Cancelled;
  step.putSums(block, block.whole, block.sums.data());
  for (std::size_t at = 0; at < block.rows.size(); at++) {
    if (step.length(block.rows[at]) == 0) block.summed.push_back(static_cast<std::int32_t>(at));
  }
  return Outcome::Done;
}

Outcome takeTokens(const StepTokens& step, TokenBlock& block, const TokenScores& scores, ThreadPool& pool,
                   JobControl& control) {
  if (sumWholeRows(step, block, scores, pool, control) == Outcome::Cancelled) return Outcome::Cancelled;
  return withStorage(scores.dtype,
                     [&](auto type) { return takeParts<decltype(type)>(step, block, scores, pool, control); });
}

}  // namespace collapsar
