// Log-sum-exp, entropy and argmax of a row.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace fake_cuda {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Moments {
  double logsumexp, entropy;
  std::int32_t argmax;
};

// Special values as native/engine/logit_stats.h says.
Moments momentsOf(const std::vector<double>& values);

}  // namespace fake_cuda
