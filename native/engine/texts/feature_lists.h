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
    std::uint32_t row;              // used row; R: the prompt's text
  };
  static constexpr std::uint32_t kNoScore = UINT32_MAX;

  // splits: the half split has scores of its own.
  TextTable(const UsedRows& rows, const TokenHashes& tokens, const TokenHashes* promptTokens, bool splits);

  std::vector<TextOwner> owners() const;

  std::vector<std::int64_t> tokens;  // of each text
  std::vector<Text> texts;
  std::vector<std::int64_t> scoredRow;  // [scores]
  // Scores of each fold, and of the odd places at kHalf: [firstScore[fold], firstScore[fold + 1]).
  std::uint32_t firstScore[kHalf + 2];
};

// A feature has a slot for each prompt that has it; if these are many, for each prompt: it is dense then.
struct DenseCount {
  std::uint32_t firstSlot, count;
};
struct SparseCount {
  std::uint32_t firstSlot, endSlot;  // the feature's
  std::uint32_t slot;                // of the row's own prompt
  std::uint32_t count;
};

// What a row has of a partition's features: each feature in turn, once or several times.
struct RowCounts {
  std::uint32_t text;
  std::uint32_t dense, denseEnd, sparse, sparseEnd;  // in the lists of counts
  std::uint32_t denseTotal, sparseTotal;             // of the counts
};

// Features of one partition, but for those that one text alone has: they cost the same under every prompt.
struct FeatureList {
  RowCounts* rows;  // [firstRow[kMostFolds]], fold by fold
  std::uint32_t firstRow[kMostFolds + 1];
  DenseCount* dense;
  SparseCount* sparse;
  // The first `stride` are of no feature, then come those of dense features, `stride` each, then those of sparse ones.
  std::uint32_t denseSlots, slots;
  std::int32_t* totals;    // [slots]: count in the prompt's rows
  std::int32_t* inText;    // [slots]: count in the prompt's own text; null where prompts are not known
  std::uint32_t* prompts;  // [slots]: of sparse features
  double* scales;          // [slots]: 1 / b(f) of sparse features, and at the first slot of dense ones
};

// Lists one batch of partitions after the other: a batch stays in a cache while rows are scored with it.
class FeatureLists {
 public:
  // stride: of slots. Throws std::bad_alloc.
  FeatureLists(const UsedRows& rows, const TextTable& texts, const PostingLists& postings, std::int64_t stride,
               int workers);

  std::int64_t batches() const { return static_cast<std::int64_t>(firstPartition_.size()) - 1; }

  // countBase: also adds to base(). Once for each batch.
  Outcome list(std::int64_t batch, PostingLists& postings, bool countBase, ThreadPool& pool, JobControl& control);

  // Of the batch that was listed last.
  const std::vector<FeatureList>& lists() const { return lists_; }

  // The sum over a row's features of ln of their number in all used rows.
  double base(std::int64_t row) const;

 private:
  // Where the next count of an n-gram belongs.
  struct Place {
    std::uint32_t slot;  // sparse: of the last prompt; dense: of the first
    std::uint32_t lastPrompt;
    std::uint32_t isSparse, denseMask;  // 0 or 1; no bits or all
    std::uint32_t firstSlot, endSlot;
    std::int64_t log;  // of its total
  };
  struct Scratch {
    UnsetArray<Place> places;        // of each n-gram
    UnsetArray<RowCounts> rows;      // by text
    std::vector<std::int64_t> base;  // [R + 1]
  };
  void giveSlots(const NgramGroup& group, Place* places, FeatureList& out) const;
  void listPartition(const NgramGroup& group, bool countBase, Scratch& scratch, FeatureList& out) const;

  const TextTable& texts_;
  std::int64_t prompts_, stride_;
  double all_;                                // features of all used rows
  std::int64_t slotsOfEntry_;                 // at most
  std::int64_t spareEntries_;                 // of a partition: room for the slots of no feature, and for one more
  std::vector<std::int64_t> firstPartition_;  // [batches + 1]
  std::vector<std::int64_t> logs_;            // of 1, 2, ...
  std::vector<Scratch> scratch_;              // of each worker
  UnsetArray<RowCounts> rows_;
  UnsetArray<DenseCount> dense_;
  UnsetArray<SparseCount> sparse_;
  UnsetArray<std::int32_t> totals_, inText_;
  UnsetArray<double> scales_;
  UnsetArray<std::uint32_t> slotPrompts_;
  std::vector<FeatureList> lists_;
};

}  // namespace collapsar
