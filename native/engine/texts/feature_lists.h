// The features of some partitions, with the prompts and rows that have them: what scores are made from.
#pragma once

#include <cstdint>
#include <vector>

#include "ngrams.h"
#include "posting_lists.h"
#include "used_rows.h"

namespace collapsar {

constexpr int kHalf = kMostFolds;  // in place of a fold: the rows of odd places, of which the even ones know nothing
constexpr std::uint32_t kPromptText = kHalf + 1;  // likewise: the prompt's own text

// Texts: the used rows prompt by prompt, each prompt's followed by its own text where prompts are known.
// Scores: of each used row, fold by fold; then of the rows at odd places again, for the half split.
struct TextTable {
  struct Text {
    std::uint32_t prompt, fold;
    std::uint32_t score, oddScore;  // their numbers; kNoScore: there is none
  };
  static constexpr std::uint32_t kNoScore = UINT32_MAX;

  // splits: the half split has scores of its own.
  TextTable(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, bool splits);

  std::vector<std::int64_t> entries;  // features
  std::vector<std::int64_t> row;      // used row; -1: the prompt's text
  std::vector<Text> texts;
  std::vector<std::int64_t> scoredRow;  // [scores]
  // Scores of each fold, and of the odd places at kHalf: [firstScore[fold], firstScore[fold + 1]).
  std::uint32_t firstScore[kHalf + 2];

 private:
  void add(std::int64_t used, std::int64_t tokens, const Text& text);
};

// Of a feature, in one row, whose prompt is that holder of the feature.
struct Count {
  std::uint32_t score, oddScore, fold, count, holder;
};

// A prompt that has a feature, `total` times in its rows.
struct Holder {
  std::uint32_t prompt, total;
};

// A feature that a used row and another text have. Its holders and counts follow those of the one before; counts are of
// rows alone, by rising text, where it is dense fold by fold.
struct Feature {
  std::uint32_t holders, counts;
  std::uint32_t total;             // in used rows
  std::uint32_t ends[kMostFolds];  // dense: of each fold's counts
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

  // Held by so many prompts that it is scored for all of them.
  bool isDense(const Feature& feature) const { return feature.holders * std::int64_t{4} >= prompts_; }

  // The sum over a row's features of ln of their number in all used rows.
  double base(std::int64_t row) const;

 private:
  void listPartition(const Ngram* ngrams, std::int64_t ngramCount, const std::uint32_t* found, std::int64_t* base,
                     Count* byText, FeatureList& out) const;
  static void sortByFold(Count* counts, Count* byText, Feature& feature);

  const TextTable& texts_;
  std::int64_t prompts_;
  std::vector<std::int64_t> firstPartition_;     // [batches + 1]
  std::vector<std::int64_t> logs_;               // of 1, 2, ...
  std::vector<std::vector<std::int64_t>> base_;  // of each worker: [R]
  std::vector<UnsetArray<Count>> byText_;        // of each worker: [R]
  UnsetArray<Feature> features_;
  UnsetArray<Holder> holders_;
  UnsetArray<std::uint32_t> inText_;
  UnsetArray<Count> counts_;
  std::vector<FeatureList> lists_;
};

}  // namespace collapsar
