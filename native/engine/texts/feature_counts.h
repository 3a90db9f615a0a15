// How often the rows and texts of each prompt have the features of one shard.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "hash_shards.h"
#include "ngrams.h"
#include "used_rows.h"

namespace collapsar {

constexpr int kHalf =
    kMostFolds;  // in place of a fold: the rows at odd places, of which those at even ones know nothing

// The used rows prompt by prompt, each prompt's followed by its own text where prompts are known.
struct FeatureTexts {
  struct Text {
    std::uint32_t prompt;
    std::int64_t row;  // used row; -1: the prompt's own text
  };

  FeatureTexts(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens);

  std::vector<Text> texts;
  std::vector<std::int64_t> features;  // [texts]
  double all = 0;                      // features of all used rows
};

// The features of one shard, but for those that one text alone has: they cost the same under every prompt.
struct FeatureCounts {
  struct Feature {
    std::uint32_t firstSlot, endSlot;  // a slot for each prompt that has it
    double scale;                      // 1 / b(f)
  };
  struct Slot {
    std::uint32_t prompt;
    std::int32_t inRows, inText;  // how often the prompt's rows have it, and its own text
  };
  struct Entry {
    std::uint32_t feature, slot, count;
  };
  // A row's features.
  struct Run {
    std::uint32_t row;
    std::uint32_t begin, end;  // in `entries`
  };

  // Also adds to base[row], in units of kBaseUnit, ln of how often all used rows have each of the row's features.
  void count(const HashShards::Entries& hashes, const FeatureTexts& texts, const UsedRows& rows,
             std::atomic<std::int64_t>* base);

  std::vector<Feature> features;
  std::vector<Slot> slots;
  std::vector<Entry> entries;
  std::vector<Run> runs[kMostFolds];  // of each fold's rows

 private:
  // A feature while it is counted.
  struct Counter {
    std::uint32_t texts, prompts, total;  // that have it; its occurrences in rows
    std::uint32_t lastText, lastPrompt;
    std::uint32_t feature, slot, entry;  // HashNumbers::kNone: it is left out; the last ones
  };
  HashNumbers numbers_;
  std::vector<std::uint32_t> numberOf_;  // of each hash
  std::vector<Counter> counters_;
};
constexpr double kBaseUnit = 0x1p-24;  // whole numbers add up in any order

}  // namespace collapsar
