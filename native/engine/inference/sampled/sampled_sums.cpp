#include "sampled_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/special_values.h"

namespace collapsar {

namespace {

// The figure's value under a label; of miPerToken that of miSeq, before it is divided by the length.
double valueOf(const SampledRow& values, Figure figure, std::int64_t label) {
  const auto at = static_cast<std::size_t>(label);
  switch (figure) {
    case kMiSeqLoo:
      return values.miSeqLoo[at];
    case kMiToken:
      return values.miToken[at];
    case kEntropySeq:
      return -values.marginal[kSeq];
    case kEntropyToken:
      return -values.marginal[kToken];
    default:
      return values.miSeq[at];
  }
}

double valueOf(const SampledRow& values, Figure figure, std::int64_t label, double length) {
  const double value = valueOf(values, figure, label);
  return figure == kMiPerToken ? value / length : value;
}

Marginal marginalOf(Figure figure) {
  if (figure == kMiSeqLoo) return kLoo;
  return figure == kMiToken || figure == kEntropyToken ? kToken : kSeq;
}

// The expectation over labels other than one that has `gone` of the posterior; NaN if no other is conceivable.
double expectedWithout(const SampledRow& values, const std::vector<double>& figure, std::int64_t label, double gone,
                       double whole) {
  if (gone == 0) return whole;
  if (gone <= 0.5) return (whole - gone * figure[static_cast<std::size_t>(label)]) / (1 - gone);
  double sum = 0, left = 0;
  for (std::size_t i = 0; i < values.posterior.size(); i++) {
    const double kept = values.posterior[i] - (static_cast<std::int64_t>(i) == label ? gone : 0.0);
    if (!(kept > 0)) continue;
    left += kept;
    sum += kept * figure[i];
  }
  return left > 0 ? sum / left : kNaN;
}

}  // namespace

void SampledAdder::WithoutColumn::operator+=(const WithoutColumn& other) {
  for (int f = 0; f < kWithout; f++) {
    value[f] += other.value[f];
    expected[f] += other.expected[f];
  }
}

SampledAdder::SampledAdder(const StepColumns& columns, const Strata& strata, const std::vector<double>& rowsOf,
                           SampledSums& sums)
    : columns_(columns),
      strata_(strata),
      rowsOf_(rowsOf),
      sums_(sums),
      bySignature_(columns.signature.data(), columns.columns),
      unscored_(2 * static_cast<std::size_t>(columns.columns)) {
  const auto size = static_cast<std::size_t>(columns.columns);
  sums.weight.assign(size, 0);
  sums.squaredWeight.assign(size, 0);
  sums.part.assign(size, 1);
  for (const Figure f : kSampledFigures) {
    for (auto* vector : {&sums.weighted[f], &sums.weightedSquares[f], &sums.squareWeighted[f],
                         &sums.squareWeightedSquares[f], &sums.without[f], &sums.expectedWithout[f]}) {
      vector->assign(size, 0);
    }
    sums.values[f].reserve(static_cast<std::size_t>(columns.rows));
  }
}

void SampledAdder::add(const ScoredRow& row, const SampledRow& values) {
  const auto length = static_cast<double>(row.length);
  for (const Figure f : kSampledFigures) sums_.values[f].push_back(valueOf(values, f, 0, length));
  Expectations expected;
  addPosterior(row, values, expected);
  addWithout(row, values, expected);
  addDrawError(row, values);
  const double surprise = values.miSeq[0] - expected[0];
  sums_.squaredSurprise += surprise * surprise;
  sums_.surprise += values.surprise;
  sums_.squaredAmongScored += values.surprise * values.surprise;
  sums_.surpriseVariance += values.surpriseVariance;
  sums_.scoreScale += values.scale;
  sums_.scoreScaleToken += values.scale / length;
  sums_.matchedSeq.add(row.prompts[0].score);
  sums_.matchedToken.add(row.prompts[0].score / length);
}

void SampledAdder::addPosterior(const ScoredRow& row, const SampledRow& values, Expectations& expected) {
  const auto length = static_cast<double>(row.length);
  const std::int64_t labels = row.negatives + 1;
  for (std::int64_t i = 0; i < labels; i++) {
    const auto signature = static_cast<std::size_t>(row.prompts[i].signature);
    const double share = values.posterior[static_cast<std::size_t>(i)];
    sums_.weight[signature] += share;
    sums_.squaredWeight[signature] += share * share;
  }
  for (int at = 0; at < kWithout; at++) {
    const Figure f = kSampledFigures[at];
    double first = 0, second = 0;
    for (std::int64_t i = 0; i < labels; i++) {
      const double share = values.posterior[static_cast<std::size_t>(i)];
      if (share == 0) continue;  // its value may be infinite
      const auto signature = static_cast<std::size_t>(row.prompts[i].signature);
      const double value = valueOf(values, f, i, length), product = share * value;
      sums_.weighted[f][signature] += product;
      sums_.weightedSquares[f][signature] += product * value;
      if (variesByLength(f)) {
        sums_.squareWeighted[f][signature] += share * product;
        sums_.squareWeightedSquares[f][signature] += share * product * value;
      }
      first += product;
      second += product * value;
    }
    sums_.expected[f] += first;
    sums_.labelVariance[f] += std::max(0.0, second - first * first);
    expected[at] = first;
  }
}

SampledAdder::WithoutColumn SampledAdder::withoutColumn(const SampledRow& values, double length, const double* drop,
                                                        std::int64_t label, double gone,
                                                        const Expectations& expected) const {
  WithoutColumn without;
  for (int at = 0; at < kWithout; at++) {
    const Figure f = kSampledFigures[at];
    const double own = valueOf(values, f, 0), change = drop[marginalOf(f)];
    without.value[at] = own + change;
    if (f == kMiSeq || f == kMiToken) {
      const std::vector<double>& figure = f == kMiSeq ? values.miSeq : values.miToken;
      const double others = label < 0 ? expected[at] : expectedWithout(values, figure, label, gone, expected[at]);
      without.expected[at] = (std::isnan(others) ? own : others) + change;
    } else if (f == kMiPerToken) {
      without.value[at] /= length;
      without.expected[at] = without.expected[0] / length;
    }
  }
  return without;
}

void SampledAdder::addWithout(const ScoredRow& row, const SampledRow& values, const Expectations& expected) {
  const auto length = static_cast<double>(row.length);
  WithoutColumn base[2];
  for (int h = 0; h < strata_.strata(row.own); h++) {
    if (row.drawn[h] == strata_.stratum(row.own, h).size) continue;
    const double drop[] = {values.unscored[kSeq][h], values.unscored[kToken][h], values.unscored[kLoo][h]};
    base[h] = withoutColumn(values, length, drop, -1, 0, expected);
    unscored_[2 * static_cast<std::size_t>(row.own) + static_cast<std::size_t>(h)] += base[h];
  }
  for (std::int64_t i = 0; i <= row.negatives; i++) {
    const auto label = static_cast<std::size_t>(i);
    const auto [signature, h, score] = row.prompts[i];
    const double drop[] = {values.drop[kSeq][label], values.drop[kToken][label], values.drop[kLoo][label]};
    const std::int32_t first = strata_.first(signature);
    const std::int32_t* const columns = bySignature_.begin(&first);
    for (std::int64_t c = 0; c < bySignature_.size(first); c++) {
      const std::int32_t column = columns[c];
      if (column == row.own) continue;
      // Columns of one prompt have their part of its weight.
      const double part = columns_.rowCounts[static_cast<std::size_t>(column)] /
                          std::max(1.0, rowsOf_[static_cast<std::size_t>(signature)]);
      WithoutColumn without = withoutColumn(values, length, drop, i, values.posterior[label] * part, expected);
      // What it gets at the end all the same, with those of its stratum that were not drawn.
      for (int f = 0; h >= 0 && f < kWithout; f++) {
        without.value[f] -= base[h].value[f];
        without.expected[f] -= base[h].expected[f];
      }
      addToColumn(column, without);
    }
  }
}

void SampledAdder::addDrawError(const ScoredRow& row, const SampledRow& values) {
  for (const Figure f : kSampledFigures) {
    const double scale = f == kMiPerToken ? static_cast<double>(row.length) : 1.0;
    const LogTotal& total = values.total[marginalOf(f)];
    sums_.lastCorrection[f].add(total.lastCorrection / scale);
    sums_.excess[f].add((f == kMiSeqLoo ? total.value - total.plain : total.upper - total.value) / scale);
    sums_.drawVariance[f].add(total.variance / (scale * scale));
  }
}

void SampledAdder::addToColumn(std::int32_t column, const WithoutColumn& sums) {
  for (int f = 0; f < kWithout; f++) {
    sums_.without[kSampledFigures[f]][static_cast<std::size_t>(column)] += sums.value[f];
    sums_.expectedWithout[kSampledFigures[f]][static_cast<std::size_t>(column)] += sums.expected[f];
  }
}

void SampledAdder::addToPrompt(std::int32_t signature, const WithoutColumn& sums) {
  const std::int32_t first = strata_.first(signature);
  const std::int32_t* const columns = bySignature_.begin(&first);
  for (std::int64_t c = 0; c < bySignature_.size(first); c++) addToColumn(columns[c], sums);
}

// A stratum of the own column's turn has all of the turn's prompts but the own one: what other prompts' rows add is
// summed from both ends, for what was added could not be taken away again without rounding.
void SampledAdder::finish() {
  const auto columns = static_cast<std::size_t>(columns_.columns);
  std::vector<WithoutColumn> ofPrompt(columns), before;
  std::vector<WithoutColumn> ofOthers(static_cast<std::size_t>(strata_.turns()));
  for (std::int32_t p = 0; p < columns_.columns; p++) {
    for (int h = 0; h < strata_.strata(p); h++) {
      const WithoutColumn& sums = unscored_[2 * static_cast<std::size_t>(p) + static_cast<std::size_t>(h)];
      if (!strata_.stratum(p, h).ofTurn) ofOthers[static_cast<std::size_t>(strata_.turnOf(p))] += sums;
    }
  }
  std::vector<std::int32_t> inTurn(columns, -1);
  for (std::int32_t turn = 0; turn < strata_.turns(); turn++) {
    const std::vector<std::int32_t>& members = strata_.members(turn);
    for (const std::int32_t signature : members) {
      inTurn[static_cast<std::size_t>(signature)] = turn;
      WithoutColumn& sums = ofPrompt[static_cast<std::size_t>(signature)];
      sums = {};
      const std::int32_t first = strata_.first(signature);
      const std::int32_t* const own = bySignature_.begin(&first);
      for (std::int64_t c = 0; c < bySignature_.size(first); c++) {
        if (strata_.turnOf(own[c]) != turn || strata_.strata(own[c]) == 0 || !strata_.stratum(own[c], 0).ofTurn)
          continue;
        sums += unscored_[2 * static_cast<std::size_t>(own[c])];
      }
    }
    before.assign(members.size(), {});
    for (std::size_t i = 1; i < members.size(); i++) {
      before[i] = before[i - 1];
      before[i] += ofPrompt[static_cast<std::size_t>(members[i - 1])];
    }
    WithoutColumn after;
    for (std::size_t i = members.size(); i-- > 0;) {
      before[i] += after;
      after += ofPrompt[static_cast<std::size_t>(members[i])];
      addToPrompt(members[i], before[i]);
    }
    if (strata_.turns() == 1) return;
    for (std::int32_t signature = 0; signature < columns_.columns; signature++) {
      const bool isOther = strata_.count(signature) > 0 && inTurn[static_cast<std::size_t>(signature)] != turn;
      if (isOther) addToPrompt(signature, ofOthers[static_cast<std::size_t>(turn)]);
    }
  }
}

}  // namespace collapsar
