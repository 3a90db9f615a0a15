// p-values against "Z ignores X": labels permuted over the rows of the fixed matrix, one set of permutations for all
// figures.
#pragma once

#include "row_sums.h"

namespace collapsar {

// Writes (1 + #{permuted >= observed}) / (permutations + 1) for every figure; NaN if there are none.
//
// Permutations are those of LabelShuffles. Only what depends on a label is summed: the
// marginals do not, a leave-one-out marginal does. kMiPerToken and kMiToken differ by marginals alone and share a
// p-value. A permuted figure that is below the observed one by no more than summation could make it so counts as equal,
// so that exact ties count against the figure.
Outcome permutationPValues(const InferenceInput& input, const StepColumns& columns, const RowSums& sums,
                           double pValues[kFigures], ThreadPool& pool, JobControl& control);

}  // namespace collapsar
