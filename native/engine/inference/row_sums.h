// All rows of a step -> the sums that intervals are made of, and the tables that permutations look up.
#pragma once

#include "label_values.h"
#include "prompt_subsets.h"

namespace collapsar {

// Weighted by the posterior of the label (see LabelValues); indices are figures, then columns or rows.
struct RowSums {
  std::vector<double> weight;                     // [columns]: sum over rows of the posterior
  std::vector<double> squaredWeight;              // [columns]: ... of its square
  std::vector<double> weighted[kFigures];         // [columns]: ... times the figure's value
  std::vector<double> weightedSquares[kFigures];  // [columns]
  // Weighted by the posterior's square: the value, and its square. For the figures per token alone.
  std::vector<double> squareWeighted[kFigures], squareWeightedSquares[kFigures];  // [columns]
  double labelVariance[kFigures] = {};  // sum over rows of the variance over the posterior
  // Sums over the rows of the other prompts, column j left out: of the values themselves, and of their expectations
  // over the posterior (not for kMiSeqLoo, where that takes columns^2 a row).
  std::vector<double> without[kFigures];          // [columns]
  std::vector<double> expectedWithout[kFigures];  // [columns]
  std::vector<double> values[kFigures];           // [rows]: under the own label; hits are 0 or 1
  std::vector<double> margins;                    // [rows]: SubsetValues::margin
  std::vector<std::vector<double>> among;         // [sizes], [rows]: SubsetValues::at
  double expected[kFigures] = {};                 // sum over rows of the expectation over the posterior
  double scoreScale = 0;                          // sum over rows of the largest of ln P and any finite |S|
  double scoreScaleToken = 0;                     // the same of S / max(length, 1)
  // For permutations, where scores are few enough (InferenceInput::mostTabled): [rows, columns], the leave-one-out
  // value under each label, and LabelValues::level.
  std::vector<double> looValues;
  std::vector<std::uint8_t> levels;
  // Else: [rows], and [rows, kTopColumns] the best columns, as far as there are.
  std::vector<LooTerms> looTerms;
  std::vector<std::int32_t> topColumns;
};

// Rows of one prompt differ by their lengths in these, which the rows of other prompts know nothing of.
constexpr bool variesByLength(int figure) { return figure == kMiPerToken || figure == kMiToken; }

// The same bits for any number of threads: rows are cut into blocks by their number alone, and blocks merged in order.
Outcome sumRows(const InferenceInput& input, const StepColumns& columns, const PromptSubsets& subsets, RowSums& out,
                ThreadPool& pool, JobControl& control);

}  // namespace collapsar
