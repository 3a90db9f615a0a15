// Texts come prompt by prompt, so that a feature's slots are those of its runs of one prompt.
#include "feature_counts.h"

#include <cmath>

#include "engine/simd/kernel_table.h"

namespace collapsar {

namespace {

// ln of a number in units of kBaseUnit.
std::int64_t unitsOfLog(std::uint32_t number) {
  static const std::vector<std::int64_t> known = [] {
    std::vector<std::int64_t> logs = {0};
    for (int n = 1; n < 4096; n++) logs.push_back(std::llround(kernels().log(n) / kBaseUnit));
    return logs;
  }();
  return number < known.size() ? known[number] : std::llround(kernels().log(number) / kBaseUnit);
}

}  // namespace

FeatureTexts::FeatureTexts(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens) {
  for (std::int64_t j = 0; j < rows.prompts; j++) {
    const auto prompt = static_cast<std::uint32_t>(j);
    for (std::int64_t row = rows.firstRow[j]; row < rows.firstRow[j + 1]; row++) {
      texts.push_back({prompt, row});
      features.push_back(NgramHash::featureCount(tokens.count(rows.row[row])));
      all += static_cast<double>(features.back());
    }
    if (!rows.promptsKnown) continue;
    texts.push_back({prompt, -1});
    features.push_back(NgramHash::featureCount(promptTokens->count(rows.promptText[j])));
  }
}

void FeatureCounts::count(const HashShards::Entries& hashes, const FeatureTexts& texts, const UsedRows& rows,
                          std::atomic<std::int64_t>* base) {
  constexpr std::uint32_t kNone = HashNumbers::kNone;
  numbers_.clear(hashes.count);
  numberOf_.resize(static_cast<std::size_t>(hashes.count));
  counters_.clear();
  for (std::int64_t i = 0; i < hashes.count; i++) {
    const std::uint32_t number = numbers_.add(hashes.hashes[i]), text = hashes.texts[i];
    numberOf_[i] = number;
    if (number == counters_.size()) counters_.push_back({0, 0, 0, kNone, kNone, kNone, kNone, kNone});
    Counter& counter = counters_[number];
    counter.texts += counter.lastText != text;
    counter.lastText = text;
    counter.prompts += counter.lastPrompt != texts.texts[text].prompt;
    counter.lastPrompt = texts.texts[text].prompt;
    counter.total += texts.texts[text].row >= 0;
  }

  features.clear();
  std::uint32_t slotCount = 0;
  // By prompts q is b, so that the two thirds of b stand together.
  const double all = rows.byPrompts ? texts.all / 2 : texts.all;
  for (Counter& counter : counters_) {
    if (counter.texts < 2 || counter.total == 0) continue;
    counter.feature = static_cast<std::uint32_t>(features.size());
    counter.slot = slotCount - 1;
    counter.lastText = counter.lastPrompt = kNone;
    features.push_back({slotCount, slotCount + counter.prompts, all / counter.total});
    slotCount += counter.prompts;
  }
  slots.resize(slotCount);
  entries.clear();
  entries.reserve(static_cast<std::size_t>(hashes.count));
  for (auto& ofFold : runs) ofFold.clear();
  for (std::int64_t i = 0; i < hashes.count;) {
    const std::uint32_t number = hashes.texts[i];
    const auto [prompt, row] = texts.texts[number];
    const auto begin = static_cast<std::uint32_t>(entries.size());
    std::int64_t logs = 0;
    for (; i < hashes.count && hashes.texts[i] == number; i++) {
      Counter& counter = counters_[numberOf_[i]];
      logs += unitsOfLog(counter.total);
      if (counter.feature == kNone) continue;
      if (counter.lastPrompt != prompt) slots[++counter.slot] = {prompt, 0, 0};
      counter.lastPrompt = prompt;
      if (row < 0) {
        slots[counter.slot].inText++;
        continue;
      }
      slots[counter.slot].inRows++;
      if (counter.lastText != number) {
        counter.entry = static_cast<std::uint32_t>(entries.size());
        entries.push_back({counter.feature, counter.slot, 0});
      }
      counter.lastText = number;
      entries[counter.entry].count++;
    }
    if (row < 0) continue;
    base[row].fetch_add(logs, std::memory_order_relaxed);
    const auto end = static_cast<std::uint32_t>(entries.size());
    if (end > begin) runs[rows.fold[row]].push_back({static_cast<std::uint32_t>(row), begin, end});
  }
}

}  // namespace collapsar
