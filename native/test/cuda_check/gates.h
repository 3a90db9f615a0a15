// How far from the reference each result may be, and how far the results of a run were.
#pragma once

#include <algorithm>
#include <cmath>

#include "cuda_check.h"

namespace collapsar::test {

inline double ulp(double x) {
  return std::abs(x) > 1e-290 ? std::nextafter(std::abs(x), kInfinity) - std::abs(x) : 0x1p-1074;
}

// docs/reference/logits.md, How exact. float64: 4 ulp, and never less than those of 1, where the value is a sum that
// cancels.
inline double gate(bool wide, long double value) {
  if (!std::isfinite(value)) return 0;
  const double size = static_cast<double>(std::abs(value));
  return wide ? 4 * ulp(std::max(size, 1.0)) : 3e-7 + size * 0x1p-24;
}
// Of a log-sum-exp from which ln(columns) was subtracted: its own size counts.
inline double marginalGate(bool wide, long double value, long double logColumns) {
  if (!std::isfinite(value)) return 0;
  return std::max(gate(wide, value), gate(wide, value + logColumns));
}
inline double entropyGate(bool wide, long double value) {
  return wide ? 4 * ulp(std::max(1.0, std::isfinite(value) ? static_cast<double>(value) : 1.0)) : 1e-6;
}

// Where in the gates results come to lie, for the summary.
struct Worst {
  double logsumexp = 0, entropy = 0, targetLogprob = 0, marginal = 0, sums = 0;
};
inline Worst worstNarrow, worstWide;

inline void note(double& worst, double actual, long double expected, double allowed) {
  if (std::isfinite(actual) && std::isfinite(expected) && allowed > 0) {
    worst = std::max(worst, static_cast<double>(std::abs(actual - expected)) / allowed);
  }
}

}  // namespace collapsar::test
