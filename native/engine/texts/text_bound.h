// Computes the lower bound of I(X;Z), retrieval and specificity from rows' scores (docs/reference/text-figures.md).
#pragma once

#include <vector>

#include "row_scores.h"

namespace collapsar {

constexpr int kTextRetrievals = 4;  // the own prompt in the top 1, 2, 4, 8

// q = (1 - epsilon) softmax(S / 2^temperature) + epsilon / P
struct TextPredictor {
  int temperature = 0;
  double epsilon = 1;
};

struct TextBound {
  double bound, error, low, high;  // 95%
  bool saturated;
  double retrieval[kTextRetrievals];  // NaN for k of P or more
  double specificity;
  std::vector<double> values;  // [R]: ln(P q(own)), which the bound is the mean of

  // Each half of the rows is predicted by what is best for the other.
  TextPredictor best[2];
  const TextPredictor& predictorOf(const UsedRows& rows, std::int64_t row) const {
    return best[1 - rows.position[row] % 2];
  }
};

// How much of the row's own prompt is among its best 2^i: with ties a share.
double retrievedShare(const RowScores& scores, std::int64_t row, int i);

TextBound textBound(const UsedRows& rows, const RowScores& scores);

}  // namespace collapsar
