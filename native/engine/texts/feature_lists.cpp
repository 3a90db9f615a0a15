// A partition's lists are written where its hashes stand among the batch's. Nothing that looks at each occurrence
// branches on its feature: what comes next cannot be foretold.
#include "feature_lists.h"

#include <algorithm>
#include <cmath>

#include "engine/deterministic_math.h"

namespace collapsar {

namespace {

constexpr std::int64_t kBatchEntries = 1 << 14;
constexpr int kPartitionsEach = 4;     // in a batch for each thread of several, at least
constexpr double kBaseUnit = 0x1p-24;  // whole numbers add up in any order
constexpr std::uint32_t kKnownLogs = 4096;
constexpr int kDensePart = 8;  // a feature that this part of the prompts has is scored for all of them

std::int64_t unitsOfLog(std::uint32_t count) {
  return std::llround(deterministicLog(static_cast<double>(count)) / kBaseUnit);
}

}  // namespace

TextTable::TextTable(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, bool splits) {
  const auto isOdd = [&](std::int64_t used) { return splits && rows.place(used) % 2 == 1; };
  std::vector<std::uint32_t> scoreOf(static_cast<std::size_t>(rows.rows)), oddScoreOf(scoreOf.size(), kNoScore);
  for (int fold = 0; fold <= kHalf; fold++) {
    firstScore[fold] = static_cast<std::uint32_t>(scoredRow.size());
    for (std::int64_t used = 0; used < rows.rows; used++) {
      if (fold == kHalf ? !isOdd(used) : rows.fold[used] != fold) continue;
      (fold == kHalf ? oddScoreOf : scoreOf)[used] = static_cast<std::uint32_t>(scoredRow.size());
      scoredRow.push_back(used);
    }
  }
  firstScore[kHalf + 1] = static_cast<std::uint32_t>(scoredRow.size());
  const auto add = [&](std::int64_t tokenCount, const Text& text) {
    this->tokens.push_back(tokenCount);
    texts.push_back(text);
  };
  for (std::int64_t j = 0; j < rows.prompts; j++) {
    const auto prompt = static_cast<std::uint32_t>(j);
    for (std::int64_t used = rows.firstRow[j]; used < rows.firstRow[j + 1]; used++) {
      add(tokens.count(rows.row[used]),
          {prompt, rows.fold[used], scoreOf[used], oddScoreOf[used], static_cast<std::uint32_t>(used)});
    }
    if (!rows.promptsKnown) continue;
    add(promptTokens->count(rows.promptText[j]),
        {prompt, kPromptText, kNoScore, kNoScore, static_cast<std::uint32_t>(rows.rows)});
  }
}

std::vector<TextOwner> TextTable::owners() const {
  std::vector<TextOwner> found;
  for (const Text& text : texts) found.push_back({text.prompt, text.fold == kPromptText ? 0 : UINT32_MAX});
  return found;
}

FeatureLists::FeatureLists(const UsedRows& rows, const TextTable& texts, const PostingLists& postings,
                           std::int64_t stride, int workers)
    : texts_(texts),
      prompts_(rows.prompts),
      stride_(stride),
      all_(0),
      logs_(kKnownLogs),
      scratch_(static_cast<std::size_t>(workers)) {
  for (std::uint32_t n = 1; n < kKnownLogs; n++) logs_[n] = unitsOfLog(n);
  for (std::size_t text = 0; text < texts.texts.size(); text++) {
    if (texts.texts[text].fold != kPromptText) all_ += static_cast<double>(NgramHash::featureCount(texts.tokens[text]));
  }
  // By prompts q is b, so that the two thirds of b stand together.
  if (rows.byPrompts) all_ /= 2;
  // What is left out is written to the slots of no feature, and to one entry behind the last.
  const std::int64_t leastDense = std::max<std::int64_t>(2, (prompts_ + kDensePart - 1) / kDensePart);
  slotsOfEntry_ = (stride + leastDense - 1) / leastDense + 1;
  spareEntries_ = 1 + (stride + slotsOfEntry_ - 1) / slotsOfEntry_;
  firstPartition_.push_back(0);
  std::int64_t most = 0, mostOfPartition = 0;
  for (std::int64_t end = 1; end <= postings.partitions(); end++) {
    const std::int64_t first = firstPartition_.back();
    mostOfPartition = std::max(mostOfPartition, postings.entriesBefore(end) - postings.entriesBefore(end - 1));
    const std::int64_t entries = postings.entriesBefore(end) - postings.entriesBefore(first);
    const std::int64_t wanted = workers == 1 ? 1 : kPartitionsEach * workers;
    if ((entries < kBatchEntries || end - first < wanted) && end < postings.partitions()) continue;
    firstPartition_.push_back(end);
    most = std::max(most, entries + (end - first) * spareEntries_);
  }
  const auto room = static_cast<std::size_t>(most), slots = room * static_cast<std::size_t>(slotsOfEntry_);
  rows_ = UnsetArray<RowCounts>(room);
  dense_ = UnsetArray<DenseCount>(room);
  sparse_ = UnsetArray<SparseCount>(room);
  totals_ = UnsetArray<std::int32_t>(slots);
  scales_ = UnsetArray<double>(slots);
  if (rows.promptsKnown) inText_ = UnsetArray<std::int32_t>(slots);
  slotPrompts_ = UnsetArray<std::uint32_t>(slots);
  for (Scratch& scratch : scratch_) {
    scratch.places = UnsetArray<Place>(static_cast<std::size_t>(mostOfPartition));
    scratch.rows = UnsetArray<RowCounts>(static_cast<std::size_t>(mostOfPartition));
    scratch.base.resize(static_cast<std::size_t>(rows.rows + 1));
  }
}

Outcome FeatureLists::list(std::int64_t batch, PostingLists& postings, bool countBase, ThreadPool& pool,
                           JobControl& control) {
  const std::int64_t first = firstPartition_[batch], end = firstPartition_[batch + 1];
  lists_.resize(static_cast<std::size_t>(end - first));
  return postings.group(first, end, pool, control, [&](std::int64_t partition, int worker, const NgramGroup& group) {
    const std::int64_t at =
        postings.entriesBefore(partition) - postings.entriesBefore(first) + (partition - first) * spareEntries_;
    const std::int64_t slot = at * slotsOfEntry_;
    FeatureList& list = lists_[static_cast<std::size_t>(partition - first)];
    list.rows = rows_.get() + at;
    list.dense = dense_.get() + at;
    list.sparse = sparse_.get() + at;
    list.totals = totals_.get() + slot;
    list.inText = inText_.get() == nullptr ? nullptr : inText_.get() + slot;
    list.prompts = slotPrompts_.get() + slot;
    list.scales = scales_.get() + slot;
    listPartition(group, countBase, scratch_[static_cast<std::size_t>(worker)], list);
  });
}

void FeatureLists::giveSlots(const NgramGroup& group, Place* places, FeatureList& out) const {
  const auto stride = static_cast<std::uint32_t>(stride_);
  const auto leastDense = static_cast<std::uint32_t>((prompts_ + kDensePart - 1) / kDensePart);
  out.scales[0] = 0;
  std::uint32_t slots = stride;
  for (std::int64_t i = 0; i < group.count; i++) {
    const Ngram& ngram = group.ngrams[i];
    const bool isUsed = ngram.texts > 1 && ngram.total > 0, isDense = isUsed && ngram.prompts >= leastDense;
    const std::int64_t log = ngram.total < kKnownLogs ? logs_[ngram.total] : unitsOfLog(ngram.total);
    places[i] = {0, UINT32_MAX, isUsed && !isDense, 0, 0, 0, log};
    if (!isDense) continue;
    places[i].denseMask = UINT32_MAX;
    places[i].slot = places[i].firstSlot = slots;
    out.scales[slots] = all_ / ngram.total;
    slots += stride;
  }
  out.denseSlots = slots;
  for (std::int64_t i = 0; i < group.count; i++) {
    Place& place = places[i];
    if (place.isSparse == 0) continue;
    place.firstSlot = slots;
    place.endSlot = slots + group.ngrams[i].prompts;
    place.slot = slots - 1;
    const double scale = all_ / group.ngrams[i].total;
    for (; slots < place.endSlot; slots++) out.scales[slots] = scale;
  }
  out.slots = slots;
  std::fill_n(out.totals, slots, 0);
  if (out.inText != nullptr) std::fill_n(out.inText, slots, 0);
}

void FeatureLists::listPartition(const NgramGroup& group, bool countBase, Scratch& scratch, FeatureList& out) const {
  Place* const places = scratch.places.get();
  giveSlots(group, places, out);
  RowCounts* row = scratch.rows.get();
  std::uint32_t ofFold[kMostFolds] = {}, dense = 0, sparse = 0;
  const std::uint32_t *const texts = group.texts, *const numbers = group.numbers, *const counts = group.counts;
  std::uint32_t* const prompts = out.prompts;
  DenseCount* const denseCounts = out.dense;
  SparseCount* const sparseCounts = out.sparse;
  for (std::int64_t begin = 0; begin < group.entries;) {
    const std::uint32_t number = texts[begin];
    const TextTable::Text text = texts_.texts[number];
    const bool isRow = text.fold != kPromptText;
    std::int32_t* const totals = isRow ? out.totals : out.inText;
    std::uint32_t denseTotal = 0, sparseTotal = 0;
    std::int64_t base = 0, end = begin;
    *row = {number, dense, 0, sparse, 0, 0, 0};
    for (; end < group.entries && texts[end] == number; end++) {
      Place& place = places[numbers[end]];
      const std::uint32_t count = counts == nullptr ? 1 : counts[end];
      const std::uint32_t isSparse = place.isSparse, mask = place.denseMask, first = place.firstSlot;
      const std::uint32_t last = place.slot + (isSparse & static_cast<std::uint32_t>(place.lastPrompt != text.prompt));
      const std::uint32_t slot = last + (text.prompt & mask);
      place.slot = last;
      place.lastPrompt = text.prompt;
      base += place.log * count;
      prompts[slot] = text.prompt;
      totals[slot] += static_cast<std::int32_t>(count);
      denseCounts[dense] = {first, count};
      sparseCounts[sparse] = {first, place.endSlot, slot, count};
      dense += mask & 1;
      sparse += isSparse;
      denseTotal += count & mask;
      sparseTotal += count & (0 - isSparse);
    }
    begin = end;
    if (!isRow) {
      dense = row->dense;
      sparse = row->sparse;
      continue;
    }
    if (countBase) scratch.base[text.row] += base;
    if (denseTotal + sparseTotal == 0) continue;
    row->denseEnd = dense;
    row->sparseEnd = sparse;
    row->denseTotal = denseTotal;
    row->sparseTotal = sparseTotal;
    ofFold[text.fold]++;
    row++;
  }
  std::uint32_t next[kMostFolds];
  out.firstRow[0] = 0;
  for (int fold = 0; fold < kMostFolds; fold++) {
    next[fold] = out.firstRow[fold];
    out.firstRow[fold + 1] = out.firstRow[fold] + ofFold[fold];
  }
  for (const RowCounts* at = scratch.rows.get(); at < row; at++) out.rows[next[texts_.texts[at->text].fold]++] = *at;
}

double FeatureLists::base(std::int64_t row) const {
  std::int64_t units = 0;
  for (const Scratch& scratch : scratch_) units += scratch.base[static_cast<std::size_t>(row)];
  return static_cast<double>(units) * kBaseUnit;
}

}  // namespace collapsar
