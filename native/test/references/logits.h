// What logitStats must give, in long double and the plainest form.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace collapsar::test {

struct LogitReference {
  long double logsumexp, entropy, targetLogprob;
  std::int32_t argmax = 0, rankAbove = 0, rankEqual = 0;
};

// Compensated (Neumaier): like terms would make even a long double err by more than the gates.
struct LongSum {
  long double high = 0, low = 0;
  void add(long double x) {
    const long double sum = high + x;
    low += std::abs(high) >= std::abs(x) ? (high - sum) + x : (x - sum) + high;
    high = sum;
  }
  long double value() const { return high + low; }
};

inline LogitReference referenceLogits(const std::vector<double>& row, std::int32_t targetColumn, double temperature) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  LogitReference out;
  const double target = row[static_cast<std::size_t>(targetColumn)];
  std::int32_t firstNan = -1;
  double largest = -kInfinity;
  for (std::size_t c = 0; c < row.size(); c++) {
    const double x = row[c];
    if (std::isnan(x) && firstNan < 0) firstNan = static_cast<std::int32_t>(c);
    if (x > largest) {
      largest = x;
      out.argmax = static_cast<std::int32_t>(c);
    }
    out.rankAbove += x > target;
    out.rankEqual += x == target;
  }
  out.entropy = out.targetLogprob = std::numeric_limits<long double>::quiet_NaN();
  if (firstNan >= 0) {
    out.logsumexp = out.entropy;
    out.argmax = firstNan;
    return out;
  }
  if (std::isinf(largest)) {
    out.logsumexp = largest;
    return out;
  }
  const long double t = temperature;
  LongSum sum, weighted;
  for (const double x : row) {
    if (x == -kInfinity) continue;
    const long double d = (static_cast<long double>(x) - largest) / t, e = std::exp(d);
    sum.add(e);
    weighted.add(e * d);
  }
  const long double s = sum.value();
  out.logsumexp = largest / t + std::log(s);
  out.entropy = std::log(s) - weighted.value() / s;
  out.targetLogprob = (static_cast<long double>(target) - largest) / t - std::log(s);
  return out;
}

}  // namespace collapsar::test
