// How much a step's figures say when only some of its (row, prompt) pairs are scored: estimates with what the drawing
// of negatives leaves uncertain (docs/guide/cheaper-scoring.md), intervals and certain bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/inference/intervals.h"
#include "engine/job_control.h"
#include "engine/thread_pool.h"

namespace collapsar {

// The figures that are estimated, each a mean over rows of a row's value.
constexpr Figure kSampledFigures[] = {kMiSeq, kMiSeqLoo, kMiPerToken, kMiToken, kEntropySeq, kEntropyToken};

// The best 1, 2, 4 and 8 of all prompts; the best of 2, 4, 8 and 16 candidates.
constexpr int kBestCounts = 4;
constexpr std::int64_t kBest[kBestCounts] = {1, 2, 4, 8};
constexpr std::int64_t kCandidates[kBestCounts] = {2, 4, 8, 16};

// Each row with a length above 0 is scored under its own prompt and under others, drawn with equal chances from all
// different ones; or, with turns, so many from those of its own turn and so many from the rest.
struct SampledPairs {
  std::int64_t pairs, rows, columns;
  const std::int32_t* row;              // [pairs], in [0, rows)
  const std::int32_t* signature;        // [pairs], in [0, columns): the prompt, as columnSignature numbers it
  const double* sum;                    // [pairs]: log p(row | prompt), nats
  const std::int32_t* own;              // [rows]: the own column
  const std::int64_t* length;           // [rows]; rows of length 0 have no pairs
  const std::int32_t* columnSignature;  // [columns]: equal where prompts are
  const std::int64_t* columnTurn;       // [columns] or null
  double confidence;                    // of the intervals, in (0, 1)
};

struct SampledFigure {
  double estimate;              // not finite: the figure cannot be given, and neither can the rest
  Interval batch, population;   // NaN where one cannot be given
  double drawVariance;          // of the estimate over draws of negatives; 0 where all are scored
  double biasBelow, biasAbove;  // by how much the intervals reach further down and up for bias that may remain
};

struct SampledInference {
  // A row that has not exactly one pair with its own prompt, or one pair twice, or none of a kind of negatives; nothing
  // else is then given. -1: there is none.
  std::int64_t wrongRow;
  // Left out: with a score that no marginal can be made of; with nothing but scores of 0, which no log-probs are.
  std::vector<std::int32_t> nonFinite, placeholders;
  std::int64_t used;       // rows that are left
  bool complete;           // every pair of different prompts is scored
  bool describesSampling;  // false: the rows do not look sampled from the scored distributions
  SampledFigure figures[std::size(kSampledFigures)];
  double matchedSeq, matchedToken;  // means of S, and of S / length, under the own prompt
  // Shares of rows that are certain to be among the best k of all, and not certain to be beyond them.
  double bestAtLeast[kBestCounts], bestAtMost[kBestCounts];
  // How often the own prompt is the best of c, itself and c - 1 others at random: without bias. NaN: too few negatives.
  double bestOf[kBestCounts];
  Interval bestOfBatch[kBestCounts];
};

// Same bits for any order of pairs, any number of threads and any instruction set. Memory beside the input: some
// megabytes, and what is proportional to pairs, rows or columns. `control.doneUnits` counts pairs.
Outcome inferPairs(const SampledPairs& input, SampledInference& out, ThreadPool& pool, JobControl& control);

}  // namespace collapsar
