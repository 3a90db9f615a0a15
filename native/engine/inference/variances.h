// How much a figure would vary if the rows, or the prompts, were drawn again: from the sums over a step's rows.
// docs/reference/intervals.md has the reasons.
#pragma once

#include <vector>

#include "step_columns.h"
#include "step_sums.h"

namespace collapsar {

// A variance of an estimate and how many independent pieces it rests on.
struct Variance {
  double value, degrees;
};

// Row by row, the posterior of the label says what else the row's prompt could have been, so every row tells of every
// prompt's spread: sum_p sum_r w_rp (v_rp - mean_p)^2 / R^2 estimates the variance of a mean over rows within prompts.
Variance posteriorVariance(std::int64_t rows, const StepSums& sums, Figure figure);

// Prompts as strata, from the figures' values alone. A prompt with one row takes its spread from all rows, which adds
// that between prompts. `alike`: prompts spread alike. own: [values.size()], each in [0, columns).
Variance stratifiedVariance(const std::int32_t* own, std::int64_t columns, const std::vector<double>& values,
                            bool alike);

// Prompts left out one at a time, each with its column and its rows: (P-1)/P sum (theta_-j - mean)^2. By Efron and
// Stein (1981) it is too large rather than too small on average.
double jackknifeVariance(const StepColumns& columns, const std::vector<double>& without);

// On how many prompts' differences the variance between prompts rests, by Satterthwaite. A prompt's influence has a
// part from drawing its rows (its square is proportional to their number) and one that all of them share (to the
// number's square).
double promptDegrees(const StepColumns& columns, double between, double within);

}  // namespace collapsar
