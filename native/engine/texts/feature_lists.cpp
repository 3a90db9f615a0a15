// A partition's lists are written where its hashes stand among the batch's: a feature has two postings at least.
#include "feature_lists.h"

#include <cmath>

#include "engine/deterministic_math.h"

namespace collapsar {

namespace {

constexpr std::int64_t kBatchEntries = 1 << 16;
constexpr int kPartitionsEach = 4;     // in a batch for each thread, at least
constexpr double kBaseUnit = 0x1p-24;  // whole numbers add up in any order
constexpr std::int64_t kKnownLogs = 4096;

std::int64_t unitsOfLog(std::uint32_t count) {
  return std::llround(deterministicLog(static_cast<double>(count)) / kBaseUnit);
}

}  // namespace

TextTable::TextTable(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens) {
  for (std::int64_t j = 0; j < rows.prompts; j++) {
    for (std::int64_t used = rows.firstRow[j]; used < rows.firstRow[j + 1]; used++) {
      const bool odd = rows.place(used) % 2 == 1;
      std::vector<std::int64_t>& ofFold = rowsOf[rows.fold[used]];
      add(used, tokens.count(rows.row[used]),
          {static_cast<std::uint32_t>(j), rows.fold[used], static_cast<std::uint32_t>(ofFold.size()),
           odd ? static_cast<std::uint32_t>(oddRows.size()) : kEven});
      ofFold.push_back(used);
      if (odd) oddRows.push_back(used);
    }
    if (!rows.promptsKnown) continue;
    add(-1, promptTokens->count(rows.promptText[j]), {static_cast<std::uint32_t>(j), kPromptText, 0, kEven});
  }
}

void TextTable::add(std::int64_t used, std::int64_t tokens, const Text& text) {
  entries.push_back(NgramHash::featureCount(tokens));
  row.push_back(used);
  texts.push_back(text);
}

FeatureLists::FeatureLists(const UsedRows& rows, const TextTable& texts, const PostingLists& postings, int workers)
    : texts_(texts), logs_(kKnownLogs), base_(static_cast<std::size_t>(workers)) {
  for (std::uint32_t n = 1; n < kKnownLogs; n++) logs_[n] = unitsOfLog(n);
  for (auto& ofWorker : base_) ofWorker.resize(static_cast<std::size_t>(rows.rows));
  firstPartition_.push_back(0);
  std::int64_t most = 0;
  for (std::int64_t end = 1; end <= postings.partitions(); end++) {
    const std::int64_t first = firstPartition_.back();
    const std::int64_t entries = postings.entriesBefore(end) - postings.entriesBefore(first);
    if ((entries < kBatchEntries || end - first < kPartitionsEach * workers) && end < postings.partitions()) continue;
    firstPartition_.push_back(end);
    most = std::max(most, entries);
  }
  const auto room = static_cast<std::size_t>(most);
  features_ = UnsetArray<Feature>(room / 2 + 1);
  holders_ = UnsetArray<Holder>(room);
  if (rows.promptsKnown) inText_ = UnsetArray<std::uint32_t>(room);
  counts_ = UnsetArray<Count>(room);
}

Outcome FeatureLists::list(std::int64_t batch, PostingLists& postings, bool countBase, ThreadPool& pool,
                           JobControl& control) {
  const std::int64_t first = firstPartition_[batch], end = firstPartition_[batch + 1];
  lists_.resize(static_cast<std::size_t>(end - first));
  return postings.group(
      first, end, pool, control,
      [&](std::int64_t partition, int worker, const Ngram* ngrams, std::int64_t ngramCount, const Posting* found) {
        const std::int64_t at = postings.entriesBefore(partition) - postings.entriesBefore(first);
        FeatureList& list = lists_[static_cast<std::size_t>(partition - first)];
        list = {features_.get() + at / 2, holders_.get() + at, inText_.get() == nullptr ? nullptr : inText_.get() + at,
                counts_.get() + at, 0};
        listPartition(ngrams, ngramCount, found, countBase ? base_[static_cast<std::size_t>(worker)].data() : nullptr,
                      list);
      });
}

void FeatureLists::listPartition(const Ngram* ngrams, std::int64_t ngramCount, const Posting* postings,
                                 std::int64_t* base, FeatureList& out) const {
  std::int64_t holderCount = 0, countCount = 0;
  out.featureCount = 0;
  for (const Ngram* ngram = ngrams; ngram < ngrams + ngramCount; ngram++) {
    if (ngram->postings == 1 && postings[ngram->first].count == 1) continue;  // ln 1 = 0
    Feature feature{};
    Holder* const holders = out.holders + holderCount;
    Holder* holder = holders - 1;
    std::uint32_t last = UINT32_MAX;
    for (std::uint32_t at = ngram->first; at != kNoPosting; at = postings[at].next) {
      const std::uint32_t count = postings[at].count;
      const TextTable::Text& text = texts_.texts[postings[at].text];
      if (text.prompt != last) {
        last = text.prompt;
        *++holder = {last, 0};
        if (out.inText != nullptr) out.inText[holderCount + feature.holders] = 0;
        feature.holders++;
      }
      if (text.fold == kPromptText) {
        out.inText[holderCount + feature.holders - 1] = count;
        continue;
      }
      holder->total += count;
      feature.total += count;
      feature.ends[text.fold]++;
    }
    if (feature.total == 0) continue;
    std::uint32_t starts[kMostFolds], rows = 0;
    for (int fold = 0; fold < kMostFolds; fold++) {
      starts[fold] = rows;
      rows += feature.ends[fold];
      feature.ends[fold] = rows;
    }
    const std::int64_t log = feature.total < kKnownLogs ? logs_[feature.total] : unitsOfLog(feature.total);
    Count* const counts = out.counts + countCount;
    std::uint32_t of = 0;
    for (std::uint32_t at = ngram->first; at != kNoPosting; at = postings[at].next) {
      const Posting& posting = postings[at];
      const TextTable::Text& text = texts_.texts[posting.text];
      while (holders[of].prompt != text.prompt) of++;
      if (text.fold == kPromptText) continue;
      counts[starts[text.fold]++] = {posting.text, posting.count, of};
      if (base != nullptr) base[texts_.row[posting.text]] += log * posting.count;
    }
    if (ngram->postings == 1) continue;
    out.features[out.featureCount++] = feature;
    holderCount += feature.holders;
    countCount += rows;
  }
}

double FeatureLists::base(std::int64_t row) const {
  std::int64_t units = 0;
  for (const auto& ofWorker : base_) units += ofWorker[static_cast<std::size_t>(row)];
  return static_cast<double>(units) * kBaseUnit;
}

}  // namespace collapsar
