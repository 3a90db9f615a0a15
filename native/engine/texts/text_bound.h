// Rows' scores -> the lower bound of I(X;Z), retrieval and specificity (docs/reference/text-figures.md).
#pragma once

#include "row_scores.h"

namespace collapsar {

constexpr int kTextRetrievals = 4;  // the own prompt in the top 1, 2, 4, 8

struct TextBound {
  double bound, error, low, high;  // 95%
  bool saturated;
  double retrieval[kTextRetrievals];  // NaN for k of P or more
  double specificity;
};

TextBound textBound(const UsedRows& rows, const RowScores& scores);

}  // namespace collapsar
