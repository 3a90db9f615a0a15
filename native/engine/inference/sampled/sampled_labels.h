// A scored row -> its figures under each of its scored labels, how likely each label is, and how its marginals change
// when a column is left out, as LabelValues has them of whole rows.
#pragma once

#include <vector>

#include "engine/inference/step_columns.h"
#include "log_total.h"
#include "sampled_rows.h"

namespace collapsar {

// A row's log-mean-exp over the columns: of the sums, of the per-token means, of the sums over the other prompts.
enum Marginal { kSeq, kToken, kLoo, kMarginals };

// What becomes of a row. Arrays are by label: the own prompt first, then the negatives.
struct SampledRow {
  // In which a scored negative stands for the N/n of its kind.
  std::vector<double> posterior;
  std::vector<double> miSeq, miSeqLoo, miToken;
  double marginal[kMarginals];
  LogTotal total[kMarginals];
  // By how much the negated marginal grows when one column is left out: one of the label's, which under the own one is
  // a twin of the own column; or one that was not scored, by stratum.
  std::vector<double> drop[kMarginals];
  double unscored[kMarginals][2];
  // Own value of miSeq less its expectation among the scored prompts, and the variance of that (calibration below).
  double surprise, surpriseVariance;
  double scale;  // largest of ln P and any finite |S|
};

// One worker's. Were a step's rows sampled from what the scores describe? Asked of the scored prompts alone: negatives
// are drawn with equal chances, so that given the response and the prompts scored, the label is distributed over them
// as exp S. The own value less its expectation under that has mean 0 with any number of negatives. (The posterior over
// all prompts is a ratio of estimates, biased with few negatives.) Where negatives of the same turn are drawn more
// often, only the own prompt and those of its turn are asked.
class SampledLabels {
 public:
  // rowsOf: [columns] by signature, how many rows are used that have it as their own. byTurn: some row has two strata.
  SampledLabels(const StepColumns& columns, const Strata& strata, const std::vector<double>& rowsOf, bool byTurn)
      : columns_(columns), strata_(strata), rowsOf_(rowsOf), byTurn_(byTurn), totals_(adder_) {}

  void compute(const ScoredRow& row, SampledRow& out);

 private:
  void takeTerms(const ScoredRow& row, double temperature);
  void takeMarginal(Marginal which, double ownLog, std::int64_t columns, SampledRow& out);
  void takePosterior(const ScoredRow& row, SampledRow& out);
  void takeSurprise(const ScoredRow& row, SampledRow& out);
  void underLabels(const ScoredRow& row, double correction);

  const StepColumns& columns_;
  const Strata& strata_;
  const std::vector<double>& rowsOf_;
  const bool byTurn_;
  LogAdder adder_;
  LogTotals totals_;
  // Of the row and temperature at hand.
  int count_ = 0;  // strata
  std::int64_t ownCount_ = 0;
  double ownLog_ = 0;
  std::vector<std::int32_t> counts_;
  std::vector<double> logs_;
  StratumLogs stratum_[2];
  std::vector<double> withoutColumn_[2];
  double withoutUnscored_[2] = {};
  std::vector<double> all_, others_;  // by label: the marginals over all columns, and over those of other prompts
  std::vector<double> scratch_;
};

}  // namespace collapsar
