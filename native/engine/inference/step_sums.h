// What intervals are made of, whether a step's rows have all their scores or some: sums over its rows.
#pragma once

#include <vector>

#include "inference.h"

namespace collapsar {

// Weighted by the posterior of the label, P(label | row); indices are figures, then columns or rows. What is by column
// may stand there by signature instead: `part` tells.
struct StepSums {
  std::vector<double> weight;                        // [columns]: sum over rows of the posterior
  std::vector<double> squaredWeight;                 // [columns]: ... of its square
  std::vector<double> part;                          // [columns]: the column's share of its prompt's rows
  std::vector<double> weighted[kAllFigures];         // [columns]: the posterior times the figure's value
  std::vector<double> weightedSquares[kAllFigures];  // [columns]
  // Weighted by the posterior's square: the value, and its square. For the figures per token alone.
  std::vector<double> squareWeighted[kAllFigures], squareWeightedSquares[kAllFigures];  // [columns]
  double labelVariance[kAllFigures] = {};  // sum over rows of the variance over the posterior
  // Sums over the rows of the other prompts, column j left out: of the values themselves, and of their expectations
  // over the posterior (not for figures without a bound).
  std::vector<double> without[kAllFigures];          // [columns]
  std::vector<double> expectedWithout[kAllFigures];  // [columns]
  std::vector<double> values[kAllFigures];           // [rows]: under the own label; hits are 0 or 1
  double expected[kAllFigures] = {};                 // sum over rows of the expectation over the posterior
  double scoreScale = 0;                             // sum over rows of the largest of ln P and any finite |S|
  double scoreScaleToken = 0;                        // the same of S / max(length, 1)
};

// Rows of one prompt differ by their lengths in these, which the rows of other prompts know nothing of.
constexpr bool variesByLength(int figure) { return figure == kMiPerToken || figure == kMiToken; }

}  // namespace collapsar
