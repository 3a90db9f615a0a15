#include "step_tokens.h"

#include <algorithm>
#include <new>

#include "engine/special_values.h"
#include "values.h"

namespace collapsar {
namespace {

const char* nameOf(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return "float64";
    case DType::Float32:
      return "float32";
    case DType::Float16:
      return "float16";
    case DType::BFloat16:
      break;
  }
  return "bfloat16";
}

}  // namespace

const LeafSum* BegunRow::openLeaf(std::int64_t leaf) const {
  for (const OpenLeaf& each : open) {
    if (each.leaf == leaf) return each.sum.get();
  }
  return nullptr;
}

StepTokens::StepTokens(std::int64_t prompts, std::vector<std::int64_t> lengths, double* sums)
    : prompts_(prompts), lengths_(std::move(lengths)), sums_(sums) {
  state_.resize(static_cast<std::size_t>(prompts_) * lengths_.size());
  begun_.resize(state_.size() / kChunkPairs + 1);
  pairsWithTokens_ = prompts_ * (rows() - std::count(lengths_.begin(), lengths_.end(), 0));
}

void StepTokens::refuse(std::int64_t prompt, std::int64_t row, std::int64_t token) const {
  throw BlockRefusal{"block", "prompt " + std::to_string(prompt) + ", row " + std::to_string(row) + ", token " +
                                  std::to_string(token) + " came before: give each token of a step once"};
}

void StepTokens::expectFree(const TokenBlock& block) const {
  for (const std::int32_t prompt : block.prompts) {
    for (const std::int32_t at : block.whole) {
      const std::int64_t row = block.rowAt(at);
      if (const std::int64_t token = firstGiven(prompt, row); token >= 0) refuse(prompt, row, token);
    }
    for (const TokenBlock::Part& part : block.parts) {
      const std::int64_t row = block.rowAt(part.at);
      const State known = state(pairOf(prompt, row));
      if (known == State::Nothing) continue;
      if (known == State::Whole) refuse(prompt, row, block.from);
      const BegunRow& other = begun(pairOf(prompt, row));
      if (const std::int64_t token = other.spans.firstCommon({block.from, part.to}); token >= 0)
        refuse(prompt, row, token);
      if (other.dtype == block.dtype) continue;
      throw BlockRefusal{"logprobs.dtype", std::string("got ") + nameOf(block.dtype) + ", but other tokens of prompt " +
                                               std::to_string(prompt) + ", row " + std::to_string(row) + " came as " +
                                               nameOf(other.dtype) + ": give all tokens of a row in one dtype"};
    }
  }
}

std::shared_ptr<TokenBlock> StepTokens::claim(std::vector<std::int32_t> prompts, std::vector<std::int32_t> rows,
                                              TokenSpan tokens, DType dtype) {
  auto block = std::make_shared<TokenBlock>();
  block->dtype = dtype;
  block->prompts = std::move(prompts);
  block->rows = std::move(rows);
  block->from = tokens.from;
  for (std::size_t at = 0; at < block->rows.size(); at++) {
    const std::int64_t length = this->length(block->rows[at]), to = std::min(tokens.to, length);
    if (to <= tokens.from) continue;
    if (tokens.from == 0 && to == length) {
      block->whole.push_back(static_cast<std::int32_t>(at));
    } else {
      block->parts.push_back({static_cast<std::int32_t>(at), to, block->partLeaves});
      block->partLeaves += block->leavesTo(to);
    }
  }
  expectFree(*block);
  block->begun.reserve(block->prompts.size() * block->parts.size());
  try {
    for (const std::int32_t prompt : block->prompts) {
      for (const TokenBlock::Part& part : block->parts) {
        const std::int64_t row = block->rowAt(part.at);
        block->begun.push_back(&begin(pairOf(prompt, row), {block->from, part.to}, dtype));
      }
    }
  } catch (const std::bad_alloc&) {
    unclaimParts(*block);
    throw;
  }
  for (const std::int32_t prompt : block->prompts) {
    for (const std::int32_t at : block->whole) setWhole(pairOf(prompt, block->rowAt(at)));
  }
  return block;
}

// Claims tokens of a row, which may have begun.
BegunRow& StepTokens::begin(std::int64_t pair, TokenSpan tokens, DType dtype) {
  BegunChunk& chunk = chunkOf(pair);
  std::unique_ptr<BegunRow[]> fresh;
  if (chunk.rows == nullptr) fresh = std::make_unique<BegunRow[]>(kChunkPairs);
  BegunRow& known = (fresh != nullptr ? fresh : chunk.rows)[static_cast<std::size_t>(pair % kChunkPairs)];
  known.spans.add(tokens);
  // Kept only now: where there was no memory for the span, no row of the chunk would ever end and free it.
  if (fresh != nullptr) {
    chunk.rows = std::move(fresh);
    chunks_++;
  }
  if (state(pair) == State::Part) return known;
  known.dtype = dtype;
  state(pair) = State::Part;
  chunk.begun++;
  begunPairs_++;
  return known;
}

void StepTokens::unclaim(const TokenBlock& block) {
  unclaimParts(block);
  for (const std::int32_t prompt : block.prompts) {
    for (const std::int32_t at : block.whole) drop(pairOf(prompt, block.rowAt(at)));
  }
}

// As far as they were claimed.
void StepTokens::unclaimParts(const TokenBlock& block) {
  for (std::size_t item = 0; item < block.begun.size(); item++) {
    const TokenBlock::Part& part = block.parts[item % block.parts.size()];
    TokenSpans& spans = block.begun[item]->spans;
    spans.remove({block.from, part.to});
    if (spans.empty()) drop(pairOf(block.prompts[item / block.parts.size()], block.rowAt(part.at)));
  }
}

void StepTokens::setWhole(std::int64_t pair) {
  state(pair) = State::Whole;
  wholePairs_++;
}

// As if nothing of the pair had come.
void StepTokens::drop(std::int64_t pair) {
  if (state(pair) == State::Whole) wholePairs_--;
  if (state(pair) == State::Part) endBegun(pair);
  state(pair) = State::Nothing;
  invalid_.erase(pair);
}

void StepTokens::endBegun(std::int64_t pair) {
  BegunRow& gone = begun(pair);
  for (const BegunRow::OpenLeaf& leaf : gone.open) {
    openLeaves_--;
    waitingTokens_ -= leaf.sum->waitingTokens();
    waitingBytes_ -= leaf.sum->waitingBytes();
  }
  gone = BegunRow{};
  later_.erase(later_.lower_bound({pair, 0}), later_.lower_bound({pair + 1, 0}));
  begunPairs_--;
  BegunChunk& chunk = chunkOf(pair);
  if (--chunk.begun > 0) return;
  chunk.rows.reset();
  chunks_--;
}

void StepTokens::putSums(const TokenBlock& block, const std::vector<std::int32_t>& positions,
                         const double* sums) const noexcept {
  for (const std::int32_t at : positions) {
    double* const row = sums_ + block.rowAt(at) * prompts_;
    const double* const found = sums + static_cast<std::size_t>(at) * block.prompts.size();
    for (std::size_t column = 0; column < block.prompts.size(); column++) row[block.prompts[column]] = found[column];
  }
}

void StepTokens::commit(TokenBlock& block, std::uint8_t* touched) noexcept {
  putSums(block, block.summed, block.sums.data());
  // Nodes that the block made go over as they are.
  for (const auto& [pair, token] : block.invalid) {
    const auto known = invalid_.find(pair);
    if (known != invalid_.end()) known->second = std::min(known->second, token);
  }
  invalid_.merge(block.invalid);

  LeafUpdate* updates = block.updates.data();
  for (const std::int32_t prompt : block.prompts) {
    for (const std::int32_t at : block.whole) {
      if (touched != nullptr) touched[pairOf(prompt, block.rowAt(at))] = 1;
    }
    for (const TokenBlock::Part& part : block.parts) {
      const std::int64_t row = block.rowAt(part.at);
      const std::int64_t pair = pairOf(prompt, row);
      if (touched != nullptr) touched[pair] = 1;
      const std::int64_t leaves = block.leavesTo(part.to);
      for (std::int64_t leaf = 0; leaf < leaves; leaf++)
        update(pair, block.firstLeaf() + leaf, *updates++, block.later);
      const BegunRow& known = begun(pair);
      if (known.summed * kLeafTokens < length(row)) continue;
      sums_[row * prompts_ + prompt] = canonical(known.total);
      endBegun(pair);
      setWhole(pair);
    }
  }
}

void StepTokens::update(std::int64_t pair, std::int64_t leaf, LeafUpdate& update, LaterLeaves& later) {
  BegunRow& row = begun(pair);
  const auto known =
      std::find_if(row.open.begin(), row.open.end(), [&](const BegunRow::OpenLeaf& open) { return open.leaf == leaf; });
  const bool wasOpen = known != row.open.end();
  openLeaves_ += (update.open != nullptr) - wasOpen;
  waitingTokens_ += update.waitingTokens;
  waitingBytes_ += update.waitingBytes;
  if (update.open != nullptr) {
    if (wasOpen) {
      std::swap(known->sum, update.open);
    } else {
      row.open.push_back({leaf, std::move(update.open)});
    }
    return;
  }
  if (wasOpen) {
    update.open = std::move(known->sum);
    row.open.erase(known);
  }
  if (leaf != row.summed) {
    later_.insert(later.extract({pair, leaf}));
    return;
  }
  // In the order of leaves, whatever the order they are complete in: as sumTokens does it.
  row.total += update.sum;
  row.summed++;
  for (auto next = later_.find({pair, row.summed}); next != later_.end(); next = later_.find({pair, row.summed})) {
    row.total += next->second;
    row.summed++;
    later_.erase(next);
  }
}

void StepTokens::forget(std::uint8_t* touched) {
  for (std::int64_t pair = 0; pair < prompts_ * rows(); pair++) {
    if (touched[pair] != 0) drop(pair);
    touched[pair] = 0;
  }
}

std::int64_t StepTokens::firstGiven(std::int64_t prompt, std::int64_t row) const {
  const std::int64_t pair = pairOf(prompt, row);
  if (state(pair) == State::Nothing) return -1;
  return state(pair) == State::Part ? begun(pair).spans.first() : 0;
}

MissingTokens StepTokens::missing(std::int64_t prompt, const std::vector<std::int32_t>* some) const {
  MissingTokens found{};
  if (wholePairs_ == pairsWithTokens_) return found;
  const std::int64_t count = some == nullptr ? rows() : static_cast<std::int64_t>(some->size());
  for (std::int64_t at = 0; at < count; at++) {
    const std::int64_t row = some == nullptr ? at : (*some)[static_cast<std::size_t>(at)];
    const State known = state(pairOf(prompt, row));
    if (known != State::Nothing) found.untouched = false;
    if (known == State::Whole || length(row) == 0) continue;
    const TokenSpan gap =
        known == State::Part ? begun(pairOf(prompt, row)).spans.firstGap(length(row)) : TokenSpan{0, length(row)};
    if (gap.from == gap.to) continue;  // what lacks is on its way
    if (found.rows++ > 0) continue;
    found.row = row;
    found.tokens = gap;
  }
  return found;
}

void StepTokens::markMissing() {
  if (wholePairs_ == pairsWithTokens_) return;
  for (std::int64_t row = 0; row < rows(); row++) {
    if (length(row) == 0) continue;
    for (std::int64_t prompt = 0; prompt < prompts_; prompt++) {
      if (state(pairOf(prompt, row)) != State::Whole) sums_[row * prompts_ + prompt] = kNaN;
    }
  }
}

std::int64_t StepTokens::heldBytes() const {
  // What the allocator takes for a node of a map, or for the two lists of a row.
  constexpr std::int64_t kNode = 64;
  return chunks_ * kChunkPairs * static_cast<std::int64_t>(sizeof(BegunRow)) + begunPairs_ * kNode +
         openLeaves_ * static_cast<std::int64_t>(sizeof(LeafSum)) + waitingBytes_ +
         static_cast<std::int64_t>(later_.size()) * kNode;
}

}  // namespace collapsar
