// A partition's lists are written where its hashes stand among the batch's: a feature has two occurrences at least.
#include "feature_lists.h"

#include <algorithm>
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
  for (std::int64_t j = 0; j < rows.prompts; j++) {
    const auto prompt = static_cast<std::uint32_t>(j);
    for (std::int64_t used = rows.firstRow[j]; used < rows.firstRow[j + 1]; used++) {
      add(used, tokens.count(rows.row[used]), {prompt, rows.fold[used], scoreOf[used], oddScoreOf[used]});
    }
    if (!rows.promptsKnown) continue;
    add(-1, promptTokens->count(rows.promptText[j]), {prompt, kPromptText, kNoScore, kNoScore});
  }
}

void TextTable::add(std::int64_t used, std::int64_t tokens, const Text& text) {
  entries.push_back(NgramHash::featureCount(tokens));
  row.push_back(used);
  texts.push_back(text);
}

FeatureLists::FeatureLists(const UsedRows& rows, const TextTable& texts, const PostingLists& postings, int workers)
    : texts_(texts), prompts_(rows.prompts), logs_(kKnownLogs), base_(static_cast<std::size_t>(workers)) {
  for (std::uint32_t n = 1; n < kKnownLogs; n++) logs_[n] = unitsOfLog(n);
  for (auto& ofWorker : base_) {
    ofWorker.resize(static_cast<std::size_t>(rows.rows));
    byText_.emplace_back(static_cast<std::size_t>(rows.rows));
  }
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
      [&](std::int64_t partition, int worker, const Ngram* ngrams, std::int64_t ngramCount,
          const std::uint32_t* found) {
        const std::int64_t at = postings.entriesBefore(partition) - postings.entriesBefore(first);
        FeatureList& list = lists_[static_cast<std::size_t>(partition - first)];
        list = {features_.get() + at / 2, holders_.get() + at, inText_.get() == nullptr ? nullptr : inText_.get() + at,
                counts_.get() + at, 0};
        listPartition(ngrams, ngramCount, found, countBase ? base_[static_cast<std::size_t>(worker)].data() : nullptr,
                      byText_[static_cast<std::size_t>(worker)].get(), list);
      });
}

void FeatureLists::listPartition(const Ngram* ngrams, std::int64_t ngramCount, const std::uint32_t* found,
                                 std::int64_t* base, Count* byText, FeatureList& out) const {
  const TextTable::Text* const texts = texts_.texts.data();
  const std::int64_t* const logs = logs_.data();
  const auto logOf = [&](std::uint32_t total) { return total < kKnownLogs ? logs[total] : unitsOfLog(total); };
  Feature* feature = out.features;
  Holder* holders = out.holders;
  std::uint32_t* inText = out.inText;
  Count* counts = out.counts;
  for (const Ngram* ngram = ngrams; ngram < ngrams + ngramCount; ngram++) {
    const std::uint32_t *const begin = found + ngram->first, *const end = found + ngram->end;
    if (*begin == end[-1]) {
      const std::int64_t row = texts_.row[*begin];
      if (end - begin > 1 && row >= 0 && base != nullptr) {  // ln 1 = 0
        base[row] += logOf(static_cast<std::uint32_t>(end - begin)) * (end - begin);
      }
      continue;
    }
    Holder* holder = holders - 1;
    Count* next = counts;
    std::uint32_t last = UINT32_MAX, total = 0;
    for (const std::uint32_t* at = begin; at < end;) {
      const std::uint32_t number = *at;
      const std::uint32_t* const first = at;
      while (++at < end && *at == number) continue;
      const auto count = static_cast<std::uint32_t>(at - first);
      const TextTable::Text& text = texts[number];
      if (text.prompt != last) {
        last = text.prompt;
        *++holder = {last, 0};
        if (inText != nullptr) inText[holder - holders] = 0;
      }
      if (text.fold == kPromptText) {
        inText[holder - holders] = count;
        continue;
      }
      holder->total += count;
      total += count;
      *next++ = {text.score, text.oddScore, text.fold, count, static_cast<std::uint32_t>(holder - holders)};
    }
    if (total == 0) continue;
    feature->holders = static_cast<std::uint32_t>(holder + 1 - holders);
    feature->total = total;
    feature->counts = static_cast<std::uint32_t>(next - counts);
    if (base != nullptr) {
      const std::int64_t log = logOf(total);
      for (const Count* at = counts; at < next; at++) base[texts_.scoredRow[at->score]] += log * at->count;
    }
    if (isDense(*feature)) sortByFold(counts, byText, *feature);
    holders += feature->holders;
    if (inText != nullptr) inText += feature->holders;
    counts = next;
    feature++;
  }
  out.featureCount = feature - out.features;
}

void FeatureLists::sortByFold(Count* counts, Count* byText, Feature& feature) {
  std::copy_n(counts, feature.counts, byText);
  std::fill_n(feature.ends, kMostFolds, 0);
  for (const Count* at = byText; at < byText + feature.counts; at++) feature.ends[at->fold]++;
  std::uint32_t starts[kMostFolds], before = 0;
  for (int fold = 0; fold < kMostFolds; fold++) {
    starts[fold] = before;
    before += feature.ends[fold];
    feature.ends[fold] = before;
  }
  for (const Count* at = byText; at < byText + feature.counts; at++) counts[starts[at->fold]++] = *at;
}

double FeatureLists::base(std::int64_t row) const {
  std::int64_t units = 0;
  for (const auto& ofWorker : base_) units += ofWorker[static_cast<std::size_t>(row)];
  return static_cast<double>(units) * kBaseUnit;
}

}  // namespace collapsar
