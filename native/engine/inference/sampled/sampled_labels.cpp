#include "sampled_labels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/special_values.h"

namespace collapsar {

namespace {}  // namespace

void SampledLabels::compute(const ScoredRow& row, SampledRow& out) {
  const auto labels = static_cast<std::size_t>(row.negatives) + 1;
  for (auto* values : {&out.miSeq, &out.miSeqLoo, &out.miToken, &out.posterior}) values->resize(labels);
  for (auto& drops : out.drop) drops.resize(labels);
  counts_.resize(labels);
  for (std::size_t i = 0; i < labels; i++) counts_[i] = strata_.count(row.prompts[i].signature);
  count_ = strata_.strata(row.own);
  ownCount_ = counts_[0];

  takeTerms(row, 1);
  takeMarginal(kSeq, ownLog_, columns_.columns, out);
  takeMarginal(kLoo, -kInfinity, columns_.columns - ownCount_, out);
  underLabels(row, out.marginal[kSeq] - out.total[kSeq].plain);
  all_[0] = out.marginal[kSeq];
  others_[0] = out.marginal[kLoo];
  for (std::size_t i = 0; i < labels; i++) {
    const double score = row.prompts[i].score;
    out.miSeq[i] = score - all_[i];
    out.miSeqLoo[i] = score == -kInfinity ? score : score - others_[i];
  }
  if (row.length == 1) {
    out.miToken = out.miSeq;
    out.marginal[kToken] = out.marginal[kSeq];
    out.total[kToken] = out.total[kSeq];
    out.drop[kToken] = out.drop[kSeq];
    std::copy(out.unscored[kSeq], out.unscored[kSeq] + 2, out.unscored[kToken]);
  } else {
    const auto length = static_cast<double>(row.length);
    takeTerms(row, length);
    takeMarginal(kToken, ownLog_, columns_.columns, out);
    underLabels(row, out.marginal[kToken] - out.total[kToken].plain);
    all_[0] = out.marginal[kToken];
    for (std::size_t i = 0; i < labels; i++) out.miToken[i] = row.prompts[i].score / length - all_[i];
  }
  takePosterior(row, out);
  takeSurprise(row, out);
  out.scale = columns_.logOthers[columns_.columns];
  for (std::size_t i = 0; i < labels; i++) {
    const double size = std::fabs(row.prompts[i].score);
    if (std::isfinite(size)) out.scale = std::max(out.scale, size);
  }
}

// ln of each prompt's columns together, at a temperature: 1 for sums S, the length for per-token means.
void SampledLabels::takeTerms(const ScoredRow& row, double temperature) {
  const std::int64_t labels = row.negatives + 1;
  LogAdder::reserve(logs_, labels);
  const double* const logOf = columns_.logOthers.data();
  for (std::int64_t i = 0; i < labels; i++) logs_[i] = row.prompts[i].score / temperature + logOf[counts_[i]];
  ownLog_ = logs_[0];
  std::int64_t first = 1;
  for (int h = 0; h < count_; h++) {
    const Stratum& stratum = strata_.stratum(row.own, h);
    stratum_[h].take(logs_.data() + first, counts_.data() + first, row.drawn[h], stratum.size, stratum.columns, logOf,
                     adder_);
    stratum_[h].withoutColumn(withoutColumn_[h], withoutUnscored_[h], adder_);
    first += row.drawn[h];
  }
}

void SampledLabels::takeMarginal(Marginal which, double ownLog, std::int64_t columns, SampledRow& out) {
  LogTotal& total = out.total[which];
  total = totals_.estimate(ownLog, stratum_, count_);
  std::vector<double>& drops = out.drop[which];
  if (columns < 1) {
    out.marginal[which] = kNaN;
    std::fill(drops.begin(), drops.end(), kNaN);
    std::fill(out.unscored[which], out.unscored[which] + 2, kNaN);
    return;
  }
  const double* const logOf = columns_.logOthers.data();
  out.marginal[which] = total.value - logOf[columns];
  const double ratio = logOf[columns - 1] - logOf[columns];
  // What is left of the total, of the twin's and of each stratum's in turn; all that is estimated as it is.
  double twin = ownCount_ > 1 ? ownLog + logOf[ownCount_ - 1] - logOf[ownCount_] : -kInfinity;
  double whole = ownLog;
  for (int h = 0; h < count_; h++) {
    whole = adder_.add(whole, stratum_[h].all());
    twin = adder_.add(twin, stratum_[h].all());
  }
  drops[0] = ownLog == -kInfinity ? 0 : whole - twin + ratio;
  std::size_t next = 1;
  for (int h = 0; h < count_; h++) {
    const double others = count_ == 2 ? adder_.add(ownLog, stratum_[1 - h].all()) : ownLog;
    const std::int64_t draws = stratum_[h].draws();
    LogAdder::reserve(scratch_, draws + 1);
    std::copy_n(withoutColumn_[h].begin(), draws, scratch_.begin());
    scratch_[draws] = withoutUnscored_[h];
    adder_.add(others, scratch_.data(), draws + 1, scratch_.data());
    for (std::int64_t i = 0; i < draws; i++) drops[next++] = whole - scratch_[i] + ratio;
    out.unscored[which][h] = whole - scratch_[draws] + ratio;
  }
}

// The row's marginals as each scored negative's label would have given them: over all columns, corrected as the own
// label's is, and over other prompts. Own prompt and negative change places; else a negative would be measured against
// a mean that it is part of, and spreads would be too small.
void SampledLabels::underLabels(const ScoredRow& row, double correction) {
  const double* const logOf = columns_.logOthers.data();
  for (auto* values : {&all_, &others_}) LogAdder::reserve(*values, row.negatives + 1);
  std::int64_t first = 1;
  for (int h = 0; h < count_; h++) {
    const StratumLogs& stratum = stratum_[h];
    const std::int64_t draws = stratum.draws();
    double* const foreign = others_.data() + first;
    adder_.add(ownLog_, stratum.sumWithout(), draws, foreign);
    for (std::int64_t i = 0; i < draws; i++) {
      const std::int64_t exchanged = ownCount_ - stratum.count(i);
      foreign[i] += logOf[stratum.columns() + exchanged] - logOf[stratum.drawnColumns() + exchanged];
    }
    if (count_ == 2) adder_.add(stratum_[1 - h].all(), foreign, draws, foreign);
    adder_.add(stratum.logs(), foreign, draws, all_.data() + first);
    for (std::int64_t i = 0; i < draws; i++) {
      all_[first + i] += correction;
      foreign[i] -= logOf[columns_.columns - stratum.count(i)];
    }
    first += draws;
  }
}

void SampledLabels::takePosterior(const ScoredRow& row, SampledRow& out) {
  const std::int64_t labels = row.negatives + 1;
  const auto rowsOf = [&](std::int64_t i) { return rowsOf_[static_cast<std::size_t>(row.prompts[i].signature)]; };
  double top = -kInfinity;
  for (std::int64_t i = 0; i < labels; i++) {
    if (rowsOf(i) > 0) top = std::max(top, row.prompts[i].score);
  }
  LogAdder::reserve(scratch_, labels);
  for (std::int64_t i = 0; i < labels; i++) scratch_[i] = rowsOf(i) > 0 ? row.prompts[i].score - top : -kInfinity;
  adder_.exponentials(scratch_, labels);
  double total = 0;
  for (std::int64_t i = 0; i < labels; i++) {
    const int h = row.prompts[i].stratum;
    const double expansion =
        h < 0 ? 1.0 : static_cast<double>(strata_.stratum(row.own, h).size) / static_cast<double>(row.drawn[h]);
    scratch_[i] *= rowsOf(i) * expansion;
    total += scratch_[i];
  }
  for (std::int64_t i = 0; i < labels; i++) out.posterior[i] = scratch_[i] / total;
}

void SampledLabels::takeSurprise(const ScoredRow& row, SampledRow& out) {
  const std::int64_t labels = row.negatives + 1;
  const bool twoStrata = strata_.strata(row.own) == 2;
  const auto weightOf = [&](std::int64_t i) {
    const int h = row.prompts[i].stratum;
    const bool exchangeable = !byTurn_ || h < 0 || (twoStrata && h == 0);
    return exchangeable ? rowsOf_[static_cast<std::size_t>(row.prompts[i].signature)] : 0.0;
  };
  double top = -kInfinity;
  for (std::int64_t i = 0; i < labels; i++) {
    if (weightOf(i) > 0) top = std::max(top, row.prompts[i].score);
  }
  for (std::int64_t i = 0; i < labels; i++) scratch_[i] = weightOf(i) > 0 ? row.prompts[i].score - top : -kInfinity;
  adder_.exponentials(scratch_, labels);
  double total = 0, first = 0, second = 0;
  for (std::int64_t i = 0; i < labels; i++) {
    const double share = weightOf(i) * scratch_[i];
    if (share == 0) continue;  // its value may be infinite
    const double value = out.miSeq[i] - out.miSeq[0];
    total += share;
    first += share * value;
    second += share * value * value;
  }
  const double mean = first / total;
  out.surprise = -mean;
  out.surpriseVariance = std::max(0.0, second / total - mean * mean);
}

}  // namespace collapsar
