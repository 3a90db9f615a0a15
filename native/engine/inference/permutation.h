// p-values against "Z ignores X": labels permuted over the rows of the fixed matrix, one set of permutations for all
// figures.
#pragma once

#include "row_sums.h"

namespace collapsar {

// Writes (1 + #{permuted >= observed}) / (permutations + 1) for every figure; NaN if there are none. Only what depends
// on a label is summed: a leave-one-out marginal does, other marginals do not. kMiPerToken and kMiToken share a
// p-value. A permuted figure below the observed one by no more than rounding counts as equal: ties count against the
// figure.
Outcome permutationPValues(const InferenceInput& input, const StepColumns& columns, const RowSums& sums,
                           double pValues[kFigures], ThreadPool& pool, JobControl& control);

}  // namespace collapsar
