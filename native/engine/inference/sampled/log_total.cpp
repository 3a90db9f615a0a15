#include "log_total.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/special_values.h"

namespace collapsar {

namespace {

double sumOf(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

}  // namespace

void StratumLogs::take(const double* logs, const std::int32_t* counts, std::int64_t draws, std::int64_t size,
                       std::int64_t columns, const double* logOf, LogAdder& adder) {
  logs_ = logs, counts_ = counts, logOf_ = logOf;
  draws_ = draws, size_ = size, columns_ = columns;
  drawn_ = 0;
  for (std::int64_t i = 0; i < draws; i++) drawn_ += counts[i];
  terms_.take(logs, draws, adder);

  // The logarithms of all sums at once: without each of the draws, then of all.
  LogAdder::reserve(sumWithout_, draws + 1);
  for (std::int64_t i = 0; i < draws; i++) sumWithout_[i] = terms_.without(i).sum;
  sumWithout_[draws] = terms_.all().sum;
  adder.logarithms(sumWithout_, draws + 1);
  LogAdder::reserve(without_, draws);
  for (std::int64_t i = 0; i < draws; i++) {
    sumWithout_[i] += terms_.without(i).reference;
    without_[i] = sumWithout_[i] + logOf[columns] - logOf[drawn_ - counts[i]];
  }
  sum_ = sumWithout_[draws] + terms_.all().reference;
  all_ = drawn_ == columns ? sum_ : sum_ + logOf[columns] - logOf[drawn_];

  if (!hasPairs()) return;
  const std::int64_t pairs = draws * (draws - 1) / 2;
  LogAdder::reserve(pairSum_, pairs);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < draws; i++) {
    for (std::int64_t j = 0; j < i; j++) pairSum_[at++] = terms_.without(i, j).sum;
  }
  adder.logarithms(pairSum_, pairs);
  at = 0;
  for (std::int64_t i = 0; i < draws; i++) {
    for (std::int64_t j = 0; j < i; j++) pairSum_[at++] += terms_.without(i, j).reference;
  }
}

void StratumLogs::withoutPairs(std::vector<double>& out) const {
  LogAdder::reserve(out, draws_ * (draws_ - 1) / 2);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < draws_; i++) {
    for (std::int64_t j = 0; j < i; j++, at++) {
      out[at] = pairSum_[at] + logOf_[columns_] - logOf_[drawn_ - counts_[i] - counts_[j]];
    }
  }
}

double StratumLogs::othersOf(std::int64_t i) const {
  if (draws_ == 1) return -kInfinity;
  return sumWithout_[i] + logOf_[columns_ - counts_[i]] - logOf_[drawn_ - counts_[i]];
}

double StratumLogs::othersOf(std::int64_t i, std::int64_t j) const {
  return pairSum_[pairOf(i, j)] + logOf_[columns_ - counts_[i]] - logOf_[drawn_ - counts_[i] - counts_[j]];
}

void StratumLogs::withoutColumn(std::vector<double>& drawn, double& notDrawn, LogAdder& adder) const {
  LogAdder::reserve(drawn, draws_);
  if (columns_ < 2) {
    notDrawn = -kInfinity;
    for (std::int64_t i = 0; i < draws_; i++) drawn[i] = -kInfinity;
    return;
  }
  const double left = logOf_[columns_ - 1];
  notDrawn = sum_ + left - logOf_[drawn_];
  for (std::int64_t i = 0; i < draws_; i++) {
    drawn[i] = counts_[i] == 1 ? 1.0 : terms_.without(i, 1.0 / counts_[i]).sum;
  }
  adder.logarithms(drawn, draws_);
  for (std::int64_t i = 0; i < draws_; i++) {
    const double sum = counts_[i] == 1 ? sumWithout_[i] : drawn[i] + terms_.all().reference;
    drawn[i] = drawn_ == 1 ? -kInfinity : sum + left - logOf_[drawn_ - 1];
  }
}

LogTotal LogTotals::estimate(double ownLog, const StratumLogs* strata, int count) {
  double rest[2] = {ownLog, ownLog};
  double plain = ownLog;
  bool whole = true;
  for (int h = 0; h < count; h++) {
    for (int other = 0; other < count; other++) {
      if (other != h) rest[h] = adder_.add(rest[h], strata[other].all());
    }
    plain = adder_.add(plain, strata[h].all());
    whole = whole && strata[h].whole();
  }
  LogTotal total{plain, plain, 0, -kInfinity, 0};
  double means[2] = {kNaN, kNaN};
  for (int h = 0; h < count; h++) {
    const StratumLogs& stratum = strata[h];
    if (stratum.whole() || stratum.draws() < 2) continue;
    const auto n = static_cast<double>(stratum.draws());
    const double missing = 1 - n / static_cast<double>(stratum.size());
    LogAdder::reserve(ones_, stratum.draws());
    adder_.add(rest[h], stratum.without(), stratum.draws(), ones_.data());
    const double one = sumOf(ones_.data(), stratum.draws()) / n;
    // Where leaving draws out leaves nothing finite there is no telling the bias.
    if (!std::isfinite(one)) continue;
    means[h] = one;
    const double first = missing * (n - 1) * (plain - one);
    double squares = 0;
    for (std::int64_t i = 0; i < stratum.draws(); i++) squares += (ones_[i] - one) * (ones_[i] - one);
    total.variance += missing * (n - 1) * squares / n;
    const double second = stratum.hasPairs() ? secondOrder(stratum, rest[h], plain, one) : kNaN;
    total.value += std::isfinite(second) ? second : first;
    total.lastCorrection += std::isfinite(second) ? second - first : first;
  }
  if (count == 2 && !std::isnan(means[0]) && !std::isnan(means[1])) {
    const double pairs = crossed(strata[0], strata[1], ownLog);
    if (std::isfinite(pairs)) {
      double mixed = plain - means[0] - means[1] + pairs;
      for (int h = 0; h < 2; h++) {
        const auto n = static_cast<double>(strata[h].draws());
        mixed *= (1 - n / static_cast<double>(strata[h].size())) * (n - 1);
      }
      total.value += mixed;
      total.lastCorrection += mixed;
    }
  }
  if (ownLog != -kInfinity) total.upper = whole ? total.value : sharedOut(ownLog, strata, count);
  return total;
}

// The parabola in 1/k through the means at k = n, n - 1, n - 2, at k = N, less its value at n.
double LogTotals::secondOrder(const StratumLogs& stratum, double others, double plain, double one) {
  const std::int64_t pairs = stratum.draws() * (stratum.draws() - 1) / 2;
  stratum.withoutPairs(pairs_);
  adder_.add(others, pairs_.data(), pairs, pairs_.data());
  const double two = sumOf(pairs_.data(), pairs) / static_cast<double>(pairs);
  const auto n = static_cast<double>(stratum.draws());
  const double x = 1 / static_cast<double>(stratum.size()), x0 = 1 / n, x1 = 1 / (n - 1), x2 = 1 / (n - 2);
  const double w1 = (x - x0) * (x - x2) / ((x1 - x0) * (x1 - x2));
  const double w2 = (x - x0) * (x - x1) / ((x2 - x0) * (x2 - x1));
  return w1 * (one - plain) + w2 * (two - plain);
}

// Mean over one draw left out of each of two strata.
double LogTotals::crossed(const StratumLogs& a, const StratumLogs& b, double ownLog) {
  if (a.draws() * b.draws() > kSecondOrderDraws * kSecondOrderDraws) return kNaN;
  LogAdder::reserve(ones_, a.draws());
  LogAdder::reserve(pairs_, b.draws());
  adder_.add(ownLog, a.without(), a.draws(), ones_.data());
  double sum = 0;
  for (std::int64_t i = 0; i < a.draws(); i++) {
    adder_.add(ones_[i], b.without(), b.draws(), pairs_.data());
    sum += sumOf(pairs_.data(), b.draws());
  }
  return sum / static_cast<double>(a.draws() * b.draws());
}

// `upper`: first order of correction where that is cheap.
double LogTotals::sharedOut(double ownLog, const StratumLogs* strata, int count) {
  double value = 0;
  for (int h = 0; h < count; h++) {
    const StratumLogs& stratum = strata[h];
    const std::int64_t n = stratum.draws();
    // What is known of T beside the other draws: the term itself and the other stratum; and the term's part of that.
    LogAdder::reserve(known_, n);
    LogAdder::reserve(part_, n);
    adder_.add(count == 2 ? strata[1 - h].all() : -kInfinity, stratum.logs(), n, known_.data());
    for (std::int64_t s = 0; s < n; s++) {
      part_[s] = stratum.log(s) == -kInfinity ? -kInfinity : stratum.log(s) - known_[s];
    }
    adder_.exponentials(part_, n);

    // Of each draw its share with no other left out; then, draw by draw, those with that one left out.
    const bool corrected = stratum.hasPairs();
    const std::int64_t shares = corrected ? n * (n + 1) : n;
    LogAdder::reserve(others_, shares);
    for (std::int64_t s = 0; s < n; s++) others_[s] = stratum.othersOf(s);
    for (std::int64_t left = 0, at = n; at < shares; left++) {
      for (std::int64_t s = 0; s < n; s++, at++) others_[at] = s == left ? -kInfinity : stratum.othersOf(s, left);
    }
    takeShares(ownLog, n, shares);

    const auto draws = static_cast<double>(n), size = static_cast<double>(stratum.size());
    const double plain = sumOf(share_.data(), n) * size / draws;
    value += plain;
    if (!corrected) continue;
    double one = 0;
    for (std::int64_t left = 0; left < n; left++) {
      const double* const list = share_.data() + n * (left + 1);
      const double sum = sumOf(list, left) + sumOf(list + left + 1, n - left - 1);
      one += sum * size / (draws - 1) / draws;
    }
    if (std::isfinite(one)) value += (1 - draws / size) * (draws - 1) * (plain - one);
  }
  return ownLog + value;
}

// known_ and part_ [n], others_ [shares], n after n -> share_: y/T ln(1 + T/own), T = known + others. By two
// exponentials and a logarithm each: beside the larger of known and others stand the smaller one and `own`.
void LogTotals::takeShares(double ownLog, std::int64_t n, std::int64_t shares) {
  for (auto* values : {&small_, &own_, &share_}) LogAdder::reserve(*values, shares);
  const double* const known = known_.data();
  const double* const others = others_.data();
  double* const small = small_.data();
  double* const own = own_.data();
  double* const share = share_.data();
  for (std::int64_t first = 0; first < shares; first += n) {
    for (std::int64_t s = 0; s < n; s++) {
      const double high = std::max(known[s], others[first + s]), low = std::min(known[s], others[first + s]);
      small[first + s] = low == -kInfinity ? low : low - high;
      own[first + s] = -std::fabs(ownLog - high);
    }
  }
  adder_.exponentials(small_, shares);
  adder_.exponentials(own_, shares);
  for (std::int64_t first = 0; first < shares; first += n) {
    for (std::int64_t s = 0; s < n; s++) {
      const double high = std::max(known[s], others[first + s]), total = 1 + small[first + s];
      share[first + s] = ownLog > high ? 1 + own[first + s] * total : total + own[first + s];
    }
  }
  adder_.logarithms(share_, shares);
  for (std::int64_t first = 0; first < shares; first += n) {
    for (std::int64_t s = 0; s < n; s++) {
      const double other = others[first + s], high = std::max(known[s], other), total = 1 + small[first + s];
      const double ratio = own[first + s] * total;  // T/own where that is below 1
      const double lost = (1 + ratio) - 1 - ratio;  // as in LogAdder
      const double gain = ownLog > high ? share[first + s] - lost : share[first + s] + (high - ownLog);
      const double part = known[s] >= other ? part_[s] : part_[s] * small[first + s];
      share[first + s] = part / total * gain;
    }
  }
}

}  // namespace collapsar
