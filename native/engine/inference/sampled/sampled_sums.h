// Rows, one after the other -> the sums that intervals are made of, and what drawing negatives leaves uncertain.
#pragma once

#include <vector>

#include "engine/columns_by_signature.h"
#include "engine/exact_sum.h"
#include "engine/inference/step_sums.h"
#include "sampled_labels.h"

namespace collapsar {

// Posterior sums stand by signature.
struct SampledSums : StepSums {
  // Of miSeq, over rows: the squared surprise over the posterior; among scored prompts the surprise, its square,
  // variance.
  double squaredSurprise = 0;
  double surprise = 0, squaredAmongScored = 0, surpriseVariance = 0;
  ExactSum matchedSeq, matchedToken;
  // Of each figure, over rows: the last order of bias correction; how far too high; the variance over draws of
  // negatives.
  ExactSum lastCorrection[kAllFigures], excess[kAllFigures], drawVariance[kAllFigures];
};

class SampledAdder {
 public:
  // rowsOf: by signature. All must outlive this.
  SampledAdder(const StepColumns& columns, const Strata& strata, const std::vector<double>& rowsOf, SampledSums& sums);

  void add(const ScoredRow& row, const SampledRow& values);
  // After the last row.
  void finish();

 private:
  // What leaving out a column makes of a row: of the figures, and of the expectations of kMiSeq .. kMiToken.
  static constexpr int kWithout = static_cast<int>(std::size(kSampledFigures));
  struct WithoutColumn {
    double value[kWithout] = {}, expected[kWithout] = {};
    void operator+=(const WithoutColumn& other);
  };
  using Expectations = double[kWithout];

  void addPosterior(const ScoredRow& row, const SampledRow& values, Expectations& expected);
  void addWithout(const ScoredRow& row, const SampledRow& values, const Expectations& expected);
  void addDrawError(const ScoredRow& row, const SampledRow& values);
  // drop: of each marginal. label: of the column that is left out; -1: it was not scored.
  WithoutColumn withoutColumn(const SampledRow& values, double length, const double* drop, std::int64_t label,
                              double share, const Expectations& expected) const;
  void addToColumn(std::int32_t column, const WithoutColumn& sums);
  void addToPrompt(std::int32_t signature, const WithoutColumn& sums);

  const StepColumns& columns_;
  const Strata& strata_;
  const std::vector<double>& rowsOf_;
  SampledSums& sums_;
  ColumnsBySignature bySignature_;
  // [2 columns] by own column and stratum: summed over its rows with any one column left out that was not drawn. All of
  // these do the same, and are handed out at the end.
  std::vector<WithoutColumn> unscored_;
};

}  // namespace collapsar
