#include "moments.h"

#include <cmath>

namespace fake_cuda {

Moments momentsOf(const std::vector<double>& values) {
  Moments moments{-kInfinity, kNaN, values.empty() ? -1 : 0};
  double maximum = -kInfinity;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) return {kNaN, kNaN, static_cast<std::int32_t>(i)};
    if (values[i] > maximum) {
      maximum = values[i];
      moments.argmax = static_cast<std::int32_t>(i);
    }
  }
  moments.logsumexp = maximum;
  if (std::isinf(maximum)) return moments;
  double sum = 0, weighted = 0;
  for (const double value : values) {
    const double x = value - maximum, e = std::exp(x);
    sum += e;
    if (e > 0) weighted += e * x;
  }
  moments.logsumexp = maximum + std::log(sum);
  moments.entropy = std::log(sum) - weighted / sum;
  return moments;
}

}  // namespace fake_cuda
