// Computes the text figures of a step: dependence on the prompt, templates, repetition, copies
// (docs/reference/text-figures.md).
#pragma once

#include "half_split.h"
#include "row_readings.h"
#include "text_bound.h"
#include "text_form.h"
#include "text_prompts.h"

namespace collapsar {

struct TextOptions {
  std::int64_t permutations;
  std::uint64_t seed;
  // Tests take others:
  NgramHash hash;
  std::int64_t scoreBytes = 1 << 28;  // of rows' scores that are kept at a time, about
  bool prompts = false;               // whether TextFigures::prompts is wanted
  std::int64_t readings = 0;          // rows of TextFigures::readings, and how many tokens of each, at most
  std::int64_t readTokens = 0;
};

struct TextFigures {
  TextProblem problem;  // not None: there are only lengths
  std::int64_t rowsUsed, promptsUsed;
  bool byPrompts, promptsKnown;
  TextBound bound;
  HalfSplit split;
  TextForm form;
  TextPrompts prompts;
  std::vector<RowReading> readings;
  double duplicateShare, duplicateAcrossShare;

  std::int64_t emptyRows;
  double meanTokens;  // of all rows; NaN if there are none
  std::int64_t leastTokens, mostTokens;
};

// Of steps with more prompts, or more scores, the matrices of prompts by prompts are not made: 64 MB of scores.
constexpr std::int64_t kMostMatrixPrompts = 1024, kMostKeptScores = std::int64_t{1} << 23;

constexpr std::int64_t kMostTextEntries = std::int64_t{1} << 30;  // bytes or ids, of rows and prompts together

// Same bits for any number of threads, any order of rows and any instruction set. Throws std::bad_alloc.
Outcome textFigures(const TextRows& step, const TextOptions& options, TextFigures& out, ThreadPool& pool,
                    JobControl& control);

// Of each phrase (text, or ids where the rows are ids): the share of tokens that lie in it, a mean over used rows; NaN
// where a step has no figures. shares: [phrases.count].
Outcome phraseSharesOf(const TextRows& step, const Texts& phrases, double* shares, ThreadPool& pool,
                       JobControl& control);

}  // namespace collapsar
