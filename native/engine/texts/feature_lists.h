// The features of some partitions, with the prompts and rows that have them: what scores are made from.
#pragma once

#include <cstdint>
#include <vector>

#include "ngrams.h"
#include "posting_lists.h"
#include "used_rows.h"

namespace collapsar {

constexpr std::uint32_t kPromptText = kMostFolds;  // in place of a fold

// Texts: the used rows prompt by prompt, each prompt's followed by its own text where prompts are known.
struct TextTable {
  struct Text {
    std::uint32_t prompt, fold;
    std::uint32_t inFold;  // its number among the rows of the fold
    std::uint32_t inOdd;   // among the rows of odd places; kEven: is at another
  };
  static constexpr std::uint32_t kEven = UINT32_MAX;

  TextTable(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens);

  std::vector<std::int64_t> entries;  // features
  std::vector<std::int64_t> row;      // used row; -1: the prompt's text
  std::vector<Text> texts;
  std::vector<std::int64_t> rowsOf[kMostFolds], oddRows;

 private:
  void add(std::int64_t used, std::int64_t tokens, const Text& text);
};

// Of a feature, in one row, whose prompt is that holder of the feature.
struct Count {
  std::uint32_t text, count, holder;
};

// A prompt that has a feature, `total` times in its rows.
struct Holder {
  std::uint32_t prompt, total;
};

// A feature that a used row and another text have. Its holders and counts follow those of the one before; counts are of
// rows alone, fold by fold.
struct Feature {
  std::uint32_t holders;
  std::uint32_t total;             // in used rows
  std::uint32_t ends[kMostFolds];  // of each fold's counts
};

// Features of one partition, but for those that one row alone has: they cost the same under every prompt.
struct FeatureList {
  Feature* features;
  Holder* holders;
  std::uint32_t* inText;  // [holders]: count in the prompt's own text; null where prompts are not known
  Count* counts;
  std::int64_t featureCount;
};

// Lists one batch of partitions after the other: a batch stays in a cache while rows are scored with it.
class FeatureLists {
 public:
  // Throws std::bad_alloc.
  FeatureLists(const UsedRows& rows, const TextTable& texts, const PostingLists& postings, int workers);

  std::int64_t batches() const { return static_cast<std::int64_t>(firstPartition_.size()) - 1; }

  // countBase: also adds to base(). Once for each batch.
  Outcome list(std::int64_t batch, PostingLists& postings, bool countBase, ThreadPool& pool, JobControl& control);

  // Of the batch that was listed last.
  const std::vector<FeatureList>& lists() const { return lists_; }

  // The sum over a row's features of ln of their number in all used rows.
  double base(std::int64_t row) const;

 private:
  void listPartition(const Ngram* ngrams, std::int64_t ngramCount, const Posting* postings, std::int64_t* base,
                     FeatureList& out) const;

  const TextTable& texts_;
  std::vector<std::int64_t> firstPartition_;     // [batches + 1]
  std::vector<std::int64_t> logs_;               // of 1, 2, ...
  std::vector<std::vector<std::int64_t>> base_;  // of each worker: [R]
  UnsetArray<Feature> features_;
  UnsetArray<Holder> holders_;
  UnsetArray<std::uint32_t> inText_;
  UnsetArray<Count> counts_;
  std::vector<FeatureList> lists_;
};

}  // namespace collapsar
