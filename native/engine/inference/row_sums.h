// All rows of a step -> the sums that intervals are made of, and the tables that permutations look up.
#pragma once

#include "label_values.h"
#include "prompt_jackknife.h"
#include "prompt_subsets.h"
#include "step_sums.h"

namespace collapsar {

struct RowSums : StepSums {
  std::vector<double> margins;             // [rows]: SubsetValues::margin
  std::vector<std::vector<double>> among;  // [sizes], [rows]: SubsetValues::at
  PromptFigures overPrompts;
  // For permutations, where scores are few enough (InferenceInput::mostTabled): [rows, columns], the leave-one-out
  // value under each label, and LabelValues::level.
  std::vector<double> looValues;
  std::vector<std::uint8_t> levels;
  // Else: [rows], and [rows, kTopColumns] the best columns, as far as there are.
  std::vector<LooTerms> looTerms;
  std::vector<std::int32_t> topColumns;
};

// The same bits for any number of threads: rows are cut into blocks by their number alone, and blocks merged in order.
Outcome sumRows(const InferenceInput& input, const StepColumns& columns, const PromptSubsets& subsets, RowSums& out,
                ThreadPool& pool, JobControl& control);

}  // namespace collapsar
