// Standard errors over prompts of the information among a step's different prompts, by the jackknife: each is left out
// in turn, with its rows and as a column (docs/reference/metrics.md, `<key>_standard_error`).
#pragma once

#include <vector>

#include "engine/simd/kernel_table.h"
#include "inference.h"
#include "prompt_subsets.h"
#include "step_columns.h"

namespace collapsar {

// Sums of doubles as integers in units of 2^-48, so that neither order nor merging changes a bit. What is not finite,
// or 2^48 and beyond, makes a sum NaN.
class FixedSums {
 public:
  explicit FixedSums(std::size_t count) : whole_(count, 0), part_(count, 0), beyond_(count, 0) {}

  void add(std::size_t at, double value);
  void add(const FixedSums& other);
  double at(std::size_t at) const;

 private:
  std::vector<std::int64_t> whole_, part_;
  std::vector<std::uint8_t> beyond_;
};

struct PromptFigures {
  OverPrompts all;                 // the information among all different prompts
  std::vector<OverPrompts> among;  // [sizes] ... among 2, 4, 8, ... of them
};

// One worker's rows; workers are merged in any order.
//
// Among all D prompts: without prompt p a row of another has own - ln of the mean of exp(score) over the D - 1 left.
// Among 2: the mean over ordered pairs of prompts (own, other), those of prompt p left out (a U-statistic).
// Between, of the draws of PromptSubsets: a row of another prompt keeps its value, and of the share (k - 1) / (D - 1)
// of draws that hold p it gets what a draw gains without p, on average over the rows of other prompts that have one.
class PromptJackknife {
 public:
  PromptJackknife(const InferenceInput& input, const StepColumns& columns, const PromptSubsets& subsets);

  // terms: [columns] exp(score - top), top the row's largest score. among: [sizes] SubsetValues::at of the row.
  void add(std::int64_t r, const double* terms, double top, const std::vector<double>& among);
  void merge(const PromptJackknife& other);
  PromptFigures figures() const;

 private:
  // Of one size between: over rows.
  struct Draws {
    explicit Draws(std::size_t prompts) : values(prompts), gains(prompts), drawn(prompts, 0) {}
    FixedSums values;                 // [D] by own prompt: the information
    FixedSums gains;                  // [D] by prompt left out: ln of a draw's sum - ln of it without the prompt
    std::vector<std::int64_t> drawn;  // [D] ... over so many rows
  };

  void addAll(std::int64_t prompt, double excess, double top, const double* scores);
  void addPairs(std::int64_t prompt, double own, const double* scores);
  void addDraws(std::int64_t prompt, double top, double own, const double* scores, const std::vector<double>& among);
  // terms [count] and their total -> [count] ln total - ln of the rest; `score(i)` is ln of a term, up to a constant.
  template <class Score>
  void gainsWithout(const double* terms, std::int64_t count, double total, double* gains, Score score);
  double jackknife(const std::vector<double>& without) const;
  OverPrompts ofAll() const;
  OverPrompts ofPairs() const;
  OverPrompts ofDraws(std::size_t size) const;

  const InferenceInput& input_;
  const PromptSubsets& subsets_;
  const KernelTable& kernels_;
  const std::int64_t distinct_;
  std::vector<double> rowsOf_;  // [D]
  FixedSums allOfOwn_;          // [D] by own prompt, over its rows: own - ln of the sum
  FixedSums all_;               // [D] the same by prompt left out, over the rows of others
  FixedSums pairsOfOwn_;        // [D] by own prompt, over its rows: the pairs' information, over the others
  FixedSums pairsOfOther_;      // [D] by other prompt: each row's pair / the rows of its own prompt
  std::vector<Draws> draws_;    // of sizes 4, 8, ... below D
  // Scratch, whole vectors.
  std::vector<double> term_, drawn_, rest_, log_, gain_;
  std::vector<std::int32_t> member_;
};

}  // namespace collapsar
