// What scoreStats must give, in long double and the plainest form.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace collapsar::test {

struct ReferenceRow {
  long double logSumExp, marginalSeq, marginalToken, looMarginalSeq, looMarginalToken, posteriorEntropy;
  std::int32_t argmax, rankAbove, rankEqual, hitRank;
  std::vector<std::int32_t> byRank;  // all columns, best first
};

inline long double referenceLogSumExp(const std::vector<long double>& values) {
  long double largest = -std::numeric_limits<long double>::infinity();
  for (const long double x : values) {
    if (std::isnan(x)) return x;
    largest = std::max(largest, x);
  }
  if (std::isinf(largest)) return largest;
  long double sum = 0;
  for (const long double x : values) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

inline long double referenceMarginal(const std::vector<long double>& values) {
  if (values.empty()) return std::numeric_limits<long double>::quiet_NaN();
  return referenceLogSumExp(values) - std::log(static_cast<long double>(values.size()));
}

inline ReferenceRow referenceRow(const std::vector<double>& scores, std::int32_t own, std::int64_t length,
                                 const std::int32_t* signature) {
  const long double tokens = static_cast<long double>(std::max<std::int64_t>(length, 1));
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  std::vector<long double> seq, token, othersSeq, othersToken;
  for (std::size_t p = 0; p < scores.size(); p++) {
    const long double x = scores[p];
    const bool same = signature != nullptr ? signature[p] == signature[own] : p == at(own);
    seq.push_back(x);
    token.push_back(x / tokens);
    if (!same) {
      othersSeq.push_back(x);
      othersToken.push_back(x / tokens);
    }
  }
  ReferenceRow out{};
  out.logSumExp = referenceLogSumExp(seq);
  out.marginalSeq = referenceMarginal(seq);
  out.marginalToken = referenceMarginal(token);
  out.looMarginalSeq = referenceMarginal(othersSeq);
  out.looMarginalToken = referenceMarginal(othersToken);
  out.posteriorEntropy = std::numeric_limits<long double>::quiet_NaN();
  if (std::isfinite(out.logSumExp)) {
    const long double largest = *std::max_element(seq.begin(), seq.end());
    long double sum = 0, weighted = 0;
    for (const long double x : seq) {
      const long double term = std::exp(x - largest);
      sum += term;
      if (term > 0) weighted += term * (x - largest);
    }
    out.posteriorEntropy = std::log(sum) - weighted / sum;
  }
  for (const double x : scores) {
    out.rankAbove += x > scores[at(own)];
    out.rankEqual += x == scores[at(own)];
  }
  out.byRank.resize(scores.size());
  std::iota(out.byRank.begin(), out.byRank.end(), 0);
  std::stable_sort(out.byRank.begin(), out.byRank.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = scores[at(a)], y = scores[at(b)];
    return !std::isnan(y) && (std::isnan(x) || x > y);
  });
  out.argmax = out.byRank[0];
  const auto isHit = [&](std::int32_t p) { return signature != nullptr ? signature[p] == signature[own] : p == own; };
  out.hitRank =
      static_cast<std::int32_t>(std::find_if(out.byRank.begin(), out.byRank.end(), isHit) - out.byRank.begin());
  return out;
}

}  // namespace collapsar::test
